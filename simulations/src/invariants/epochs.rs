//! The configuration in force at an edge never goes back (simulation.md §6.4 C1), also not across its restarts and when
//! it moves to another central node, and central's own never does as one life of a node tells it. A central node that
//! starts again tells what it knows to be committed, which is less than before until a leader says more: the status
//! is for times without a leader, too. Reads of the configuration are checked by `acknowledged`, across all restarts.

use std::collections::BTreeMap;

use base::Mono;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::Observation;

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
    let mut told: BTreeMap<&str, Vec<&Observation>> = BTreeMap::new();
    for seen in &evidence.history.observations {
        let of_node = told.entry(&seen.node).or_default();
        // Two questions that were open at once may be answered in any order.
        let before = of_node.iter().filter(|before| before.answered <= seen.at && before.epoch > seen.epoch);
        let mut before = before.filter(|before| !died_between(evidence, &seen.node, before.at, seen.at));
        let before = before.next_back();
        if let Some(Observation { epoch, .. }) = before {
            let what = format!("{} told epoch {epoch}, then {}", seen.node, seen.epoch);
            found.push(violation("epochs", Some(seen.at), what));
        }
        of_node.push(seen);
    }
    found
}

fn died_between(evidence: &Evidence, node: &str, from: Mono, to: Mono) -> bool {
    // A node whose disk fails may end itself.
    let mut deaths = evidence.struck(node, &["crash", "power_off", "lose_region", "disk"]);
    deaths.any(|death| death.at < to && death.healed.is_none_or(|healed| healed >= from))
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

    #[test]
    fn a_central_node_that_goes_back_is_found_unless_both_were_asked_at_once() {
        let told = |asked: u64, answered: u64, epoch| Observation {
            at: at(asked),
            answered: at(answered),
            node: "central-eu".to_owned(),
            leader: None,
            term: 1,
            epoch,
            edges: BTreeMap::new(),
        };
        let judged = |observations: [Observation; 2]| {
            let mut evidence = evidence();
            evidence.history.observations = observations.into();
            judge(&evidence).len()
        };
        assert_eq!(judged([told(10, 12, 84), told(9, 13, 83)]), 0);
        assert_eq!(judged([told(10, 12, 84), told(12, 13, 83)]), 1);
    }
}
