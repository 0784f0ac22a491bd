//! The configuration in force at an edge never goes back (simulation.md §6.4 C1), also not across its restarts and when
//! it moves to another central node, and central's own never does as one node tells it.

use std::collections::BTreeMap;

use super::{Violation, violation};
use crate::evidence::Evidence;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for in_force in &evidence.epochs {
        let before = last.entry(&in_force.edge).or_default();
        if in_force.epoch < *before {
            let what = format!("{} went from epoch {before} back to {}", in_force.edge, in_force.epoch);
            found.push(violation("epochs", Some(in_force.at), what));
        }
        *before = in_force.epoch.max(*before);
    }
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for seen in &evidence.history.observations {
        let before = last.entry(&seen.node).or_default();
        if seen.epoch < *before {
            let what = format!("{} told epoch {before}, then {}", seen.node, seen.epoch);
            found.push(violation("epochs", Some(seen.at), what));
        }
        *before = seen.epoch.max(*before);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::InForce;
    use crate::invariants::samples::{at, evidence};

    #[test]
    fn an_edge_that_goes_back_is_found() {
        let mut evidence = evidence();
        evidence.epochs.push(InForce { edge: "edge-eu".into(), at: at(9), epoch: 1 });
        assert!(judge(&evidence)[0].what.contains("from epoch 2 back to 1"));
    }
}
