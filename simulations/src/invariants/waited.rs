//! Who waits is served or refused within 20 s: no call is let in later, and a stream that is refused for what is in progress
//! had its whole time; a call that is no stream is told of a limit at once (LIM-2, LIM-3).

use std::time::Duration;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::CallOutcome;
use crate::waits::{Wait, waits};

/// The longest wait, as documented.
const LONGEST: Duration = Duration::from_secs(20);
/// The way to the edge, on to another region and back.
const AROUND: Duration = Duration::from_millis(1_000);

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let waits = waits(evidence).into_iter().filter(|wait| wait.call.crowd.is_some());
    let wrong = |wait: Wait<'_>| {
        let wrong = wrong(&wait)?;
        Some(violation("waited", Some(wait.ended), format!("a call {wrong}: {:?}", wait.call)))
    };
    waits.filter_map(wrong).collect()
}

fn wrong(wait: &Wait<'_>) -> Option<&'static str> {
    if let Some(asked) = wait.asked() {
        return (asked.since(wait.sent) > LONGEST + AROUND).then_some("waited for too long and was let in");
    }
    if wait.call.outcome != CallOutcome::Refused {
        return None;
    }
    let took = wait.call.head?.since(wait.sent);
    match wait.call.code.as_deref()? {
        "concurrency_limited" if !wait.call.stream => {
            (took > AROUND).then_some("that may not wait was not refused at once")
        }
        "concurrency_limited" if took < LONGEST => Some("was refused before its time was over"),
        "concurrency_limited" | "model_overloaded" => {
            (took > LONGEST + AROUND).then_some("was refused later than it may wait")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{at, call, crowded, struck};

    #[test]
    fn who_waits_too_long_or_not_long_enough_is_found() {
        let mut evidence = crowded();
        evidence.history.calls.push(crate::history::Call {
            crowd: Some("gold".into()),
            outcome: CallOutcome::Refused,
            code: Some("concurrency_limited".into()),
            ..call()
        });
        let mut refused = |ms: u64, stream| {
            let call = &mut evidence.history.calls[0];
            (call.head, call.ended, call.stream) = (Some(at(101 + ms)), Some(at(101 + ms)), stream);
            judge(&evidence).len()
        };
        assert_eq!((refused(20_002, true), refused(2, false)), (0, 0));
        assert_eq!((refused(19_000, true), refused(22_000, true), refused(20_000, false)), (1, 1, 1));
        evidence.history.struck.push(struck("pause", "edge-eu", 150));
        assert_eq!(judge(&evidence), []);
    }

    #[test]
    fn who_is_let_in_too_late_is_found() {
        let mut evidence = crowded();
        let crowd = Some("gold".to_owned());
        evidence.history.calls.push(crate::history::Call { crowd, ended: Some(at(23_000)), ..call() });
        evidence.history.served.push(crate::invariants::samples::served());
        assert_eq!(judge(&evidence), []);
        evidence.history.served[0].asked = at(22_000);
        assert_eq!(judge(&evidence).len(), 1);
    }
}
