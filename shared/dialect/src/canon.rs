//! The canonical call, answer and stream: what the dialects say, in the words of none of them.
//!
//! Each dialect reads its own shape into these types and writes its own shape from them, part by part, so that N dialects
//! cost 2N conversions. Nothing is lost unseen: a reader takes the members of an object one by one, and each one that is
//! left is a [`Loss`]; a writer asks [`Fidelity`] for every [`Facet`] that it meets, and gets a declared loss or a refusal.
//! Same-dialect calls never come here: they are scanned and patched.

mod answer;
mod call;
mod embed;
mod event;
mod gather;
mod loss;
mod members;
mod part;
mod spread;
mod usage;

pub use answer::{Answer, Choice, Stop};
pub use call::{Call, Effort, Format, Role, Sampling, Schema, Thinking, Tool, ToolChoice, Turn};
pub use embed::{Embed, EmbedInput, Embeddings};
pub use event::{Delta, Event, Opening};
pub use gather::{Gather, OutOfOrder};
pub use loss::{Facet, Fidelity, Fields, Loss, Losses, Unfit};
pub(crate) use members::numbered;
pub use members::{Items, Members};
pub use part::{Media, MediaKind, Part, Source, ToolCall, ToolResult};
pub use spread::spread;
pub use usage::Usage;
