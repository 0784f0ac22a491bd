//! OpenAI's HTTP API, as it and its many compatible servers speak it: chat completions, embeddings, models.

mod ask;
pub mod chat;
mod embeddings;
mod error;
mod facts;
mod features;
mod limits;
mod models;
mod reply;
mod reshape;
pub(crate) mod scan;
mod sound;
mod stream;
mod texts;
mod written;

pub use ask::{Ask, BadRequest, Patch, scan_chat, scan_embeddings};
pub use embeddings::{
    Encoding, read_embeddings, read_embeddings_call, write_embeddings, write_embeddings_call,
};
pub use error::{UpstreamError, error_body, error_event, upstream_error};
pub use facts::{Counted, Facts, Media};
pub use features::{Off, Uses};
pub use limits::{Allowance, rate_headers};
pub use models::{ListedModel, models_list};
pub use reply::{BadReply, check_chat, check_embeddings};
pub use reshape::{is_stream, stream_of_whole, whole_of_stream};
pub use scan::MAX_DEPTH;
pub use sound::Sounds;
pub use stream::{Meter, StreamFault};
pub use texts::{Content, Texts, chat_texts, embedding_texts};
pub use written::written;
