//! This node's usage store: fed by the log, completed from other nodes, asked by operators.
//!
//! What is applied goes into a bounded queue ([`Feed`]) and from there, in batches, into the store, by one task
//! ([`writer`]). After a snapshot took the place of entries, and after the store was away, the store knows what it lacks;
//! it is fetched from other nodes' stores ([`fetch`]). An answer holds every receipt that was acknowledged before the
//! question, or says why not.

pub(crate) mod clickhouse;
mod feed;
mod fetch;
mod writer;

pub use clickhouse::ClickHouse;
pub use feed::Feed;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::{Revision, WallMs};
use central_core::State;
use mesh::Links;
use seam::{Bound, Host, Lock};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use usage_store::{Held, Keep, Place, Span, Store, StoreError, View};

use crate::consensus::{Consensus, ReadError};
use feed::{Fed, MAX_WAITING, Queue};
use writer::Writer;

/// The store's file in the data directory; the database keeps two more beside it.
const FILE: &str = "usage.db";
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Between two looks at what need not be kept.
const PRUNE_EACH: Duration = Duration::from_secs(600);
/// Between two steps of forgetting, so that receipts that come in need not wait for long.
const STEP_EACH: Duration = Duration::from_millis(50);

/// How long usage is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Receipts, from when they were applied.
    pub receipts: Duration,
    /// Hourly totals, from the hour's start.
    pub hours: Duration,
    /// How much longer receipts are kept that a store outside has not taken; `None`: there is none.
    pub untaken: Option<Duration>,
}

impl Default for Kept {
    /// Receipts for a month's bill, totals for the same month a year before.
    fn default() -> Self {
        Self { receipts: 35 * DAY, hours: 400 * DAY, untaken: None }
    }
}

/// How a store stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The last entry of the log it knows of.
    pub(crate) head: Revision,
    /// Entries up to there whose receipts it lacks.
    pub(crate) missing: Vec<Span>,
    /// Why it cannot be written.
    pub(crate) failing: Option<String>,
    /// Receipts written since the start.
    pub(crate) written: u64,
}

/// Why a question about usage has no answer here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// The node cannot read what was decided.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store cannot be written.
    #[error("this node's usage store cannot be written: {0}")]
    Failing(String),
    /// It lacks the receipts of so many log entries.
    #[error(
        "this node's usage store lacks the receipts of {0} log entries and fetches them from other nodes"
    )]
    Incomplete(u64),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// This node's usage store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Usage {
    host: Host,
    books: Books,
    queue: Arc<Queue>,
    standing: watch::Receiver<Standing>,
    kept: Kept,
}

/// The store, opened when it is first needed. Only blocking work may lock it.
#[derive(Clone, Debug)]
struct Books {
    place: Place,
    store: Arc<Lock<Option<Store>>>,
}

impl Books {
    /// Works with the store.
    fn with<T>(&self, work: impl FnOnce(&mut Store) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut guard = self.store.lock();
        let store = match guard.as_mut() {
            Some(store) => store,
            None => guard.insert(Store::open(&self.place)?),
        };
        work(store)
    }

    /// Asks the store; a file's is asked while it is written.
    fn ask<T>(&self, question: impl FnOnce(&View) -> Result<T, StoreError>) -> Result<T, StoreError> {
        match &self.place {
            Place::File(path) => question(&View::open(path)?),
            Place::Memory => self.with(|store| question(store.view())),
        }
    }
}

impl Usage {
    /// The store in the data directory `dir`, what feeds it, and the task that writes it.
    #[must_use]
    pub fn start(host: &Host, dir: &Path, kept: Kept) -> (Self, Feed, Bound<()>) {
        let place = host.disk().native(&dir.join(FILE)).map_or(Place::Memory, Place::File);
        let books = Books { place, store: Arc::default() };
        let (items, queue) = mpsc::unbounded_channel();
        let (told, standing) = watch::channel(Standing::default());
        let room = Arc::new(Semaphore::new(MAX_WAITING));
        let writer = Writer::new(host.clone(), books.clone(), told);
        let writing = host.spawn("usage-write", writer.run(queue)).bound();
        let queue = Arc::new(Queue { items, room, standing: standing.clone() });
        let feed = Feed::new(Arc::clone(&queue));
        (Self { host: host.clone(), books, queue, standing, kept }, feed, writing)
    }

