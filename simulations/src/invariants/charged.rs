//! A caller who leaves in the middle of an answer pays for it: the record of a call that a model server answered in part
//! has a cost (design.md §4: "unknown outcome settles at the hold"; case: charge dropped when the caller leaves).

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::CallOutcome;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let calls = evidence.history.calls.iter();
    for call in calls.filter(|call| call.outcome == CallOutcome::HungUp && call.status == Some(200)) {
        let began = evidence.history.served.iter().any(|served| {
            served.call == Some(call.id) && served.output > 0 && served.first_token <= call.first_byte
        });
        let Some(request) = call.request.as_ref().filter(|_| began && call.first_byte.is_some()) else {
            continue;
        };
        let records = evidence.records.iter().filter(|record| record.request == *request);
        for record in records.filter(|record| record.cost == 0) {
            let what =
                format!("a caller left in the middle of an answer and paid nothing: {record:?} of {call:?}");
            found.push(violation("charged", call.ended, what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::evidence;

    #[test]
    fn a_caller_who_left_and_paid_nothing_is_found() {
        let mut evidence = evidence();
        evidence.history.calls[0].outcome = CallOutcome::HungUp;
        assert_eq!(judge(&evidence), []);
        evidence.records[0].cost = 0;
        assert_eq!(judge(&evidence).len(), 1);
    }
}
