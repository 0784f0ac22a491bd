//! A model server's work ends soon after its caller left: hanging up cancels the call at every hop (design.md §6
//! "resetting a call's stream cancels it"). Where faults stood in the way, hops may learn late.

use std::time::Duration;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::{CallOutcome, ServedEnd};

/// A cancellation crosses two hops between regions well within this.
const WITHIN: Duration = Duration::from_secs(2);

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let history = &evidence.history;
    for call in history.calls.iter().filter(|call| call.outcome == CallOutcome::HungUp) {
        let Some(left) = call.ended else { continue };
        let late = left + WITHIN;
        if history.struck.iter().any(|struck| struck.at < late && struck.healed.is_none_or(|at| at > left)) {
            continue;
        }
        let served = history.served.iter().filter(|served| served.call == Some(call.id));
        for served in served.filter(|served| served.asked < left) {
            if served.end == ServedEnd::Complete && served.ended > Some(late) {
                let what =
                    format!("{} worked on after the caller left: {served:?} of {call:?}", served.server);
                found.push(violation("cancelled", served.ended, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{at, evidence, struck};

    #[test]
    fn a_server_that_works_on_is_found_unless_a_fault_stood_in_the_way() {
        let mut evidence = evidence();
        evidence.history.calls[0].outcome = CallOutcome::HungUp;
        assert_eq!(judge(&evidence), []);
        evidence.history.served[0].ended = Some(at(2_201));
        assert_eq!(judge(&evidence).len(), 1);
        evidence.history.struck.push(struck("partition", "edge-eu", 150));
        assert_eq!(judge(&evidence), []);
    }
}
