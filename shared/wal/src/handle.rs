//! The handle on an open log.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use seam::{Host, Lock};
use tokio::sync::{mpsc, oneshot};

use crate::writer::{self, Job, Writer};
use crate::{FIRST_RESERVED_KIND, Options, Record, WalError, frame, recover};

/// Bytes that may wait in memory for the writer; an append beyond is refused.
const MAX_WAITING: usize = 256 * 1024 * 1024;

/// What the handles and the writer share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Bytes that wait for the writer.
    pub(crate) waiting: AtomicUsize,
    /// Why the log is dead.
    pub(crate) failed: Lock<Option<WalError>>,
}

/// An open log. Cheap to clone; the log is closed when the last handle is gone and what waited is written.
#[derive(Clone, Debug)]
pub struct Wal {
    jobs: mpsc::UnboundedSender<Job>,
    shared: Arc<Shared>,
    max_append: usize,
}

/// Tells when an append is durable: the number of its last record. Dropping it does not take the append back.
#[derive(Debug)]
pub struct Ticket(oneshot::Receiver<Result<u64, WalError>>);

impl Future for Ticket {
    type Output = Result<u64, WalError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or(Err(WalError::Closed)))
    }
}

impl Wal {
    /// Opens the log in `dir`, made when absent, and gives back its records in order. Takes the directory's lock.
    ///
    /// # Errors
    /// [`WalError::Locked`], [`WalError::Corrupt`], [`WalError::Open`], or [`WalError::Full`].
    pub async fn open(host: &Host, dir: &Path, options: Options) -> Result<(Self, Vec<Record>), WalError> {
        let disk = Arc::clone(host.disk());
        disk.create_dir_all(dir).await.map_err(WalError::opening(dir))?;
        let lock = disk.lock(&dir.join("lock")).await.map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => WalError::Locked(dir.to_owned()),
            _other => WalError::opening(dir)(error),
        })?;
        let found = recover::recover(disk.as_ref(), dir).await?;
        tracing::debug!(dir = %dir.display(), records = found.records.len(), "log opened");
        let shared = Arc::new(Shared::default());
        let (jobs, queue) = mpsc::unbounded_channel();
        let writer = Writer::new(host, dir, options.segment_bytes, Arc::clone(&shared), found.tail);
        drop(host.spawn("wal", async move {
            let closers = writer.run(queue).await;
            drop(lock);
            drop(closers);
        }));
        let room = usize::try_from(writer::room(options.segment_bytes)).unwrap_or(usize::MAX);
        let max_append = room.min(options.max_record.saturating_add(frame::HEADER + frame::ALIGN));
        Ok((Self { jobs, shared, max_append }, found.records))
    }

    /// Appends one record.
    ///
    /// # Errors
    /// At once when the log failed or is closed or behind, or the record is too large; later through the ticket.
    pub fn append(&self, kind: u8, payload: Bytes) -> Result<Ticket, WalError> {
        self.append_all(vec![(kind, payload)])
    }

    /// Appends records that are written in one piece: without room for all of them, none is written. After a crash
    /// before the ticket resolved, any prefix of them may be found.
    ///
    /// # Errors
    /// As [`Wal::append`].
    pub fn append_all(&self, records: Vec<(u8, Bytes)>) -> Result<Ticket, WalError> {
        self.submit(records, |records, done| Job::Append { records, done })
    }

    /// Gives up the records below `before`. `carry` is appended first and durable before anything is removed; it may
    /// use room that is kept free for it, so that a full disk does not keep a log from shrinking. The space comes
    /// back a whole segment at a time.
    ///
    /// # Errors
    /// As [`Wal::append`].
    pub fn purge_before(&self, before: u64, carry: Vec<(u8, Bytes)>) -> Result<Ticket, WalError> {
        self.submit(carry, |carry, done| Job::Purge { before, carry, done })
    }

    /// Why the log is dead; `None` while it lives.
    #[must_use]
    pub fn failed(&self) -> Option<WalError> {
        self.shared.failed.lock().clone()
    }

    /// Largest append in bytes, headers included.
    #[must_use]
    pub const fn max_append(&self) -> usize {
        self.max_append
    }

    /// Writes what waits and closes the log, also for other handles; its lock is then free.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        // The writer is gone when either is an error; it never answers, it lets go.
        if self.jobs.send(Job::Close { done }).is_ok() {
            drop(closed.await);
        }
    }

    fn submit(
        &self,
        records: Vec<(u8, Bytes)>,
        job: impl FnOnce(Vec<(u8, Bytes)>, writer::Done) -> Job,
    ) -> Result<Ticket, WalError> {
        let len = writer::size(&records);
        if let Some((kind, _)) = records.iter().find(|(kind, _)| *kind >= FIRST_RESERVED_KIND) {
            return Err(WalError::ReservedKind(*kind));
        }
        if len > self.max_append {
            return Err(WalError::TooLarge { len, max: self.max_append });
        }
        if let Some(failed) = self.failed() {
            return Err(failed);
        }
        let waiting = self.shared.waiting.fetch_add(len, Ordering::Relaxed);
        if waiting > MAX_WAITING {
            self.shared.waiting.fetch_sub(len, Ordering::Relaxed);
            return Err(WalError::Behind);
        }
        let (done, ticket) = oneshot::channel();
        self.jobs.send(job(records, done)).map_err(|_gone| self.failed().unwrap_or(WalError::Closed))?;
        Ok(Ticket(ticket))
    }
}
