//! What the wallet must find again after a crash, as records, in the order in which they are to be durable.
//!
//! Of several records of one account the last counts. A record on its way when the host fails may or may not be found:
//! the wallet is right either way.

use std::collections::{BTreeMap, BTreeSet};

use base::{Amount, BudgetId, Incarnation, WindowId};
use serde::{Deserialize, Serialize};

use super::Life;
use super::account::{Account, Level};

/// A journal record. The enum grows at its end only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Central gave this incarnation; earlier ones never spend again.
    Began(Incarnation),
    /// How far an account may go.
    Mark(Mark),
    /// This incarnation never spends again.
    Over(Incarnation),
    /// Central closed this incarnation; nothing of it need be remembered.
    Closed(Incarnation),
}

/// How far an account may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Whose.
    pub incarnation: Incarnation,
    /// Which budget.
    pub budget: BudgetId,
    /// Which window.
    pub window: WindowId,
    /// Credit granted, at the least.
    pub granted: Amount,
    /// Credit given back.
    pub returned: Amount,
    /// Nothing beyond this was spent or held when the next record of the account was made.
    pub ceiling: Amount,
}

impl Mark {
    pub(super) const fn new(
        incarnation: Incarnation,
        (budget, window): (BudgetId, WindowId),
        level: Level,
    ) -> Self {
        let Level { granted, returned, ceiling } = level;
        Self { incarnation, budget, window, granted, returned, ceiling }
    }

    pub(super) const fn level(&self) -> Level {
        Level { granted: self.granted, returned: self.returned, ceiling: self.ceiling }
    }
}

/// What a journal proves.
#[derive(Debug, Default)]
pub struct Recovered {
    lives: BTreeMap<Incarnation, BTreeMap<(BudgetId, WindowId), Level>>,
    over: BTreeSet<Incarnation>,
    last: Option<Incarnation>,
}

impl Recovered {
    /// Reads records in their order.
    pub fn read(records: impl IntoIterator<Item = Record>) -> Self {
        let mut found = Self::default();
        for record in records {
            found.add(record);
        }
        found
    }

    fn add(&mut self, record: Record) {
        match record {
            Record::Began(incarnation) => {
                self.over.extend(self.lives.range(..incarnation).map(|(earlier, _marks)| *earlier));
                self.lives.entry(incarnation).or_default();
                self.last = self.last.max(Some(incarnation));
            }
            Record::Mark(mark) => {
                let life = self.lives.entry(mark.incarnation).or_default();
                life.insert((mark.budget, mark.window), mark.level());
                self.last = self.last.max(Some(mark.incarnation));
            }
            Record::Over(incarnation) => drop(self.over.insert(incarnation)),
            Record::Closed(incarnation) => drop(self.lives.remove(&incarnation)),
        }
    }

    /// The highest incarnation that the journal knows.
    pub(super) const fn last(&self) -> Option<Incarnation> {
        self.last
    }

    pub(super) fn into_lives(self) -> impl Iterator<Item = (Incarnation, Life)> {
        let over = self.over;
        self.lives.into_iter().map(move |(incarnation, marks)| {
            let accounts = marks.into_iter().map(|(key, level)| (key, Account::recovered(level))).collect();
            (incarnation, Life { accounts, over: over.contains(&incarnation) })
        })
    }
}
