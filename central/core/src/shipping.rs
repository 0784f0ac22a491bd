//! How far receipts were given to a store outside, and which are on their way: every leader goes on where the last one ended,
//! and sends the same receipts again whose fate is unknown.
//!
//! Places are those of the usage store: an entry's index times 2²⁰, plus a receipt's order in the entry.

use serde::{Deserialize, Serialize};

use crate::{Refusal, Reply};

/// Receipts between two places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shipment {
    /// Receipts up to this place were taken, or given up.
    pub after: u64,
    /// Those behind it, up to this place, are on their way; none when the two are equal.
    pub upto: u64,
}

impl Shipment {
    /// Whether receipts are on their way.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.after < self.upto
    }

    /// Goes on to `next`, which begins where this one ends, or behind it where receipts were given up.
    pub(crate) fn go_on(&mut self, next: &Self) -> Reply {
        if next.after < self.upto || next.upto < next.after {
            return Reply::Refused(Refusal::Shipped { after: next.after, now: self.upto });
        }
        *self = *next;
        Reply::Done
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_is_sent_under_two_ends_whoever_leads(
            wishes in proptest::collection::vec((0u64..30, 0u64..10), 1..60)
        ) {
            let (mut now, mut ends) = (Shipment::default(), std::collections::BTreeMap::new());
            for (after, length) in wishes {
                let next = Shipment { after, upto: after + length };
                let before = now;
                if now.go_on(&next) == Reply::Done {
                    prop_assert!(next.after >= before.upto);
                    for place in next.after + 1..=next.upto {
                        prop_assert_eq!(ends.insert(place, next.upto), None);
                    }
                } else {
                    prop_assert_eq!(now, before);
                }
            }
        }
    }
}
