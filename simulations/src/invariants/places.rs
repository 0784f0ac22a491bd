//! No more calls are in progress at the same time than a limit lets be: of a tenant, an application, a key or a model at one
//! edge, and at a model server of what an edge of its region gives it (LIM-1).
//!
//! A call is in progress for certain from when the only server that was asked for it was, until it had made the whole
//! answer that the caller got, or until the caller left.

use std::collections::BTreeMap;

use base::Mono;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::{CallOutcome, ServedEnd};
use crate::scenario::Limits;
use crate::waits::{Wait, waits};

/// When calls were in progress.
type Spans = Vec<(Mono, Mono)>;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let facts = &evidence.facts;
    if facts.crowds.is_empty() {
        return Vec::new();
    }
    let mut spans: BTreeMap<(String, u32), Spans> = BTreeMap::new();
    for wait in waits(evidence) {
        let (Some(served), Some(span)) = (wait.served, in_progress(&wait)) else { continue };
        let (edge, stream) = (&wait.call.edge, wait.call.stream);
        let crowd = wait.call.crowd.as_ref().and_then(|tenant| facts.crowds.get(tenant));
        let tenants = crowd.map(|crowd| [crowd.limits, crowd.app_limits, crowd.key_limits]);
        for limits in tenants.into_iter().flatten() {
            for (what, most) in limited(limits, stream) {
                let of = wait.call.crowd.as_deref().unwrap_or_default();
                spans.entry((format!("{what} of {of} at {edge}"), most)).or_default().push(span);
            }
        }
        for (what, most) in facts.limits.get(&served.model).into_iter().flat_map(|l| limited(*l, stream)) {
            spans.entry((format!("{what} for {} at {edge}", served.model), most)).or_default().push(span);
        }
        if let (Some(most), Some(by)) = (facts.rooms.get(&served.server), &served.by) {
            let name = format!("calls of {by} at {}", served.server);
            spans.entry((name, *most)).or_default().push(span);
        }
    }
    spans.into_iter().filter_map(|((name, most), spans)| too_many(&name, most, spans)).collect()
}

/// The limits that count a call.
fn limited(limits: Limits, stream: bool) -> impl Iterator<Item = (&'static str, u32)> {
    let calls = limits.concurrency.map(|most| ("calls", most));
    calls.into_iter().chain(limits.streams.filter(|_| stream).map(|most| ("streams", most)))
}

/// When a call was in progress for certain.
fn in_progress(wait: &Wait<'_>) -> Option<(Mono, Mono)> {
    let served = wait.served?;
    let end = match (wait.call.outcome, served.end) {
        (CallOutcome::Complete, ServedEnd::Complete) => served.ended?,
        (CallOutcome::HungUp, _) => served.ended.map_or(wait.ended, |ended| ended.min(wait.ended)),
        _ => return None,
    };
    (served.asked < end).then_some((served.asked, end))
}

fn too_many(name: &str, most: u32, spans: Spans) -> Option<Violation> {
    let mut changes: Vec<(Mono, bool)> =
        spans.into_iter().flat_map(|(from, upto)| [(from, true), (upto, false)]).collect();
    // Those that end make room for those that begin at the same moment.
    changes.sort_unstable();
    let mut there = 0_u32;
    for (at, enters) in changes {
        there = if enters { there + 1 } else { there.saturating_sub(1) };
        if there > most {
            let what = format!("{there} {name} were in progress at the same time, {most} may be");
            return Some(violation("places", Some(at), what));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Call, Served};
    use crate::invariants::samples::{at, call, crowded, served};

    #[test]
    fn one_call_too_many_is_found_at_every_level() {
        let mut evidence = crowded();
        for id in 0..3 {
            evidence.history.calls.push(Call { id, crowd: Some("gold".into()), ..call() });
            evidence.history.served.push(Served { call: Some(id), ..served() });
        }
        assert_eq!(judge(&evidence), []);
        let gold = evidence.facts.crowds.get_mut("gold").unwrap();
        gold.key_limits.streams = Some(2);
        assert!(judge(&evidence)[0].what.starts_with("3 streams of gold at edge-eu"));
        evidence.facts.limits.insert("m".into(), Limits { concurrency: Some(2), ..Limits::default() });
        evidence.facts.rooms.insert("model-eu".into(), 2);
        assert_eq!(judge(&evidence).len(), 3);
        evidence.history.calls[1].ended = Some(at(120));
        evidence.history.calls[1].outcome = CallOutcome::HungUp;
        evidence.history.served[2].asked = at(120);
        assert_eq!(judge(&evidence), [], "one left before another was let in");
    }
}
