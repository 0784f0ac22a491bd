//! How many tokens a text has: counted where the model's tokenizer is known, else estimated from its characters.
//!
//! A count is exact and may bound what a call can cost; an estimate is within [`estimate::ERROR_PER_MILLE`] of it on
//! ordinary texts and bounds nothing. Counts of long texts that come again and again are remembered. Nothing here does
//! I/O, reads a clock or draws a random number.

mod counts;
pub mod estimate;
mod file;
mod reference;
mod tokenizer;

pub use counts::{Counts, Digest};
pub use estimate::Estimate;
pub use file::{Unusable, Vocabulary};
pub use reference::{BadReference, Reference};
pub use tokenizer::{Id, Tokenizer};
