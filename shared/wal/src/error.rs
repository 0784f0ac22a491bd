//! What can go wrong with a log.

use std::io;
use std::path::{Path, PathBuf};

/// Why a log could not be opened, or an append did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalError {
    /// Another process has the log open.
    #[error("another process has the log in {} open", .0.display())]
    Locked(PathBuf),
    /// The disk refused while the log was opened.
    #[error("cannot open the log in {}: {why}", dir.display())]
    Open {
        /// The log's directory.
        dir: PathBuf,
        /// What the disk said.
        why: String,
    },
    /// The log holds something that no crash explains. It must not be used.
    #[error("the log is corrupt in {} at byte {offset}: {what}", file.display())]
    Corrupt {
        /// The segment.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// No space for another segment. Nothing was written; a later append may succeed.
    #[error("no space left for the log")]
    Full,
    /// More waits to be written than the log holds in memory. Nothing was written; a later append may succeed.
    #[error("too much waits to be written to the log")]
    Behind,
    /// A write or sync failed. What was not acknowledged before may or may not be on disk, and nothing is written
    /// any more.
    #[error("writing the log failed: {0}")]
    Failed(String),
    /// A record, or the records of one append together, exceed what a segment can hold.
    #[error("an append of {len} bytes exceeds the log's limit of {max}")]
    TooLarge {
        /// Bytes asked for.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The kind is one of the log's own.
    #[error("kind {0:#04x} is reserved")]
    ReservedKind(u8),
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
}

impl WalError {
    pub(crate) fn opening(dir: &Path) -> impl Fn(io::Error) -> Self + Copy + '_ {
        move |error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _other => Self::Open { dir: dir.to_owned(), why: error.to_string() },
        }
    }

    pub(crate) fn failed(error: &io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Whether the disk said that it has no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
