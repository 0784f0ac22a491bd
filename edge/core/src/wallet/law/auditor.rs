//! Stands at the provider and writes down what calls really cost, per budget and window.

use std::collections::{BTreeMap, BTreeSet};

use base::{Amount, BudgetId, RequestId, WindowId};
use central_core::ledger::LedgerRow;

/// The budget of which each user has an account.
pub(super) const EACH: BudgetId = BudgetId(3);

/// What the provider saw.
#[derive(Debug, Default)]
pub(super) struct Auditor {
    spent: BTreeMap<(BudgetId, WindowId), u64>,
    /// The highest limit that was ever in force.
    limits: BTreeMap<BudgetId, u64>,
    billed: BTreeSet<RequestId>,
}

impl Auditor {
    pub(super) fn limit(&mut self, budget: BudgetId, limit: Amount) {
        let highest = self.limits.entry(budget).or_default();
        *highest = (*highest).max(limit.0);
    }

    /// A call began; it will cost this much, whatever becomes of who sent it.
    pub(super) fn spend(&mut self, budget: BudgetId, window: WindowId, cost: Amount) {
        *self.spent.entry((budget, window)).or_default() += cost.0;
    }

    /// A receipt was applied.
    pub(super) fn bill(&mut self, request: RequestId) -> Result<(), String> {
        if self.billed.insert(request) { Ok(()) } else { Err(format!("{request} was billed twice")) }
    }

    pub(super) fn is_billed(&self, request: RequestId) -> bool {
        self.billed.contains(&request)
    }

    /// No window was ever spent beyond its limit.
    pub(super) fn check(&self) -> Result<(), String> {
        for ((budget, window), spent) in &self.spent {
            let limit = self.limits.get(&budget.budget()).copied().unwrap_or_default();
            if *spent > limit {
                return Err(format!("overspent: {spent} of {limit} in budget {budget}, window {window}"));
            }
        }
        Ok(())
    }

    /// What central charges covers what was really spent, and each row balances.
    pub(super) fn check_rows(&self, rows: &[LedgerRow]) -> Result<(), String> {
        for row in rows {
            let charged = row.granted - row.returned;
            let limit = u128::from(self.limits.get(&row.budget).copied().unwrap_or_default());
            // Accounts of users whose window ended and is settled are forgotten.
            let is_each = row.budget == EACH;
            let spent = self.spent.get(&(row.budget, row.window)).copied().unwrap_or_default();
            if u128::from(spent) > charged {
                return Err(format!("overspent: {spent}, but only {charged} is charged: {row:?}"));
            }
            if charged > limit * u128::from(if is_each { row.accounts } else { 1 }) {
                return Err(format!("granted beyond the limit: {row:?}"));
            }
            if !row.balanced {
                return Err(format!("does not balance: {row:?}"));
            }
        }
        Ok(())
    }
}
