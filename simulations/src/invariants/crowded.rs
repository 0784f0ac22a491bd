//! A full queue refuses at once, and only when it is full: as many calls of the tenant wait as may, or of all together. Who
//! left waits no longer (LIM-3).
//!
//! What waits is less than what callers have sent and is not over.

use std::time::Duration;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::waits::{is_struck, waits};

/// The way to the edge, on to another region and back, and as long until an edge knows that a caller left.
const AT_ONCE: Duration = Duration::from_millis(500);
/// Calls of one tenant that wait before limits at one edge; of all it is more.
const BEFORE_LIMITS: usize = 256;
/// Calls of one tenant that wait for one model's servers, and of all tenants.
const BEFORE_SERVERS: (usize, usize) = (128, 256);

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for wait in waits(evidence).iter().filter(|wait| wait.call.code.as_deref() == Some("queue_full")) {
        let took = wait.call.head.unwrap_or(wait.ended).since(wait.sent);
        if took > AT_ONCE {
            let what = format!("a full queue refused after {took:?}: {:?}", wait.call);
            found.push(violation("crowded", Some(wait.ended), what));
        }
        let (of_tenant, of_all) = open(evidence, wait.call, (wait.sent, wait.ended));
        let has_room = if evidence.facts.rooms.is_empty() {
            of_tenant <= BEFORE_LIMITS
        } else {
            of_tenant <= BEFORE_SERVERS.0 && of_all <= BEFORE_SERVERS.1
        };
        let from = mono_before(wait.sent, Duration::from_secs(30));
        if has_room && !is_struck(evidence, wait.call, None, (from, wait.ended)) {
            let what = format!(
                "the queue was full for a call while {of_tenant} calls of its tenant were open, {of_all} of all: {:?}",
                wait.call
            );
            found.push(violation("crowded", Some(wait.ended), what));
        }
    }
    found
}

/// Calls that may have waited at some moment of a span, this one included: of its tenant at its edge, or anywhere where
/// those of all edges wait together, and of all tenants.
fn open(
    evidence: &Evidence,
    call: &crate::history::Call,
    (from, upto): (base::Mono, base::Mono),
) -> (usize, usize) {
    let together = !evidence.facts.rooms.is_empty();
    let open = evidence.history.calls.iter().filter(|other| {
        other.sent.is_some_and(|sent| sent <= upto)
            && other.ended.is_none_or(|ended| ended + AT_ONCE >= from)
            && (together || other.edge == call.edge)
    });
    let open: Vec<_> = open.collect();
    let alike = |other: &&&crate::history::Call| other.crowd == call.crowd && other.strict == call.strict;
    (open.iter().filter(alike).count(), open.len())
}

fn mono_before(at: base::Mono, by: Duration) -> base::Mono {
    let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
    base::Mono::from_nanos(at.as_nanos().saturating_sub(by))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Call, CallOutcome};
    use crate::invariants::samples::{at, call, crowded};

    #[test]
    fn a_refusal_that_is_late_or_where_there_is_room_is_found() {
        let mut evidence = crowded();
        let gold = Call { crowd: Some("gold".into()), ..call() };
        for id in 1..=256 {
            evidence.history.calls.push(Call { id, ended: Some(at(9_000)), ..gold.clone() });
        }
        let code = Some("queue_full".to_owned());
        let refused = Call { outcome: CallOutcome::Refused, code, head: Some(at(103)), ..gold };
        evidence.history.calls.push(refused);
        assert_eq!(judge(&evidence), []);
        evidence.history.calls.last_mut().unwrap().head = Some(at(700));
        assert_eq!(judge(&evidence).len(), 1, "it was not at once");
        evidence.history.calls.remove(0);
        assert_eq!(judge(&evidence).len(), 2, "one more could wait");
    }
}
