//! A pace, told the time: how much of it is used, and when more passes.
//!
//! A pace lets its limit pass at once when nothing is used; what is used comes free again evenly, the whole limit in one
//! span. That is a virtual schedule (GCRA): no counter is refilled and no window has an edge. Amounts are whole units
//! times nanoseconds in 128 bits, so that nothing is ever rounded away. Never here: what is counted, or whose it is.

use std::time::Duration;

use crate::Mono;

/// A limit of so much in each span, and what is used of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    limit: u64,
    /// Nanoseconds in which the whole limit comes free.
    span: u64,
    /// Used and not come free again at `at`, in units times nanoseconds of the span.
    used: u128,
    at: Mono,
}

impl Pace {
    /// A pace of which nothing is used. `span` is at most 584 years; a limit of 0 lets nothing pass.
    #[must_use]
    pub fn new(limit: u64, span: Duration) -> Self {
        Self { limit, span: u64::try_from(span.as_nanos()).unwrap_or(u64::MAX), used: 0, at: Mono::ZERO }
    }

    /// What may pass in one span.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The same pace with another limit. What is used stays used where the limit grows; where it shrinks, the share that
    /// is used stays used, so that nobody waits longer than for a whole span because of the change.
    #[must_use]
    pub fn changed(self, limit: u64, now: Mono) -> Self {
        let used = self.used_at(now);
        let used = match limit.checked_sub(self.limit) {
            Some(_grown) => used,
            None => (used / u128::from(self.limit.max(1))).saturating_mul(limit.into()),
        };
        Self { limit, used, at: self.at.max(now), ..self }
    }

    /// When `amount` passes, if nothing else does before; `now` when it does at once. More than the whole limit passes when
    /// nothing is used, nothing at all when something is free. [`Mono::FAR`]: never.
    #[must_use]
    pub fn passes_at(&self, amount: u64, now: Mono) -> Mono {
        if self.limit == 0 {
            return Mono::FAR;
        }
        let left = self.limit - amount.clamp(1, self.limit);
        let room = u128::from(left) * u128::from(self.span);
        match self.used_at(now).checked_sub(room).filter(|over| *over > 0) {
            Some(over) => self.after(now, over),
            None => now,
        }
    }

    /// Uses `amount`, whether it passes or not. Says when all that is used comes free, if nothing is added: what
    /// [`Pace::settle`] needs to know of this use.
    pub fn take(&mut self, amount: u64, now: Mono) -> Mono {
        self.used = self.used_at(now).saturating_add(self.scaled(amount));
        self.at = self.at.max(now);
        self.free_at()
    }

    /// A use of `taken`, which [`Pace::take`] said comes free at `free`, was one of `actual` in truth. What came free of it
    /// by itself is not given back a second time, so that no span lets more pass than it would have with the truth
    /// known from the start.
    pub fn settle(&mut self, taken: u64, actual: u64, free: Mono) {
        match taken.checked_sub(actual) {
            Some(less) => {
                let still = u128::from(free.as_nanos().saturating_sub(self.at.as_nanos()));
                let still = still.saturating_mul(self.limit.into());
                self.used = self.used.saturating_sub(self.scaled(less).min(still));
            }
            None => self.used = self.used.saturating_add(self.scaled(actual - taken)),
        }
    }

    /// What passes at once, in whole units.
    #[must_use]
    pub fn left(&self, now: Mono) -> u64 {
        let left = self.scaled(self.limit).saturating_sub(self.used_at(now));
        u64::try_from(left / u128::from(self.span.max(1))).unwrap_or(u64::MAX)
    }

    /// When nothing is used any more, if nothing is added.
    #[must_use]
    pub fn free_at(&self) -> Mono {
        self.after(self.at, self.used)
    }

    fn used_at(&self, now: Mono) -> u128 {
        let passed = u128::from(now.as_nanos().saturating_sub(self.at.as_nanos()));
        self.used.saturating_sub(passed * u128::from(self.limit))
    }

    fn scaled(&self, amount: u64) -> u128 {
        u128::from(amount) * u128::from(self.span)
    }

