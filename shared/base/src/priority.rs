//! How pressing a call is.

use serde::{Deserialize, Serialize};

/// How pressing a call is, most first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Somebody waits for the answer.
    #[default]
    Interactive,
    /// Nobody does: it yields, for a while.
    Batch,
}

impl Priority {
    /// All, most pressing first.
    pub const ALL: [Self; 2] = [Self::Interactive, Self::Batch];

    /// Its name in configuration, headers and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Batch => "batch",
        }
    }
}
