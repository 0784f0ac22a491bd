//! A segmented write-ahead log on the disk seam: the Raft log, an edge's journal and its receipt spool.
//!
//! Decided here: when a record is durable, and what an opened log may be trusted to hold. One task writes; whatever
//! waits is written and synced together, and acknowledged in order. A failed write or sync is final: nothing is
//! retried, every later append fails, and only a new process may open the log again. A disk without room is different:
//! space is claimed a segment ahead, so that fullness shows before anything was written ([`WalError::Full`]), and
//! later appends may succeed.
//!
//! On open, what a crash may have torn (an incomplete end that was never synced) is cut. Anything else out of order
//! refuses to open: a log must never silently lose an acknowledged record. The log knows nothing of what records mean.

mod error;
mod frame;
mod handle;
mod recover;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

pub use error::WalError;
pub use handle::{Ticket, Wal};

use bytes::Bytes;

/// Kinds from here on are the log's own.
pub const FIRST_RESERVED_KIND: u8 = 0xf0;

/// How a log is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of a segment in bytes; claimed at once. Purging frees whole segments.
    pub segment_bytes: u64,
    /// Largest payload of one record in bytes; lowered to what a segment can hold.
    pub max_record: usize,
}

impl Default for Options {
    /// Segments of 64 MiB: long enough that claiming one is rare.
    fn default() -> Self {
        Self { segment_bytes: 64 * 1024 * 1024, max_record: 16 * 1024 * 1024 }
    }
}

/// One record of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number; counts up by one, from 1. The log's own marks take numbers too.
    pub seq: u64,
    /// What it is; below [`FIRST_RESERVED_KIND`].
    pub kind: u8,
    /// What it says.
    pub payload: Bytes,
}
