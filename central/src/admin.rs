//! The operators' door.

pub mod api;
