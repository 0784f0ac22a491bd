//! A caller that left while it waited has left the queue: no model server is asked for it any more, and it costs nothing
//! (LIM-3; issue 4 §8).
//!
//! Such a call has no name that its caller knows, but each tenant has at most as many records that cost something as it
//! has calls for which a server was asked.

use std::collections::BTreeSet;
use std::time::Duration;

use base::Mono;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::faults::Kind;
use crate::history::{Call, CallOutcome};
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

/// What is wrong with the number of a tenant's calls that cost something. A server that dies may have been asked all the same;
/// and of calls that were in progress when an edge died, nobody may tell whether they were only in its line.
fn charged(evidence: &Evidence, tenant: &str) -> Option<Violation> {
    let struck = |kind: Kind| {
        let is_of_kind = move |name: &String| evidence.facts.machines.get(name) == Some(&kind);
        evidence.history.struck.iter().filter(move |struck| struck.machines.iter().any(is_of_kind))
    };
    if struck(Kind::Model).next().is_some() {
        return None;
    }
    let asked: BTreeSet<_> = evidence.history.served.iter().filter_map(|served| served.call).collect();
    let of_tenant = || evidence.history.calls.iter().filter(|call| call.crowd.as_deref() == Some(tenant));
    let calls = of_tenant().filter(|call| asked.contains(&call.id)).count();
    let was_open = |call: &Call, at: Mono| call.started <= at && call.ended.is_none_or(|ended| ended >= at);
    let untold =
        of_tenant().filter(|call| struck(Kind::Edge).any(|struck| was_open(call, struck.at))).count();
    let records = evidence.records.iter();
    let paid = records.filter(|record| record.tenant.as_deref() == Some(tenant) && record.cost > 0).count();
    let what = format!("{paid} calls of {tenant} cost something, and servers were asked for {calls}");
    (paid > calls + untold).then(|| violation("left", None, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Served, Struck};
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

        // Unless an edge died with it.
        evidence.facts.machines.insert("edge-eu".to_owned(), Kind::Edge);
        let open = evidence.history.calls.iter().find(|call| call.crowd.is_some()).unwrap().started;
        let died =
            |at| Struck { id: 0, at, healed: None, what: "crash", machines: vec!["edge-eu".to_owned()] };
        evidence.history.struck.push(died(open));
        assert_eq!(judge(&evidence), []);
        evidence.history.struck[0] = died(at(60_000));
        assert_eq!(judge(&evidence).len(), 1);
    }
}
