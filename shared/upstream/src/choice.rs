//! The choice among instances of one model: a due probe first, else the least outstanding.

use base::Mono;

use crate::Offer;

/// What to do with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Give it to this instance.
    Take(usize),
    /// Every instance that is in serves as many calls, or as much in a span of time, as it may.
    Full {
        /// When rates let the call pass at the first of them; `None`: once a call ends.
        until: Option<Mono>,
    },
    /// Every instance is out; the first comes back at this instant.
    Out {
        /// When.
        until: Mono,
    },
    /// There is none.
    None,
}

/// The policy, in the order of the fields; the least wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// A probe goes first: it is how an instance comes back, and the call is tried elsewhere when it fails.
    no_probe: bool,
    outstanding: u32,
    /// Distance from the instance whose turn it is, so that equals share.
    distance: usize,
}

/// Chooses among `offers`; `turn` is any number that moves on with each call.
#[must_use]
pub fn choose(offers: &[Option<Offer>], turn: usize) -> Choice {
    let count = offers.len();
    let mut best: Option<(Score, usize)> = None;
    let mut other = Choice::None;
    for (index, offer) in offers.iter().enumerate() {
        let (no_probe, outstanding) = match (offer, other) {
            (None, _) => continue,
            (Some(Offer::Probe), _) => (false, 0),
            (Some(Offer::Free { outstanding }), _) => (true, *outstanding),
            (Some(Offer::Full { until }), Choice::Full { until: earliest }) => {
                other = Choice::Full { until: [*until, earliest].into_iter().flatten().min() };
                continue;
            }
            (Some(Offer::Full { until }), Choice::None | Choice::Take(_) | Choice::Out { .. }) => {
                other = Choice::Full { until: *until };
                continue;
            }
            (Some(Offer::Out { until }), Choice::None | Choice::Take(_)) => {
                other = Choice::Out { until: *until };
                continue;
            }
            (Some(Offer::Out { until }), Choice::Out { until: earliest }) => {
                other = Choice::Out { until: earliest.min(*until) };
                continue;
            }
            (Some(Offer::Out { .. }), Choice::Full { .. }) => continue,
        };
        let distance = (index + count).wrapping_sub(turn % count.max(1)) % count.max(1);
        let score = Score { no_probe, outstanding, distance };
        if best.is_none_or(|(least, _index)| score < least) {
            best = Some((score, index));
        }
    }
    best.map_or(other, |(_score, index)| Choice::Take(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(outstanding: u32) -> Option<Offer> {
        Offer::Free { outstanding }.into()
    }

    #[test]
    fn the_least_outstanding_serves_and_equals_take_turns() {
        assert_eq!(choose(&[free(2), free(1), free(3)], 0), Choice::Take(1));
        let turns: Vec<_> = (0..4).map(|turn| choose(&[free(1), free(1), free(1)], turn)).collect();
        assert_eq!(turns, [0, 1, 2, 0].map(Choice::Take));
    }

    #[test]
    fn a_probe_goes_first_and_tried_instances_are_passed_over() {
        assert_eq!(choose(&[free(0), Some(Offer::Probe)], 0), Choice::Take(1));
        assert_eq!(choose(&[free(0), None], 1), Choice::Take(0));
        assert_eq!(choose(&[None, None], 1), Choice::None);
    }

    #[test]
    fn a_refusal_says_why_and_until_when() {
        let out = |ns| Some(Offer::Out { until: Mono::from_nanos(ns) });
        assert_eq!(choose(&[out(9), out(4)], 0), Choice::Out { until: Mono::from_nanos(4) });
        let full = |ns: Option<u64>| Some(Offer::Full { until: ns.map(Mono::from_nanos) });
        assert_eq!(choose(&[out(9), full(None), out(4)], 0), Choice::Full { until: None });
        let first = Choice::Full { until: Some(Mono::from_nanos(5)) };
        assert_eq!(choose(&[full(Some(7)), full(None), full(Some(5))], 0), first);
        assert_eq!(choose(&[full(Some(7)), free(3)], 0), Choice::Take(1));
        assert_eq!(choose(&[], 5), Choice::None);
    }
}
