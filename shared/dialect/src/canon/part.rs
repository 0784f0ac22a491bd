//! What a turn says: texts, media, calls of tools and their results, thoughts.

use bytes::Bytes;

/// One piece of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text {
        /// What is said.
        text: String,
        /// Whether the prompt up to here may be kept by the provider.
        cache: bool,
    },
    /// An image, a sound, a film or a file.
    Media(Media),
    /// The model calls a tool.
    ToolCall(ToolCall),
    /// What a tool gave.
    ToolResult(ToolResult),
    /// The model's thoughts. With the signature, and unchanged, they may be given back to the model that had them.
    Thought {
        /// What it thought, or a summary.
        text: String,
        /// By which the provider knows its own.
        signature: Option<String>,
    },
    /// Thoughts that only the provider can read.
    SealedThought {
        /// As the provider gave them.
        data: String,
    },
    /// The model says that it will not answer.
    Refusal {
        /// In these words.
        text: String,
    },
}

impl Part {
    /// Text that nobody marked.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), cache: false }
    }
}

/// An image, a sound, a film or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// What it is.
    pub kind: MediaKind,
    /// Where it is.
    pub source: Source,
    /// Its media type, such as `image/png`; `None`: not said.
    pub media_type: Option<String>,
    /// Its file's name or its title.
    pub name: Option<String>,
    /// How closely to look at it, in the words of OpenAI: `low`, `high`, `auto`.
    pub detail: Option<String>,
    /// Whether the prompt up to here may be kept by the provider.
    pub cache: bool,
}

/// What media are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    /// A still picture.
    Image,
    /// Sound.
    Audio,
    /// A film.
    Video,
    /// A document.
    File,
}

/// Where media are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Here.
    Bytes(Bytes),
    /// At an address that the provider fetches.
    Url(String),
    /// In the provider's own store, by its id or address there.
    Stored(String),
    /// Plain text, as a document.
    Text(String),
}

/// The model calls a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Names the call, so that its result finds it. Never empty: readers of dialects without ids make them.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// JSON of an object; `{}` where the model gave none.
    pub arguments: String,
    /// By which the provider knows the thoughts that led to the call.
    pub signature: Option<String>,
    /// Whether the prompt up to here may be kept by the provider.
    pub cache: bool,
}

/// What a tool gave.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The call it answers.
    pub id: String,
    /// The tool's name; empty where the dialect does not say and no such call is known.
    pub name: String,
    /// What it gave: texts and media.
    pub parts: Vec<Part>,
    /// Whether the tool failed; `None`: not said.
    pub failed: Option<bool>,
    /// Whether the prompt up to here may be kept by the provider.
    pub cache: bool,
}
