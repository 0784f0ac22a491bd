//! End users who each have an account of a budget: met at their first call, forgotten when nothing would be lost.
//!
//! A user's line is kept while calls of theirs are in progress or credit is out. Once a user is idle, all unused credit went
//! back and central has heard what was spent, the line is forgotten, and with it all memory of that user; a later call
//! begins where central says that the account stands. Central is told, so that it forgets the holder, too. Nothing that is
//! said of rows before a user was forgotten counts after it.

use std::collections::BTreeMap;

use base::{Amount, BudgetId, Mono};
use wire::catalog::Budget;
use wire::ledger::UsageRow;

use super::Wallet;
use super::line::Line;
use super::recalls::Recalls;

/// Users' accounts with calls in progress, or lately, at most; calls of more are refused.
const USERS: usize = 100_000;

/// What is known of users together.
#[derive(Debug, Default)]
pub(super) struct Users {
    /// Budgets of which each user has an account.
    budgets: BTreeMap<BudgetId, Budget>,
    /// Lines of users.
    kept: usize,
    /// From which number on a new line's rows are numbered: above those of every line that was forgotten.
    first: u64,
    /// What central is to be told of those that were forgotten.
    farewells: Vec<UsageRow>,
    /// What central asked them for.
    recalls: BTreeMap<BudgetId, Recalls>,
}

impl Users {
    pub(super) fn install<'a>(&mut self, budgets: impl Iterator<Item = &'a Budget>) {
        let each = budgets.filter(|budget| budget.is_each_users());
        self.budgets = each.map(|budget| (budget.id, budget.clone())).collect();
    }

    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn farewells(&mut self) -> Vec<UsageRow> {
        std::mem::take(&mut self.farewells)
    }

    pub(super) fn take_recalls(&mut self) -> BTreeMap<BudgetId, Recalls> {
        std::mem::take(&mut self.recalls)
    }
}

impl Wallet {
    #[cfg(test)]
    pub(super) const fn users(&self) -> usize {
        self.users.kept
    }

    /// Makes lines for users who call for the first time.
    pub(super) fn meet(&mut self, asks: &[(BudgetId, Amount)]) {
        for (account, _amount) in asks.iter().filter(|(account, _amount)| account.user() != 0) {
            if self.users.kept >= USERS || self.lines.contains_key(account) {
                continue;
            }
            if let Some(budget) = self.users.budgets.get(&account.budget()) {
                let mut line = Line::numbered(self.users.first);
                line.install(budget);
                self.lines.insert(*account, line);
                self.users.kept += 1;
            }
        }
    }

    /// Forgets users of whom nothing would be lost.
    pub(super) fn forget(&mut self, now: Mono) {
        let users = &mut self.users;
        users.kept = 0;
        self.lines.retain(|account, line| {
            if account.user() == 0 {
                return true;
            }
            if !line.is_forgettable(now) {
                users.kept += 1;
                return true;
            }
            let (farewell, next) = line.farewell(*account);
            users.farewells.extend(farewell);
            line.recalls.note(*account, &mut users.recalls);
            users.first = users.first.max(next);
            false
        });
    }
}
