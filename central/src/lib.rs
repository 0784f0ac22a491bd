//! .
pub mod consensus;
