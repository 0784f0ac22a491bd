//! Limits of one level (the node, a tenant, an application, a key, a model): calls and tokens in spans of time, calls in
//! progress, streams in progress.
//!
//! Decided here: whether a call may enter now and, if not, when the same ask would pass. Each rate is a virtual schedule
//! ([`Pace`]). Tokens are taken by the most that a call can be and settled when it is known what it was. Never decided
//! here: anything that spans edges; these limits are each edge's own.

use std::time::Duration;

use base::{Mono, Pace};
use wire::catalog::Limits;

/// What a rate counts, and in which span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Per {
    /// Calls in a second.
    RequestsPerS,
    /// Calls in a minute.
    RequestsPerMin,
    /// Tokens in a minute.
    TokensPerMin,
    /// Tokens in 24 hours.
    TokensPerDay,
}

impl Per {
    /// The rate's name in configuration, metrics and records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RequestsPerS => "requests_per_s",
            Self::RequestsPerMin => "requests_per_min",
            Self::TokensPerMin => "tokens_per_min",
            Self::TokensPerDay => "tokens_per_day",
        }
    }

    /// Whether it counts tokens.
    #[must_use]
    pub const fn is_of_tokens(self) -> bool {
        matches!(self, Self::TokensPerMin | Self::TokensPerDay)
    }

    const fn span(self) -> Duration {
        Duration::from_secs(match self {
            Self::RequestsPerS => 1,
            Self::RequestsPerMin | Self::TokensPerMin => 60,
            Self::TokensPerDay => 86_400,
        })
    }

    /// Those that limit something.
    fn of(limits: &Limits) -> impl Iterator<Item = (Self, u64)> {
        let requests = [
            (Self::RequestsPerS, limits.requests_per_s.map(u64::from)),
            (Self::RequestsPerMin, limits.requests_per_min.map(u64::from)),
        ];
        let tokens =
            [(Self::TokensPerMin, limits.tokens_per_min), (Self::TokensPerDay, limits.tokens_per_day)];
        requests.into_iter().chain(tokens).filter_map(|(per, limit)| Some((per, limit?)))
    }
}

/// What a call asks of a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Whether it enters; false: it did before, and more is known of it now.
    pub enters: bool,
    /// Whether it is a stream.
    pub stream: bool,
    /// The most tokens that it can be, as far as that is known.
    pub tokens: u64,
}

/// Why a call may not enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too much in too short a time; the same ask passes at the instant told. [`Mono::FAR`]: never.
    Rate(Per, Mono),
    /// As many calls are in progress as may be; one must end first.
    Concurrency,
    /// As many streams are open as may be; one must end first.
    Streams,
}

impl Refused {
    /// When the ask passes as far as rates go; `None` when something in progress must end.
    #[must_use]
    pub const fn until(self) -> Option<Mono> {
        match self {
            Self::Rate(_per, when) => Some(when),
            Self::Concurrency | Self::Streams => None,
        }
    }

    /// The one of two refusals that a caller must know of: the one that lasts longer. A rate outlasts what is in progress,
    /// which may end at any moment.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        if other.until() > self.until() { other } else { self }
    }

    /// The other one of two: that which is over first.
    #[must_use]
    pub fn better(self, other: Self) -> Self {
        if other.until() < self.until() { other } else { self }
    }
}

/// What a call took at a gate. Hand it back with [`Gate::leave`], or with [`Gate::undo`] when the call was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered {
    ask: Ask,
    /// When what it took of each rate comes free.
    free: [Mono; 4],
}

/// How much of a rate is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What may pass in one span.
    pub limit: u64,
    /// What passes at once.
    pub left: u64,
    /// How long until nothing is used any more, if nothing is added.
    pub reset: Duration,
}

/// The limits of one level and what is in progress under them.
#[derive(Clone, Debug)]
pub struct Gate {
    limits: Limits,
    /// Those that limit something; most gates have none.
    rates: Box<[(Per, Pace)]>,
    calls: u32,
    streams: u32,
}

