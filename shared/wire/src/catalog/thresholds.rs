//! What happens to calls before a budget is exhausted, and at its limit.

use base::{Name, TenantName, Tokens};
use serde::{Deserialize, Serialize};

/// What happens once so much of a budget is spent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Threshold {
    /// From which share of the limit on, in thousandths.
    pub at_per_mille: u16,
    /// What happens.
    pub action: Action,
    /// Keys whose calls it does not concern.
    pub except_keys: Vec<Name>,
    /// Tenants whose calls it does not concern.
    pub except_tenants: Vec<TenantName>,
}

/// What a threshold does to calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Their answers say how much is spent.
    Warn,
    /// They are made cheaper, and their answers say so.
    Downgrade {
        /// Most output tokens of one answer.
        output_cap: Option<Tokens>,
        /// Only the cheapest of the route's models may answer.
        cheapest: bool,
    },
    /// They are refused.
    Refuse,
    /// They are made cheaper, by features that are off too, and their answers say so. Calls that cannot do without one are
    /// refused.
    Restrict {
        /// Most output tokens of one answer.
        output_cap: Option<Tokens>,
        /// Only the cheapest of the route's models may answer.
        cheapest: bool,
        /// Features that are off.
        off: Vec<Feature>,
    },
}

/// What a call may use beyond a plain answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// Tools.
    Tools,
    /// More than one answer.
    Choices,
    /// Reasoning beyond a low effort.
    Reasoning,
    /// Images.
    Images,
    /// Sound.
    Audio,
}

impl Feature {
    /// Every feature.
    pub const ALL: [Self; 5] = [Self::Tools, Self::Choices, Self::Reasoning, Self::Images, Self::Audio];

    /// Its name in files, headers and records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Choices => "n",
            Self::Reasoning => "reasoning",
            Self::Images => "images",
            Self::Audio => "audio",
        }
    }
}
