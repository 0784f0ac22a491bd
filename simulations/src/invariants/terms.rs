//! A central node's term never goes back, also not across its restarts: its vote was durable before it was given
//! (simulation.md §6.4 R1 "monotone term/vote"; Raft §5.2).

use std::collections::BTreeMap;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::Observation;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let observations = &evidence.history.observations;
    let mut answered: Vec<&Observation> = observations.iter().collect();
    answered.sort_by_key(|seen| seen.answered);
    let mut asked: Vec<&Observation> = observations.iter().collect();
    asked.sort_by_key(|seen| seen.at);
    let (mut answered, mut last) = (answered.into_iter().peekable(), BTreeMap::<&str, u64>::new());
    for seen in asked {
        // Two that look at once may get their answers in any order.
        while let Some(earlier) = answered.next_if(|earlier| earlier.answered <= seen.at) {
            let before = last.entry(&earlier.node).or_default();
            *before = earlier.term.max(*before);
        }
        let before = last.get(seen.node.as_str()).copied().unwrap_or_default();
        if seen.term < before && evidence.struck(&seen.node, &["disk"]).next().is_none() {
            let what = format!("{} was in term {before}, then in {}", seen.node, seen.term);
            found.push(violation("terms", Some(seen.at), what));
        }
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
        let found = judge(&seen([(10, 11, 3), (20, 21, 2)]));
        assert!(found[0].what.contains("term 3, then in 2"), "{found:?}");
    }

    #[test]
    fn answers_that_overtook_each_other_say_nothing() {
        assert_eq!(judge(&seen([(20, 21, 3), (10, 30, 2)])), []);
    }

    fn seen(looks: [(u64, u64, u64); 2]) -> Evidence {
        let mut evidence = evidence();
        for (ms, answered, term) in looks {
            evidence.history.observations.push(Observation {
                at: at(ms),
                answered: at(answered),
                node: "central-eu".into(),
                leader: None,
                term,
                epoch: 1,
                edges: BTreeMap::new(),
            });
        }
        evidence
    }
}
