//! Calls that wait for something that others have: in `upstream`'s order, never more than a bound, and gone from the line
//! when their caller is.
//!
//! What comes free is handed to the call that is next, not announced: whoever is gone by then drops it, and with that it
//! is handed on, as long as dropping it leads to [`Line::serve`]. So none is lost between two calls, and none is taken out
//! of turn.

use std::sync::atomic::{AtomicUsize, Ordering};

use base::Mono;
use seam::{Host, Lock};
use telemetry::metrics::QueueMetrics;
use tokio::sync::oneshot;
use upstream::{Bounds, Crowded, Lack, Queue, Turn, Waiter};

/// A line of calls, each with a `T` that says what it waits for; they are served with an `S`.
#[derive(Debug)]
pub struct Line<T, S> {
    host: Host,
    metrics: QueueMetrics,
    /// How many wait: calls look at it before they take what is free.
    waiting: AtomicUsize,
    state: Lock<State<T, S>>,
}

#[derive(Debug)]
struct State<T, S> {
    queue: Queue<Waiting<T, S>>,
    /// When somebody looks again; past, or [`Mono::FAR`], when nobody will.
    rings: Mono,
}

#[derive(Debug)]
struct Waiting<T, S> {
    what: T,
    hand: oneshot::Sender<S>,
}

/// Why a call is not served now.
#[derive(Clone, Copy, Debug, Default)]
pub struct NotYet {
    /// When it might be, though nothing ends before; `None`: when something ends.
    pub again: Option<Mono>,
    /// What it lacks.
    pub lack: Lack,
}

/// How waiting ended.
#[derive(Debug)]
pub enum Waited<S> {
    /// It was the call's turn.
    Served(S),
    /// It was not in time.
    Late,
    /// Too many wait already; this one did not.
    Crowded(Crowded),
}

/// A place in the line. Dropping it leaves the line.
struct InLine<'a, T, S> {
    line: &'a Line<T, S>,
    turn: Turn,
}

impl<T, S> Line<T, S> {
    /// Nobody waits.
    #[must_use]
    pub const fn new(host: Host, bounds: Bounds, metrics: QueueMetrics) -> Self {
        let state = Lock::new(State { queue: Queue::new(bounds), rings: Mono::FAR });
        Self { host, metrics, waiting: AtomicUsize::new(0), state }
    }

    /// Whether nobody waits, so that a new call may take what is free at once.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    /// Waits until it is this call's turn. `serve` is called once it is in line, and must lead to [`Line::serve`]: what came
    /// free before is nobody else's to hand over. Cancel safe: dropped, the call leaves the line.
    pub async fn wait(&self, waiter: Waiter, what: T, serve: impl FnOnce()) -> Waited<S> {
        let (priority, until, now) = (waiter.priority, waiter.until, self.host.now());
        let (hand, handed) = oneshot::channel();
        let in_line = match self.join(waiter, Waiting { what, hand }, now) {
            Ok(in_line) => in_line,
            Err(crowded) => return Waited::Crowded(crowded),
        };
        let _counted = self.metrics.waits(priority);
        serve();
        let handed = self.host.timeout(until.since(now), handed).await;
        drop(in_line);
        match handed {
            Ok(Ok(served)) => {
                self.metrics.waited(priority, self.host.now().since(now));
                Waited::Served(served)
            }
            Ok(Err(_)) | Err(_) => Waited::Late,
        }
    }

    /// Hands what `offer` gives to those whose turn it is, until it gives nothing more. Where it gives nothing, it says what is
    /// lacked and may say when it might: the earliest such instant comes back, unless somebody looks again by then anyway.
    pub fn serve(&self, mut offer: impl FnMut(&T, Mono) -> Result<S, NotYet>) -> Option<Mono> {
        while !self.is_empty() {
            let now = self.host.now();
            let mut due: Option<Mono> = None;
            let mut state = self.state.lock();
            let served = state.queue.next(now, |waiting| {
                offer(&waiting.what, now).map_err(|not_yet| {
                    due = [due, not_yet.again].into_iter().flatten().min();
                    not_yet.lack
                })
            });
            let Some(served) = served else {
                let due = due.filter(|due| state.rings <= now || *due < state.rings)?;
                state.rings = due;
                return Some(due);
            };
            // Whoever is gone drops what was handed to it, which comes here again.
            drop(state);
            drop(served.what.hand.send(served.with));
        }
        None
    }

    fn join(&self, waiter: Waiter, waiting: Waiting<T, S>, now: Mono) -> Result<InLine<'_, T, S>, Crowded> {
        let turn = self.state.lock().queue.join(waiter, waiting, now)?;
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Ok(InLine { line: self, turn })
    }
}

impl<T, S> Drop for InLine<'_, T, S> {
    fn drop(&mut self) {
        self.line.state.lock().queue.leave(self.turn);
        self.line.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
