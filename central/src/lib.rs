//! A central node: one replicated state, and what it does for edges and operators.

pub mod admin;
pub mod config;
pub mod consensus;
pub mod seal;
