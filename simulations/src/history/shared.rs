//! What operators do to a few objects of the configuration that they share: each is a register, whose value is a number
//! that the object carries anyway.

use std::collections::BTreeMap;

use base::Mono;
use central::admin::api::{Catalog, EpochRow, Ledger};
use serde_json::Value;

use super::WriteOutcome;

/// What each holds before the first change.
pub const FIRST: u64 = 1;
/// The tenant that they belong to, and the application.
const OWNER: &str = "shared";

/// An object that operators share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shared {
    /// A budget: its limit.
    Budget,
    /// A key: how many calls it may have in progress.
    Key,
    /// A route: the weight of its target.
    Route,
}

/// A change of one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Which.
    pub object: Shared,
    /// What it shall hold; unique in a run.
    pub value: u64,
    /// The epoch that the change is for; absent: whichever is in force.
    pub base: Option<u64>,
    /// The central node asked.
    pub node: String,
    /// When.
    pub started: Mono,
    /// When it was over.
    pub ended: Option<Mono>,
    /// What came of it.
    pub outcome: WriteOutcome,
}

/// A look at them through the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// What was asked for.
    pub of: &'static str,
    /// The central node asked.
    pub node: String,
    /// When.
    pub started: Mono,
    /// When it was answered.
    pub ended: Mono,
    /// The epoch it showed, where it shows one.
    pub epoch: Option<u64>,
    /// What it showed of each, where it shows them.
    pub values: BTreeMap<Shared, u64>,
}

impl Shared {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Budget, Self::Key, Self::Route];

    /// Whose they are, in the form that `apply` reads.
    #[must_use]
    pub fn owner() -> String {
        format!("tenants: [{{name: {OWNER}}}]\napps: [{{tenant: {OWNER}, name: {OWNER}}}]\n")
    }

    /// The object with `value`, in the same form; `model` is one that is served.
    #[must_use]
    pub fn text(self, value: u64, model: &str) -> String {
        match self {
            Self::Budget => format!(
                "budgets: [{{name: {OWNER}, tenant: {OWNER}, unit: requests, window: total, limit: {value}}}]\n"
            ),
            Self::Key => format!(
                "keys: [{{name: {OWNER}, tenant: {OWNER}, app: {OWNER}, \
                 secret: sk-that-nobody-shows-0123456789abcdef0123456789abcdef, limits: {{concurrency: {value}}}}}]\n"
            ),
            Self::Route => format!(
                "routes: [{{name: {OWNER}, strategy: weighted, targets: [{{model: {model}, weight: {value}}}]}}]\n"
            ),
        }
    }

    /// What the configuration shows of each.
    #[must_use]
    pub fn in_catalog(catalog: &Catalog) -> BTreeMap<Self, u64> {
        let of = |object: Self| {
            let (list, number) = match object {
                Self::Budget => ("budgets", "/limit"),
                Self::Key => ("keys", "/limits/concurrency"),
                Self::Route => ("routes", "/targets/0/weight"),
            };
            let objects = catalog.catalog.get(list)?.as_array()?;
            let named = |one: &&Value| one.get("name").and_then(Value::as_str) == Some(OWNER);
            let number = objects.iter().find(named)?.pointer(number)?;
            let text = number.as_str().and_then(|text| text.parse().ok());
            Some((object, number.as_u64().or(text)?))
        };
        Self::ALL.into_iter().filter_map(of).collect()
    }

    /// What the books show of the budget.
    #[must_use]
    pub fn in_ledger(ledger: &Ledger) -> BTreeMap<Self, u64> {
        let row = ledger.rows.iter().find(|row| row.budget.as_str() == OWNER);
        row.map(|row| (Self::Budget, row.limit.0)).into_iter().collect()
    }

    /// What the list of epochs, the newest first, shows of each: the note of the last change of it.
    #[must_use]
    pub fn in_epochs(epochs: &[EpochRow]) -> BTreeMap<Self, u64> {
        let mut values = BTreeMap::new();
        for (object, value) in epochs.iter().filter_map(|row| Self::of_note(&row.note)) {
            values.entry(object).or_insert(value);
        }
        values
    }

    /// The note that a change carries.
    #[must_use]
    pub fn note(self, value: u64) -> String {
        format!("{self:?} {value}")
    }

    fn of_note(note: &str) -> Option<(Self, u64)> {
        let (name, value) = note.split_once(' ')?;
        let object = Self::ALL.into_iter().find(|object| format!("{object:?}") == name)?;
        Some((object, value.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_back_as_it_was_written_and_others_say_nothing() {
        for object in Shared::ALL {
            assert_eq!(Shared::of_note(&object.note(17)), Some((object, 17)));
        }
        assert_eq!(Shared::of_note("revoke key a"), None);
    }
}
