//! Credit that edges are asked for, from what they are told: when it begins, and how much comes.

use std::collections::BTreeMap;

use base::{Amount, BudgetId, Name, WindowId};
use wire::ledger::{GrantRow, WindowState};

/// Accounts of one edge of which it is known that they were asked. Beyond it they are forgotten: one may count again.
const MOST: usize = 4_096;

/// What edges attached here were asked for.
#[derive(Debug, Default)]
pub(super) struct Recalls {
    /// By edge and account: what had come back when the edge was last told.
    asked: BTreeMap<Name, BTreeMap<(BudgetId, WindowId), Amount>>,
}

/// What one row adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recalled {
    pub(super) budget: BudgetId,
    /// It is the first that asks.
    pub(super) begun: bool,
    /// What came since the row before.
    pub(super) credit: Amount,
}

impl Recalls {
    /// An edge is told of its credit.
    pub(super) fn told(&mut self, edge: &Name, rows: &[GrantRow]) -> Vec<Recalled> {
        let asks = |row: &GrantRow| row.keep.is_some() && row.state == WindowState::Open;
        if !self.asked.contains_key(edge) && !rows.iter().any(asks) {
            return Vec::new();
        }
        let asked = self.asked.entry(edge.clone()).or_default();
        let mut recalled = Vec::new();
        for row in rows {
            let account = (row.budget, row.window);
            let before = asked.remove(&account);
            if asks(row) {
                if asked.len() >= MOST {
                    asked.clear();
                }
                asked.insert(account, row.heard_returned);
            }
            let begun = before.is_none() && asks(row);
            let credit = before.map_or(Amount::ZERO, |before| row.heard_returned.saturating_sub(before));
            if begun || credit > Amount::ZERO {
                recalled.push(Recalled { budget: row.budget.budget(), begun, credit });
            }
        }
        if asked.is_empty() {
            self.asked.remove(edge);
        }
        recalled
    }

    /// An edge attaches, here or elsewhere: what it gave back meanwhile is not known.
    pub(super) fn forget(&mut self, edge: &Name) {
        self.asked.remove(edge);
    }
}

#[cfg(test)]
mod tests {
    use base::{Era, Incarnation, Unit, WallMs};
    use central_core::LogMs;
    use central_core::ledger::Ledger;
    use wire::calendar::Zone;
    use wire::catalog::{Budget, Mode, Scope, Window};
    use wire::ledger::{Report, UsageRow};

    use super::*;

    /// The second edge's call waits for what the first has and does not use.
    #[test]
    fn a_recall_counts_once_and_what_comes_back_until_it_is_over() {
        let mut ledger = Ledger::default();
        ledger.set_budget(&budget());
        let edges: [Name; 2] = ["a", "b"].map(|edge| edge.parse().unwrap());
        for edge in &edges {
            ledger.register(edge, 1, None, None);
        }
        let mut recalls = Recalls::default();
        let mut say = |at: usize, row: UsageRow| {
            let report = Report { era: Era(0), incarnation: Incarnation(1), rows: vec![row] };
            let now = (WallMs::from_millis(1_000), LogMs(1_000));
            let answers = ledger.report(now, &[(edges[at].clone(), report)]);
            let told = answers.iter().flat_map(|(edge, grants)| recalls.told(edge, &grants.rows));
            told.map(|recalled| (recalled.begun, recalled.credit.0)).collect::<Vec<_>>()
        };
        assert_eq!(say(0, asks(1, 90, 0)), []);
        assert_eq!(say(0, asks(2, 90, 0)), []);
        assert_eq!(say(1, asks(1, 90, 90)), [(true, 0)]);
        assert_eq!(say(1, asks(2, 90, 90)), [], "it was asked before");
        let gives = |number, returned| UsageRow { returned: Amount(returned), ..asks(number, 0, 0) };
        assert_eq!(say(0, gives(3, 50)), [(false, 50)]);
        assert_eq!(say(0, gives(4, 75)), [(false, 25)], "the call can be made, and no more is asked for");
        assert_eq!(say(0, gives(5, 75)), []);
        assert!(recalls.asked.is_empty(), "{recalls:?}");
    }

    fn asks(number: u64, want: u64, waiting: u64) -> UsageRow {
        UsageRow {
            budget: BudgetId(1),
            window: WindowId(0),
            spent: Amount::ZERO,
            returned: Amount::ZERO,
            want: Amount(want),
            waiting: Amount(waiting),
            number,
            forgotten: false,
        }
    }

    fn budget() -> Budget {
        Budget {
            id: BudgetId(1),
            name: "all".parse().unwrap(),
            scope: Scope::Tenant("acme".parse().unwrap()),
            unit: Unit::Tokens,
            window: Window::Total,
            zone: Zone::default(),
            limit: Amount(100),
            mode: Mode::Strict,
            thresholds: Vec::new(),
            horizon_ms: 60_000,
        }
    }
}