impl Gate {
    /// A gate that nothing has passed yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let rates = Per::of(&limits).map(|(per, limit)| (per, Pace::new(limit, per.span()))).collect();
        Self { limits, rates, calls: 0, streams: 0 }
    }

    /// New limits for what is already in progress: lowered ones refuse newcomers and end nothing.
    pub fn set_limits(&mut self, limits: Limits, now: Mono) {
        if self.limits == limits {
            return;
        }
        let rate = |(per, limit)| {
            let before = self.rates.iter().find(|(other, _rate)| *other == per);
            let fresh = || Pace::new(limit, per.span());
            (per, before.map_or_else(fresh, |(_per, rate)| rate.changed(limit, now)))
        };
        self.rates = Per::of(&limits).map(rate).collect();
        self.limits = limits;
    }

    /// Whether a call may enter now; changes nothing.
    ///
    /// # Errors
    /// [`Refused`], the worst that stands against it.
    pub fn check(&self, now: Mono, ask: &Ask) -> Result<(), Refused> {
        let full = |most: Option<u32>, there| most.is_some_and(|most| there >= most);
        let calls = ask.enters && full(self.limits.concurrency, self.calls);
        let streams = ask.stream && full(self.limits.streams, self.streams);
        let late = self.rates.iter().filter(|(per, _rate)| per.is_of_tokens() || ask.enters).filter_map(
            |(per, rate)| {
                let when = rate.passes_at(ask.amount(*per), now);
                (when > now).then_some(Refused::Rate(*per, when))
            },
        );
        let in_progress = [calls.then_some(Refused::Concurrency), streams.then_some(Refused::Streams)]
            .into_iter()
            .flatten();
        in_progress.chain(late).reduce(Refused::worse).map_or(Ok(()), Err)
    }

    /// Lets a call in that [`Gate::check`] found nothing against.
    pub fn enter(&mut self, now: Mono, ask: Ask) -> Entered {
        let mut entered = Entered { ask, free: [Mono::ZERO; 4] };
        for (per, rate) in &mut self.rates {
            if let Some(free) = entered.free.get_mut(*per as usize) {
                *free = rate.take(ask.amount(*per), now);
            }
        }
        self.calls += u32::from(ask.enters);
        self.streams += u32::from(ask.stream);
        entered
    }

    /// A call that entered has ended and was one of so many tokens.
    pub fn leave(&mut self, entered: &Entered, tokens: u64) {
        self.settle(entered, u64::from(entered.ask.enters), tokens);
    }

    /// A call that entered is not made: it took nothing.
    pub fn undo(&mut self, entered: &Entered) {
        self.settle(entered, 0, 0);
    }

    fn settle(&mut self, entered: &Entered, calls: u64, tokens: u64) {
        let ask = &entered.ask;
        for (per, rate) in &mut self.rates {
            let actual = if per.is_of_tokens() { tokens } else { calls };
            let free = entered.free.get(*per as usize).copied().unwrap_or(Mono::ZERO);
            rate.settle(ask.amount(*per), actual, free);
        }
        self.calls = self.calls.saturating_sub(ask.enters.into());
        self.streams = self.streams.saturating_sub(ask.stream.into());
    }

    /// Calls and streams in progress.
    #[must_use]
    pub const fn in_progress(&self) -> (u32, u32) {
        (self.calls, self.streams)
    }

    /// How its rates stand.
    pub fn standings(&self, now: Mono) -> impl Iterator<Item = (Per, Standing)> {
        self.rates.iter().map(move |(per, rate)| {
            let reset = rate.free_at().since(now);
            (*per, Standing { limit: rate.limit(), left: rate.left(now), reset })
        })
    }
}

