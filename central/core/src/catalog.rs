//! The configuration: whether a whole of it is consistent, and what differs between two of them.

mod check;
mod diff;
mod url;

pub use check::{Problem, check, unsealed};
pub use diff::changes;
