//! What an answer used, as the provider reports it.

/// Tokens. Each is counted once: `input` is all of the prompt, and what was read from or written to a cache is a part of
/// it; `output` is all that was made, and thinking is a part of it. `None`: not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the whole prompt.
    pub input: u64,
    /// Of these, read from the provider's cache.
    pub cached: Option<u64>,
    /// Of these, written to the provider's cache.
    pub cache_written: Option<u64>,
    /// Of these, sound.
    pub input_audio: Option<u64>,
    /// Of the whole answer.
    pub output: u64,
    /// Of these, thinking.
    pub thinking: Option<u64>,
    /// Of these, sound.
    pub output_audio: Option<u64>,
}

impl Usage {
    /// Tokens in all.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}
