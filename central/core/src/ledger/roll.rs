//! What comes free as time passes: the budget of a span that moves with time.
//!
//! A bucket of a fifth of the limit is filled with the other four fifths per span, and never holds more than it can take
//! together with what edges have and did not spend:
//!
//! ```text
//! minted ≤ spent + b,   b + r · span ≤ limit
//! ```
//!
//! For any span of time: spent at its end − spent at its start ≤ minted at its end − (minted at its start − b)
//! ≤ b + r · span ≤ limit, whoever holds the credit meanwhile. Time is the log's clock, which never runs ahead.

use base::Amount;
use serde::{Deserialize, Serialize};

use crate::LogMs;

/// The bucket's share of the limit: one part in so many.
const BUCKET: u64 = 5;

/// What a budget allows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Roll {
    /// Most of any span.
    pub(super) limit: Amount,
    /// How long a span is.
    pub(super) seconds: u32,
}

impl Roll {
    fn bucket(self) -> u64 {
        self.limit.0.div_ceil(BUCKET)
    }

    const fn span_ms(self) -> u128 {
        let seconds = if self.seconds == 0 { 1 } else { self.seconds };
        seconds as u128 * 1_000
    }
}

/// What came free so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Minted {
    pub(super) total: u128,
    /// The log's clock then.
    at: LogMs,
    /// What is left of a unit, in parts of a span.
    rest: u128,
}

impl Minted {
    /// What came free by `clock`, `spent` having been spent by then as far as is known.
    pub(super) fn next(before: Option<Self>, roll: Roll, spent: u128, clock: LogMs) -> Self {
        let most = spent + u128::from(roll.bucket());
        let Some(before) = before else {
            return Self { total: most, at: clock, rest: 0 };
        };
        let passed = u128::from(clock.0.saturating_sub(before.at.0));
        let parts = u128::from(roll.limit.0 - roll.bucket()) * passed + before.rest;
        let (more, rest) = (parts / roll.span_ms(), parts % roll.span_ms());
        let total = before.total.saturating_add(more);
        // A full bucket keeps no fraction; a smaller limit takes back nothing that came free.
        let (total, rest) = if total >= most { (most.max(before.total), 0) } else { (total, rest) };
        Self { total, at: before.at.max(clock), rest }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bucket_is_full_at_first_and_fills_within_a_span() {
        let roll = Roll { limit: Amount(100), seconds: 60 };
        let first = Minted::next(None, roll, 0, LogMs(5));
        assert_eq!(first.total, 20);
        let idle = Minted::next(Some(first), roll, 0, LogMs(1_000_005));
        assert_eq!(idle.total, 20, "nothing more comes free while nothing is spent");
        let used = Minted::next(Some(idle), roll, 20, LogMs(1_007_505));
        assert_eq!(used.total, 30, "80 per minute");
        assert_eq!(Minted::next(Some(used), roll, 20, LogMs(0)), used);
    }

    proptest! {
        /// Spends all that is there, or part of it, at times of any distance: no span has more than the limit.
        #[test]
        fn no_span_spends_more_than_the_limit(
            limit in 1u64..5_000,
            seconds in 1u32..100,
            steps in prop::collection::vec((0u64..20_000, 0u64..3_000), 1..80),
        ) {
            let roll = Roll { limit: Amount(limit), seconds };
            let (mut minted, mut now, mut spent) = (None, 0, 0u128);
            let mut history: Vec<(u64, u128, u128)> = Vec::new();
            for (pause, wish) in steps {
                now += pause;
                let next = Minted::next(minted, roll, spent, LogMs(now));
                minted = Some(next);
                let before = spent;
                spent += u128::from(wish).min(next.total - spent);
                history.push((now, before, spent));
            }
            for (from, before, _) in &history {
                let within = history.iter().filter(|(at, ..)| at >= from && at - from <= u64::from(seconds) * 1_000);
                let most = within.map(|(_, _, after)| after - before).max().unwrap_or(0);
                prop_assert!(most <= u128::from(limit), "{most} of {limit}");
            }
        }
    }
}
