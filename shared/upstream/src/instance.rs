//! One instance: how many calls it serves, how fast, and whether it is in, out, or on probation.
//!
//! It is out after [`FAILURES`] failures in a row. After a wait, one call is let in as a probe; its success brings the
//! instance back, its failure doubles the wait. The probe's slot is free again when its call ends in whatever way, and
//! also when the probe is older than the wait it ended, so that a probe that hangs holds nothing up. Results of calls
//! that began before the instance went out say nothing about its return.

use std::time::Duration;

use base::Mono;

use crate::terms::Paces;
use crate::{Backoff, Terms};

/// Failures in a row after which an instance is out.
const FAILURES: u32 = 3;

/// How long an instance is out. Short at first: a restarted model server is back within seconds.
const OUT: Backoff = Backoff { first: Duration::from_secs(1), cap: Duration::from_secs(30) };

/// Longest time for which an upstream's `Retry-After` keeps calls away.
const MAX_PACE: Duration = Duration::from_secs(60);

/// What a call's end says about the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answered.
    Good,
    /// Nothing: the caller left, or the call itself was at fault.
    Unknown,
    /// It failed.
    Failed,
    /// It cannot serve for now; one such failure is enough.
    Broken,
    /// It answered that calls should stay away for this long.
    Paced(Duration),
    /// It refused the credential: the fault of the key that the call was made with, if it was made with one.
    Refused,
    /// It refused the model to the key, which it may know otherwise.
    Forbidden,
    /// It says that there is no such model, or none that the key may see.
    Missing,
    /// The key has used what it may, and is to stay away for this long if it said so.
    Limited(Option<Duration>),
}

impl Health {
    /// Whether it says something about the key of a call rather than about the instance.
    #[must_use]
    pub const fn is_of_key(self) -> bool {
        matches!(self, Self::Refused | Self::Forbidden | Self::Missing | Self::Limited(_))
    }
}

/// What an instance can do for a call now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Take it.
    Free {
        /// Calls it serves.
        outstanding: u32,
    },
    /// Take it as a probe.
    Probe,
    /// It serves as many calls, or as much in a span of time, as it may.
    Full {
        /// When its rates let the call pass; `None`: once a call ends.
        until: Option<Mono>,
    },
    /// It is out.
    Out {
        /// Until when.
        until: Mono,
    },
}

/// A call's place at an instance. Hand it back with [`Instance::end`], whatever happened.
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    serial: u64,
    tokens: u64,
    /// When those come free.
    free: Mono,
}

/// One instance's state.
#[derive(Clone, Debug)]
pub struct Instance {
    concurrency: Option<u32>,
    paces: Paces,
    outstanding: u32,
    serial: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    In { failures: u32, from: Mono },
    Out { until: Mono, round: u32 },
    Probing { serial: u64, stale: Mono, round: u32 },
}

impl Instance {
    /// An instance that is in.
    #[must_use]
    pub fn new(terms: &Terms) -> Self {
        let state = State::In { failures: 0, from: Mono::ZERO };
        Self { concurrency: terms.concurrency, paces: Paces::new(terms), outstanding: 0, serial: 0, state }
    }

    /// Calls it serves.
    #[must_use]
    pub const fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Whether it takes calls other than probes.
    #[must_use]
    pub const fn is_in(&self) -> bool {
        matches!(self.state, State::In { .. })
    }

    /// Changes what it takes; the calls it has go on.
    pub fn limit(&mut self, terms: &Terms, now: Mono) {
        self.concurrency = terms.concurrency;
        self.paces = self.paces.under(terms, now);
    }

    /// What it can do at `now` for a call of `tokens` at most.
    #[must_use]
    pub fn offer(&self, tokens: u64, now: Mono) -> Offer {
        if self.concurrency.is_some_and(|most| self.outstanding >= most) {
            return Offer::Full { until: None };
        }
        let late = self.paces.late(tokens, now);
        match self.state {
            State::In { from, .. } if now < from => Offer::Out { until: from },
            State::Out { until, .. } | State::Probing { stale: until, .. } if now < until => {
                Offer::Out { until }
            }
            State::In { .. } | State::Out { .. } | State::Probing { .. } if late.is_some() => {
                Offer::Full { until: late }
            }
            State::In { .. } => Offer::Free { outstanding: self.outstanding },
            State::Out { .. } | State::Probing { .. } => Offer::Probe,
        }
    }