    /// The instant by which so much of what is used comes free after `from`.
    fn after(&self, from: Mono, used: u128) -> Mono {
        if self.limit == 0 {
            return Mono::FAR;
        }
        let wait = used.div_ceil(u128::from(self.limit));
        Mono::from_nanos(from.as_nanos().saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_limit_passes_at_once_and_the_rest_as_it_comes_free() {
        let mut pace = Pace::new(60, MINUTE);
        assert_eq!(pace.passes_at(60, at(0)), at(0));
        pace.take(60, at(0));
        assert_eq!((pace.passes_at(1, at(0)), pace.passes_at(3, at(0))), (at(1_000), at(3_000)));
        assert_eq!((pace.left(at(2_500)), pace.free_at()), (2, at(60_000)));
    }

    #[test]
    fn more_than_the_whole_passes_when_nothing_is_used_and_is_paid_for_after() {
        let mut pace = Pace::new(60, MINUTE);
        pace.take(1, at(0));
        assert_eq!(pace.passes_at(200, at(0)), at(1_000));
        pace.take(200, at(1_000));
        assert_eq!(pace.passes_at(1, at(1_000)), at(142_000));
    }

    #[test]
    fn a_limit_of_none_lets_nothing_pass_and_one_beyond_all_clocks_is_exact() {
        assert_eq!(Pace::new(0, MINUTE).passes_at(1, at(5)), Mono::FAR);
        let mut huge = Pace::new(u64::MAX, Duration::from_secs(86_400));
        huge.take(u64::MAX, at(0));
        assert_eq!(huge.left(at(0)), 0);
        assert_eq!(huge.left(at(86_400_000)), u64::MAX);
    }

    #[test]
    fn a_higher_limit_helps_at_once_and_a_lower_one_keeps_the_share_used() {
        let mut pace = Pace::new(100, MINUTE);
        pace.take(100, at(0));
        assert_eq!(pace.changed(1_000, at(0)).left(at(0)), 900);
        assert_eq!(pace.changed(10, at(0)).free_at(), at(60_000));
        assert_eq!(pace.changed(0, at(0)).passes_at(1, at(0)), Mono::FAR);
    }

    #[test]
    fn what_was_not_needed_comes_back_and_what_came_free_does_not_come_twice() {
        let mut pace = Pace::new(60, MINUTE);
        let free = pace.take(60, at(0));
        pace.settle(60, 10, free);
        assert_eq!(pace.left(at(0)), 50);

        let mut pace = Pace::new(60, MINUTE);
        let free = pace.take(30, at(0));
        // The first came free by itself before the second was taken.
        pace.take(60, at(30_000));
        pace.settle(30, 0, free);
        assert_eq!(pace.left(at(30_000)), 0);
        // More than was thought: the schedule runs ahead.
        pace.settle(60, 90, pace.free_at());
        assert_eq!(pace.passes_at(1, at(30_000)), at(61_000));
    }

    proptest! {
        /// The reference: what is used now is the most that any run of uses up to now leaves, each run begun with nothing
        /// used.
        #[test]
        fn it_agrees_with_the_sum_over_all_runs(
            limit in 1u64..1_000, uses in proptest::collection::vec((0u64..20_000, 0u64..2_000), 1..60),
        ) {
            let (mut pace, mut now, mut told) = (Pace::new(limit, MINUTE), at(0), Vec::new());
            for (wait, amount) in uses {
                now = now + Duration::from_millis(wait);
                prop_assert_eq!(pace.used_at(now), reference(&told, limit, now));
                let when = pace.passes_at(amount, now);
                let mut then = pace;
                then.take(0, when);
                prop_assert_eq!(then.passes_at(amount, when), when);
                if when > now {
                    let early = Mono::from_nanos(when.as_nanos() - 1);
                    prop_assert!(pace.passes_at(amount, early) > early, "not a moment too late");
                }
                pace.take(amount, now);
                told.push((now, amount));
            }
        }

        /// Settled, it never says that less is used than truth known from the start would say.
        #[test]
        fn settled_it_lets_no_more_pass_than_truth_would(
            limit in 1u64..1_000,
            uses in proptest::collection::vec((0u64..20_000, 0u64..1_000, 0u64..1_000, 0usize..8), 1..60),
        ) {
            let (mut pace, mut now) = (Pace::new(limit, MINUTE), at(0));
            let (mut truth, mut open) = (Vec::new(), Vec::new());
            for (wait, one, other, settled) in uses {
                now = now + Duration::from_millis(wait);
                let (taken, actual) = (one.max(other), one.min(other));
                open.push((taken, actual, pace.take(taken, now)));
                truth.push((now, actual));
                if settled < open.len() {
                    let (taken, actual, free) = open.remove(settled);
                    pace.settle(taken, actual, free);
                }
                prop_assert!(pace.used_at(now) >= reference(&truth, limit, now));
            }
        }
    }

    fn reference(told: &[(Mono, u64)], limit: u64, now: Mono) -> u128 {
        let run = |from: usize| {
            let sum: u128 =
                told[from..].iter().map(|(_at, amount)| u128::from(*amount) * MINUTE.as_nanos()).sum();
            sum.saturating_sub(now.since(told[from].0).as_nanos() * u128::from(limit))
        };
        (0..told.len()).map(run).max().unwrap_or(0)
    }

    fn at(ms: u64) -> Mono {
        Mono::ZERO + Duration::from_millis(ms)
    }
}
