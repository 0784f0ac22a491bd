//! A whole answer.

use serde_json::Value;

use super::{Part, Usage};

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The provider's id of it; empty where it gave none.
    pub id: String,
    /// The model that answered, in the provider's words.
    pub model: String,
    /// When it was made, in seconds since 1970; `None`: not said.
    pub created: Option<u64>,
    /// The answers, by their number.
    pub choices: Vec<Choice>,
    /// What they used; `None`: not reported.
    pub usage: Option<Usage>,
    /// The provider's class of service that it was made in.
    pub service_tier: Option<String>,
}

/// One answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// What is said, in order.
    pub parts: Vec<Part>,
    /// Why it ended; `None`: not said, and so it is not whole.
    pub stop: Option<Stop>,
    /// Probabilities of its tokens, in OpenAI's shape of `logprobs`.
    pub logprobs: Option<Value>,
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model was done.
    End,
    /// It came to one of the caller's texts; which, where that is said.
    Sequence(Option<String>),
    /// It came to the most tokens allowed.
    Length,
    /// It came to the end of what the model can read.
    Context,
    /// It waits for results of tools.
    Tools,
    /// It was held back, or the model refused.
    Filter,
    /// The provider paused it; sent back as it is, it goes on.
    Pause,
    /// For a reason that only its own dialect knows.
    Other(String),
}
