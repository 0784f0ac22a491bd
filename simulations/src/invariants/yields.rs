//! Batch work yields: while an interactive call waits in a line, no batch call gets a place there, unless it has waited for
//! 10 s and has aged (LIM-4).
//!
//! Judged where all who wait can use the same place: tenants without limits of their own before one model's limits, or
//! before one model's servers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::waits::{Place, Wait, waits};

/// After so long a batch call counts as interactive.
const AGES: Duration = Duration::from_secs(10);
/// From sending a call until it is in line, and from its turn until a server is asked.
const AROUND: Duration = Duration::from_millis(500);

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let waits = waits(evidence);
    let mut lines: BTreeMap<Place<'_>, Vec<&Wait<'_>>> = BTreeMap::new();
    for wait in &waits {
        if let Some(place) = wait.place(evidence) {
            lines.entry(place).or_default().push(wait);
        }
    }
    let mut found = Vec::new();
    for (place, line) in lines {
        let (batch, interactive): (Vec<&Wait<'_>>, Vec<&Wait<'_>>) =
            line.into_iter().partition(|wait| wait.call.batch);
        for early in batch {
            let Some(asked) = early.asked() else { continue };
            let waits = |other: &&&Wait<'_>| {
                other.sent + AROUND < asked && other.asked().is_some_and(|turn| turn > asked + AROUND)
            };
            let has_aged = asked.since(early.sent) + AROUND >= AGES;
            if let Some(passed) = interactive.iter().find(waits).filter(|_| !has_aged) {
                let what = format!("at {place:?} {:?} went before {:?}", early.call, passed.call);
                found.push(violation("yields", Some(asked), what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Call, Served};
    use crate::invariants::samples::{at, call, crowded, served};
    use crate::scenario::Limits;

    #[test]
    fn a_batch_call_that_goes_first_is_found_unless_it_has_aged() {
        let mut evidence = crowded();
        evidence.facts.limits.insert("m".into(), Limits { streams: Some(1), ..Limits::default() });
        for (id, batch, asked) in [(0, false, 5_000), (1, true, 3_000)] {
            let (crowd, ended) = (Some("gold".to_owned()), Some(at(15_000)));
            let call = Call { id, batch, crowd, sent: Some(at(1_000)), ended, ..call() };
            evidence.history.calls.push(call);
            evidence.history.served.push(Served { call: Some(id), asked: at(asked), ..served() });
        }
        assert_eq!(judge(&evidence).len(), 1);
        evidence.history.calls[1].batch = false;
        assert_eq!(judge(&evidence), []);
        evidence.history.calls[1].batch = true;
        (evidence.history.served[0].asked, evidence.history.served[1].asked) = (at(14_000), at(11_000));
        assert_eq!(judge(&evidence), [], "it has waited for ten seconds");
    }
}
