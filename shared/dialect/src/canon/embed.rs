//! Texts to be turned into vectors, and the vectors.

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Embed {
    /// The model's name.
    pub model: String,
    /// What is embedded, each by itself, in order. Never empty.
    pub inputs: Vec<EmbedInput>,
    /// How many numbers a vector shall have; `None`: as many as the model gives by itself.
    pub dimensions: Option<u64>,
    /// What the vectors are for, in Google's words, such as `RETRIEVAL_QUERY`.
    pub task: Option<String>,
    /// Who the end user is, in the caller's words.
    pub user: Option<String>,
}

/// What is embedded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmbedInput {
    /// A text.
    Text {
        /// The text.
        text: String,
        /// The title of the document it is of.
        title: Option<String>,
    },
    /// Tokens, by their numbers in the model's own vocabulary.
    Tokens(Vec<u32>),
}

/// The vectors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embeddings {
    /// The model that made them, in the provider's words; empty where it did not say.
    pub model: String,
    /// One for each input, in their order.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of all inputs; `None`: not reported.
    pub input_tokens: Option<u64>,
}
