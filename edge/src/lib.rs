//! The edge: a regional node that takes calls and answers them. Listing this directory reads as a call's path.

pub mod config;
pub mod snapshot;
