//! Which entries of the log a store has the receipts of.

use base::Revision;
use serde::{Deserialize, Serialize};

/// Entries after `after`, up to and with `upto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// The entry before the first.
    pub after: Revision,
    /// The last.
    pub upto: Revision,
}

impl Span {
    /// The entries after `after`, up to `upto`.
    #[must_use]
    pub const fn new(after: Revision, upto: Revision) -> Self {
        Self { after, upto }
    }

    /// Whether the entry is one of them.
    #[must_use]
    pub fn holds(&self, revision: Revision) -> bool {
        self.after < revision && revision <= self.upto
    }

    fn is_empty(&self) -> bool {
        self.upto <= self.after
    }

    fn common(&self, other: &Self) -> Option<Self> {
        let common = Self { after: self.after.max(other.after), upto: self.upto.min(other.upto) };
        (!common.is_empty()).then_some(common)
    }

    /// What is left of it before and behind `taken`.
    fn without(&self, taken: &Self) -> impl Iterator<Item = Self> + use<> {
        let before = Self { after: self.after, upto: self.upto.min(taken.after) };
        let behind = Self { after: self.after.max(taken.upto), upto: self.upto };
        [before, behind].into_iter().filter(|part| !part.is_empty())
    }
}

/// All entries up to `head`, less what is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coverage {
    pub(crate) head: Revision,
    /// In order, none touching another.
    pub(crate) missing: Vec<Span>,
}

impl Coverage {
    /// The parts of `span` that are not covered.
    pub(crate) fn lacking(&self, span: &Span) -> Vec<Span> {
        let ahead = Span { after: self.head, upto: Revision(u64::MAX) };
        self.missing.iter().chain([&ahead]).filter_map(|lacked| lacked.common(span)).collect()
    }

    /// With `span` too; entries between the head and a span beyond it are missing from now on.
    pub(crate) fn with(&self, span: &Span) -> Self {
        let mut missing = self.missing.clone();
        if !span.is_empty() {
            missing = self.missing.iter().flat_map(|lacked| lacked.without(span)).collect();
        }
        let skipped = Span { after: self.head, upto: span.after };
        if !skipped.is_empty() {
            match missing.last_mut().filter(|last| last.upto == skipped.after) {
                Some(last) => last.upto = skipped.upto,
                None => missing.push(skipped),
            }
        }
        Self { head: self.head.max(span.upto).max(span.after), missing }
    }

    /// How far everything is there, without a gap.
    pub(crate) fn whole(&self) -> Revision {
        self.missing.first().map_or(self.head, |first| first.after)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn span(after: u64, upto: u64) -> Span {
        Span::new(Revision(after), Revision(upto))
    }

    proptest! {
        #[test]
        fn spans_in_any_order_cover_what_a_set_would_hold(
            spans in proptest::collection::vec((0u64..40, 0u64..12), 1..20)
        ) {
            let (mut coverage, mut set, mut head) = (Coverage::default(), BTreeSet::new(), 0);
            for (after, len) in spans {
                let span = span(after, after + len);
                let lacking: BTreeSet<u64> = coverage
                    .lacking(&span)
                    .iter()
                    .flat_map(|part| part.after.0 + 1..=part.upto.0)
                    .collect();
                let expected: BTreeSet<u64> =
                    (after + 1..=after + len).filter(|one| !set.contains(one)).collect();
                prop_assert_eq!(lacking, expected);
                coverage = coverage.with(&span);
                set.extend(after + 1..=after + len);
                head = head.max(after + len);
                prop_assert_eq!(coverage.head.0, head);
                let missing: Vec<u64> =
                    coverage.missing.iter().flat_map(|part| part.after.0 + 1..=part.upto.0).collect();
                prop_assert_eq!(missing, (1..=head).filter(|one| !set.contains(one)).collect::<Vec<_>>());
                prop_assert!(coverage.missing.windows(2).all(|pair| pair[0].upto < pair[1].after));
            }
        }
    }
}
