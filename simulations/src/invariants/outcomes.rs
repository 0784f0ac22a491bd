//! Each call ends exactly once, and never hangs: complete, with an error, or with a broken connection. A stream is never
//! silently short, and nobody gets bytes of another call (simulation.md §6.4 Q1).

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::CallOutcome;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in &evidence.history.calls {
        let wrong = match call.outcome {
            CallOutcome::Open | CallOutcome::Abandoned => "never ended",
            CallOutcome::Late => "hung until its caller lost patience",
            CallOutcome::Short => "ended as if it were whole, and was not",
            CallOutcome::Foreign => "got the answer to another call",
            CallOutcome::Complete
            | CallOutcome::Refused
            | CallOutcome::Failed
            | CallOutcome::Broken
            | CallOutcome::HungUp
            | CallOutcome::Unreachable => continue,
        };
        // A process that stands still, or a network that says nothing, may keep a caller waiting.
        if call.outcome == CallOutcome::Late && is_excused(evidence, call) {
            continue;
        }
        found.push(violation("outcomes", call.ended, format!("a call {wrong}: {call:?}")));
    }
    found
}

fn is_excused(evidence: &Evidence, call: &crate::history::Call) -> bool {
    let silent = ["pause", "partition", "cut_region", "flap", "power_off", "lose_region", "degrade"];
    let machines = [call.edge.clone(), format!("callers-{}", call.region)];
    machines.iter().any(|machine| {
        let mut struck = evidence.struck(machine, &silent);
        struck.any(|struck| {
            call.ended >= Some(struck.at) && struck.healed.is_none_or(|healed| healed >= call.started)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{at, evidence, struck};

    #[test]
    fn a_call_that_hangs_or_is_short_or_not_its_own_is_found() {
        for outcome in [CallOutcome::Open, CallOutcome::Late, CallOutcome::Short, CallOutcome::Foreign] {
            let mut evidence = evidence();
            evidence.history.calls[0].outcome = outcome;
            assert_eq!(judge(&evidence).len(), 1, "{outcome:?}");
        }
    }

    #[test]
    fn a_call_may_hang_at_an_edge_that_stands_still() {
        let mut evidence = evidence();
        evidence.history.calls[0].outcome = CallOutcome::Late;
        evidence.history.struck.push(struck("pause", "edge-eu", 50));
        assert_eq!(judge(&evidence), []);
        evidence.history.struck[0].healed = Some(at(60));
        assert_eq!(judge(&evidence).len(), 1, "it stood still before the call began");
    }
}
