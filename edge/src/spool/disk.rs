//! The spool's log.

use std::path::Path;

use bytes::Bytes;
use seam::Host;
use wal::{Options, Wal};
use wire::codec;

use super::{Entry, Spool};
use crate::purse::StorageError;

/// The kind of every spool record; a new form gets a new kind.
const ENTRY: u8 = 1;
const OPTIONS: Options = Options { segment_bytes: 16 * 1024 * 1024, max_record: 1024 * 1024 };
/// Entries written in one piece at most.
const BATCH: usize = 1_000;
/// Bytes written before the log is asked to forget what was acknowledged.
const PURGE_AFTER: usize = 12 * 1024 * 1024;

/// An open spool log.
#[derive(Debug)]
pub(crate) struct SpoolLog {
    wal: Wal,
    /// The number of the last record known.
    last: u64,
    grown: usize,
}

impl SpoolLog {
    /// Opens the log in `dir` under its exclusive lock, and reads what was not acknowledged.
    pub(crate) async fn open(host: &Host, dir: &Path) -> Result<(Self, Spool), StorageError> {
        let (wal, found) = Wal::open(host, dir, OPTIONS).await?;
        let mut spool = Spool::default();
        let mut grown = 0;
        for record in &found {
            if record.kind != ENTRY {
                return Err(StorageError::Kind { log: "spool", kind: record.kind });
            }
            grown += record.payload.len();
            spool.replay(&codec::decode(&record.payload)?, record.seq);
        }
        let last = found.last().map_or(0, |record| record.seq);
        Ok((Self { wal, last, grown }, spool))
    }

    /// Entries to take from the spool for one write.
    pub(crate) const fn batch() -> usize {
        BATCH
    }

    /// Writes entries; they are durable when this returns. Gives a number that none of their records is below.
    pub(crate) async fn write(&mut self, entries: &[Entry]) -> Result<u64, StorageError> {
        let encoded = encode(entries)?;
        let bytes: usize = encoded.iter().map(|(_kind, payload)| payload.len()).sum();
        let floor = self.last.saturating_add(1);
        self.last = self.wal.append_all(encoded)?.await?;
        self.grown = self.grown.saturating_add(bytes);
        Ok(floor)
    }

    /// Whether the log has grown enough to forget something.
    pub(crate) const fn is_long(&self) -> bool {
        self.grown >= PURGE_AFTER
    }

    /// Forgets records below `floor`; `image` says what they come to.
    pub(crate) async fn purge(&mut self, floor: u64, image: &[Entry]) -> Result<(), StorageError> {
        self.last = self.wal.purge_before(floor, encode(image)?)?.await?;
        self.grown = 0;
        Ok(())
    }

    /// Writes what waits and lets go of the lock.
    pub(crate) async fn close(&self) {
        self.wal.close().await;
    }
}

fn encode(entries: &[Entry]) -> Result<Vec<(u8, Bytes)>, StorageError> {
    entries.iter().map(|entry| Ok((ENTRY, codec::encode(entry)?.into()))).collect()
}
