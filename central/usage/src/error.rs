//! What a store can refuse, and what that asks of its node.

use rusqlite::ErrorCode;

/// Why a store could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk has no room; it can be tried again.
    #[error("no space left for the usage store")]
    Full,
    /// The file is no database or is damaged; what it held must come from other nodes.
    #[error("the usage store is damaged: {0}")]
    Damaged(String),
    /// A newer build wrote the file.
    #[error("the usage store has format {found}, this build knows up to {known}; upgrade the node")]
    Newer {
        /// The file's format.
        found: i64,
        /// This build's.
        known: i64,
    },
    /// The store lacks what another asks of it.
    #[error("the usage store lacks the receipts after entry {0} itself")]
    Lacks(u64),
    /// The question covers too much.
    #[error("the question covers more than {most} {what}; narrow it")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// How much may be.
        most: usize,
    },
    /// The disk or the database refused; it can be tried again.
    #[error("the usage store does not work: {0}")]
    Failed(String),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            _other => Self::Failed(error.to_string()),
        }
    }
}