    /// Takes a call of `tokens` at most; `None` when the offer changed since it was made. `draw` is any random number.
    pub fn take(&mut self, tokens: u64, now: Mono, draw: u64) -> Option<Ticket> {
        let offer = self.offer(tokens, now);
        if matches!(offer, Offer::Full { .. } | Offer::Out { .. }) {
            return None;
        }
        let free = self.paces.take(tokens, now);
        self.serial += 1;
        self.outstanding = self.outstanding.saturating_add(1);
        let serial = self.serial;
        if let State::Out { round, .. } | State::Probing { round, .. } = self.state {
            let stale = if base::mutant!(BreakerStuck) { Mono::FAR } else { now + OUT.wait(round, draw) };
            self.state = State::Probing { serial, stale, round };
        }
        Some(Ticket { serial, tokens, free })
    }

    /// A call's answer began: the instance is healthy, though the call goes on.
    pub fn answered(&mut self, ticket: &Ticket, now: Mono) {
        self.judge(ticket, Health::Good, now, 0);
    }

    /// It is known of how many tokens a call was.
    pub fn settle(&mut self, ticket: &mut Ticket, tokens: u64) {
        self.paces.settle(ticket.tokens, tokens, ticket.free);
        ticket.tokens = tokens;
    }

    /// A call ended. `draw` is any random number.
    pub fn end(&mut self, ticket: &Ticket, health: Health, now: Mono, draw: u64) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.judge(ticket, health, now, draw);
    }

    fn judge(&mut self, ticket: &Ticket, health: Health, now: Mono, draw: u64) {
        self.state = match self.state {
            State::In { failures, from } => after_call(failures, from, health, now, draw),
            stuck @ State::Probing { .. } if health == Health::Unknown && base::mutant!(BreakerStuck) => {
                stuck
            }
            State::Probing { serial, round, .. } if serial == ticket.serial => {
                after_probe(round, health, now, draw)
            }
            elsewhere @ (State::Out { .. } | State::Probing { .. }) => elsewhere,
        };
    }
}

fn after_call(failures: u32, from: Mono, health: Health, now: Mono, draw: u64) -> State {
    let failures = match health {
        Health::Good => 0,
        Health::Unknown | Health::Missing | Health::Limited(None) => failures,
        Health::Paced(wait) | Health::Limited(Some(wait)) => {
            return State::In { failures: 0, from: from.max(now + wait.min(MAX_PACE)) };
        }
        Health::Failed | Health::Refused | Health::Forbidden => failures.saturating_add(1),
        Health::Broken => FAILURES,
    };
    if failures < FAILURES {
        State::In { failures, from }
    } else {
        State::Out { until: now + OUT.wait(0, draw), round: 0 }
    }
}

