//! What a call used.

use serde::{Deserialize, Serialize};

use crate::Tokens;

/// What a call used, or may use at most. Kinds of tokens are parts of their total, never added to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens of every kind.
    pub input: Tokens,
    /// Of them: read from the upstream's cache.
    pub cached_input: Tokens,
    /// Of them: written to the upstream's cache.
    pub cache_write: Tokens,
    /// Of them: sound.
    pub audio_input: Tokens,
    /// Output tokens of every kind.
    pub output: Tokens,
    /// Of them: reasoning.
    pub reasoning: Tokens,
    /// Of them: sound.
    pub audio_output: Tokens,
    /// Images in the call.
    pub images: u32,
    /// Milliseconds that the answering attempt took, where the price counts them; else 0.
    pub busy_ms: u32,
}

impl Usage {
    /// Plain tokens, of no special kind.
    #[must_use]
    pub const fn of_text(input: Tokens, output: Tokens) -> Self {
        Self {
            input,
            cached_input: Tokens(0),
            cache_write: Tokens(0),
            audio_input: Tokens(0),
            output,
            reasoning: Tokens(0),
            audio_output: Tokens(0),
            images: 0,
            busy_ms: 0,
        }
    }
}
