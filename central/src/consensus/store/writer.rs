//! Writes a Raft log's changes into the write-ahead log, in order, as many at a time as wait.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::storage::IOFlushed;
use seam::{Host, Lock};
use tokio::sync::{mpsc, oneshot, watch};
use wal::{Wal, WalError};

use super::StorageState;
use super::memory::Memory;
use super::records::Change;
use crate::consensus::types::{LogId, Types};

/// How often a full disk is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Most changes written together.
const MAX_TOGETHER: usize = 4_096;
/// What a record costs beside its payload, generously.
const OVERHEAD: usize = 64;

/// Who waits for a change to be durable.
pub(super) enum Done {
    /// Somebody who asked for it.
    Change(oneshot::Sender<io::Result<()>>),
    /// openraft, for the entries up to this one.
    Append(IOFlushed<Types>),
    /// Whoever waits for the next change.
    WithNext,
    /// Nobody: written with whatever comes next.
    Whenever,
}

/// A change to be written.
pub(super) struct Write {
    record: (u8, Bytes),
    /// The entry's index, when it is one.
    index: Option<u64>,
    purge: Option<LogId>,
    done: Done,
}

impl Write {
    pub(super) fn new(change: &Change, done: Done) -> io::Result<Self> {
        let (index, purge) = match change {
            Change::Entry(entry) => (Some(entry.log_id.index), None),
            Change::Purge(last) => (None, Some(*last)),
            _other => (None, None),
        };
        let record = change.encode().map_err(io::Error::other)?;
        Ok(Self { record, index, purge, done })
    }

    fn size(&self) -> usize {
        self.record.1.len() + OVERHEAD
    }
}

pub(super) struct Writer {
    host: Host,
    wal: Wal,
    memory: Arc<Lock<Memory>>,
    report: watch::Sender<StorageState>,
}

impl Writer {
    pub(super) const fn new(
        host: Host,
        wal: Wal,
        memory: Arc<Lock<Memory>>,
        report: watch::Sender<StorageState>,
    ) -> Self {
        Self { host, wal, memory, report }
    }

    /// Works until the log is closed or fails; then its queue is closed, and every later change fails.
    pub(super) async fn run(self, mut queue: mpsc::UnboundedReceiver<Write>) {
        let mut waiting = Vec::new();
        loop {
            let taken = queue.recv_many(&mut waiting, MAX_TOGETHER).await;
            if taken == 0 {
                return;
            }
            if waiting.iter().all(|write| matches!(write.done, Done::Whenever)) {
                continue;
            }
            let result = self.write_all(&waiting).await;
            answer(waiting.drain(..), &result);
            if result.is_err() {
                return;
            }
        }
    }

    async fn write_all(&self, mut writes: &[Write]) -> Result<(), WalError> {
        while !writes.is_empty() {
            let (now, later) = writes.split_at(self.together(writes));
            self.write(now).await.inspect_err(|error| self.fail(error))?;
            writes = later;
        }
        Ok(())
    }

    /// How many of the changes fit in one append; a purge ends it.
    fn together(&self, writes: &[Write]) -> usize {
        let (mut count, mut bytes) = (0, 0);
        for write in writes {
            bytes += write.size();
            if count > 0 && bytes > self.wal.max_append() {
                break;
            }
            count += 1;
            if write.purge.is_some() {
                break;
            }
        }
        count
    }

    async fn write(&self, writes: &[Write]) -> Result<(), WalError> {
        let last = loop {
            let records = writes.iter().map(|write| write.record.clone()).collect();
            match self.wal.append_all(records)?.await {
                Err(WalError::Full) => self.wait_for_room().await,
                Ok(last) => break last,
                Err(error) => return Err(error),
            }
        };
        if self.report.borrow().clone() != StorageState::Good {
            tracing::info!("the disk under the Raft log has room again");
            self.report.send_replace(StorageState::Good);
        }
        self.place(writes, last);
        match writes.iter().find_map(|write| write.purge) {
            Some(purged) => self.forget(purged, last).await,
            None => Ok(()),
        }
    }

    async fn wait_for_room(&self) {
        if *self.report.borrow() != StorageState::Full {
            tracing::error!("no space left for the Raft log; nothing is acknowledged until there is");
            self.report.send_replace(StorageState::Full);
        }
        self.host.sleep(RETRY).await;
    }

    /// Remembers where entries are.
    fn place(&self, writes: &[Write], last: u64) {
        let mut memory = self.memory.lock();
        let first = last + 1 - writes.len() as u64;
        for (write, place) in writes.iter().zip(first..) {
            if let Some(index) = write.index {
                memory.placed(index, place);
            }
        }
    }

    /// Lets the write-ahead log forget what the purge made needless: `last` is its last record. Without room for that
    /// it is done another time.
    ///
    /// What memory holds may be ahead of what is written: of it only the vote is said again, for an early vote does no
    /// harm. An entry that is not written yet comes after `last`.
    async fn forget(&self, purged: LogId, last: u64) -> Result<(), WalError> {
        let (owner, vote, first) = {
            let memory = self.memory.lock();
            (memory.owner(), memory.vote(), memory.first_place())
        };
        let before = first.unwrap_or(last + 1);
        let carry = [owner.map(Change::Owner), vote.map(Change::Vote), Some(Change::Purge(purged))];
        let encoded: Result<Vec<_>, _> = carry.iter().flatten().map(Change::encode).collect();
        let records = encoded.map_err(|error| WalError::Failed(error.to_string()))?;
        match self.wal.purge_before(before, records)?.await {
            Ok(_) | Err(WalError::Full) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn fail(&self, error: &WalError) {
        tracing::error!(%error, "the Raft log failed; this node stops");
        self.report.send_replace(StorageState::Failed(error.to_string()));
    }
}

fn answer(writes: impl Iterator<Item = Write>, result: &Result<(), WalError>) {
    for write in writes {
        let result = result.clone().map_err(io::Error::other);
        match write.done {
            // Who asked may be gone.
            Done::Change(done) => drop(done.send(result)),
            Done::Append(done) => done.io_completed(result),
            Done::WithNext | Done::Whenever => {}
        }
    }
}
