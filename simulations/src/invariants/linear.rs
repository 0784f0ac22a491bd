//! Central's admin API is linearizable where docs/admin-api.md promises that reads of configuration and money miss
//! nothing that was acknowledged (issue 3 §4): what operators saw of each object that they share has an order; a refused
//! change (400 to 422, 503) never shows; epochs never go back from one operation to a later one, whoever asks where; one
//! epoch is one content; and a change made for an epoch makes the next one.

use std::collections::BTreeMap;

use base::Mono;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::{FIRST, History, Look, Set, Shared, WriteOutcome};
use crate::linear::{Action, MOST_STATES, Operation, Verdict, check};

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let history = &evidence.history;
    let mut found: Vec<Violation> =
        Shared::ALL.into_iter().filter_map(|object| in_order(history, object)).collect();
    found.extend(forward(history));
    found.extend(one_content(history));
    found.extend(history.sets.iter().filter_map(next_of_base));
    found
}

fn in_order(history: &History, object: Shared) -> Option<Violation> {
    let sets = history.sets.iter().filter(|set| set.object == object);
    let writes = sets.filter_map(|set| {
        let ended = match set.outcome {
            WriteOutcome::Acked(_) => set.ended,
            WriteOutcome::Unknown(_) => None,
            WriteOutcome::Refused(_) => return None,
        };
        Some(Operation { started: set.started, ended, action: Action::Write(set.value) })
    });
    let reads = history.looks.iter().filter_map(|look| {
        let action = Action::Read(*look.values.get(&object)?);
        Some(Operation { started: look.started, ended: Some(look.ended), action })
    });
    let operations: Vec<Operation> = writes.chain(reads).collect();
    let (at, what) = match check(FIRST, &operations, MOST_STATES) {
        Verdict::Linearizable => return None,
        Verdict::Broken(one) => (one.ended, format!("no order of operations explains {one:?}")),
        Verdict::Undecided => (None, format!("undecided after {MOST_STATES} states: too many unknown")),
    };
    Some(violation("linear", at, format!("{object:?}: {what}")))
}

/// An operation that showed an epoch.
#[derive(Clone, Copy, Debug)]
struct Shown {
    started: Mono,
    ended: Mono,
    epoch: u64,
    /// Whether it made the epoch, and did not only see it.
    is_new: bool,
}

fn shown(history: &History) -> Vec<Shown> {
    let looks = history.looks.iter().filter_map(|look| {
        let (started, ended, epoch) = (look.started, look.ended, look.epoch?);
        Some(Shown { started, ended, epoch, is_new: false })
    });
    let sets = history.sets.iter().filter_map(|set| match (&set.outcome, set.ended) {
        (WriteOutcome::Acked(epoch), Some(ended)) => {
            Some(Shown { started: set.started, ended, epoch: *epoch, is_new: true })
        }
        _ => None,
    });
    looks.chain(sets).collect()
}

/// Each operation shows an epoch at least as new as all that ended before it began.
fn forward(history: &History) -> Option<Violation> {
    let mut by_start = shown(history);
    let mut by_end = by_start.clone();
    by_start.sort_by_key(|one| one.started);
    by_end.sort_by_key(|one| one.ended);
    let mut ended = by_end.into_iter().peekable();
    let mut floor = 0;
    for one in by_start {
        while let Some(before) = ended.next_if(|before| before.ended < one.started) {
            floor = floor.max(before.epoch);
        }
        if one.epoch < floor + u64::from(one.is_new) {
            let what = format!("{one:?} began when epoch {floor} had been shown");
            return Some(violation("linear", Some(one.ended), what));
        }
    }
    None
}

fn one_content(history: &History) -> Option<Violation> {
    let mut seen: BTreeMap<(u64, Shared), &Look> = BTreeMap::new();
    for look in &history.looks {
        for (object, value) in look
            .epoch
            .into_iter()
            .flat_map(|epoch| look.values.iter().map(move |(object, value)| ((epoch, *object), value)))
        {
            let first = seen.entry(object).or_insert(look);
            if first.values.get(&object.1) != Some(value) {
                let what = format!("epoch {} has two contents: {first:?} and {look:?}", object.0);
                return Some(violation("linear", Some(look.ended), what));
            }
        }
    }
    None
}

fn next_of_base(set: &Set) -> Option<Violation> {
    match (set.base, &set.outcome) {
        (Some(base), WriteOutcome::Acked(epoch)) if *epoch != base + 1 => {
            let what = format!("made for epoch {base}, in force as epoch {epoch}: {set:?}");
            Some(violation("linear", set.ended, what))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{at, evidence};

    fn set(value: u64, epoch: u64, started: u64) -> Set {
        Set {
            object: Shared::Key,
            value,
            base: None,
            node: "central-eu".into(),
            started: at(started),
            ended: Some(at(started + 10)),
            outcome: WriteOutcome::Acked(epoch),
        }
    }

    fn look(value: u64, epoch: u64, started: u64) -> Look {
        Look {
            of: "catalog",
            node: "central-us".into(),
            started: at(started),
            ended: at(started + 10),
            epoch: Some(epoch),
            values: BTreeMap::from([(Shared::Key, value)]),
        }
    }

    fn of(sets: Vec<Set>, looks: Vec<Look>) -> Evidence {
        let mut evidence = evidence();
        (evidence.history.sets, evidence.history.looks) = (sets, looks);
        evidence
    }

    #[test]
    fn a_read_of_what_was_overwritten_is_found() {
        let sets = vec![set(2, 3, 0), set(3, 4, 20)];
        assert_eq!(judge(&of(sets.clone(), vec![look(3, 4, 40)])), []);
        let found = judge(&of(sets, vec![look(2, 4, 40)]));
        assert!(found[0].what.contains("no order"), "{found:?}");
    }

    #[test]
    fn a_refused_change_that_shows_is_found() {
        let mut refused = set(2, 3, 0);
        refused.outcome = WriteOutcome::Refused("503".into());
        assert!(judge(&of(vec![refused.clone()], vec![look(2, 3, 20)]))[0].what.contains("no order"));
        refused.outcome = WriteOutcome::Unknown("504".into());
        assert_eq!(judge(&of(vec![refused], vec![look(2, 3, 20)])), []);
    }

    #[test]
    fn an_epoch_that_goes_back_for_another_operator_is_found() {
        let found = judge(&of(vec![set(2, 5, 0)], vec![look(2, 4, 20)]));
        assert!(found[0].what.contains("epoch 5 had been shown"), "{found:?}");
        assert_eq!(judge(&of(vec![set(2, 5, 0)], vec![look(2, 5, 20)])), []);
        assert_eq!(judge(&of(vec![set(2, 5, 0), set(3, 5, 20)], vec![])).len(), 1, "an epoch made twice");
    }

    #[test]
    fn two_contents_of_one_epoch_are_found() {
        let sets = vec![set(2, 3, 0), set(3, 3, 0)];
        let found = judge(&of(sets, vec![look(2, 3, 5), look(3, 3, 6)]));
        assert!(found.iter().any(|found| found.what.contains("two contents")), "{found:?}");
    }

    #[test]
    fn a_change_for_an_epoch_that_makes_another_than_the_next_is_found() {
        let late = Set { base: Some(3), ..set(2, 5, 0) };
        assert!(judge(&of(vec![late], vec![]))[0].what.contains("made for epoch 3"));
    }
}
