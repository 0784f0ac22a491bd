//! Exactly one record per call at the edge that took it, which agrees with what the caller saw (design.md §4, issue 3
//! §4). An edge that died may have lost the records it had not written.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Violation, violation};
use crate::evidence::{Evidence, Record};
use crate::history::{Call, CallOutcome};

/// Records wait at most this long for the disk.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut by_request: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in &evidence.records {
        by_request.entry(&record.request).or_default().push(record);
    }
    let mut found = Vec::new();
    for (request, records) in by_request.iter().filter(|(_, records)| records.len() > 1) {
        found.push(violation(
            "receipts",
            None,
            format!("{} records of {request}: {records:?}", records.len()),
        ));
    }
    for call in &evidence.history.calls {
        let Some(request) = &call.request else { continue };
        match by_request.get(request.as_str()).and_then(|records| records.first()) {
            None if !may_be_lost(evidence, call) => {
                found.push(violation("receipts", call.ended, format!("no record of {call:?}")));
            }
            Some(record) if call.outcome == CallOutcome::Complete && record.outcome != "complete" => {
                found.push(violation("receipts", call.ended, format!("{record:?} of a complete call")));
            }
            Some(record) if call.outcome == CallOutcome::Refused && record.outcome == "complete" => {
                found.push(violation("receipts", call.ended, format!("{record:?} of {call:?}")));
            }
            None | Some(_) => {}
        }
    }
    found
}

fn may_be_lost(evidence: &Evidence, call: &Call) -> bool {
    let without_sync = evidence.struck(&call.edge, &["power_off", "lose_region", "disk"]);
    let killed = evidence.struck(&call.edge, &["crash"]);
    let since = call.ended.unwrap_or(call.started);
    let mut lost = without_sync.chain(killed.filter(|struck| struck.at < since + WRITTEN_WITHIN));
    lost.any(|struck| struck.healed.is_none_or(|healed| healed > call.started))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{evidence, record, struck};

    #[test]
    fn a_second_record_and_a_missing_one_are_found() {
        let mut twice = evidence();
        twice.records.push(record());
        assert!(judge(&twice)[0].what.starts_with("2 records"));
        let mut missing = evidence();
        missing.records.clear();
        assert!(judge(&missing)[0].what.starts_with("no record"));
        missing.history.struck.push(struck("crash", "edge-eu", 300));
        assert_eq!(judge(&missing), [], "it died before it wrote");
    }

    #[test]
    fn a_record_that_tells_another_story_is_found() {
        let mut evidence = evidence();
        evidence.records[0].outcome = "cut".into();
        assert_eq!(judge(&evidence).len(), 1);
    }
}
