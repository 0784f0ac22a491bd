//! Whether a model bills the input tokens that its calls were thought to have.
//!
//! Decided from the sums of one span after another: a mean over tokens, in which a call counts by its size, so that a template's
//! few tokens around short calls are no alarm. A mean says nothing before [`ENOUGH`] calls.

use std::time::Duration;

use base::{Mono, Tokens};

/// How far the mean may be from what is billed, in thousandths: as far as an estimate may be off.
pub const ALARM_PER_MILLE: u64 = 150;

/// Calls before a mean says anything.
pub const ENOUGH: u32 = 20;

/// How long sums are kept, and how long an alarm that was told is not told again.
pub const SPAN: Duration = Duration::from_secs(3_600);

/// One model's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deviation {
    begun: Option<Mono>,
    calls: u32,
    likely: Tokens,
    billed: Tokens,
    told: Option<Mono>,
}

/// How a model stands after a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Tokens thought of per thousand billed, over the span; `None`: too few calls.
    pub per_mille: Option<u64>,
    /// Whether that is too far from a thousand.
    pub deviates: bool,
    /// Whether to tell an operator now.
    pub tell: bool,
}

impl Deviation {
    /// A call that was thought to have `likely` input tokens was billed `billed`.
    pub fn billed(&mut self, likely: Tokens, billed: Tokens, now: Mono) -> Standing {
        if self.begun.is_none_or(|begun| now.since(begun) >= SPAN) {
            *self = Self { begun: Some(now), told: self.told, ..Self::default() };
        }
        self.calls = self.calls.saturating_add(1);
        self.likely = self.likely.saturating_add(likely);
        self.billed = self.billed.saturating_add(billed);
        let per_mille = (u128::from(self.likely.0) * 1_000).checked_div(self.billed.0.into());
        let Some(per_mille) = per_mille.filter(|_mean| self.calls >= ENOUGH) else {
            return Standing::default();
        };
        let per_mille = u64::try_from(per_mille).unwrap_or(u64::MAX);
        let deviates = per_mille.abs_diff(1_000) > ALARM_PER_MILLE;
        let tell = deviates && self.told.is_none_or(|told| now.since(told) >= SPAN);
        if tell {
            self.told = Some(now);
        }
        Standing { per_mille: Some(per_mille), deviates, tell }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_needs_enough_calls_and_is_told_once_in_a_span() {
        let (mut model, mut now) = (Deviation::default(), Mono::ZERO);
        let mut told = Vec::new();
        for call in 1..=500_u32 {
            now = now + Duration::from_secs(20);
            let standing = model.billed(Tokens(80), Tokens(100), now);
            if standing.tell {
                told.push(call);
            }
        }
        assert_eq!(told, [20, 200, 380], "at first with the twentieth call, then each hour");
    }

    #[test]
    fn means_within_what_estimates_are_held_to_are_no_alarm() {
        for (likely, deviates) in [(850, false), (849, true), (1_150, false), (1_151, true)] {
            let mut model = Deviation::default();
            let mut last = Standing::default();
            for _call in 0..ENOUGH {
                last = model.billed(Tokens(likely), Tokens(1_000), Mono::ZERO);
            }
            assert_eq!((last.per_mille, last.deviates), (Some(likely), deviates));
        }
    }

    #[test]
    fn a_long_call_outweighs_short_ones_and_old_calls_are_forgotten() {
        let mut model = Deviation::default();
        for _call in 0..ENOUGH {
            model.billed(Tokens(1), Tokens(9), Mono::ZERO);
        }
        let standing = model.billed(Tokens(10_000), Tokens(10_000), Mono::ZERO);
        assert!(!standing.deviates, "{standing:?}");
        let later = model.billed(Tokens(1), Tokens(9), Mono::ZERO + SPAN);
        assert_eq!(later, Standing::default(), "a new span says nothing yet");
        let nothing = Deviation::default().billed(Tokens(5), Tokens(0), Mono::ZERO);
        assert_eq!(nothing, Standing::default());
    }
}
