//! How often central asked for credit back, and what it got.

use std::collections::BTreeMap;

use base::{Amount, BudgetId};

use super::Wallet;

/// Of one budget, in its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recalls {
    /// Times that central began to ask.
    pub times: u64,
    /// What was given back because it asked.
    pub credit: Amount,
}

impl Recalls {
    pub(super) const fn begun(&mut self) {
        self.times = self.times.saturating_add(1);
    }

    pub(super) fn gave(&mut self, credit: Amount) {
        self.credit = self.credit.saturating_add(credit);
    }

    /// Notes them beside those of a budget's other accounts.
    pub(super) fn note(self, account: BudgetId, sums: &mut BTreeMap<BudgetId, Self>) {
        if self != Self::default() {
            let sum = sums.entry(account.budget()).or_default();
            sum.times = sum.times.saturating_add(self.times);
            sum.gave(self.credit);
        }
    }
}

impl Wallet {
    /// Recalls since the last look, by budget.
    pub fn take_recalls(&mut self) -> BTreeMap<BudgetId, Recalls> {
        let mut sums = self.users.take_recalls();
        for (account, line) in &mut self.lines {
            std::mem::take(&mut line.recalls).note(*account, &mut sums);
        }
        sums
    }
}
