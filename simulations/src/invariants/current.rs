//! What central acknowledged is in force at each edge soon after, while the edge and a majority of central nodes are well:
//! an edge whose central node is cut off finds another (design.md §5 "central's leader"; simulation.md §6.4 L3, A1).

use std::time::Duration;

use base::Mono;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::faults::Kind;
use crate::history::WriteOutcome;

/// A link's silence is noticed after at most 4 s (3 s, and a keep-alive), another node is found within 1 s (design.md §1),
/// an election takes at most 2 s (issue 3), and 1 s is left for the change itself.
pub(super) const WITHIN: Duration = Duration::from_secs(8);

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let Some(end) = evidence.history.phase("finish") else { return found };
    for write in &evidence.history.writes {
        let (WriteOutcome::Acked(epoch), Some(acked)) = (&write.outcome, write.ended) else { continue };
        let due = acked + WITHIN;
        if due > end || !most_centrals_are_well(evidence, acked, due) {
            continue;
        }
        for edge in evidence.whole(Kind::Edge).filter(|edge| is_well(evidence, edge, acked, due)) {
            let mut at_edge = evidence.epochs.iter().filter(|in_force| in_force.edge == edge);
            if !at_edge.any(|in_force| in_force.epoch >= *epoch && in_force.at <= due) {
                let what = format!("epoch {epoch}, acknowledged at {acked:?}, is not in force at {edge}");
                found.push(violation("current", Some(due), what));
            }
        }
    }
    found
}

pub(super) fn most_centrals_are_well(evidence: &Evidence, from: Mono, to: Mono) -> bool {
    let centrals: Vec<_> =
        evidence.facts.machines.iter().filter(|(_, kind)| **kind == Kind::Central).collect();
    let well = centrals.iter().filter(|(name, _)| is_well(evidence, name, from, to)).count();
    well * 2 > centrals.len()
}

pub(super) fn is_well(evidence: &Evidence, machine: &str, from: Mono, to: Mono) -> bool {
    let struck =
        evidence.history.struck.iter().filter(|struck| struck.machines.iter().any(|name| name == machine));
    let mut around = struck.filter(|struck| struck.at < to);
    // Whoever was ill a moment ago may still be finding its way.
    !around.any(|struck| struck.healed.is_none_or(|healed| healed + WITHIN > from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{at, evidence, struck};

    #[test]
    fn an_edge_that_never_hears_is_found_unless_it_was_struck() {
        let mut evidence = evidence();
        evidence.history.phases.push((at(20_000), "finish"));
        assert_eq!(judge(&evidence), []);
        evidence.epochs.clear();
        assert_eq!(judge(&evidence).len(), 1);
        evidence.history.struck.push(struck("partition", "edge-eu", 15));
        assert_eq!(judge(&evidence), []);
    }
}