fn after_probe(round: u32, health: Health, now: Mono, draw: u64) -> State {
    match health {
        Health::Good => State::In { failures: 0, from: Mono::ZERO },
        Health::Paced(wait) | Health::Limited(Some(wait)) => {
            State::In { failures: 0, from: now + wait.min(MAX_PACE) }
        }
        Health::Unknown | Health::Missing | Health::Limited(None) => State::Out { until: now, round },
        Health::Failed | Health::Refused | Health::Forbidden | Health::Broken => {
            let round = round.saturating_add(1);
            State::Out { until: now + OUT.wait(round, draw), round }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(ms: u64) -> Mono {
        Mono::from_nanos(ms * 1_000_000)
    }

    fn call(instance: &mut Instance, now: Mono, health: Health) {
        let ticket = instance.take(0, now, 0).unwrap();
        instance.end(&ticket, health, now, 0);
    }

    /// An instance that went out at 0 and is due for a probe at 500 ms (the wait's fixed half).
    fn out() -> Instance {
        let mut instance = Instance::new(&Terms::default());
        for _failure in 0..3 {
            call(&mut instance, at(0), Health::Failed);
        }
        instance
    }

    #[test]
    fn three_failures_in_a_row_put_it_out_and_fewer_do_not() {
        let mut instance = Instance::new(&Terms::default());
        for health in
            [Health::Failed, Health::Failed, Health::Good, Health::Failed, Health::Unknown, Health::Failed]
        {
            call(&mut instance, at(0), health);
        }
        assert_eq!(instance.offer(0, at(0)), Offer::Free { outstanding: 0 });
        call(&mut instance, at(0), Health::Failed);
        assert_eq!(instance.offer(0, at(0)), Offer::Out { until: at(500) });
    }

    #[test]
    fn one_probe_at_a_time_and_its_success_brings_it_back() {
        let mut instance = out();
        assert_eq!(instance.offer(0, at(500)), Offer::Probe);
        let probe = instance.take(0, at(500), 0).unwrap();
        assert_eq!(instance.take(0, at(501), 0), None);
        instance.answered(&probe, at(600));
        assert_eq!(instance.offer(0, at(600)), Offer::Free { outstanding: 1 });
        instance.end(&probe, Health::Good, at(900), 0);
        assert_eq!(instance.offer(0, at(900)), Offer::Free { outstanding: 0 });
    }

    #[test]
    fn a_failed_probe_doubles_the_wait() {
        let mut instance = out();
        call(&mut instance, at(500), Health::Failed);
        assert_eq!(instance.offer(0, at(501)), Offer::Out { until: at(1500) });
        call(&mut instance, at(1500), Health::Failed);
        assert_eq!(instance.offer(0, at(1501)), Offer::Out { until: at(3500) });
    }

    /// Case B099: a probe that was cancelled, got a 400, or hangs holds nothing up.
    #[test]
    fn a_probe_without_a_verdict_frees_its_slot() {
        let mut instance = out();
        call(&mut instance, at(500), Health::Unknown);
        let hung = instance.take(0, at(501), 0).unwrap();
        assert_eq!(instance.offer(0, at(1000)), Offer::Out { until: at(1001) });
        let next = instance.take(0, at(1001), 0).unwrap();
        instance.end(&hung, Health::Failed, at(1002), 0);
        instance.end(&next, Health::Good, at(1003), 0);
        assert!(instance.is_in());
        assert_eq!(instance.outstanding(), 0);
    }

    #[test]
    fn concurrency_is_never_exceeded() {
        let mut instance = Instance::new(&Terms { concurrency: Some(2), ..Terms::default() });
        let first = instance.take(0, at(0), 0).unwrap();
        let _second = instance.take(0, at(0), 0).unwrap();
        assert_eq!(
            (instance.offer(0, at(0)), instance.take(0, at(0), 0)),
            (Offer::Full { until: None }, None)
        );
        instance.end(&first, Health::Good, at(0), 0);
        assert_eq!(instance.offer(0, at(0)), Offer::Free { outstanding: 1 });
    }

    #[test]
    fn a_paced_instance_is_left_alone_and_counts_no_failure() {
        let mut instance = Instance::new(&Terms::default());
        call(&mut instance, at(0), Health::Paced(Duration::from_secs(2)));
        assert_eq!(instance.offer(0, at(1999)), Offer::Out { until: at(2000) });
        assert_eq!(instance.offer(0, at(2000)), Offer::Free { outstanding: 0 });
    }

    #[test]
    fn over_its_rate_it_is_full_until_the_call_passes_and_what_was_not_needed_comes_back() {
        let terms = Terms { requests_per_s: Some(2), tokens_per_min: Some(600), ..Terms::default() };
        let mut instance = Instance::new(&terms);
        let mut first = instance.take(500, at(0), 0).unwrap();
        assert_eq!(instance.offer(200, at(0)), Offer::Full { until: Some(at(10_000)) });
        assert_eq!(instance.take(200, at(0), 0), None);
        instance.settle(&mut first, 50);
        instance.take(200, at(0), 0).unwrap();
        assert_eq!(instance.offer(1, at(0)), Offer::Full { until: Some(at(500)) });
        instance.limit(&Terms { concurrency: Some(3), ..Terms::default() }, at(0));
        assert_eq!(instance.offer(1_000, at(0)), Offer::Free { outstanding: 2 });
    }

    proptest! {
        /// Whatever happened before, a healthy instance serves again after one more longest wait.
        #[test]
        fn it_always_comes_back(steps in proptest::collection::vec((0u64..40_000, 0u8..6), 0..60)) {
            let (mut instance, mut now, mut open) = (Instance::new(&Terms { concurrency: Some(8), ..Terms::default() }), at(0), Vec::new());
            for (wait, step) in steps {
                now = now + Duration::from_millis(wait);
                match (step, open.is_empty()) {
                    (0..=2, _) | (_, true) => open.extend(instance.take(0, now, wait)),
                    (3, false) => instance.end(&open.remove(0), Health::Failed, now, wait),
                    (4, false) => instance.end(&open.remove(0), Health::Unknown, now, wait),
                    (_, false) => instance.end(&open.remove(0), Health::Good, now, wait),
                }
                prop_assert_eq!(usize::try_from(instance.outstanding()).unwrap(), open.len());
            }
            open.drain(..).for_each(|ticket| instance.end(&ticket, Health::Unknown, now, 0));
            now = now + OUT.cap;
            call(&mut instance, now, Health::Good);
            prop_assert_eq!(instance.offer(0, now), Offer::Free { outstanding: 0 });
        }
    }
}
