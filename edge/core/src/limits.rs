//! Limits of one level (the node, a tenant, a key): calls per second, calls in progress, streams in progress.
//!
//! Decided here: whether a call may enter now and, if not, when the same ask would pass. The rate is a virtual
//! schedule (GCRA): one instant says how far ahead of the rate admissions are, so that no counter is refilled and no
//! window has an edge. Never decided here: anything that spans edges; these limits are each edge's own.

use std::time::Duration;

use base::Mono;
use wire::catalog::Limits;

/// A rate with a burst of one second's worth, told the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    /// Between two calls at the full rate.
    interval: Duration,
    /// How far the schedule may run ahead: one second less one interval.
    ahead: Duration,
    /// When the calls admitted so far would be spent at the full rate.
    due: Mono,
}

impl Bucket {
    /// `per_s` is at least 1; a rate of none is the caller's to refuse.
    fn new(per_s: u32, due: Mono) -> Self {
        let interval = Duration::from_secs(1) / per_s.max(1);
        Self { interval, ahead: Duration::from_secs(1).saturating_sub(interval), due }
    }

    /// When the next call passes; now or earlier means that it does.
    fn passes_at(&self) -> Mono {
        Mono::from_nanos(self.due.as_nanos().saturating_sub(nanos(self.ahead)))
    }

    fn take(&mut self, now: Mono) {
        self.due = self.due.max(now) + self.interval;
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Why a call may not enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too many calls in too short a time; the same ask passes at the instant told. [`Mono::FAR`]: never.
    Rate(Mono),
    /// As many calls are in progress as may be; one must end first.
    Concurrency,
    /// As many streams are open as may be; one must end first.
    Streams,
}

/// The limits of one level and what is in progress under them.
#[derive(Clone, Debug)]
pub struct Gate {
    limits: Limits,
    rate: Option<Bucket>,
    calls: u32,
    streams: u32,
}

impl Gate {
    /// A gate that nothing has passed yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let rate = limits.requests_per_s.map(|per_s| Bucket::new(per_s, Mono::ZERO));
        Self { limits, rate, calls: 0, streams: 0 }
    }

    /// New limits for what is already in progress: lowered ones refuse newcomers and end nothing.
    pub fn set_limits(&mut self, limits: Limits) {
        if self.limits == limits {
            return;
        }
        let due = self.rate.map_or(Mono::ZERO, |bucket| bucket.due);
        self.rate = limits.requests_per_s.map(|per_s| Bucket::new(per_s, due));
        self.limits = limits;
    }

    /// Whether a call may enter now; changes nothing.
    ///
    /// # Errors
    /// [`Refused`], saying when.
    pub fn check(&self, now: Mono, stream: bool) -> Result<(), Refused> {
        if self.limits.concurrency.is_some_and(|most| self.calls >= most) {
            return Err(Refused::Concurrency);
        }
        if stream && self.limits.streams.is_some_and(|most| self.streams >= most) {
            return Err(Refused::Streams);
        }
        match self.rate {
            Some(_) if self.limits.requests_per_s == Some(0) => Err(Refused::Rate(Mono::FAR)),
            Some(bucket) if bucket.passes_at() > now => Err(Refused::Rate(bucket.passes_at())),
            Some(_) | None => Ok(()),
        }
    }

    /// Lets a call in; it must [`Gate::leave`] when it ends.
    ///
    /// # Errors
    /// [`Refused`], saying when; nothing changed then.
    pub fn enter(&mut self, now: Mono, stream: bool) -> Result<(), Refused> {
        self.check(now, stream)?;
        if let Some(bucket) = &mut self.rate {
            bucket.take(now);
        }
        self.calls += 1;
        self.streams += u32::from(stream);
        Ok(())
    }

