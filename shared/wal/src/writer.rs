//! The one task that writes a log: takes what waits, writes it in one piece, syncs, and answers in order.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use seam::{Disk, Host};
use tokio::sync::{mpsc, oneshot};

use crate::WalError;
use crate::frame::{self, Head};
use crate::handle::Shared;
use crate::recover::{Purged, Sealed, Tail};
use crate::segment::{self, Active};

/// Most appends taken together.
const MAX_JOBS: usize = 4_096;
/// A write is not made longer once it has this many bytes.
const MAX_WRITE: usize = 4 * 1024 * 1024;
/// The part of a segment that only purges may use.
const RESERVE: u64 = 16;

pub(crate) type Done = oneshot::Sender<Result<u64, WalError>>;

/// What a handle asks for.
#[derive(Debug)]
pub(crate) enum Job {
    Append { records: Vec<(u8, Bytes)>, done: Done },
    Purge { before: u64, carry: Vec<(u8, Bytes)>, done: Done },
    Close { done: oneshot::Sender<()> },
}

/// Bytes that appends may use in a segment of this size.
pub(crate) const fn room(segment: u64) -> u64 {
    segment.saturating_sub(segment::HEADER as u64 + segment / RESERVE)
}

/// Bytes that records take on disk.
pub(crate) fn size(records: &[(u8, Bytes)]) -> usize {
    records.iter().map(|(_, payload)| frame::size(payload.len())).sum()
}

#[derive(Debug)]
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segment_bytes: u64,
    shared: Arc<Shared>,
    tail: Tail,
    batch: Batch,
}

/// Records encoded and not yet written, and who waits for them.
#[derive(Debug, Default)]
struct Batch {
    bytes: BytesMut,
    done: Vec<(u64, Done)>,
}

impl Writer {
    pub(crate) fn new(host: &Host, dir: &Path, segment_bytes: u64, shared: Arc<Shared>, tail: Tail) -> Self {
        let (disk, dir) = (Arc::clone(host.disk()), dir.to_owned());
        Self { disk, dir, segment_bytes, shared, tail, batch: Batch::default() }
    }

    /// Works until the last handle is gone or the log is closed; gives back who waits for that. After a failure it
    /// only answers.
    pub(crate) async fn run(mut self, mut queue: mpsc::UnboundedReceiver<Job>) -> Vec<oneshot::Sender<()>> {
        let (mut jobs, mut closers) = (Vec::new(), Vec::new());
        while queue.recv_many(&mut jobs, MAX_JOBS).await > 0 {
            for job in jobs.drain(..) {
                if let Some(closer) = self.take(job).await {
                    queue.close();
                    closers.push(closer);
                }
            }
            self.flush().await;
            if queue.is_empty() {
                self.mark_synced().await;
            }
        }
        closers
    }

    /// Takes a job; gives back who waits for the log to close.
    async fn take(&mut self, job: Job) -> Option<oneshot::Sender<()>> {
        match job {
            Job::Append { records, done } => {
                self.shared.waiting.fetch_sub(size(&records), Ordering::Relaxed);
                self.append(&records, done).await;
                None
            }
            Job::Purge { before, carry, done } => {
                self.shared.waiting.fetch_sub(size(&carry), Ordering::Relaxed);
                let result = self.purge(before, &carry).await;
                // Who asked may not wait for the answer.
                drop(done.send(result));
                None
            }
            Job::Close { done } => Some(done),
        }
    }

    async fn append(&mut self, records: &[(u8, Bytes)], done: Done) {
        if self.batch.bytes.len() >= MAX_WRITE {
            self.flush().await;
        }
        if let Err(error) = self.make_room(size(records), true).await {
            drop(done.send(Err(error)));
            return;
        }
        for (kind, payload) in records {
            self.encode(*kind, payload);
        }
        self.batch.done.push((self.tail.next_seq - 1, done));
    }

    /// Sees to it that the active segment has room for `len` more bytes; appends leave the reserve to purges.
    async fn make_room(&mut self, len: usize, keep_reserve: bool) -> Result<(), WalError> {
        let fits = |active: &Active, waiting: usize| {
            let kept = if keep_reserve { active.capacity / RESERVE } else { 0 };
            active.end + (waiting + len) as u64 + kept <= active.capacity
        };
        if self.tail.active.as_ref().is_some_and(|active| fits(active, self.batch.bytes.len())) {
            return self.alive();
        }
        self.flush().await;
        self.alive()?;
        self.roll().await.inspect_err(|error| self.note(error))
    }

