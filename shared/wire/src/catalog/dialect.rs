//! The API that an upstream speaks: what it is sent, and what its answers are read as.

use serde::{Deserialize, Serialize};

/// The API an upstream speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// OpenAI's HTTP API and its many compatible servers.
    #[default]
    Openai,
    /// Anthropic's Messages API and the servers that speak like it.
    Anthropic,
    /// Google's Gemini API.
    Gemini,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Openai, Self::Anthropic, Self::Gemini];

    /// Its name in files and records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }
}
