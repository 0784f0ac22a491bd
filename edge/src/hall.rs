//! Streamed calls that wait for others to end: as many calls or streams as may be are in progress under a limit of their
//! tenant, application, key or model.
//!
//! All that wait at a node are in one line, since a call needs a place at every level at once; whatever ends, those whose
//! turn it is are looked at in order, and the first that passes everywhere gets its places. Calls that are no streams,
//! and those over a rate, are told at once: they do not wait here.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::Mono;
use edge_core::limits::Refused;
use egress::{Bounds, Lack, Line, NotYet, Waited, Waiter};
use seam::Host;
use telemetry::metrics::EdgeMetrics;

use crate::passes::{Allowance, Level, Limited, Passes, Wish};

/// A stream holds its body while it waits, which the room for bodies bounds, too.
const BOUNDS: Bounds = Bounds { all: 1_024, each: 256, ages: Duration::from_secs(10) };

/// The line. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Hall {
    host: Host,
    line: Arc<Line<Vec<Way>, Passed>>,
}

/// Everything that a call asks for when it goes to one of its route's models.
#[derive(Debug)]
pub(crate) struct Way {
    /// Which; `None` when none can be reached.
    pub(crate) model: Option<usize>,
    pub(crate) wishes: Vec<Wish>,
}

/// A call that passed.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) passes: Passes,
    pub(crate) allowance: Allowance,
    /// Models before the one at which it passed: those over their limits.
    pub(crate) over: Vec<usize>,
}

impl Hall {
    pub(crate) fn new(host: &Host, metrics: &EdgeMetrics) -> Self {
        let line = Line::new(host.clone(), BOUNDS, metrics.queue("limit"));
        Self { host: host.clone(), line: Arc::new(line) }
    }

    /// Takes a place at every level: at the model that comes first of those whose limits let the call pass.
    ///
    /// # Errors
    /// [`Limited`]: what stands against it at the model where it passes first.
    pub(crate) fn pass<W: Borrow<Way>>(
        &self,
        ways: impl Iterator<Item = W>,
        now: Mono,
    ) -> Result<Passed, Box<Limited>> {
        let (mut over, mut soonest, mut last) = (Vec::new(), None::<Refused>, None);
        for way in ways {
            let way = way.borrow();
            let limited = match Passes::take(self, &way.wishes, now) {
                Ok((passes, allowance)) => return Ok(Passed { passes, allowance, over }),
                Err(limited) => limited,
            };
            let (Some(model), Some(refused)) = (way.model, limited.model) else { return Err(limited) };
            over.push(model);
            soonest = Some(soonest.map_or(refused, |soonest| soonest.better(refused)));
            last = Some(limited);
        }
        let limited = last.and_then(|last| Limited::of(soonest, last.others, last.allowance));
        limited.map_or_else(
            || Ok(Passed { passes: Passes::none(self), allowance: Allowance::default(), over }),
            Err,
        )
    }

    /// Waits until a call that `limited` passes, as long as `waiter` does.
    ///
    /// # Errors
    /// [`Limited`] when it did not pass in time, or when too many wait already.
    pub(crate) async fn wait(
        &self,
        waiter: Waiter,
        ways: Vec<Way>,
        limited: Box<Limited>,
    ) -> Result<Passed, Box<Limited>> {
        let waiter = Waiter { lack: lack(&ways, self.host.now()), ..waiter };
        match self.line.wait(waiter, ways, || self.serve()).await {
            Waited::Served(passed) => Ok(passed),
            Waited::Late => Err(limited),
            Waited::Crowded(crowded) => Err(Box::new(Limited { crowded: Some(crowded.after), ..*limited })),
        }
    }

    /// A place may be free, or limits have changed: lets those pass whose turn it is.
    pub(crate) fn serve(&self) {
        // Gates found full: all who wait are streams, and whoever else needs one of these need not be looked at.
        let mut full = BTreeSet::new();
        let again = self.line.serve(|ways, now| {
            let common = ways.first().map(|way| &way.wishes).into_iter().flatten();
            let common = common.filter(|wish| ways.len() == 1 || wish.level != Level::Model);
            if common.clone().any(|wish| full.contains(&Arc::as_ptr(&wish.gate))) {
                return Err(NotYet { again: None, lack: lack(ways, now) });
            }
            self.pass(ways.iter(), now).map_err(|limited| {
                if limited.is_over_by_then() {
                    let gate = common.clone().find(|wish| wish.level == limited.level);
                    full.extend(gate.map(|wish| Arc::as_ptr(&wish.gate)));
                }
                let again = limited.refused.until().filter(|until| *until < Mono::FAR);
                NotYet { again, lack: lack(ways, now) }
            })
        });
        let Some(again) = again else { return };
        let (host, line) = (self.host.clone(), Arc::downgrade(&self.line));
        drop(self.host.spawn("hall", async move {
            host.sleep_until(again).await;
            if let Some(line) = line.upgrade() {
                Self { host, line }.serve();
            }
        }));
    }
}

/// What a call lacks that other tenants want, too: the place at its first model. All other limits are its tenant's own.
fn lack(ways: &[Way], now: Mono) -> Lack {
    let mut wishes = ways.first().map(|way| &way.wishes).into_iter().flatten();
    let full = |wish: &&Wish| wish.level == Level::Model && wish.gate.lock().check(now, &wish.ask).is_err();
    wishes.find(full).map_or_else(Lack::default, |wish| Lack(Arc::as_ptr(&wish.gate).addr() as u64))
}

