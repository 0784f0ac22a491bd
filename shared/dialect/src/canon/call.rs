//! A conversation that a model is asked to continue.

use serde_json::{Map, Number, Value};

use super::Part;

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// The model's name, as the caller wrote it or as the target knows it.
    pub model: String,
    /// Whether the answer shall be a stream.
    pub stream: bool,
    /// Instructions that stand before the conversation, in order.
    pub system: Vec<Part>,
    /// The conversation, oldest first.
    pub turns: Vec<Turn>,
    /// Functions that the model may call.
    pub tools: Vec<Tool>,
    /// Which of them it may or must call; `None`: as the target does by itself.
    pub tool_choice: Option<ToolChoice>,
    /// Whether it may call several in one turn; `None`: as the target does by itself.
    pub parallel_tools: Option<bool>,
    /// Most tokens of an answer, thinking included.
    pub max_tokens: Option<u64>,
    /// Texts before which an answer stops.
    pub stops: Vec<String>,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Whether and how much the model thinks first; `None`: as the target does by itself.
    pub thinking: Option<Thinking>,
    /// What the answer's text must be.
    pub format: Format,
    /// Answers asked for at once; 0 and 1 are one.
    pub answers: u32,
    /// How many likeliest tokens to give with each token's own probability; `None`: no probabilities.
    pub logprobs: Option<u8>,
    /// Who the end user is, in the caller's words.
    pub user: Option<String>,
    /// What the caller wants noted of the call.
    pub metadata: Map<String, Value>,
    /// The provider's class of service asked for.
    pub service_tier: Option<String>,
}

/// One turn of the conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Who speaks.
    pub role: Role,
    /// The speaker's name, where several share a role.
    pub name: Option<String>,
    /// What is said, in order. Never empty.
    pub parts: Vec<Part>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Whoever runs the application, in the middle of the conversation.
    System,
    /// The user, or a tool whose result is given.
    User,
    /// The model.
    Assistant,
}

/// A function that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: Option<String>,
    /// JSON Schema of its arguments; `None`: it takes none.
    pub schema: Option<Value>,
    /// Whether arguments must follow the schema.
    pub strict: Option<bool>,
    /// Whether the prompt up to here may be kept by the provider.
    pub cache: bool,
}

/// Which tool to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// None.
    None,
    /// Some tool.
    Any,
    /// One of these, of which there is at least one.
    Named(Vec<String>),
}

/// How tokens are drawn. Numbers as the caller wrote them; `None`: as the target does by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// 0 takes the likeliest; the upper bound is the dialect's.
    pub temperature: Option<Number>,
    /// Share of probability that is drawn from, 0 to 1.
    pub top_p: Option<Number>,
    /// How many of the likeliest tokens are drawn from.
    pub top_k: Option<Number>,
    /// Share of the likeliest token's probability below which none is drawn, 0 to 1.
    pub min_p: Option<Number>,
    /// Makes drawing repeatable.
    pub seed: Option<Number>,
    /// Against tokens by how often they came, −2 to 2.
    pub frequency_penalty: Option<Number>,
    /// Against tokens that came, −2 to 2.
    pub presence_penalty: Option<Number>,
    /// Against tokens that came, as a factor.
    pub repetition_penalty: Option<Number>,
    /// What is added to tokens' log-odds, by token.
    pub logit_bias: Map<String, Value>,
}

/// How much the model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// Not at all.
    Off,
    /// As much as it likes.
    Adaptive,
    /// As hard as this.
    Effort(Effort),
    /// At most so many tokens.
    Budget(u64),
}

/// How hard to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Hardly.
    Minimal,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// As much as there is.
    Max,
}

/// What an answer's text must be.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Format {
    /// Any text.
    #[default]
    Text,
    /// One JSON object.
    Json,
    /// JSON by a schema.
    Schema(Schema),
}

/// What an answer's JSON must look like.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// The schema's name; empty where the dialect has none.
    pub name: String,
    /// What it is for, for the model.
    pub description: Option<String>,
    /// JSON Schema.
    pub schema: Value,
    /// Whether the answer must follow it.
    pub strict: Option<bool>,
}
