//! A central node's term never goes back, also not across its restarts: its vote was durable before it was given
//! (simulation.md §6.4 R1 "monotone term/vote"; Raft §5.2).

use std::collections::BTreeMap;

use super::{Violation, violation};
use crate::evidence::Evidence;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for seen in &evidence.history.observations {
        let before = last.entry(&seen.node).or_default();
        if seen.term < *before && evidence.struck(&seen.node, &["disk"]).next().is_none() {
            let what = format!("{} was in term {before}, then in {}", seen.node, seen.term);
            found.push(violation("terms", Some(seen.at), what));
        }
        *before = seen.term.max(*before);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Observation;
    use crate::invariants::samples::{at, evidence};

    #[test]
    fn a_term_that_goes_back_is_found() {
        let mut evidence = evidence();
        for (ms, term) in [(10, 3), (20, 2)] {
            evidence.history.observations.push(Observation {
                at: at(ms),
                node: "central-eu".into(),
                leader: None,
                term,
                epoch: 1,
                edges: BTreeMap::new(),
            });
        }
        assert!(judge(&evidence)[0].what.contains("term 3, then in 2"));
    }
}
