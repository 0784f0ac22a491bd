//! The APIs that targets speak: how the answer and the stream of each are read, followed and checked.
//!
//! What a target sends is handed on as it came; only an answer of the other kind than was asked for, a stream for a whole
//! answer or the reverse, is made into that kind, in the target's own API.

mod ending;
mod meter;
mod reader;
mod reshape;
mod write;

use std::time::Duration;

use base::Usage;

use crate::canon::{Answer, Embeddings};
use crate::openai::{BadReply, UpstreamError, check_chat, check_embeddings};
use crate::{anthropic, gemini, openai};
pub use meter::Meter;
pub use reader::Reader;

/// An API that targets speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// OpenAI's.
    #[default]
    Openai,
    /// Anthropic's.
    Anthropic,
    /// Google's.
    Gemini,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Openai, Self::Anthropic, Self::Gemini];

    /// Reads a whole answer to a conversation.
    ///
    /// # Errors
    /// [`BadReply`] when it is no answer.
    pub fn read_answer(self, body: &[u8]) -> Result<Answer, BadReply> {
        match self {
            Self::Openai => openai::chat::read_answer(body),
            Self::Anthropic => anthropic::read_answer(body),
            Self::Gemini => gemini::read_answer(body),
        }
    }

    /// Reads vectors. Anthropic's API gives none.
    ///
    /// # Errors
    /// [`BadReply`] when it holds none.
    pub fn read_embeddings(self, body: &[u8]) -> Result<Embeddings, BadReply> {
        match self {
            Self::Openai => openai::read_embeddings(body),
            Self::Anthropic => Err(BadReply::Malformed),
            Self::Gemini => gemini::read_embeddings(body),
        }
    }

    /// Checks a whole answer to a conversation and reads its usage.
    ///
    /// # Errors
    /// [`BadReply`] when it is no answer.
    pub fn check_answer(self, body: &[u8]) -> Result<Option<Usage>, BadReply> {
        match self {
            Self::Openai => check_chat(body),
            Self::Anthropic | Self::Gemini => {
                Ok(self.read_answer(body)?.usage.map(|usage| usage.as_billed()))
            }
        }
    }

    /// Checks vectors and reads their usage.
    ///
    /// # Errors
    /// [`BadReply`] when it holds none.
    pub fn check_embeddings(self, body: &[u8]) -> Result<Option<Usage>, BadReply> {
        match self {
            Self::Openai => check_embeddings(body),
            Self::Anthropic | Self::Gemini => {
                let used = self.read_embeddings(body)?.input_tokens;
                Ok(used.map(|input| Usage::of_text(base::Tokens(input), base::Tokens(0))))
            }
        }
    }

    /// Reads an error body; `None` when it is none.
    #[must_use]
    pub fn upstream_error(self, body: &[u8]) -> Option<UpstreamError> {
        match self {
            Self::Openai => openai::upstream_error(body),
            Self::Anthropic => anthropic::upstream_error(body),
            Self::Gemini => gemini::upstream_error(body),
        }
    }

    /// When an error body itself says to try again; headers say it elsewhere.
    #[must_use]
    pub fn retry_after(self, body: &[u8]) -> Option<Duration> {
        match self {
            Self::Openai | Self::Anthropic => None,
            Self::Gemini => gemini::retry_after(body),
        }
    }

    /// Hands every text in whole `events` of a stream to `take`, in order: what is said, thought and asked of tools. What
    /// cannot be read says nothing.
    pub fn written(self, events: &[u8], take: impl FnMut(&str)) {
        match self {
            Self::Openai => openai::written(events, take),
            Self::Anthropic => anthropic::written(events, take),
            Self::Gemini => gemini::written(events, take),
        }
    }
}

#[cfg(test)]
mod tests;
