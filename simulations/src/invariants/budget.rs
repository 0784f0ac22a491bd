//! A strict budget is never above its limit, at any moment, whatever fails (design.md §4: settled + held +
//! granted-unspent + orphaned ≤ limit; overruns are counted apart). An auditor at the model servers agrees.

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::CallOutcome;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let at_the_end = evidence.ledger.iter().map(|ledger| (None, ledger));
    let seen = evidence.history.ledgers.iter().map(|(at, ledger)| (Some(*at), ledger));
    for (at, ledger) in seen.chain(at_the_end) {
        // What comes free again as time passes is judged by its span.
        let rolls =
            |name: &str| evidence.level(name).is_some_and(|level| level.window.starts_with("rolling"));
        for row in ledger.rows.iter().filter(|row| !rolls(row.budget.as_str())) {
            let parts = [row.receipts, row.crash, row.settling, row.outstanding];
            let taken: u128 = parts.iter().map(|part| u128::from(part.0)).sum();
            let most = u128::from(row.limit.0) + u128::from(row.overrun.0);
            if taken > most {
                found.push(violation("budget", at, format!("{taken} of at most {most} is taken: {row:?}")));
            }
        }
    }
    let (worth, overrun) = (worth_of_strict_answers(evidence), overrun(evidence));
    let most = u128::from(evidence.facts.budget) + overrun;
    if worth > most {
        let what = format!("model servers were asked for answers worth {worth}; the budget is {most}");
        found.push(violation("budget", None, what));
    }
    found
}

/// What the answers that strict callers got were worth, by what model servers told.
fn worth_of_strict_answers(evidence: &Evidence) -> u128 {
    let answered = evidence
        .history
        .calls
        .iter()
        .filter(|call| call.strict && matches!(call.outcome, CallOutcome::Complete));
    let cost = |id| {
        let mut told = evidence
            .history
            .served
            .iter()
            .filter(|served| served.call == Some(id))
            .filter_map(|served| Some(evidence.cost(&served.model, served.told?)));
        told.next_back().map_or(0, u128::from)
    };
    answered.map(|call| cost(call.id)).sum()
}

fn overrun(evidence: &Evidence) -> u128 {
    let rows = evidence.ledger.iter().flat_map(|ledger| &ledger.rows);
    let own = rows.filter(|row| evidence.level(row.budget.as_str()).is_none());
    own.map(|row| u128::from(row.overrun.0)).sum()
}

#[cfg(test)]
mod tests {
    use base::Amount;

    use super::*;
    use crate::invariants::samples::{at, call, evidence, ledger, served};

    #[test]
    fn more_granted_than_the_limit_is_found_when_it_was_seen() {
        let mut evidence = evidence();
        let mut seen = ledger();
        seen.rows[0].outstanding = Amount(9_001);
        evidence.history.ledgers.push((at(77), seen));
        assert_eq!(judge(&evidence)[0].at_ms, Some(77));
    }

    #[test]
    fn answers_worth_more_than_the_limit_are_found_although_the_books_look_well() {
        let mut evidence = evidence();
        for id in 1..11 {
            evidence.history.calls.push(crate::history::Call { id, ..call() });
            evidence.history.served.push(crate::history::Served { call: Some(id), ..served() });
        }
        assert!(judge(&evidence)[0].what.contains("worth 11000"), "{:?}", judge(&evidence));
    }
}
