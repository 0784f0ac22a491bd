//! The way from the state machine to the usage store: a queue with a bound in receipts.
//!
//! While the store works, applying waits for room, so that a slow disk slows the log and loses nothing. While the store
//! fails, applying does not wait: what finds no room is passed over, and the store fetches it from other nodes later.

use std::sync::Arc;

use base::{Name, Revision, WallMs};
use central_core::Effect;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use usage_store::{Batch, Keep, Page, Progress};
use wire::ledger::Receipt;

use super::{Standing, UsageError};

/// Receipts that may wait for the store: some 40 MB.
pub(super) const MAX_WAITING: usize = 65_536;

type Done<T> = oneshot::Sender<Result<T, UsageError>>;

/// What the store's writer is told, in the order of the log.
#[derive(Debug)]
pub(super) enum Fed {
    /// An entry made these receipts count. The room is free again once they are written.
    Receipts { batch: Batch, room: OwnedSemaphorePermit },
    /// Receipts of entries up to here that were not told before never will be.
    Jumped(Revision),
    /// Everything told before shall be written. With `upto`, nothing but that was applied up to there.
    Reach { upto: Option<Revision>, done: Done<()> },
    /// Another node's store gave this.
    Page { page: Box<Page>, done: Done<Option<Progress>> },
    /// Old receipts and totals may go, one step of them.
    Prune { keep: Keep, done: Done<bool> },
}

/// The queue's near end.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) items: mpsc::UnboundedSender<Fed>,
    pub(super) room: Arc<Semaphore>,
    pub(super) standing: watch::Receiver<Standing>,
}

/// Where applied receipts go; by default nowhere. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Feed(Option<Arc<Queue>>);

impl Feed {
    pub(super) const fn new(queue: Arc<Queue>) -> Self {
        Self(Some(queue))
    }

    /// Takes the receipts among the effects of the entry `revision`, proposed at `taken`.
    pub(crate) async fn effects(&self, revision: Revision, taken: WallMs, effects: &[Effect]) {
        let Some(queue) = &self.0 else { return };
        let Some(receipts) = receipts(effects) else { return };
        let asked = u32::try_from(receipts.len().min(MAX_WAITING)).unwrap_or(u32::MAX);
        let room = tokio::select! {
            biased;
            room = Arc::clone(&queue.room).acquire_many_owned(asked) => room.ok(),
            () = queue.fails() => None,
        };
        let item = match room {
            Some(room) => Fed::Receipts { batch: Batch { revision, taken, receipts }, room },
            None => Fed::Jumped(revision),
        };
        queue.tell(item);
    }

    /// The state was replaced by a snapshot of `revision`.
    pub(crate) fn jumped(&self, revision: Revision) {
        if let Some(queue) = &self.0 {
            queue.tell(Fed::Jumped(revision));
        }
    }

    /// Waits until the receipts of all entries up to `revision`, which were applied, are on the disk, or the store
    /// fails.
    pub(crate) async fn settled(&self, revision: Revision) {
        let Some(queue) = &self.0 else { return };
        let (done, outcome) = oneshot::channel();
        queue.tell(Fed::Reach { upto: Some(revision), done });
        if let Ok(Err(error)) = outcome.await {
            tracing::warn!(%error, "a snapshot is written whose receipts are not all in this node's usage store");
        }
    }
}

impl Queue {
    /// The writer may be gone, in a node that stops.
    fn tell(&self, item: Fed) {
        drop(self.items.send(item));
    }

    async fn fails(&self) {
        let mut standing = self.standing.clone();
        if standing.wait_for(|standing| standing.failing.is_some()).await.is_err() {
            tracing::debug!("receipts are applied that no usage store takes: the node stops");
        }
    }
}

/// One list of all receipts among `effects`; `None` when there are none.
fn receipts(effects: &[Effect]) -> Option<Arc<Vec<(Name, Receipt)>>> {
    let mut lists = effects.iter().filter_map(|effect| match effect {
        Effect::Receipts(receipts) => Some(receipts),
        _other => None,
    });
    let mut all = Arc::clone(lists.next()?);
    for more in lists {
        Arc::make_mut(&mut all).extend(more.iter().cloned());
    }
    Some(all)
}
