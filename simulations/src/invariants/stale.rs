//! An edge serves nobody from a configuration that central has not proved for longer than tenants allow, also not after it
//! was started again: keys that were revoked meanwhile open nothing for ever (design.md §5 "maximum staleness").

use std::time::Duration;

use base::Mono;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::CallOutcome;

/// Clocks may be some parts in a hundred slow.
const GRACE: Duration = Duration::from_secs(2);

/// What ends a process without a word.
const DEATHS: [&str; 6] = ["crash", "power_off", "lose_region", "drain", "upgrade", "disk"];

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let Some(most) = evidence.facts.max_stale else { return Vec::new() };
    let mut found = Vec::new();
    for call in evidence.history.calls.iter().filter(|call| call.outcome == CallOutcome::Complete) {
        let Some(sent) = call.sent else { continue };
        let Some(left) = last_session(evidence, &call.edge, sent) else { continue };
        if sent > left + most + GRACE {
            let what = format!("served {:?} after the edge left central: {call:?}", sent.since(left));
            found.push(violation("stale", Some(sent), what));
        }
    }
    found
}

/// When the edge's last session with central before `at` ended; `None` while one stands, or when there was none.
fn last_session(evidence: &Evidence, edge: &str, at: Mono) -> Option<Mono> {
    let (mut attached, mut left) = (None, None);
    for line in evidence.log.iter().filter(|line| line.machine == edge && line.at <= at) {
        if line.text.starts_with("attached to central") {
            (attached, left) = (Some(line.at), None);
        } else if line.text.starts_with("the session with central ended") {
            left = left.or(Some(line.at));
        }
    }
    let mut deaths = evidence.struck(edge, &DEATHS).map(|struck| struck.at);
    left.or_else(|| deaths.find(|death| Some(*death) >= attached && *death < at))
        .filter(|_| attached.is_some())
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;
    use crate::engine::Line;
    use crate::invariants::samples::{at, call, evidence, struck};

    fn line(ms: u64, text: &str) -> Line {
        Line { at: at(ms), machine: "edge-eu".into(), level: Level::INFO, text: text.into() }
    }

    #[test]
    fn an_edge_that_serves_long_after_it_left_central_is_found() {
        let mut evidence = evidence();
        evidence.facts.max_stale = Some(Duration::from_secs(60));
        evidence.log =
            vec![line(10, "attached to central level=1"), line(500, "the session with central ended")];
        evidence.history.calls.push(crate::history::Call { sent: Some(at(62_400)), ..call() });
        assert_eq!(judge(&evidence), []);
        evidence.history.calls[1].sent = Some(at(62_600));
        assert_eq!(judge(&evidence).len(), 1);
        evidence.log.push(line(50_000, "attached to central level=1"));
        assert_eq!(judge(&evidence), []);
    }

    #[test]
    fn a_process_that_dies_leaves_central_without_a_word() {
        let mut evidence = evidence();
        evidence.facts.max_stale = Some(Duration::from_secs(60));
        evidence.log = vec![line(10, "attached to central level=1")];
        evidence.history.calls[0].sent = Some(at(70_000));
        assert_eq!(judge(&evidence), []);
        evidence.history.struck.push(struck("crash", "edge-eu", 600));
        assert_eq!(judge(&evidence).len(), 1);
    }
}
