//! What an operator changes of objects that calls use holds soon after it was acknowledged, and only while it stands: a
//! key that may ask for one model gets answers of no other, one that may make one call a second gets no three in less, no
//! key is refused so once it is free, and central asks a provider where it is, with the credential it has
//! (docs/configuration.md).

use std::collections::BTreeMap;
use std::time::Duration;

use base::Mono;

use super::current::{WITHIN, is_well, most_centrals_are_well};
use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::{Adjustment, Call, CallOutcome, Served, Terms, WriteOutcome};

/// Where nobody was struck, a change is pushed within a second (design.md §1), and the node that acts on it was decided
/// on before the request is noted.
const PUSHED: Duration = Duration::from_secs(3);

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let history = &evidence.history;
    let mut found = Vec::new();
    if history.adjustments.is_empty() {
        return found;
    }
    let mut slowed: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in history.calls.iter().filter(|call| call.bound) {
        let (Some(sent), Some(head)) = (call.sent, call.head) else { continue };
        let terms: Vec<_> = possible(evidence, &call.edge, (sent, head), &KEY).collect();
        if !terms.iter().any(|terms| agrees(terms, call)) {
            let what = format!("no terms of its key that may have been in force then allow {call:?}");
            found.push(violation("adjusted", Some(sent), what));
        }
        if call.outcome == CallOutcome::Complete && terms.iter().all(|terms| is_limited(terms)) {
            slowed.entry(&call.edge).or_default().push(call);
        }
    }
    for calls in slowed.into_values() {
        found.extend(calls.windows(3).filter(|three| is_crowd(three)).map(|three| {
            violation("adjusted", None, format!("more answers than its key may have: {three:?}"))
        }));
    }
    for served in &history.served {
        if let (Some(by), Some(key)) = (&served.by, &served.credential) {
            let mut terms = possible(evidence, by, (served.asked, served.asked), &PROVIDER);
            if !terms.any(|terms| is_at(terms, served, key)) {
                let what = format!("the provider was elsewhere, or had another credential: {served:?}");
                found.push(violation("adjusted", Some(served.asked), what));
            }
        }
    }
    found
}

const KEY: Terms = Terms::Key { only: None, limited: false };
const PROVIDER: Terms = Terms::Provider { server: String::new(), credential: "" };

/// Whether a call may have ended so under these terms.
fn agrees(terms: &Terms, call: &Call) -> bool {
    let Terms::Key { only, limited } = terms else { return false };
    let is_listed = only.as_ref().is_none_or(|only| *only == call.model);
    match (call.outcome, call.code.as_deref()) {
        (CallOutcome::Complete, _) => is_listed,
        (_, Some("forbidden")) => !is_listed,
        (_, Some("rate_limited")) => *limited,
        // Other ends are others' matter.
        (_, _) => true,
    }
}

const fn is_limited(terms: &Terms) -> bool {
    matches!(terms, Terms::Key { limited: true, .. })
}

/// Whether so many calls were let in within a second. A limit lets the calls of a second in at once, so that two are
/// right.
fn is_crowd(calls: &[&Call]) -> bool {
    let first = calls.iter().filter_map(|call| call.sent).min();
    let last = calls.iter().filter_map(|call| call.head).max();
    first.zip(last).is_some_and(|(first, last)| last.since(first) < Duration::from_secs(1))
}

fn is_at(terms: &Terms, served: &Served, key: &str) -> bool {
    matches!(terms, Terms::Provider { server, credential } if *server == served.server && *credential == key)
}

/// Terms of the object of `like` that may have been in force at `machine` at some time of `when`.
fn possible<'a>(
    evidence: &'a Evidence,
    machine: &str,
    (from, until): (Mono, Mono),
    like: &Terms,
) -> impl Iterator<Item = &'a Terms> + use<'a> {
    let all = evidence.history.adjustments.iter();
    let all: Vec<&Adjustment> = all.filter(|one| one.terms.is_of_same(like)).collect();
    let holds = |one: &&Adjustment| {
        acknowledged(one).is_some_and(|acked| holds_since(evidence, machine, acked, from))
    };
    let last = all.iter().rposition(holds).unwrap_or(0);
    // One without an answer may come into force at any time.
    let may_hold = move |(at, one): &(usize, &Adjustment)| match one.outcome {
        WriteOutcome::Acked(_) => *at >= last && one.started <= until,
        WriteOutcome::Unknown(_) => one.started <= until,
        WriteOutcome::Refused(_) => false,
    };
    all.into_iter().enumerate().filter(may_hold).map(|(_at, one)| &one.terms)
}

