//! The edge: a regional node that takes calls and answers them. Listing this directory reads as a call's path.

pub mod config;
mod journal;
pub mod link;
pub mod purse;
pub mod snapshot;
mod spool;
