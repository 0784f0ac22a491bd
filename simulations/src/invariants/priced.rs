//! A call costs what the model costs that answered it, by the usage that its server told, whichever model was asked for or
//! tried before (design.md §4: "the caller pays the attempt that answered").

use super::{Violation, violation};
use crate::evidence::{Evidence, Record};
use crate::history::{Call, CallOutcome, ServedEnd};

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let calls = evidence.history.calls.iter().filter(|call| call.outcome == CallOutcome::Complete);
    for call in calls {
        let is_its =
            |record: &&Record| Some(&record.request) == call.request.as_ref() && record.outcome == "complete";
        let Some(record) = evidence.records.iter().find(is_its) else { continue };
        let worth = worth(evidence, call);
        if !worth.is_empty() && !worth.contains(&record.cost) {
            let what = format!("{record:?} is charged for an answer worth {worth:?} to {call:?}");
            found.push(violation("priced", call.ended, what));
        }
    }
    found
}

/// What the answer is worth, by each server that gave a whole one: an answer may be lost on its way, and another be had.
/// Empty when one of them told no usage.
fn worth(evidence: &Evidence, call: &Call) -> Vec<u64> {
    let served = evidence.history.served.iter();
    let whole = served.filter(|served| served.call == Some(call.id) && served.end == ServedEnd::Complete);
    let worth: Option<Vec<u64>> =
        whole.map(|served| Some(evidence.cost(&served.model, served.told?))).collect();
    worth.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::evidence;

    #[test]
    fn a_call_at_the_price_of_another_model_is_found() {
        let mut evidence = evidence();
        assert_eq!(judge(&evidence), []);
        evidence.facts.dear.insert("m".into(), 2);
        assert!(judge(&evidence)[0].what.contains("worth [2000]"), "{:?}", judge(&evidence));
        evidence.history.served[0].told = None;
        assert_eq!(judge(&evidence), [], "nobody knows what it is worth");
    }
}