#[cfg(test)]
mod tests {
    use base::Priority;
    use edge_core::limits::{Ask, Gate};
    use seam::{Lock, Task};
    use wire::catalog::Limits;

    use super::*;
    use crate::snapshot::SharedGate;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn tenants_take_turns_and_a_place_that_was_handed_to_one_who_left_goes_on() {
        let room = Room::new(Limits { streams: Some(1), ..Limits::default() });
        let held = room.enters("holds", Priority::Interactive).await.unwrap();
        let batch = room.waits("many", Priority::Batch).await;
        let first = room.waits("many", Priority::Interactive).await.bound();
        let second = room.waits("many", Priority::Interactive).await;
        let other = room.waits("few", Priority::Interactive).await;
        drop(held);
        // It was the turn of `few`; whoever leaves between two places loses none.
        let passed = other.await.unwrap().unwrap();
        drop(passed);
        drop(first);
        drop(second.await.unwrap().unwrap());
        drop(batch.await.unwrap().unwrap());
        assert_eq!(room.gate.lock().in_progress(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_hears_of_the_limit_and_one_too_many_at_once_when_to_come() {
        let room = Room::new(Limits { streams: Some(1), ..Limits::default() });
        let _held = room.enters("acme", Priority::Interactive).await.unwrap();
        let begun = room.hall.host.now();
        let mut waiting = Vec::new();
        for _call in 0..BOUNDS.each {
            waiting.push(room.spawn("acme", Priority::Interactive));
        }
        room.hall.host.sleep(Duration::from_millis(1)).await;
        let crowded = room.enters("acme", Priority::Interactive).await.unwrap_err();
        assert_eq!(crowded.crowded, Some(Duration::from_secs(1)));
        assert!(room.hall.host.now().since(begun) < Duration::from_millis(5));
        for waiting in waiting {
            let late = waiting.await.unwrap().unwrap_err();
            assert_eq!((late.level, late.refused, late.crowded), (Level::Key, Refused::Streams, None));
        }
        let waited = room.hall.host.now().since(begun);
        assert!((PATIENCE..PATIENCE + Duration::from_millis(10)).contains(&waited), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_under_a_rate_is_taken_when_the_rate_allows_though_nothing_ends_then() {
        let room = Room::new(Limits { concurrency: Some(1), requests_per_min: Some(1), ..Limits::default() });
        let mut held = room.enters("acme", Priority::Interactive).await.unwrap();
        let begun = room.hall.host.now();
        room.hall.host.sleep(Duration::from_secs(50)).await;
        let waiting = room.waits("acme", Priority::Interactive).await;
        held.passes.settle(1);
        drop(held);
        drop(waiting.await.unwrap().unwrap());
        let waited = room.hall.host.now().since(begun);
        let minute = Duration::from_secs(60);
        assert!((minute..minute + Duration::from_millis(10)).contains(&waited), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_needs_another_gate_is_not_held_up_by_those_before_a_full_one() {
        let one = Room::new(Limits { streams: Some(1), ..Limits::default() });
        let limits = Limits { streams: Some(1), ..Limits::default() };
        let other = Room { hall: one.hall.clone(), gate: Arc::new(Lock::new(Gate::new(limits))) };
        let full = one.enters("acme", Priority::Interactive).await.unwrap();
        let held = other.enters("acme", Priority::Interactive).await.unwrap();
        let first = one.waits("acme", Priority::Interactive).await;
        let second = one.waits("acme", Priority::Interactive).await;
        let behind = other.waits("acme", Priority::Interactive).await;
        drop(held);
        drop(behind.await.unwrap().unwrap());
        assert_eq!(one.gate.lock().in_progress(), (1, 1));
        drop(full);
        drop(first.await.unwrap().unwrap());
        drop(second.await.unwrap().unwrap());
    }

    /// One gate and those who wait before it.
    struct Room {
        hall: Hall,
        gate: SharedGate,
    }

    impl Room {
        fn new(limits: Limits) -> Self {
            let hall = Hall::new(&Host::real(), &EdgeMetrics::new());
            Self { hall, gate: Arc::new(Lock::new(Gate::new(limits))) }
        }

        fn enters(
            &self,
            tenant: &str,
            priority: Priority,
        ) -> impl Future<Output = Result<Passed, Box<Limited>>> + use<> {
            let ask = Ask { enters: true, stream: true, tokens: 1 };
            let wish = Wish { level: Level::Key, gate: Arc::clone(&self.gate), ask };
            let ways = vec![Way { model: None, wishes: vec![wish] }];
            let (hall, now) = (self.hall.clone(), self.hall.host.now());
            let waiter = Waiter {
                tenant: tenant.parse().unwrap(),
                weight: 1,
                priority,
                until: now + PATIENCE,
                lack: Lack::default(),
            };
            async move {
                match hall.pass(ways.iter(), now) {
                    Err(limited) => hall.wait(waiter, ways, limited).await,
                    passed => passed,
                }
            }
        }

        fn spawn(&self, tenant: &str, priority: Priority) -> Task<Result<Passed, Box<Limited>>> {
            self.hall.host.spawn("waits", self.enters(tenant, priority))
        }

        /// A call that waits once this returns.
        async fn waits(&self, tenant: &str, priority: Priority) -> Task<Result<Passed, Box<Limited>>> {
            let waiting = self.spawn(tenant, priority);
            self.hall.host.sleep(Duration::from_millis(1)).await;
            waiting
        }
    }
}