fn acknowledged(one: &Adjustment) -> Option<Mono> {
    one.ended.filter(|_| matches!(one.outcome, WriteOutcome::Acked(_)))
}

/// Whether what was acknowledged at `acked` holds at the machine at `now`: soon where nobody was struck, later where it
/// and most of central are well.
fn holds_since(evidence: &Evidence, machine: &str, acked: Mono, now: Mono) -> bool {
    let is_calm = || evidence.facts.machines.keys().all(|name| is_well(evidence, name, acked, now));
    let is_fit = || is_well(evidence, machine, acked, now) && most_centrals_are_well(evidence, acked, now);
    (acked + PUSHED <= now && is_calm()) || (acked + WITHIN <= now && is_fit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{at, call, evidence, served, struck};

    fn adjustment(terms: Terms, ended: u64) -> Adjustment {
        let outcome = WriteOutcome::Acked(1);
        Adjustment { terms, started: at(ended - 5), ended: Some(at(ended)), outcome }
    }

    fn bound(ms: u64, model: &str) -> Call {
        Call { bound: true, model: model.into(), sent: Some(at(ms)), head: Some(at(ms + 5)), ..call() }
    }

    fn restricted_at_1000() -> Evidence {
        let mut evidence = evidence();
        let only = Terms::Key { only: Some("chat".into()), limited: false };
        evidence.history.adjustments = vec![adjustment(KEY, 10), adjustment(only, 1_000)];
        evidence
    }

    #[test]
    fn an_answer_of_a_model_that_the_key_may_not_ask_for_is_found_once_edges_must_know() {
        let mut evidence = restricted_at_1000();
        evidence.history.calls = vec![bound(3_900, "far"), bound(4_100, "chat")];
        assert_eq!(judge(&evidence), []);
        evidence.history.calls.push(bound(4_100, "far"));
        assert_eq!(judge(&evidence).len(), 1);
        evidence.history.struck.push(struck("partition", "central-eu", 2_000));
        assert_eq!(judge(&evidence), [], "the edge may have to find another central node");
        evidence.history.adjustments[1].outcome = WriteOutcome::Unknown("504".into());
        evidence.history.calls.push(bound(60_000, "far"));
        assert_eq!(judge(&evidence), [], "it may be in force or not");
    }

    #[test]
    fn a_refusal_that_no_terms_ask_for_is_found() {
        let mut evidence = restricted_at_1000();
        let refused = |code: &str, ms| Call {
            outcome: CallOutcome::Refused,
            code: Some(code.into()),
            ..bound(ms, "far")
        };
        evidence.history.calls = vec![refused("forbidden", 1_100), refused("budget_exceeded", 500)];
        assert_eq!(judge(&evidence), []);
        evidence.history.calls = vec![refused("forbidden", 500), refused("rate_limited", 1_100)];
        assert_eq!(judge(&evidence).len(), 2);
    }

    #[test]
    fn three_answers_within_the_second_of_a_limit_of_one_are_found() {
        let mut evidence = evidence();
        let limited = Terms::Key { only: None, limited: true };
        evidence.history.adjustments = vec![adjustment(KEY, 10), adjustment(limited, 1_000)];
        evidence.history.calls = [3_500, 4_200, 4_490].map(|ms| bound(ms, "chat")).into();
        assert_eq!(judge(&evidence), [], "the first may have come before the limit");
        evidence.history.calls.push(bound(4_900, "chat"));
        assert_eq!(judge(&evidence).len(), 1);
    }

    #[test]
    fn a_provider_that_is_asked_where_it_was_is_found() {
        let mut evidence = evidence();
        let provider = |server: &str| Terms::Provider { server: server.into(), credential: "sk-1" };
        evidence.history.adjustments = vec![adjustment(provider("a"), 10), adjustment(provider("b"), 1_000)];
        let asked = |ms, server: &str, key: &str| Served {
            server: server.into(),
            by: Some("central-eu".into()),
            credential: Some(key.into()),
            asked: at(ms),
            ..served()
        };
        evidence.history.served = vec![asked(500, "a", "sk-1"), asked(3_900, "a", "sk-1")];
        assert_eq!(judge(&evidence), []);
        evidence.history.served = vec![asked(4_100, "a", "sk-1"), asked(4_100, "b", "sk-2")];
        assert_eq!(judge(&evidence).len(), 2);
    }
}
