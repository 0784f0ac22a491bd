//! A caller that left while it waited has left the queue: no model server is asked for it any more, and it costs nothing
//! (LIM-3; issue 4 §8).
//!
//! Such a call has no name that its caller knows, but each tenant has at most as many records that cost something as it
//! has calls for which a server was asked.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::faults::Kind;
use crate::history::CallOutcome;
use crate::waits::waits;

/// Until the last hop knows, and what it asked before that is at the server.
const KNOWN_WITHIN: Duration = Duration::from_millis(500);

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for wait in waits(evidence).iter().filter(|wait| wait.call.outcome == CallOutcome::HungUp) {
        if wait.asked() > Some(wait.ended + KNOWN_WITHIN) {
            let what = format!("{:?} was asked for a caller who had left: {:?}", wait.served, wait.call);
            found.push(violation("left", wait.asked(), what));
        }
    }
    found.extend(evidence.facts.crowds.keys().filter_map(|tenant| charged(evidence, tenant)));
    found
}

/// What is wrong with the number of a tenant's calls that cost something. A server that dies may have been asked all the same.
fn charged(evidence: &Evidence, tenant: &str) -> Option<Violation> {
    let is_model = |name: &String| evidence.facts.machines.get(name) == Some(&Kind::Model);
    if evidence.history.struck.iter().any(|struck| struck.machines.iter().any(is_model)) {
        return None;
    }
    let asked: BTreeSet<_> = evidence.history.served.iter().filter_map(|served| served.call).collect();
    let calls = evidence.history.calls.iter();
    let calls = calls.filter(|call| call.crowd.as_deref() == Some(tenant) && asked.contains(&call.id));
    let records = evidence.records.iter();
    let paid = records.filter(|record| record.tenant.as_deref() == Some(tenant) && record.cost > 0);
    let (paid, calls) = (paid.count(), calls.count());
    let what = format!("{paid} calls of {tenant} cost something, and servers were asked for {calls}");
    (paid > calls).then(|| violation("left", None, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Call, Served};
    use crate::invariants::samples::{at, call, crowded, record, served};

    #[test]
    fn a_server_that_is_asked_for_one_who_left_and_a_cost_without_any_are_found() {
        let mut evidence = crowded();
        let crowd = Some("gold".to_owned());
        evidence.history.calls.push(Call { crowd, outcome: CallOutcome::HungUp, ..call() });
        evidence.history.served.push(served());
        let record = crate::evidence::Record { tenant: Some("gold".into()), ..record() };
        evidence.records.push(record);
        assert_eq!(judge(&evidence), []);
        evidence.history.served[0] = Served { asked: at(701), ..served() };
        assert_eq!(judge(&evidence).len(), 1);
        evidence.history.served.clear();
        assert!(judge(&evidence)[0].what.starts_with("1 calls of gold cost something"));
    }
}
