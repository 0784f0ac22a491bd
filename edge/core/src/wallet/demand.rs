//! How fast one budget is asked for and spent at this edge, and how much credit that warrants.
//!
//! Rates are exponentially weighted, a new measurement counting 3 parts in 10, over ticks of about 250 ms.

use std::time::Duration;

use base::{Amount, Mono};

/// Credit covers holds for this long at most; beyond it, only what is really charged. It bridges a failover of
/// central's leader (3.0 to 3.5 s measured over links of 200 ms).
const BRIDGE_MS: u128 = 4_000;
/// While this part of what is left covers it, credit lasts for the budget's whole horizon.
const RICH: u64 = 20;
/// Calls of the largest size that come at once: at the least, and at the most while what is left is rich.
const BURST: (u128, u128) = (2, 16);
/// Percent of the limit left at which the bridge is whole, and at which it is nothing.
const BRIDGE_FADES: (u128, u128) = (20, 3);

/// Demand for one budget.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// Held per second.
    holds: u64,
    /// Charged per second.
    charges: u64,
    held: u128,
    charged: u128,
    largest: Amount,
    measured: Option<Mono>,
    noticed: Option<Mono>,
}

impl Demand {
    /// A call asks for a hold.
    pub(super) fn asked(&mut self, amount: Amount, now: Mono) {
        self.measured.get_or_insert(now);
        self.held = self.held.saturating_add(u128::from(amount.0));
        self.largest = self.largest.max(amount);
        self.noticed(now);
    }

    /// A call came by, whatever became of it.
    pub(super) const fn noticed(&mut self, now: Mono) {
        self.noticed = Some(now);
    }

    /// A hold was settled.
    pub(super) fn charged(&mut self, amount: Amount) {
        self.charged = self.charged.saturating_add(u128::from(amount.0));
    }

    /// Ends a measurement.
    pub(super) fn tick(&mut self, now: Mono) {
        let Some(since) = self.measured.replace(now) else { return };
        let ns = now.since(since).as_nanos().max(1);
        let rate = |sum: u128| sum.saturating_mul(1_000_000_000) / ns;
        self.holds = blend(self.holds, rate(self.held));
        self.charges = blend(self.charges, rate(self.charged));
        (self.held, self.charged) = (0, 0);
        // Halves in about 11 s, so that one huge call does not mark the budget for ever.
        self.largest = Amount(self.largest.0 - self.largest.0 / 64);
    }

    /// Whether no call came by for `time`.
    pub(super) fn is_idle(&self, now: Mono, time: Duration) -> bool {
        self.noticed.is_none_or(|last| now.since(last) >= time)
    }

    /// Credit to have beyond what calls hold. `left` is what central could still give.
    pub(super) fn target(&self, latency: Duration, limit: Amount, left: Amount, horizon: Duration) -> Amount {
        let percent = u128::from(left.0).saturating_mul(100) / u128::from(limit.0.max(1));
        let (whole, none) = BRIDGE_FADES;
        let fading = percent.clamp(none, whole) - none;
        let horizon = horizon.as_millis();
        let bridge = (BRIDGE_MS * fading / (whole - none)).min(horizon);
        let affordable = u128::from(left.0 / RICH) * 1_000 / u128::from(self.charges.max(1));
        let span = affordable.min(horizon).max(bridge);
        let ahead = latency.as_millis() + span.min(BRIDGE_MS);
        let beyond = span.saturating_sub(BRIDGE_MS);
        let largest = u128::from(self.largest.0);
        let burst = u128::from(left.0 / RICH).clamp(largest * BURST.0, largest * BURST.1);
        let burst = if percent > none { burst } else { 0 };
        let held = u128::from(self.holds).saturating_mul(ahead) / 1_000;
        let charged = u128::from(self.charges).saturating_mul(beyond) / 1_000;
        narrow(held.saturating_add(charged).saturating_add(burst))
    }

    /// By how much a ceiling runs ahead of use, half a second of demand or so many `calls` of the largest, and by how little
    /// at least.
    pub(super) fn ahead(&self, calls: u64) -> (Amount, Amount) {
        let most = (self.holds / 2).max(self.largest.0.saturating_mul(calls));
        (Amount(most), Amount((most / 2).max(self.largest.0)))
    }
}

/// A first measurement counts whole.
fn blend(old: u64, new: u128) -> u64 {
    if old == 0 {
        return narrow(new).0;
    }
    let mixed =
        u128::from(old).saturating_mul(7).saturating_add(new.saturating_mul(3)).saturating_add(5) / 10;
    narrow(mixed).0
}

fn narrow(amount: u128) -> Amount {
    Amount(u64::try_from(amount).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: Duration = Duration::from_millis(200);
    const HORIZON: Duration = Duration::from_secs(60);

    fn steady() -> Demand {
        let mut demand = Demand::default();
        let mut now = Mono::ZERO;
        for _tick in 0..60 {
            demand.asked(Amount(25), now);
            demand.charged(Amount(25));
            now = now + Duration::from_millis(250);
            demand.tick(now);
        }
        demand
    }

    #[test]
    fn credit_lasts_for_the_horizon_while_the_budget_is_rich() {
        let target = steady().target(LATENCY, Amount(1_000_000), Amount(1_000_000), HORIZON).0;
        assert!((5_900..=6_500).contains(&target), "{target} is about 60 s of 100 a second");
    }

    #[test]
    fn credit_bridges_a_failover_and_shrinks_to_one_round_trip_at_the_end() {
        let demand = steady();
        let bridge = demand.target(LATENCY, Amount(10_000), Amount(5_000), HORIZON).0;
        assert!((600..=900).contains(&bridge), "{bridge} is about 4.2 s of 100 a second and a burst");
        let end = demand.target(LATENCY, Amount(10_000), Amount(200), HORIZON).0;
        assert!((15..=35).contains(&end), "{end} is about 0.3 s of 100 a second");
    }
}
