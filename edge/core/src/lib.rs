//! What an edge decides, from plain data, a told instant and drawn numbers: who may enter and when, what a call can
//! cost at most and whether it cost what was thought, where it goes next, whether to try again, and what its credit still pays for.
//!
//! Nothing here does I/O, reads a clock, draws a random number or holds a lock; the edge does all that around it.

pub mod bound;
pub mod deviation;
pub mod limits;
pub mod plan;
pub mod retry;
pub mod spending;
pub mod wallet;
