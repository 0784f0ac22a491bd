//! A central node: one replicated state, and what it does for edges and operators.
//!
//! [`node::run`] builds the parts in the order in which they depend on each other: the mesh endpoint, the log
//! ([`consensus`]), what calls providers ([`relay`]), the edges attached here ([`sessions`]), what carries decisions to
//! them ([`publish`]), and the operators' door ([`admin`]).

pub mod admin;
mod books;
pub mod config;
pub mod consensus;
mod explain;
mod metrics;
pub mod node;
mod publish;
mod relay;
pub mod seal;
mod sessions;
mod status;
pub mod usage;
