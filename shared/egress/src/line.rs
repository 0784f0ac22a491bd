//! Calls that wait for a place while every instance of a model is full: in `upstream`'s order, never more than a bound, and
//! gone from the line when their caller is.
//!
//! A place that comes free is handed to the call that is next, not announced: whoever is gone by then drops it, and with
//! that it is handed on. So none is lost between two calls, and none is taken out of turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::{ModelName, Mono};
use seam::Lock;
use tokio::sync::oneshot;
use upstream::{Bounds, Crowded, Queue, Turn, Waiter};
use wire::call::{CallHead, ServeAt};

use crate::instance::Instance;
use crate::pool::{Place, Shared};

/// The line before one model's instances.
#[derive(Debug)]
pub(crate) struct Line {
    /// How many wait: calls look at it before they take a free place.
    waiting: AtomicUsize,
    state: Lock<State>,
}

#[derive(Debug)]
struct State {
    queue: Queue<Waiting>,
    /// When rates are looked at again; past, or [`Mono::FAR`], when nothing is due.
    rings: Mono,
}

/// What a call wants of a model's instances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) model: &'a ModelName,
    pub(crate) at: ServeAt,
    /// The most tokens that it can be.
    pub(crate) tokens: u64,
    /// Instances that failed it.
    pub(crate) tried: &'a [Arc<Instance>],
}

/// A call in the line.
#[derive(Debug)]
struct Waiting {
    model: ModelName,
    at: ServeAt,
    tokens: u64,
    tried: Vec<Arc<Instance>>,
    hand: oneshot::Sender<Place>,
}

/// A place in the line. Dropping it leaves the line.
struct InLine<'a> {
    line: &'a Line,
    turn: Turn,
}

impl<'a> Wanted<'a> {
    pub(crate) const fn by(call: &'a CallHead, tried: &'a [Arc<Instance>]) -> Self {
        Self { model: &call.model, at: call.serve_at, tokens: call.tokens, tried }
    }
}

impl Waiting {
    fn wanted(&self) -> Wanted<'_> {
        Wanted { model: &self.model, at: self.at, tokens: self.tokens, tried: &self.tried }
    }
}

impl Line {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let state = State { queue: Queue::new(bounds), rings: Mono::FAR };
        Self { waiting: AtomicUsize::new(0), state: Lock::new(state) }
    }

    /// Whether nobody waits, so that a new call may take a free place at once.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    fn join(
        &self,
        call: &CallHead,
        waiting: Waiting,
        (now, until): (Mono, Mono),
    ) -> Result<InLine<'_>, Crowded> {
        let (tenant, weight, priority) = (call.tenant.clone(), call.weight, call.priority);
        let waiter = Waiter { tenant, weight, priority, until };
        let turn = self.state.lock().queue.join(waiter, waiting, now)?;
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Ok(InLine { line: self, turn })
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.line.state.lock().queue.leave(self.turn);
        self.line.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    /// A place for `call` as soon as it is its turn, within `until`; refused at once when the line is full.
    pub(crate) async fn wait_for_place(
        self: &Arc<Self>,
        call: &CallHead,
        tried: &[Arc<Instance>],
        until: Mono,
    ) -> Place {
        let Some(line) = self.line(&call.model) else { return Place::None };
        let (hand, handed) = oneshot::channel();
        let (model, at, tokens) = (call.model.clone(), call.serve_at, call.tokens);
        let (waiting, now) = (Waiting { model, at, tokens, tried: tried.to_vec(), hand }, self.host.now());
        let in_line = match line.join(call, waiting, (now, until)) {
            Ok(in_line) => in_line,
            Err(Crowded { after }) => return Place::Crowded { after },
        };
        let _depth = self.options.queue.waits(call.priority);
        // What came free before it joined is nobody else's to hand over.
        self.serve_line(&line);
        let handed = self.host.timeout(until.since(now), handed).await;
        drop(in_line);
        match handed {
            Ok(Ok(place)) => {
                self.options.queue.waited(call.priority, self.host.now().since(now));
                place
            }
            Ok(Err(_)) | Err(_) => Place::Full { until: None },
        }
    }

    /// Hands places that are free to the calls whose turn it is.
    pub(crate) fn serve_line(self: &Arc<Self>, line: &Arc<Line>) {
        while !line.is_empty() {
            let now = self.host.now();
            let mut due: Option<Mono> = None;
            let mut state = line.state.lock();
            let served =
                state.queue.next(now, |waiting| match self.place_in_turn(waiting.wanted(), line, now) {
                    Place::Full { until } => {
                        due = [due, until].into_iter().flatten().min();
                        None
                    }
                    decided => Some(decided),
                });
            let rings = due.filter(|due| served.is_none() && (state.rings <= now || *due < state.rings));
            state.rings = rings.unwrap_or(state.rings);
            // Whoever is gone gives the place back by dropping it, which comes here again.
            drop(state);
            match served {
                Some(served) => drop(served.what.hand.send(served.with)),
                None => return self.ring(line, rings),
            }
        }
    }

    /// Looks at the line again when rates let its first call pass.
    fn ring(self: &Arc<Self>, line: &Arc<Line>, at: Option<Mono>) {
        let Some(at) = at else { return };
        let (host, shared, line) = (self.host.clone(), Arc::downgrade(self), Arc::clone(line));
        drop(self.host.spawn("egress-line", async move {
            host.sleep_until(at).await;
            if let Some(shared) = shared.upgrade() {
                shared.serve_line(&line);
            }
        }));
    }
}
