//! The wallet's journal: its records on a write-ahead log, in order, and what they prove after a restart.
//!
//! Decided here: how a record is written down and when the log is rewritten from the wallet's image. Never here: what
//! a record means.

use std::path::Path;

use bytes::Bytes;
use edge_core::wallet::{Record, Recovered};
use seam::Host;
use wal::{Options, Wal};
use wire::codec;

use crate::purse::StorageError;

/// The kind of every journal record; a new form gets a new kind.
const RECORD: u8 = 1;
const OPTIONS: Options = Options { segment_bytes: 4 * 1024 * 1024, max_record: 64 * 1024 };
/// The log is rewritten after this many bytes.
const REWRITE_AFTER: usize = 3 * 1024 * 1024;

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    wal: Wal,
    grown: usize,
}

impl Journal {
    /// Opens the journal in `dir` under its exclusive lock, and says what it proves.
    pub(crate) async fn open(host: &Host, dir: &Path) -> Result<(Self, Recovered), StorageError> {
        let (wal, found) = Wal::open(host, dir, OPTIONS).await?;
        let records: Result<Vec<Record>, StorageError> = found.iter().map(decode).collect();
        // What is there counts as grown, so that a long log is rewritten soon.
        let grown = found.iter().map(|record| record.payload.len()).sum();
        Ok((Self { wal, grown }, Recovered::read(records?)))
    }

    /// Writes records; they are durable when this returns. When it says that the disk is full, nothing was written.
    pub(crate) async fn write(&mut self, records: &[Record]) -> Result<u64, StorageError> {
        let encoded = encode(records)?;
        let bytes: usize = encoded.iter().map(|(_kind, payload)| payload.len()).sum();
        let last = self.wal.append_all(encoded)?.await?;
        self.grown = self.grown.saturating_add(bytes);
        Ok(last)
    }

    /// Whether the log has grown enough to be rewritten.
    pub(crate) const fn is_long(&self) -> bool {
        self.grown >= REWRITE_AFTER
    }

    /// Rewrites the log as `image`, which takes the place of every record up to `last`.
    pub(crate) async fn rewrite(&mut self, last: u64, image: &[Record]) -> Result<(), StorageError> {
        self.wal.purge_before(last.saturating_add(1), encode(image)?)?.await?;
        self.grown = 0;
        Ok(())
    }

    /// Writes what waits and lets go of the lock.
    pub(crate) async fn close(&self) {
        self.wal.close().await;
    }
}

fn encode(records: &[Record]) -> Result<Vec<(u8, Bytes)>, StorageError> {
    records.iter().map(|record| Ok((RECORD, codec::encode(record)?.into()))).collect()
}

fn decode(record: &wal::Record) -> Result<Record, StorageError> {
    match record.kind {
        RECORD => Ok(codec::decode(&record.payload)?),
        kind => Err(StorageError::Kind { log: "journal", kind }),
    }
}