    /// A call that entered as none turns out to be a stream.
    ///
    /// # Errors
    /// [`Refused::Streams`] when as many are open as may be; nothing changed then.
    pub fn becomes_stream(&mut self) -> Result<(), Refused> {
        if self.limits.streams.is_some_and(|most| self.streams >= most) {
            return Err(Refused::Streams);
        }
        self.streams += 1;
        Ok(())
    }

    /// A call that entered has ended.
    pub fn leave(&mut self, stream: bool) {
        self.calls = self.calls.saturating_sub(1);
        self.streams = self.streams.saturating_sub(u32::from(stream));
    }

    /// Calls and streams in progress.
    #[must_use]
    pub const fn in_progress(&self) -> (u32, u32) {
        (self.calls, self.streams)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_second_of_burst_passes_and_the_next_call_is_told_when() {
        let mut gate = Gate::new(Limits { requests_per_s: Some(10), ..Limits::default() });
        let start = Mono::ZERO + SECOND;
        for _ in 0..10 {
            gate.enter(start, false).unwrap();
        }
        let when = start + SECOND / 10;
        assert_eq!(gate.enter(start, false), Err(Refused::Rate(when)));
        assert_eq!(gate.enter(when, false), Ok(()));
    }

    #[test]
    fn a_rate_of_none_admits_never() {
        let mut gate = Gate::new(Limits { requests_per_s: Some(0), ..Limits::default() });
        assert_eq!(gate.enter(Mono::ZERO + SECOND, false), Err(Refused::Rate(Mono::FAR)));
    }

    #[test]
    fn streams_count_as_calls_too_and_places_come_back() {
        let mut gate = Gate::new(Limits { concurrency: Some(2), streams: Some(1), ..Limits::default() });
        gate.enter(Mono::ZERO, true).unwrap();
        assert_eq!(gate.enter(Mono::ZERO, true), Err(Refused::Streams));
        gate.enter(Mono::ZERO, false).unwrap();
        assert_eq!(gate.enter(Mono::ZERO, false), Err(Refused::Concurrency));
        assert_eq!(gate.becomes_stream(), Err(Refused::Streams));
        gate.leave(true);
        assert_eq!(gate.becomes_stream(), Ok(()));
        assert_eq!(gate.in_progress(), (1, 1));
    }

    #[test]
    fn lowered_limits_refuse_newcomers_and_keep_the_rate_already_used() {
        let mut gate = Gate::new(Limits { requests_per_s: Some(2), ..Limits::default() });
        gate.enter(Mono::ZERO, false).unwrap();
        gate.enter(Mono::ZERO, false).unwrap();
        gate.set_limits(Limits { requests_per_s: Some(1), concurrency: Some(1), ..Limits::default() });
        assert_eq!(gate.enter(Mono::ZERO, false), Err(Refused::Concurrency));
        gate.leave(false);
        gate.leave(false);
        assert_eq!(gate.enter(Mono::ZERO, false), Err(Refused::Rate(Mono::ZERO + SECOND)));
    }

    proptest! {
        #[test]
        fn no_span_admits_more_than_its_rate_and_one_burst(
            per_s in 1u32..50, gaps in proptest::collection::vec(0u64..80_000_000, 1..400),
        ) {
            let mut gate = Gate::new(Limits { requests_per_s: Some(per_s), ..Limits::default() });
            let (mut now, mut admitted) = (Mono::ZERO, 0u128);
            for gap in gaps {
                now = now + Duration::from_nanos(gap);
                match gate.enter(now, false) {
                    Ok(()) => admitted += 1,
                    Err(Refused::Rate(when)) => prop_assert_eq!(gate.check(when, false), Ok(())),
                    Err(other) => prop_assert!(false, "{other:?}"),
                }
            }
            let interval = u128::from(nanos(SECOND / per_s));
            let allowed = u128::from(per_s) + 1 + u128::from(now.as_nanos()) / interval;
            prop_assert!(admitted <= allowed, "{admitted} of {allowed}");
        }
    }
}