    /// Starts what completes the store and what makes it forget.
    pub(crate) fn tasks(&self, consensus: &Consensus, links: &Links) -> [Bound<()>; 2] {
        let fetching = self.clone().fetch(consensus.clone(), links.clone());
        let pruning = self.clone().prune(consensus.clone());
        [self.host.spawn("usage-fetch", fetching).bound(), self.host.spawn("usage-prune", pruning).bound()]
    }

    /// How the store stands.
    pub(crate) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Receipts that wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        MAX_WAITING.saturating_sub(self.queue.room.available_permits())
    }

    /// Asks the store once it holds everything that was acknowledged before; unless `partial`, it must lack nothing.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        consensus: &Consensus,
        partial: bool,
        question: impl FnOnce(&View) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, UsageError> {
        consensus.read_index().await?;
        if let Err(error) = self.reach(None).await
            && !partial
        {
            return Err(error);
        }
        let lacks = lacks(&self.standing());
        if lacks > 0 && !partial {
            return Err(UsageError::Incomplete(lacks));
        }
        self.look(question).await
    }

    async fn look<T: Send + 'static>(
        &self,
        question: impl FnOnce(&View) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, UsageError> {
        let books = self.books.clone();
        let answer = self.host.compute(move || books.ask(question)).await;
        Ok(answer.map_err(|_gone| UsageError::Stopping)??)
    }

    /// Waits until everything that was applied is written; with `upto`, the store remembers that it is that far.
    ///
    /// # Errors
    /// [`UsageError`] when the store fails, or the node is stopping.
    pub async fn reach(&self, upto: Option<Revision>) -> Result<(), UsageError> {
        self.order(|done| Fed::Reach { upto, done }).await
    }

    async fn order<T>(
        &self,
        item: impl FnOnce(oneshot::Sender<Result<T, UsageError>>) -> Fed,
    ) -> Result<T, UsageError> {
        let (done, outcome) = oneshot::channel();
        self.queue.items.send(item(done)).map_err(|_ended| UsageError::Stopping)?;
        outcome.await.map_err(|_ended| UsageError::Stopping)?
    }

    /// Forgets what need not be kept, now and then.
    async fn prune(self, consensus: Consensus) {
        loop {
            self.host.sleep(PRUNE_EACH).await;
            // Neither a clock that runs ahead here nor one at a leader makes a store forget early.
            let now = self.host.wall().min(consensus.read(|state: &State| state.ledger().now()));
            let after = consensus.read(|state: &State| state.shipment().after);
            let held = |longer| Held { after, from: before(now, self.kept.receipts.saturating_add(longer)) };
            let keep = Keep {
                receipts_from: before(now, self.kept.receipts),
                hours_from: before(now, self.kept.hours),
                held: self.kept.untaken.map(held),
            };
            while let Ok(true) = self.order(|done| Fed::Prune { keep, done }).await {
                self.host.sleep(STEP_EACH).await;
            }
        }
    }
}

/// Entries whose receipts a store lacks.
pub(crate) fn lacks(standing: &Standing) -> u64 {
    standing.missing.iter().map(|gap| gap.upto.0.saturating_sub(gap.after.0)).sum()
}

fn before(now: WallMs, kept: Duration) -> WallMs {
    let kept = u64::try_from(kept.as_millis()).unwrap_or(u64::MAX);
    WallMs::from_millis(now.as_millis().saturating_sub(kept))
}

#[cfg(test)]
mod tests;
