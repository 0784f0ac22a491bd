//! Each strict call is billed exactly once: what central settled is what the edges' records say, and covers what the
//! model servers told of answered calls (design.md §4 "billed exactly once"). The calls of a life of an edge that ended
//! are covered by its crash charge.

use central::admin::api::{Ledger, LedgerRow};

use super::{Violation, violation};
use crate::evidence::{Evidence, Record};
use crate::history::{Call, CallOutcome, ServedEnd};

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let Some(ledger) = &evidence.ledger else { return Vec::new() };
    let (receipts, crash, settling) = settled(evidence, ledger);
    let mut found = Vec::new();
    if ledger_error(evidence) > 0 {
        let recorded = recorded(evidence);
        let what = format!("{receipts} settled and {settling} on its way, {recorded} recorded");
        found.push(violation("billed", None, what));
    }
    let owed: u128 = evidence.history.calls.iter().map(|call| owed(evidence, call)).sum();
    // What an edge owes that is cut off for ever stays taken from the budget.
    let kept = if an_edge_is_cut_off(evidence) { outstanding(evidence, ledger) } else { 0 };
    if receipts + crash + settling + kept < owed {
        let what = format!("{receipts} settled, {crash} as crash charges, and {owed} is owed at least");
        found.push(violation("billed", None, what));
    }
    found
}

/// What was settled beside what the edges recorded, either way; nothing where an edge died, whose crash charge covers it.
pub(crate) fn ledger_error(evidence: &Evidence) -> u64 {
    let Some(ledger) = evidence.ledger.as_ref().filter(|_| is_exact(evidence)) else {
        return 0;
    };
    let (receipts, _crash, settling) = settled(evidence, ledger);
    u64::try_from((receipts + settling).abs_diff(recorded(evidence))).unwrap_or(u64::MAX)
}

/// Whether the books agree with the records: all edges live and are heard.
pub(super) fn is_exact(evidence: &Evidence) -> bool {
    !an_edge_died(evidence) && !an_edge_is_cut_off(evidence)
}

/// Receipts, crash charges and what is on its way, of the strict tenant's own budget.
fn settled(evidence: &Evidence, ledger: &Ledger) -> (u128, u128, u128) {
    let sum = |part: fn(&LedgerRow) -> u64| own(evidence, ledger).map(|row| u128::from(part(row))).sum();
    (sum(|row| row.receipts.0), sum(|row| row.crash.0), sum(|row| row.settling.0))
}

fn recorded(evidence: &Evidence) -> u128 {
    let strict = evidence.records.iter().filter(|record| record.tenant.as_deref() == Some("strict"));
    strict.map(|record| u128::from(record.cost)).sum()
}

fn an_edge_is_cut_off(evidence: &Evidence) -> bool {
    let broken = evidence.facts.broken.iter();
    broken.filter_map(|name| evidence.facts.machines.get(name)).any(|kind| *kind == crate::faults::Kind::Edge)
}

fn own<'a>(evidence: &'a Evidence, ledger: &'a Ledger) -> impl Iterator<Item = &'a LedgerRow> {
    ledger.rows.iter().filter(|row| evidence.level(row.budget.as_str()).is_none())
}

fn outstanding(evidence: &Evidence, ledger: &Ledger) -> u128 {
    own(evidence, ledger).map(|row| u128::from(row.outstanding.0) + u128::from(row.orphaned.0)).sum()
}

fn an_edge_died(evidence: &Evidence) -> bool {
    let edges = evidence.facts.machines.iter().filter(|(_, kind)| **kind == crate::faults::Kind::Edge);
    let mut died = edges.map(|(name, _)| {
        evidence.struck(name, &["crash", "power_off", "lose_region", "disk"]).next().is_some()
            || evidence.ended.iter().any(|ended| ended.starts_with(&format!("{name}:")))
    });
    died.any(|died| died)
}

/// What a call owes at least: what its edge recorded, or else what its last model server told if it was answered, or
/// what that server had sent when the edge died, which the crash charge covers.
fn owed(evidence: &Evidence, call: &Call) -> u128 {
    if !call.strict {
        return 0;
    }
    let is_its = |record: &&Record| Some(&record.request) == call.request.as_ref();
    if let Some(record) = evidence.records.iter().find(is_its) {
        return u128::from(record.cost);
    }
    let mut served = evidence.history.served.iter().filter(|served| served.call == Some(call.id));
    let used = match call.outcome {
        CallOutcome::Complete => served
            .filter(|served| served.end == ServedEnd::Complete)
            .filter_map(|served| Some((&served.model, served.told?)))
            .next_back(),
        CallOutcome::Broken => served.next_back().filter(|served| served.output > 0).and_then(|served| {
            let mut deaths = evidence.struck(&call.edge, &["crash", "power_off", "lose_region"]);
            let died = deaths.any(|death| served.asked <= death.at && Some(death.at) <= call.ended);
            died.then_some((&served.model, (served.input, served.output)))
        }),
        CallOutcome::Open
        | CallOutcome::Refused
        | CallOutcome::Failed
        | CallOutcome::Short
        | CallOutcome::Foreign
        | CallOutcome::HungUp
        | CallOutcome::Unreachable
        | CallOutcome::Late
        | CallOutcome::Abandoned => None,
    };
    used.map_or(0, |(model, usage)| u128::from(evidence.cost(model, usage)))
}

#[cfg(test)]
mod tests {
    use base::Amount;

    use super::*;
    use crate::invariants::samples::{evidence, struck};

    fn settled(amount: u64) -> Evidence {
        let mut evidence = evidence();
        evidence.ledger.as_mut().unwrap().rows[0].receipts = Amount(amount);
        evidence
    }

    #[test]
    fn a_call_billed_twice_or_not_at_all_is_found() {
        assert_eq!(judge(&settled(1_000)), []);
        assert_eq!(judge(&settled(2_000)).len(), 1);
        assert_eq!(judge(&settled(0)).len(), 2);
    }

    #[test]
    fn what_an_edge_owes_that_is_cut_off_for_ever_stays_taken() {
        let mut evidence = settled(0);
        evidence.facts.broken.insert("edge-eu".into());
        evidence.ledger.as_mut().unwrap().rows[0].outstanding = Amount(1_500);
        assert_eq!(judge(&evidence), []);
        evidence.ledger.as_mut().unwrap().rows[0].outstanding = Amount(900);
        assert_eq!(judge(&evidence).len(), 1);
    }

    #[test]
    fn a_crash_charge_covers_what_a_dead_edge_did_not_settle() {
        let mut evidence = settled(0);
        evidence.history.struck.push(struck("crash", "edge-eu", 150));
        assert_eq!(judge(&evidence).len(), 1, "nothing covers it");
        evidence.ledger.as_mut().unwrap().rows[0].crash = Amount(1_500);
        assert_eq!(judge(&evidence), []);
    }
}
