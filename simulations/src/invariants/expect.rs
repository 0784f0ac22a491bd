//! What the scenario expects: callers of sustained regions notice nothing, those of a lost region are served again in
//! time (issue 3 "must reach"; simulation.md §6.4 SLO). One call in a run may go wrong where a share below one is asked
//! for; a sweep counts all runs together.

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::figures::{is_served, recovered, sustained_calls};

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let expect = &evidence.facts.expect;
    let mut found = Vec::new();
    let calls: Vec<_> = sustained_calls(evidence).collect();
    let failed: Vec<_> = calls.iter().filter(|call| !is_served(call)).collect();
    let allowed = (calls.len() as u64 * u64::from(1_000_000 - expect.success.0)).div_ceil(1_000_000);
    if failed.len() as u64 > allowed {
        let (failed, of) = (failed.len(), calls.len());
        let first = calls.iter().find(|call| !is_served(call));
        let what =
            format!("{failed} of {of} calls of sustained regions failed, at most {allowed} may; {first:?}");
        found.push(violation("expect", first.and_then(|call| call.ended), what));
    }
    let Some(most) = expect.recover_within else { return found };
    for (region, ms) in recovered(evidence) {
        if ms > crate::schedule::millis(most.most) && !expect.sustained.contains(&region) {
            let what = format!("a call of {region} failed that began {ms} ms after the region was lost");
            found.push(violation("expect", None, what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::history::{Call, CallOutcome};
    use crate::invariants::samples::{at, call, evidence, struck};
    use crate::scenario::Times;

    fn struck_at_100() -> Evidence {
        let mut evidence = evidence();
        evidence.facts.edges.insert("edge-eu".into(), "eu".into());
        evidence.history.phases.push((at(9_000), "finish"));
        evidence.history.struck.push(struck("lose_region", "edge-eu", 100));
        evidence
    }

    #[test]
    fn failures_of_a_sustained_region_are_found() {
        let mut evidence = struck_at_100();
        evidence.facts.expect.sustained.push("eu".into());
        for id in 1..3 {
            evidence.history.calls.push(Call { id, outcome: CallOutcome::Failed, ..call() });
        }
        assert_eq!(judge(&evidence).len(), 1);
        evidence.history.calls[1].revoked = true;
        assert_eq!(judge(&evidence), [], "one in a run may, and those with a revoked key must");
    }

    #[test]
    fn a_lost_region_that_is_served_too_late_is_found() {
        let mut evidence = struck_at_100();
        evidence.facts.expect.recover_within = Some(Times::exactly(Duration::from_secs(3)));
        let late = Call { id: 1, started: at(3_200), outcome: CallOutcome::Unreachable, ..call() };
        evidence.history.calls.push(late);
        assert!(judge(&evidence)[0].what.contains("3100 ms"));
        evidence.history.struck[0].healed = Some(at(3_000));
        assert_eq!(judge(&evidence), [], "it was over by then");
    }
}
