//! What an answer used, as the provider reports it.

use base::Tokens;

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

    /// The same as it is billed. A part is never larger than what it is part of.
    #[must_use]
    pub fn as_billed(&self) -> base::Usage {
        let part = |count: Option<u64>, of: u64| Tokens(count.unwrap_or(0).min(of));
        let Self { input, cached, cache_written, input_audio, output, thinking, output_audio } = *self;
        base::Usage {
            cached_input: part(cached, input),
            cache_write: part(cache_written, input),
            audio_input: part(input_audio, input),
            reasoning: part(thinking, output),
            audio_output: part(output_audio, output),
            ..base::Usage::of_text(Tokens(input), Tokens(output))
        }
    }
}
