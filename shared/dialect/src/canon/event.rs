//! An answer that comes in pieces.
//!
//! The order of a stream: [`Event::Start`]; then for each part [`Event::Open`], any number of [`Event::Piece`] and
//! [`Event::Close`]; then for each choice [`Event::Stop`]; then [`Event::End`]. Parts of different choices may interleave, and
//! so may calls of tools within one choice. [`Event::Usage`] may come at any time, the latest counts. A stream that lacks
//! its [`Event::End`] was cut.

use serde_json::Value;

use super::{Stop, Usage};

/// One piece of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The answer begins.
    Start {
        /// The provider's id of it; empty where it gave none.
        id: String,
        /// The model that answers, in the provider's words.
        model: String,
        /// When it was made, in seconds since 1970; `None`: not said.
        created: Option<u64>,
    },
    /// A part begins.
    Open {
        /// Of which choice, from 0.
        choice: u32,
        /// Its number among the parts of the choice, from 0.
        part: u32,
        /// What it is.
        opening: Opening,
    },
    /// A part goes on.
    Piece {
        /// Of which choice.
        choice: u32,
        /// Its number.
        part: u32,
        /// What is added.
        delta: Delta,
    },
    /// A part is whole.
    Close {
        /// Of which choice.
        choice: u32,
        /// Its number.
        part: u32,
    },
    /// Probabilities of tokens, in OpenAI's shape of `logprobs`.
    Logprobs {
        /// Of which choice.
        choice: u32,
        /// Those of the tokens since the last.
        logprobs: Value,
    },
    /// A choice ended.
    Stop {
        /// Which.
        choice: u32,
        /// Why.
        stop: Stop,
    },
    /// What was used so far, in all.
    Usage(Usage),
    /// Nothing, so that the connection stays.
    Ping,
    /// The answer is whole.
    End,
}

/// What kind of part begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Text.
    Text,
    /// Thoughts.
    Thought,
    /// Thoughts that only the provider can read, whole.
    SealedThought(String),
    /// A refusal.
    Refusal,
    /// A call of a tool.
    ToolCall {
        /// Names the call. Never empty.
        id: String,
        /// The tool's name.
        name: String,
        /// By which the provider knows the thoughts that led to the call.
        signature: Option<String>,
    },
}

/// What is added to a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Text, to text, thoughts and refusals.
    Text(String),
    /// The signature of thoughts.
    Signature(String),
    /// A piece of the arguments' JSON.
    Arguments(String),
}
