//! The Raft log on the write-ahead log. Votes, entries, truncations and purges share its one ordered stream, so that
//! what a crash leaves is a prefix of what happened.
//!
//! Entries are kept in memory as well; the log is short. A disk without room holds the writes back until there is room
//! again ([`StorageState::Full`]): nothing is acknowledged meanwhile. A failed write or sync ends the node.

mod memory;
mod records;
mod writer;

use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;

use base::NodeId;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::{OptionalSend, RaftTypeConfig};
use seam::{Host, Lock};
use tokio::sync::{mpsc, oneshot, watch};
use wal::{Options, Wal, WalError};

use super::types::{LogEntry, LogId, Types, Vote};
use memory::Memory;
use records::Change;
use writer::{Done, Write, Writer};

/// Segments are small because the log is: a purge frees whole ones.
const SEGMENTS: Options = Options { segment_bytes: 32 * 1024 * 1024, max_record: 20 * 1024 * 1024 };
/// Largest read of entries for one message, in bytes; one entry is always read.
const MAX_READ: usize = 1024 * 1024;

/// What the disk under the log does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StorageState {
    /// It takes writes.
    #[default]
    Good,
    /// It has no room. Writes wait; this node acknowledges nothing and takes no proposals.
    Full,
    /// It failed. This node stops.
    Failed(String),
}

/// Why the log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The write-ahead log.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// A record that this build cannot read.
    #[error("record {seq} of the Raft log is not readable: {why}")]
    Record {
        /// Its number in the write-ahead log.
        seq: u64,
        /// What is wrong.
        why: String,
    },
    /// The directory is another member's.
    #[error("the Raft log belongs to member {found}, this node is member {expected}")]
    Other {
        /// Whose it is.
        found: NodeId,
        /// Who asked.
        expected: NodeId,
    },
}

/// The Raft log. Cheap to clone; all clones are the same log.
#[derive(Clone, Debug)]
pub(crate) struct LogStore {
    memory: Arc<Lock<Memory>>,
    writes: mpsc::UnboundedSender<Write>,
    state: watch::Receiver<StorageState>,
}

impl LogStore {
    /// Opens the log of member `id` in `dir`.
    pub(crate) async fn open(host: &Host, dir: &Path, id: NodeId) -> Result<Self, StoreError> {
        let (wal, found) = Wal::open(host, dir, SEGMENTS).await?;
        let mut memory = Memory::default();
        for record in found {
            let unreadable = |why: String| StoreError::Record { seq: record.seq, why };
            let change = Change::decode(&record).map_err(unreadable)?;
            memory.replay(change, record.seq);
        }
        let memory = Arc::new(Lock::new(memory));
        let (writes, queue) = mpsc::unbounded_channel();
        let (report, state) = watch::channel(StorageState::Good);
        let writer = Writer::new(host.clone(), wal, Arc::clone(&memory), report);
        drop(host.spawn("raft-log", writer.run(queue)));
        let store = Self { memory, writes, state };
        store.claim(id).await?;
        Ok(store)
    }

    /// Sees to it that the log is member `id`'s; a new one becomes it.
    async fn claim(&self, id: NodeId) -> Result<(), StoreError> {
        let owner = self.memory.lock().owner();
        match owner {
            Some(found) if found != id => Err(StoreError::Other { found, expected: id }),
            Some(_same) => Ok(()),
            None => {
                let failed = |error: io::Error| StoreError::Wal(WalError::Failed(error.to_string()));
                self.write(Change::Owner(id)).await.map_err(failed)
            }
        }
    }

    /// Whether the log holds nothing: this member never voted and never took an entry.
    pub(crate) fn is_pristine(&self) -> bool {
        self.memory.lock().is_pristine()
    }

    /// What the disk does.
    pub(crate) fn watch(&self) -> watch::Receiver<StorageState> {
        self.state.clone()
    }

    /// Makes a change in memory and waits until it is durable.
    async fn write(&self, change: Change) -> io::Result<()> {
        let (done, durable) = oneshot::channel();
        self.submit(change, Done::Change(done))?;
        durable.await.unwrap_or_else(|_dropped| Err(closed()))
    }

    /// Changes memory and queues the write, in one step, so that both have the same order.
    fn submit(&self, change: Change, done: Done) -> io::Result<()> {
        let mut memory = self.memory.lock();
        let write = Write::new(&change, done)?;
        memory.apply(change);
        self.writes.send(write).map_err(|_gone| closed())
    }
}

fn closed() -> io::Error {
    io::Error::other("the Raft log is closed")
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<LogEntry>, io::Error> {
        Ok(self.memory.lock().read(range, usize::MAX))
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<LogEntry>, io::Error> {
        Ok(self.memory.lock().read(start..end, MAX_READ))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.memory.lock().vote())
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        let memory = self.memory.lock();
        Ok(LogState { last_purged_log_id: memory.purged(), last_log_id: memory.last() })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        if base::mutant!(VoteLost) {
            self.memory.lock().apply(Change::Vote(*vote));
            return Ok(());
        }
        self.write(Change::Vote(*vote)).await
    }

    /// Written with whatever is written next: losing it costs a restarted node a moment, not an entry.
    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        self.submit(Change::Committed(committed), Done::Whenever)
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.memory.lock().committed())
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = <Types as RaftTypeConfig>::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut entries = entries.into_iter().peekable();
        if entries.peek().is_none() {
            callback.io_completed(Ok(()));
            return Ok(());
        }
        while let Some(entry) = entries.next() {
            if entries.peek().is_some() {
                self.submit(Change::Entry(entry), Done::WithNext)?;
            } else if base::mutant!(EntryNotDurable) {
                self.submit(Change::Entry(entry), Done::Whenever)?;
                callback.io_completed(Ok(()));
                return Ok(());
            } else {
                return self.submit(Change::Entry(entry), Done::Append(callback));
            }
        }
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        self.write(Change::Truncate(last_log_id)).await
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        self.write(Change::Purge(log_id)).await
    }
}
