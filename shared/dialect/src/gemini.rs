//! Google's Gemini API, `generateContent` and its kin, as Google's own service and Vertex speak it.
//!
//! The model and whether to stream stand in the URL, so that readers take them as arguments and writers leave them out.
//! Only calls whose target speaks another API come here, and those of other APIs whose target speaks this one. Google's
//! JSON names its fields in `camelCase` and takes `snake_case`, too; both are read, and `camelCase` is written.

mod answer;
mod blob;
mod chunk;
mod count;
mod embed;
mod error;
mod fidelity;
mod finish;
mod logprobs;
mod media;
mod models;
mod names;
mod piece;
mod read;
mod reader;
mod schema;
mod target;
mod usage;
mod write;
mod writer;
mod written;

pub use answer::{Stamp, read_answer, write_answer};
pub use count::{read_count, read_counted, write_count, write_counted};
pub use embed::{Batch, read_embeddings, read_embeddings_call, write_embeddings, write_embeddings_call};
pub use error::{error_body, retry_after, upstream_error};
pub use fidelity::{fidelity, field};
pub use models::{Listed, model, models_list};
pub use read::read_call;
pub use reader::Reader;
pub use target::{Line, Schemas, Target};
pub use write::write_call;
pub use writer::{Framing, Writer};
pub use written::written;

#[cfg(test)]
mod tests;
