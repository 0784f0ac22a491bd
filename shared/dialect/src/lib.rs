//! Each API's bodies and streams: what a call asks, what an answer says, and how an event stream is cut.
//!
//! Same-dialect calls are scanned, not rebuilt: an [`openai::Ask`] remembers where the few fields stand that we read or
//! replace, and every other byte passes untouched. [`sse`] and [`mod@array`] know bytes and nothing of models; [`openai`] and
//! [`gemini`] know JSON and nothing of bytes in flight. Nothing here does I/O, reads a clock or keeps state between calls.

pub mod anthropic;
mod api;
pub mod array;
pub mod canon;
pub mod gemini;
pub mod openai;
pub mod sse;
mod table;
mod target;

pub use api::{Api, Form, Place, Stamp, Translator, Untold};
pub use table::fidelity_table;
pub use target::{Meter, Reader, Target};
