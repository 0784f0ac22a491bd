//! What a call in progress has come to, against what its strict budgets hold for it.
//!
//! A hold is enough for all that was asked for. A model that ignores its cap may go beyond it; then the call is ended, as no
//! budget holds anything for more. Within its bounds no call is ever found to be beyond its hold.

use base::{Amount, BudgetId, PriceVersion, Unit, Usage};

/// What strict budgets hold for one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spending {
    price: Option<PriceVersion>,
    held: Vec<(BudgetId, Unit, Amount)>,
}

impl Spending {
    /// A call at this price, and what is held for it.
    #[must_use]
    pub const fn new(price: Option<PriceVersion>, held: Vec<(BudgetId, Unit, Amount)>) -> Self {
        Self { price, held }
    }

    /// The first budget that holds less than a call comes to that used this.
    #[must_use]
    pub fn passed(&self, usage: &Usage) -> Option<BudgetId> {
        let passed = self.held.iter().find(|(_budget, unit, held)| self.amount(*unit, usage) > *held);
        passed.map(|(budget, _unit, _held)| *budget)
    }

    fn amount(&self, unit: Unit, usage: &Usage) -> Amount {
        match unit {
            Unit::Requests => Amount(1),
            Unit::Tokens => Amount(usage.input.saturating_add(usage.output).0),
            Unit::InputTokens => Amount(usage.input.0),
            Unit::OutputTokens => Amount(usage.output.0),
            Unit::NanoUsd => Amount(self.price.as_ref().map_or(0, |price| price.cost(usage).0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use base::{NanoUsd, Rates, Tier, Tokens};
    use proptest::prelude::*;

    use super::*;

    const UNITS: [Unit; 5] =
        [Unit::Requests, Unit::Tokens, Unit::InputTokens, Unit::OutputTokens, Unit::NanoUsd];

    #[test]
    fn the_budget_that_holds_too_little_is_named() {
        let price = PriceVersion {
            rates: Rates { input: NanoUsd(1_000_000), output: NanoUsd(2_000_000), ..Rates::default() },
            ..PriceVersion::default()
        };
        let held =
            vec![(BudgetId(1), Unit::OutputTokens, Amount(60)), (BudgetId(2), Unit::NanoUsd, Amount(110))];
        let spending = Spending::new(Some(price), held);
        let passed = |output| spending.passed(&Usage::of_text(Tokens(10), Tokens(output)));
        assert_eq!([passed(50), passed(51), passed(61)], [None, Some(BudgetId(2)), Some(BudgetId(1))]);
        assert_eq!(Spending::default().passed(&Usage::of_text(Tokens(10), Tokens(10))), None);
    }

    proptest! {
        /// What was held for a call's bounds is enough for all that it uses within them.
        #[test]
        fn within_its_bounds_no_call_is_beyond_its_hold(
            rates in (0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40), above in 0u64..2_000,
            most in (0u64..2_000, 0u64..2_000), used in (0u64..2_000, 0u64..2_000),
        ) {
            let of = |more| Rates { input: NanoUsd(rates.0 + more), output: NanoUsd(rates.1), ..Rates::default() };
            let tiers = vec![Tier { above: Tokens(above), rates: of(rates.2) }];
            let price = PriceVersion { rates: of(0), tiers, ..PriceVersion::default() };
            let most = Usage::of_text(Tokens(most.0), Tokens(most.1));
            let used = Usage::of_text(Tokens(used.0).min(most.input), Tokens(used.1).min(most.output));
            let bound = price.upper_bound(&most);
            let amounts = Spending::new(Some(price.clone()), Vec::new());
            let held = UNITS.map(|unit| {
                let held = if unit == Unit::NanoUsd { Amount(bound.0) } else { amounts.amount(unit, &most) };
                (BudgetId(0), unit, held)
            });
            prop_assert_eq!(Spending::new(Some(price), held.into()).passed(&used), None);
        }
    }
}