impl Ask {
    const fn amount(&self, per: Per) -> u64 {
        if per.is_of_tokens() { self.tokens } else { self.enters as u64 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const CALL: Ask = Ask { enters: true, stream: false, tokens: 0 };
    const STREAM: Ask = Ask { stream: true, ..CALL };

    #[test]
    fn a_second_of_burst_passes_and_the_next_call_is_told_when() {
        let mut gate = Gate::new(Limits { requests_per_s: Some(10), ..Limits::default() });
        let start = Mono::ZERO + SECOND;
        for _call in 0..10 {
            enter(&mut gate, start, CALL).unwrap();
        }
        let when = start + SECOND / 10;
        assert_eq!(gate.check(start, &CALL), Err(Refused::Rate(Per::RequestsPerS, when)));
        assert_eq!(gate.check(when, &CALL), Ok(()));
    }

    #[test]
    fn a_rate_of_none_admits_never() {
        for limits in [
            Limits { requests_per_s: Some(0), ..Limits::default() },
            Limits { requests_per_min: Some(0), ..Limits::default() },
            Limits { tokens_per_min: Some(0), ..Limits::default() },
            Limits { tokens_per_day: Some(0), ..Limits::default() },
        ] {
            let refused = Gate::new(limits).check(Mono::ZERO + SECOND, &CALL).unwrap_err();
            assert_eq!(refused.until(), Some(Mono::FAR));
        }
    }

    #[test]
    fn streams_count_as_calls_too_and_places_come_back() {
        let mut gate = Gate::new(Limits { concurrency: Some(2), streams: Some(1), ..Limits::default() });
        let stream = enter(&mut gate, Mono::ZERO, STREAM).unwrap();
        assert_eq!(gate.check(Mono::ZERO, &STREAM), Err(Refused::Streams));
        enter(&mut gate, Mono::ZERO, CALL).unwrap();
        assert_eq!(gate.check(Mono::ZERO, &CALL), Err(Refused::Concurrency));
        let more = Ask { enters: false, ..STREAM };
        assert_eq!(gate.check(Mono::ZERO, &more), Err(Refused::Streams));
        gate.leave(&stream, 0);
        enter(&mut gate, Mono::ZERO, more).unwrap();
        assert_eq!(gate.in_progress(), (1, 1));
    }

    #[test]
    fn the_refusal_told_is_the_one_that_lasts_longest() {
        let limits = Limits {
            requests_per_s: Some(1),
            requests_per_min: Some(2),
            tokens_per_min: Some(600),
            concurrency: Some(2),
            ..Limits::default()
        };
        let (mut gate, ask) = (Gate::new(limits), Ask { tokens: 300, ..CALL });
        let first = enter(&mut gate, Mono::ZERO, ask).unwrap();
        let half = Mono::ZERO + SECOND / 2;
        assert_eq!(gate.check(half, &ask), Err(Refused::Rate(Per::RequestsPerS, Mono::ZERO + SECOND)));
        enter(&mut gate, Mono::ZERO + SECOND, ask).unwrap();
        let now = Mono::ZERO + SECOND;
        assert_eq!(gate.check(now, &ask).unwrap_err().until(), Some(Mono::ZERO + SECOND * 30));
        gate.leave(&first, 300);
        let most = Ask { tokens: 600, ..CALL };
        let full = Refused::Rate(Per::TokensPerMin, Mono::ZERO + SECOND * 60);
        assert_eq!(gate.check(now, &most), Err(full));
    }

    #[test]
    fn tokens_are_settled_at_what_a_call_was_and_one_not_made_took_nothing() {
        let limits = Limits { requests_per_min: Some(2), tokens_per_min: Some(100), ..Limits::default() };
        let (mut gate, ask) = (Gate::new(limits), Ask { tokens: 80, ..CALL });
        let left =
            |gate: &Gate| gate.standings(Mono::ZERO).map(|(_per, stands)| stands.left).collect::<Vec<_>>();
        let entered = enter(&mut gate, Mono::ZERO, ask).unwrap();
        assert_eq!(left(&gate), [1, 20]);
        gate.undo(&entered);
        assert_eq!((left(&gate), gate.in_progress()), (vec![2, 100], (0, 0)));
        let entered = enter(&mut gate, Mono::ZERO, ask).unwrap();
        gate.leave(&entered, 30);
        assert_eq!(left(&gate), [1, 70]);
        let entered = enter(&mut gate, Mono::ZERO, Ask { tokens: 10, ..CALL }).unwrap();
        gate.leave(&entered, 90);
        assert_eq!(left(&gate), [0, 0]);
        let when = Mono::ZERO + SECOND * 30;
        assert_eq!(gate.check(Mono::ZERO, &CALL), Err(Refused::Rate(Per::RequestsPerMin, when)));
    }

    #[test]
    fn lowered_limits_refuse_newcomers_and_keep_the_rate_already_used() {
        let mut gate = Gate::new(Limits { requests_per_s: Some(2), ..Limits::default() });
        let both = [CALL, CALL].map(|call| enter(&mut gate, Mono::ZERO, call).unwrap());
        gate.set_limits(Limits { concurrency: Some(1), ..Limits::default() }, Mono::ZERO);
        assert_eq!(gate.check(Mono::ZERO, &CALL), Err(Refused::Concurrency));
        both.iter().for_each(|entered| gate.leave(entered, 0));
        assert_eq!(gate.check(Mono::ZERO, &CALL), Ok(()));

        let mut gate = Gate::new(Limits { requests_per_s: Some(2), ..Limits::default() });
        let _both = [CALL, CALL].map(|call| enter(&mut gate, Mono::ZERO, call).unwrap());
        gate.set_limits(Limits { requests_per_s: Some(1), ..Limits::default() }, Mono::ZERO);
        let when = Mono::ZERO + SECOND;
        assert_eq!(gate.check(Mono::ZERO, &CALL), Err(Refused::Rate(Per::RequestsPerS, when)));
    }

    proptest! {
        #[test]
        fn no_span_admits_more_than_its_rates_and_what_is_said_of_when_is_true(
            per_s in 1u32..50, per_min in 1u64..5_000,
            calls in proptest::collection::vec((0u64..80_000_000, 0u64..200), 1..400),
        ) {
            let limits =
                Limits { requests_per_s: Some(per_s), tokens_per_min: Some(per_min), ..Limits::default() };
            let (mut gate, mut now, mut admitted, mut tokens) = (Gate::new(limits), Mono::ZERO, 0u128, 0u128);
            for (gap, wanted) in calls {
                now = now + Duration::from_nanos(gap);
                let ask = Ask { tokens: wanted.min(per_min), ..CALL };
                match enter(&mut gate, now, ask) {
                    Ok(_entered) => {
                        admitted += 1;
                        tokens += u128::from(ask.tokens);
                    }
                    Err(refused) => prop_assert_eq!(gate.check(refused.until().unwrap(), &ask), Ok(())),
                }
            }
            let passed = u128::from(now.as_nanos());
            prop_assert!(admitted <= u128::from(per_s) * (1 + passed.div_ceil(1_000_000_000)));
            prop_assert!(tokens * 60_000_000_000 <= u128::from(per_min) * (60_000_000_000 + passed));
        }
    }

    fn enter(gate: &mut Gate, now: Mono, ask: Ask) -> Result<Entered, Refused> {
        gate.check(now, &ask)?;
        Ok(gate.enter(now, ask))
    }
}
