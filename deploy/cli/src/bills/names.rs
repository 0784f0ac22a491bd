//! One name for each of a provider's models: the provider's own.

use std::collections::{BTreeMap, BTreeSet};

use super::bill::{Bill, Subject};

/// How models are called here, by the provider, and on its bill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// The provider's, by ours.
    theirs: BTreeMap<String, String>,
    known: BTreeSet<String>,
    /// Ours or the provider's, by the bill's.
    given: BTreeMap<String, String>,
}

impl Names {
    /// From the provider's name of each of our models, and what the operator says of names on the bill.
    pub(crate) fn new(theirs: BTreeMap<String, String>, given: BTreeMap<String, String>) -> Self {
        let known = theirs.values().cloned().collect();
        Self { theirs, known, given }
    }

    /// The provider's name of a model of ours; of one that is not in the catalog any more, ours.
    pub(crate) fn of_ours(&self, model: &str) -> String {
        self.theirs.get(model).cloned().unwrap_or_else(|| model.to_owned())
    }

    /// The provider's name of what a bill calls a model: it may be ours, too, where the provider has none of that name.
    pub(crate) fn of_bill(&self, model: &str) -> String {
        let model = self.given.get(model).map_or(model, String::as_str);
        if self.known.contains(model) { model.to_owned() } else { self.of_ours(model) }
    }
}

impl Bill {
    /// The bill with the provider's names; lines that come to one subject are summed.
    pub(crate) fn named(self, names: &Names) -> Self {
        let mut lines = BTreeMap::new();
        for (subject, billed) in self.lines {
            let subject = Subject { model: names.of_bill(&subject.model), ..subject };
            let sum: &mut super::bill::Billed = lines.entry(subject).or_default();
            sum.lines.extend(billed.lines);
            for (figure, value) in billed.figures {
                sum.figures.entry(figure).or_default().add(value);
            }
        }
        Self { lines, ..self }
    }
}
