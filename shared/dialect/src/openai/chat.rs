//! Chat completions, to and from the canonical call, answer and stream.
//!
//! Only calls whose target speaks another API come here, and those of other APIs whose target speaks this one. The written
//! form is what compatible servers take: no field that only some of them know, but the ones the caller asked for.

mod answer;
mod fidelity;
mod finish;
mod read;
mod reader;
mod said;
mod write;
mod writer;

pub use answer::{Stamp, read_answer, write_answer};
pub use fidelity::{fidelity, field};
pub use read::read_call;
pub use reader::Reader;
pub use write::{CapField, write_call};
pub use writer::Writer;

#[cfg(test)]
mod tests;
