//! Answers in progress, so that a caller who takes nothing of its own is told apart from a model that says nothing.
//!
//! A connection that stands still shows at its socket; a stream of a connection that moves (HTTP/2, HTTP/3) does not: a
//! caller may simply grant no more window. Each flow notes at which tick it handed over its last piece; one that is not
//! asked for the next within so many ticks is dropped, with the upstream's work behind it. No clock is read per piece.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use seam::{Host, Lock, Stop};

use super::answer::End;

/// Ticks that a caller's patience is divided into.
const TICKS: u32 = 8;

/// Nothing is owed: the flow waits for its source.
const NOTHING: u32 = 0;

type Work = Pin<Box<dyn Future<Output = End> + Send>>;

/// All answers in progress. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Never [`NOTHING`] once ticking.
    tick: AtomicU32,
    workers: Lock<Vec<Weak<Worker>>>,
}

/// What produces one answer.
pub(crate) struct Worker {
    work: Lock<Option<Work>>,
    /// The tick at which a piece was handed over and no next one asked for since; else [`NOTHING`].
    owed: AtomicU32,
    flows: Flows,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("owed", &self.owed).finish_non_exhaustive()
    }
}

impl Flows {
    pub(super) fn begin(&self, work: Work) -> Arc<Worker> {
        let worker = Arc::new(Worker {
            work: Lock::new(Some(work)),
            owed: AtomicU32::new(NOTHING),
            flows: self.clone(),
        });
        self.0.workers.lock().push(Arc::downgrade(&worker));
        worker
    }

    /// Drops what its callers take nothing of for longer than `patience`, until `stop`.
    pub(crate) async fn watch(self, host: Host, patience: Duration, stop: Stop) {
        while !stop.is_wanted() {
            tokio::select! {
                biased;
                () = stop.wanted() => return,
                () = host.sleep(patience / TICKS) => self.tick(),
            }
        }
    }

    fn tick(&self) {
        let now = self.0.tick.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut live = Vec::new();
        self.0.workers.lock().retain(|worker| match worker.upgrade() {
            Some(worker) => {
                live.push(worker);
                true
            }
            None => false,
        });
        for worker in live {
            let owed = worker.owed.load(Ordering::Relaxed);
            if owed != NOTHING && now.wrapping_sub(owed) > TICKS {
                tracing::debug!("a caller takes nothing of its answer; the call is cancelled");
                // Dropped outside of the lock: it settles the call.
                let work = worker.work.lock().take();
                drop(work);
            }
        }
    }
}

impl Worker {
    /// Goes on with the work. Work that was taken away is broken off.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<End> {
        self.owed.store(NOTHING, Ordering::Relaxed);
        let mut work = self.work.lock();
        let Some(going) = work.as_mut() else { return Poll::Ready(End::Broken) };
        let polled = going.as_mut().poll(cx);
        if polled.is_ready() {
            *work = None;
        }
        polled
    }

    /// A piece was handed over.
    pub(super) fn owed(&self) {
        self.owed.store(self.flows.0.tick.load(Ordering::Relaxed).max(NOTHING + 1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::ingress::Answer;

    #[tokio::test(start_paused = true)]
    async fn only_an_answer_whose_caller_takes_nothing_is_dropped() {
        let host = Host::real();
        let flows = Flows::default();
        let (stopper, stop) = seam::Stopper::new();
        let watching = host.spawn("flows", flows.clone().watch(host.clone(), Duration::from_secs(60), stop));
        let (held, of) = (Arc::new(()), host.clone());
        let inside = Arc::clone(&held);
        let mut slow_source = Answer::flow(&flows, move |outlet| async move {
            of.sleep(Duration::from_secs(600)).await;
            outlet.send(Bytes::from_static(b"late")).await;
            End::Whole
        });
        let mut slow_caller = Answer::flow(&flows, |outlet| async move {
            let _inside = inside;
            outlet.send(Bytes::from_static(b"one")).await;
            outlet.send(Bytes::from_static(b"two")).await;
            End::Whole
        });
        slow_caller.frame().await.unwrap().unwrap();
        assert_eq!(slow_source.frame().await.unwrap().unwrap().into_data().unwrap(), "late");
        assert_eq!(Arc::strong_count(&held), 1, "its work was dropped meanwhile");
        assert!(slow_caller.frame().await.unwrap().is_err());
        drop(stopper);
        watching.await.unwrap();
    }
}
