//! The budget law at every level, from what callers and model servers saw: no calls within a budget's span were answered for
//! more than its limit (design.md §4; docs/budgets.md). And all budgets of a call pay, or none: what each settled is what
//! the records of its calls say, so that nothing stays charged of a call that another level refused, and no unit is
//! forgotten.
//!
//! A span that moves lets pass what is spent within it: calls that began and ended inside. It counts a hundredth shorter
//! here, since clocks may run fast.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Mono;

use super::{Violation, billed, violation};
use crate::evidence::{Evidence, Record};
use crate::history::{Call, CallOutcome, Served, ServedEnd};
use crate::scenario::{Level, Of, Unit};

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for level in evidence.facts.levels.iter().filter(|level| !level.soft) {
        if let Some(span) = level.span() {
            found.extend(exceeded(evidence, level, span));
        }
        if level.window != "minute" && billed::is_exact(evidence) {
            found.extend(differs(evidence, level));
        }
    }
    found
}

/// The first span in which more was spent than the limit.
fn exceeded(evidence: &Evidence, level: &Level, span: Duration) -> Option<Violation> {
    let span = span.saturating_sub(span / 100);
    let most = u128::from(level.limit) + rows(evidence, level, |row| row.overrun.0);
    for paid in answered(evidence, level).into_values() {
        for (began, ..) in &paid {
            let within = paid.iter().filter(|(started, ended, _amount)| {
                started >= began && (span > Duration::from_secs(86_400) || ended.since(*began) <= span)
            });
            let sum: u128 = within.map(|(.., amount)| u128::from(*amount)).sum();
            if sum > most {
                let what = format!("answers for {sum} of at most {most} of {}", level.name);
                return Some(violation("levels", Some(*began), what));
            }
        }
    }
    None
}

/// Begin, end and amount of calls that were answered and that a budget pays for, by account.
fn answered(evidence: &Evidence, level: &Level) -> BTreeMap<String, Vec<(Mono, Mono, u64)>> {
    let mut answered: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for call in evidence.history.calls.iter().filter(|call| call.outcome == CallOutcome::Complete) {
        let account = if level.of == Of::User { call.caller.clone() } else { String::new() };
        if let (Some(ended), Some(amount)) = (call.ended, amount(evidence, level, call)) {
            answered.entry(account).or_default().push((call.started, ended, amount));
        }
    }
    answered
}

/// What a call that was answered cost a budget at least; `None`: it may not pay for it.
fn amount(evidence: &Evidence, level: &Level, call: &Call) -> Option<u64> {
    let served = evidence.history.served.iter();
    let whole: Vec<&Served> =
        served.filter(|served| served.call == Some(call.id) && served.end == ServedEnd::Complete).collect();
    let pays = match &level.of {
        Of::Tenant | Of::App | Of::Key | Of::Scenario | Of::User => call.strict,
        Of::Model(model) => {
            call.strict && !whole.is_empty() && whole.iter().all(|served| served.model == *model)
        }
        Of::Provider(name) => !whole.is_empty() && whole.iter().all(|served| served.server == *name),
    };
    let told = whole.iter().filter_map(|served| Some((&served.model, served.told?)));
    let amount = match level.unit {
        Unit::Requests => 1,
        Unit::Tokens => told.map(|(_model, (input, output))| input + output).min().unwrap_or(0),
        Unit::Usd => told.map(|(model, told)| evidence.cost(model, told)).min().unwrap_or(0),
    };
    pays.then_some(amount)
}

/// What a budget settled differs from what the records of its calls say.
fn differs(evidence: &Evidence, level: &Level) -> Option<Violation> {
    let settled = rows(evidence, level, |row| row.receipts.0) + rows(evidence, level, |row| row.settling.0);
    let pays = |record: &&Record| match &level.of {
        Of::Tenant | Of::App | Of::Key | Of::Scenario | Of::User => {
            record.tenant.as_deref() == Some("strict")
        }
        Of::Model(model) => {
            record.tenant.as_deref() == Some("strict") && record.paid.model.as_ref() == Some(model)
        }
        Of::Provider(provider) => record.paid.provider.as_ref() == Some(provider),
    };
    let amount = |record: &Record| match level.unit {
        Unit::Requests => u64::from(record.cost > 0),
        Unit::Tokens => record.paid.tokens,
        Unit::Usd => record.cost,
    };
    let recorded: u128 = evidence.records.iter().filter(pays).map(|record| u128::from(amount(record))).sum();
    let what = || format!("{settled} of {} settled, {recorded} recorded", level.name);
    (settled != recorded && evidence.ledger.is_some()).then(|| violation("levels", None, what()))
}

fn rows(evidence: &Evidence, level: &Level, part: fn(&central::admin::api::LedgerRow) -> u64) -> u128 {
    let rows = evidence.ledger.iter().flat_map(|ledger| &ledger.rows);
    rows.filter(|row| row.budget.as_str() == level.name).map(|row| u128::from(part(row))).sum()
}

#[cfg(test)]
mod tests {
    use base::Amount;

    use super::*;
    use crate::invariants::samples::{at, call, evidence, ledger, level, served};

    fn sample() -> Evidence {
        let mut evidence = evidence();
        evidence.facts.levels = vec![level()];
        let mut row = ledger().rows.remove(0);
        row.budget = "one".parse().unwrap();
        row.receipts = Amount(1);
        evidence.ledger.as_mut().unwrap().rows.push(row);
        evidence
    }

    #[test]
    fn one_answer_too_many_is_found_within_its_span() {
        let mut evidence = sample();
        assert_eq!(judge(&evidence), []);
        evidence.facts.levels[0].limit = 1;
        let later = Call { id: 1, started: at(5_000), ended: Some(at(5_100)), ..call() };
        evidence.history.calls.push(later);
        evidence.history.served.push(Served { call: Some(1), ..served() });
        assert!(judge(&evidence)[0].what.starts_with("answers for 2 of at most 1 of one"));
        evidence.facts.levels[0].window = "rolling 5s".into();
        assert_eq!(judge(&evidence), [], "the first came free meanwhile");
        evidence.facts.levels[0].window = "rolling 6s".into();
        assert_eq!(judge(&evidence).len(), 1);
        evidence.facts.levels[0].of = Of::User;
        evidence.history.calls[1].caller = "another".into();
        assert_eq!(judge(&evidence), [], "each has the whole limit");
    }

    #[test]
    fn what_one_level_kept_or_forgot_is_found() {
        for kept in [0, 2] {
            let mut evidence = sample();
            evidence.ledger.as_mut().unwrap().rows[1].receipts = Amount(kept);
            assert!(judge(&evidence)[0].what.ends_with("of one settled, 1 recorded"));
        }
    }
}
