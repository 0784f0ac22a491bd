//! A target's stream as canonical events, whichever API it speaks.

use super::Target;
use crate::canon::Event;
use crate::openai::StreamFault;
use crate::{anthropic, gemini, openai};

/// Reads one stream.
#[derive(Debug)]
pub enum Reader {
    /// Of OpenAI's chat chunks.
    Openai(openai::chat::Reader),
    /// Of Anthropic's events.
    Anthropic(anthropic::Reader),
    /// Of Gemini's responses.
    Gemini(gemini::Reader),
}

impl Reader {
    /// Of a stream of `target`.
    #[must_use]
    pub fn of(target: Target) -> Self {
        match target {
            Target::Openai => Self::Openai(openai::chat::Reader::default()),
            Target::Anthropic => Self::Anthropic(anthropic::Reader::default()),
            Target::Gemini => Self::Gemini(gemini::Reader::default()),
        }
    }

    /// Reads the payload of one event; `kind` is its type outside of the payload.
    ///
    /// # Errors
    /// [`StreamFault`] when it is an error, or none of the API's. Nothing more is to be read then.
    pub fn read(
        &mut self,
        kind: Option<&[u8]>,
        data: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), StreamFault> {
        match self {
            Self::Openai(reader) => reader.read(kind, data, events),
            Self::Anthropic(reader) => reader.read(kind, data, events),
            Self::Gemini(reader) => reader.read(kind, data, events),
        }
    }

    /// The stream's body ended.
    ///
    /// # Errors
    /// [`StreamFault::Cut`] when the answer is not whole.
    pub fn close(&mut self, events: &mut Vec<Event>) -> Result<(), StreamFault> {
        match self {
            Self::Openai(reader) => reader.close(events),
            Self::Anthropic(reader) => reader.close(events),
            Self::Gemini(reader) => reader.close(events),
        }
    }

    /// Whether the answer is whole so far: it said why it ended, or its end mark came.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Openai(reader) => reader.is_whole(),
            Self::Anthropic(reader) => reader.is_whole(),
            Self::Gemini(reader) => reader.is_whole(),
        }
    }
}
