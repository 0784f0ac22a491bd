//! The one task that writes the usage store.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{Mono, Revision};
use seam::Host;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use usage_store::{Batch, Place, Span, Store, StoreError};

use super::feed::Fed;
use super::{Books, Standing, UsageError};

/// Receipts in one transaction; more only when one entry has more.
const MAX_BATCH: usize = 8_192;
/// How long receipts may wait for others to be written with; nothing is acknowledged by their being written.
const LINGER: Duration = Duration::from_millis(100);
/// How often a store that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Writes the store.
#[derive(Debug)]
pub(super) struct Writer {
    host: Host,
    books: Books,
    told: watch::Sender<Standing>,
    /// Receipts of entries up to here were written, or given up.
    from: Revision,
    pending: Vec<(Batch, OwnedSemaphorePermit)>,
    count: usize,
    /// When to write what is pending, or to try again.
    due: Option<Mono>,
}

impl Writer {
    pub(super) const fn new(host: Host, books: Books, told: watch::Sender<Standing>) -> Self {
        Self { host, books, told, from: Revision(0), pending: Vec::new(), count: 0, due: None }
    }

    /// Writes what it is told until nobody can tell it anything.
    pub(super) async fn run(mut self, mut items: mpsc::UnboundedReceiver<Fed>) {
        self.flush(None).await;
        loop {
            let told = tokio::select! {
                biased;
                item = items.recv() => Some(item),
                () = wait(&self.host, self.due) => None,
            };
            match told {
                Some(Some(item)) => self.take(item).await,
                Some(None) => return,
                None => self.flush(None).await,
            }
        }
    }

    async fn take(&mut self, item: Fed) {
        match item {
            Fed::Receipts { batch, room } => {
                self.count = self.count.saturating_add(batch.receipts.len());
                self.pending.push((batch, room));
                if self.due.is_none() {
                    self.due = Some(self.host.now() + LINGER);
                }
                if self.count >= MAX_BATCH && !self.fails() {
                    self.flush(None).await;
                }
            }
            Fed::Jumped(revision) => {
                if !self.fails() {
                    self.flush(None).await;
                }
                // What could not be written is missing from here on.
                self.forget_pending();
                self.from = revision;
                if !self.fails() {
                    self.flush(None).await;
                }
            }
            Fed::Reach { upto, done } => {
                if !self.fails() {
                    self.flush(upto).await;
                }
                let failing = self.told.borrow().failing.clone();
                drop(done.send(failing.map_or(Ok(()), |why| Err(UsageError::Failing(why)))));
            }
            Fed::Page { page, done } => drop(done.send(self.work(move |store| store.import(&page)).await)),
            Fed::Prune { keep, done } => drop(done.send(self.work(move |store| store.prune(&keep)).await)),
        }
    }

    fn fails(&self) -> bool {
        self.told.borrow().failing.is_some()
    }

    fn forget_pending(&mut self) {
        self.pending.clear();
        self.count = 0;
        if !self.fails() {
            self.due = None;
        }
    }

    /// Writes what is pending; with `upto`, that is all up to there.
    async fn flush(&mut self, upto: Option<Revision>) {
        let last = self.pending.last().map_or(self.from, |(batch, _room)| batch.revision);
        let span = Span::new(self.from, last.max(upto.unwrap_or(last)));
        let batches: Vec<Batch> = self.pending.iter().map(|(batch, _room)| batch.clone()).collect();
        let written = self.work(move |store| store.append(span, &batches)).await;
        if let Ok(written) = written {
            self.from = span.upto;
            self.forget_pending();
            self.told.send_modify(|standing| standing.written += written as u64);
        }
    }

    /// Works with the store, and tells how it stands then.
    async fn work<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, UsageError> {
        let books = self.books.clone();
        let worked = self.host.compute(move || {
            books.with(|store| {
                let done = work(store)?;
                Ok((done, store.head(), store.missing().to_vec()))
            })
        });
        match worked.await {
            Ok(Ok((done, head, missing))) => {
                self.works(head, missing);
                Ok(done)
            }
            Ok(Err(error)) => {
                self.failed(&error).await;
                Err(error.into())
            }
            Err(_gone) => Err(UsageError::Stopping),
        }
    }

    fn works(&mut self, head: Revision, missing: Vec<Span>) {
        if self.fails() {
            tracing::info!("the usage store works again");
            self.due = Some(self.host.now());
        }
        self.told.send_modify(|standing| {
            (standing.head, standing.missing, standing.failing) = (head, missing, None);
        });
    }

    async fn failed(&mut self, error: &StoreError) {
        if !self.fails() {
            tracing::error!(%error, "the usage store cannot be written; receipts wait, and are fetched from other nodes if they cannot");
        }
        if let (StoreError::Damaged(_), Place::File(file)) = (error, self.books.place.clone()) {
            set_aside(&self.host, &self.books, &file).await;
        }
        self.told.send_modify(|standing| standing.failing = Some(error.to_string()));
        self.due = Some(self.host.now() + RETRY);
    }
}

/// Waits until `due`; without it, for ever.
async fn wait(host: &Host, due: Option<Mono>) {
    match due {
        Some(due) => host.sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Renames a damaged store, so that a new one can be made and filled from other nodes.
async fn set_aside(host: &Host, books: &Books, file: &Path) {
    let closing = books.clone();
    if host.compute(move || drop(closing.store.lock().take())).await.is_err() {
        return;
    }
    let aside = with_end(file, ".damaged");
    let mut moved = host.disk().rename(file, &aside).await;
    for end in ["-wal", "-shm"] {
        let beside = with_end(file, end);
        if let Err(error) = host.disk().remove(&beside).await
            && error.kind() != std::io::ErrorKind::NotFound
        {
            moved = Err(error);
        }
    }
    match moved {
        Ok(()) => tracing::error!(file = %aside.display(), "a damaged usage store was set aside"),
        Err(error) => tracing::error!(%error, "a damaged usage store could not be set aside"),
    }
}

fn with_end(file: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(end);
    name.into()
}