    /// Starts a new segment; everything in the one before is synced.
    async fn roll(&mut self) -> Result<(), WalError> {
        let (id, prev_end) = match &self.tail.active {
            Some(active) => (active.id + 1, active.end),
            None => (1, 0),
        };
        let (first_seq, prev_crc, capacity) = (self.tail.next_seq, self.tail.chain, self.segment_bytes);
        let header = segment::Header { id, first_seq, prev_end, prev_crc, capacity };
        let fresh = segment::create(self.disk.as_ref(), &self.dir, header).await?;
        if let Some(full) = self.tail.active.replace(fresh) {
            self.tail.sealed.push(Sealed { id: full.id, first_seq: full.first_seq });
        }
        Ok(())
    }

    fn encode(&mut self, kind: u8, payload: &[u8]) {
        let synced = self.tail.active.as_ref().map_or(0, |active| active.end);
        let head = Head { kind, prev: self.tail.chain, seq: self.tail.next_seq, synced };
        self.tail.chain = frame::put(&mut self.batch.bytes, head, payload);
        self.tail.next_seq += 1;
    }

    /// Writes and syncs the batch, and answers who waits for it.
    async fn flush(&mut self) {
        let Batch { bytes, done } = std::mem::take(&mut self.batch);
        if bytes.is_empty() {
            return;
        }
        let result = match self.alive() {
            Ok(()) => self.write(bytes.freeze()).await.inspect_err(|error| self.note(error)),
            Err(error) => Err(error),
        };
        for (seq, done) in done {
            // Who asked may not wait for the answer.
            drop(done.send(result.clone().map(|()| seq)));
        }
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), WalError> {
        let Some(active) = &mut self.tail.active else { return Ok(()) };
        let len = bytes.len() as u64;
        let written = async {
            active.file.write_at(active.end, bytes).await?;
            if base::mutant!(LostSync) {
                return Ok(());
            }
            active.file.sync_data().await
        };
        written.await.map_err(|error| WalError::failed(&error))?;
        active.end += len;
        Ok(())
    }

    /// Says, where the next record will go, that everything before is synced. It is not synced itself: damage to the
    /// last record is told from a torn write only while the mark survives.
    async fn mark_synced(&mut self) {
        let Some(active) = self.tail.active.as_ref().filter(|_| self.alive().is_ok()) else { return };
        let head = Head {
            kind: frame::KIND_SYNCED,
            prev: self.tail.chain,
            seq: self.tail.next_seq,
            synced: active.end,
        };
        let mut mark = BytesMut::new();
        frame::put(&mut mark, head, &[]);
        if active.end + mark.len() as u64 <= active.capacity
            && let Err(error) = active.file.write_at(active.end, mark.freeze()).await
        {
            self.note(&WalError::failed(&error));
        }
    }

    async fn purge(&mut self, before: u64, carry: &[(u8, Bytes)]) -> Result<u64, WalError> {
        let mark_len = frame::size(Purged::default().bytes().len());
        self.make_room(size(carry) + mark_len, false).await?;
        let before = before.max(self.tail.purged_before);
        let kept = self.first_kept(before);
        for (kind, payload) in carry {
            self.encode(*kind, payload);
        }
        self.encode(frame::KIND_PURGED, &Purged { before, kept }.bytes());
        let seq = self.tail.next_seq - 1;
        self.flush().await;
        self.alive()?;
        self.tail.purged_before = before;
        self.remove_below(kept).await.inspect_err(|error| self.note(error))?;
        Ok(seq)
    }

    /// The first segment that holds a record which is not given up; the active one at the latest.
    fn first_kept(&self, before: u64) -> u64 {
        let active = self.tail.active.as_ref();
        let starts = self.tail.sealed.iter().map(|sealed| (sealed.id, sealed.first_seq));
        let starts = starts.chain(active.map(|active| (active.id, active.first_seq)));
        let mut kept = None;
        for (id, first_seq) in starts {
            if kept.is_none() || first_seq <= before {
                kept = Some(id);
            }
        }
        kept.unwrap_or(1)
    }

    async fn remove_below(&mut self, kept: u64) -> Result<(), WalError> {
        let gone = self.tail.sealed.partition_point(|sealed| sealed.id < kept);
        for sealed in self.tail.sealed.drain(..gone) {
            let removed = async {
                segment::remove(self.disk.as_ref(), &segment::path(&self.dir, sealed.id)).await?;
                self.disk.sync_dir(&self.dir).await
            };
            removed.await.map_err(|error| WalError::failed(&error))?;
        }
        Ok(())
    }

    fn alive(&self) -> Result<(), WalError> {
        self.shared.failed.lock().clone().map_or(Ok(()), Err)
    }

    /// Remembers a failure; want of space is none.
    fn note(&self, error: &WalError) {
        if matches!(error, WalError::Full) {
            tracing::warn!(dir = %self.dir.display(), "no space left for the log");
            return;
        }
        tracing::error!(dir = %self.dir.display(), %error, "the log is dead");
        self.shared.failed.lock().get_or_insert_with(|| error.clone());
    }
}
