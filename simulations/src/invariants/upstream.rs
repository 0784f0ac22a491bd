//! Once a caller has a byte of an answer, no other model server is asked for it, and no call is answered whole twice
//! (design.md §5 "before its first byte"; simulation.md §6.4 Q1).

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::{Call, ServedEnd};

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in &evidence.history.calls {
        let asked = evidence.history.served.iter().filter(|served| served.call == Some(call.id));
        let asked: Vec<_> = asked.collect();
        if let Some(first_byte) = call.first_byte.filter(|_| call.status == Some(200)) {
            for late in asked.iter().filter(|served| served.asked > first_byte) {
                let what = format!("{} was asked after the first byte of {call:?}", late.server);
                found.push(violation("upstream", Some(late.asked), what));
            }
            let whole = asked.iter().filter(|served| served.end == ServedEnd::Complete).count();
            let streamed_by =
                asked.iter().filter(|served| served.first_token.is_some_and(|first| first <= first_byte));
            if call.stream && whole > 1 && streamed_by.count() > 1 && !is_struck(evidence, call) {
                found.push(violation("upstream", call.ended, format!("{whole} whole answers to {call:?}")));
            }
        }
    }
    found
}

/// Whether some fault stood during the call: an answer may be lost on its way then, with all that was between.
fn is_struck(evidence: &Evidence, call: &Call) -> bool {
    let mut struck = evidence.history.struck.iter();
    struck.any(|struck| {
        call.ended >= Some(struck.at) && struck.healed.is_none_or(|healed| healed >= call.started)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Served;
    use crate::invariants::samples::{at, evidence, served, struck};

    #[test]
    fn a_second_server_asked_after_the_first_byte_is_found() {
        let mut evidence = evidence();
        let second = Served { server: "model-us".into(), asked: at(120), end: ServedEnd::Left, ..served() };
        evidence.history.served.push(second);
        assert_eq!(judge(&evidence), [], "before the first byte it may be");
        evidence.history.served[1].asked = at(160);
        assert!(judge(&evidence)[0].what.starts_with("model-us was asked after"));
    }

    #[test]
    fn a_call_that_is_answered_twice_without_a_fault_is_found() {
        let mut evidence = evidence();
        evidence.history.served.push(Served { server: "model-us".into(), ..served() });
        assert!(judge(&evidence)[0].what.starts_with("2 whole answers"));
        evidence.history.struck.push(struck("power_off", "central-eu", 150));
        assert_eq!(judge(&evidence), [], "the first may be lost on its way");
    }
}
