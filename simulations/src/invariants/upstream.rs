//! Once a caller has a byte of an answer, no other model server is asked for it, and no call is answered whole twice
//! (design.md §5 "before its first byte"; simulation.md §6.4 Q1).
//!
//! An edge that gives an attempt up asks elsewhere, and a node to which no word of that could come may still serve the
//! attempt that it has: one behind a link that was cut, whose work queues up, or that stood still for less time than its
//! peers wait. It learns of it with the first packet that comes through, or when it has heard nothing for as long as a link lives.

use std::time::Duration;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::{Call, Served, ServedEnd, Struck};

/// A link without a packet lives 3 s from the last keep-alive, which come each second.
const LINKS_LIVE: Duration = Duration::from_secs(4);
/// A node that stood still for longer knows that its links are gone: 3 s, and 250 ms between its looks at the clock.
const NOTICED: Duration = Duration::from_millis(3_250);
/// What a node sent into a cut before it gave up, its kernel sends again, at the latest so long after the cut is over; the
/// server finds the request and that it was left.
const SENT_AGAIN: Duration = Duration::from_secs(7);

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in &evidence.history.calls {
        let asked = evidence.history.served.iter().filter(|served| served.call == Some(call.id));
        let asked: Vec<_> = asked.collect();
        if let Some(first_byte) = call.first_byte.filter(|_| call.status == Some(200)) {
            let late = asked.iter().filter(|served| served.asked > first_byte);
            for late in late.filter(|served| !could_not_know(evidence, call, served)) {
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

/// Whether another node than the call's edge asked, to which no word of the end could come.
fn could_not_know(evidence: &Evidence, call: &Call, served: &Served) -> bool {
    let Some(by) = served.by.as_ref().filter(|by| **by != call.edge) else { return false };
    let hinders = |struck: &Struck| match struck.what {
        "partition" | "cut_region" | "flap" | "degrade" | "slow" => true,
        "pause" => struck.healed.is_some_and(|healed| healed.since(struck.at) < NOTICED),
        _else => false,
    };
    let struck = evidence.history.struck.iter().filter(|struck| hinders(struck));
    let mut between =
        struck.filter(|struck| [by, &call.edge].iter().any(|name| struck.machines.contains(name)));
    between.any(|struck| {
        let is_left = served.end == ServedEnd::Left && served.first_token.is_none();
        let lasts = if is_left { SENT_AGAIN } else { LINKS_LIVE };
        struck.at <= served.asked
            && struck.healed.is_none_or(|healed| healed >= call.started && healed + lasts > served.asked)
    })
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
    fn a_node_that_no_word_could_reach_may_serve_what_was_given_up() {
        let mut evidence = evidence();
        let second = Served { asked: at(4_100), end: ServedEnd::Left, ..served() };
        evidence.history.served.push(second);
        let mut cut = struck("partition", "edge-us", 90);
        cut.healed = Some(at(1_000));
        evidence.history.struck.push(cut);
        assert_eq!(judge(&evidence).len(), 1, "the edge itself knows");
        evidence.history.served[1].by = Some("edge-us".into());
        assert_eq!(judge(&evidence), []);
        (evidence.history.served[1].first_token, evidence.history.served[1].asked) = (None, at(7_500));
        assert_eq!(judge(&evidence), [], "a kernel sent it again");
        evidence.history.served[1].first_token = Some(at(7_510));
        assert_eq!(judge(&evidence).len(), 1, "it was answered");
        (evidence.history.served[1].first_token, evidence.history.served[1].asked) = (None, at(4_100));
        evidence.history.struck[0].what = "pause";
        assert_eq!(judge(&evidence), []);
        evidence.history.struck[0].healed = Some(at(4_000));
        assert_eq!(judge(&evidence).len(), 1, "it stood still for so long that it knows");
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
