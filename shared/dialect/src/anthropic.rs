//! Anthropic's Messages API, as it and the servers that speak like it do: calls, answers, streams, errors, and the counting of
//! tokens, to and from the canonical call, answer and stream.
//!
//! Only calls whose target speaks another API come here, and those of other APIs whose target speaks this one.

mod answer;
mod count;
mod error;
mod fidelity;
mod limits;
mod marks;
mod models;
mod read;
mod reader;
mod stop;
mod usage;
mod write;
mod writer;
mod written;

pub use answer::{Stamp, read_answer, write_answer};
pub use count::{read_counted, write_counted};
pub use error::{error_body, error_event, upstream_error};
pub use fidelity::{fidelity, field};
pub use limits::rate_headers;
pub use models::{model, models_list};
pub use read::{read_call, read_count};
pub use reader::Reader;
pub use write::{Target, Thinks, write_call, write_count};
pub use writer::Writer;
pub use written::written;

#[cfg(test)]
mod tests;
