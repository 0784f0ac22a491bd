use simulation_hooks::Random;

use super::*;

fn at(ms: u64) -> Mono {
    Mono::from_nanos(ms * 1_000_000)
}

fn write(value: u64, started: u64, ended: u64) -> Operation {
    Operation { started: at(started), ended: Some(at(ended)), action: Action::Write(value) }
}

fn lost_write(value: u64, started: u64) -> Operation {
    Operation { started: at(started), ended: None, action: Action::Write(value) }
}

fn read(value: u64, started: u64, ended: u64) -> Operation {
    Operation { started: at(started), ended: Some(at(ended)), action: Action::Read(value) }
}

fn judged(operations: &[Operation]) -> Verdict {
    check(0, operations, MOST_STATES)
}

#[test]
fn operations_that_overlap_may_take_effect_in_any_order() {
    let both = [write(1, 0, 10), write(2, 0, 10)];
    for last in [1, 2] {
        assert_eq!(judged(&[both[0], both[1], read(last, 20, 30)]), Verdict::Linearizable);
    }
    assert_eq!(judged(&[write(1, 0, 10), read(0, 5, 6), read(1, 7, 8)]), Verdict::Linearizable);
}

#[test]
fn a_read_of_what_was_overwritten_is_found() {
    let stale = read(1, 30, 40);
    assert_eq!(judged(&[write(1, 0, 10), write(2, 15, 20), stale]), Verdict::Broken(stale));
}

#[test]
fn a_write_that_takes_effect_twice_is_found() {
    let twice = [write(1, 0, 100), read(1, 10, 11), write(2, 20, 25), read(2, 30, 31), read(1, 40, 41)];
    assert!(matches!(judged(&twice), Verdict::Broken(_)));
}

#[test]
fn a_value_seen_before_it_was_asked_for_is_found() {
    assert!(matches!(judged(&[read(1, 0, 5), write(1, 6, 9)]), Verdict::Broken(_)));
}

#[test]
fn a_write_without_an_answer_takes_effect_late_or_never_but_once() {
    let lost = lost_write(1, 0);
    assert_eq!(judged(&[lost, write(2, 10, 20), read(2, 30, 40)]), Verdict::Linearizable);
    assert_eq!(judged(&[lost, write(2, 10, 20), read(1, 3_000, 3_010)]), Verdict::Linearizable);
    let again = [lost, read(1, 5, 6), write(2, 10, 20), read(2, 30, 40), read(1, 50, 60)];
    assert!(matches!(judged(&again), Verdict::Broken(_)));
}

#[test]
fn a_search_that_would_not_end_gives_up() {
    let all: Vec<_> = (1..14).map(|value| write(value, 0, 100)).chain([read(99, 200, 201)]).collect();
    assert_eq!(check(0, &all, 1_000), Verdict::Undecided);
}

/// A register served by one machine at one instant within each operation: linearizable by what it is.
fn good_history(random: &mut Random) -> Vec<Operation> {
    let (mut effects, mut operations) = (Vec::new(), Vec::new());
    let clients = 2 + random.below(4);
    for client in 0..clients {
        let mut now = random.below(50);
        for turn in 0..8 {
            let started = now;
            let effect = started + random.below(40);
            let ended = effect + random.below(40);
            now = ended + 1 + random.below(30);
            let id = operations.len();
            let action = match random.below(2) {
                0 => Action::Write(1 + client * 100 + turn),
                _ => Action::Read(0),
            };
            let is_lost = random.below(6) == 0 && matches!(action, Action::Write(_));
            // One that got no answer took effect in the same way, much later, or never.
            let effect = match (is_lost, random.below(3)) {
                (true, 0) => None,
                (true, 1) => Some(effect + 500),
                _ => Some(effect),
            };
            effects.extend(effect.map(|effect| (effect, id)));
            let ended = (!is_lost).then(|| at(ended));
            operations.push(Operation { started: at(started), ended, action });
        }
    }
    effects.sort_unstable();
    let mut value = 0;
    for (_, id) in effects {
        match &mut operations[id].action {
            Action::Write(written) => value = *written,
            Action::Read(seen) => *seen = value,
        }
    }
    operations
}

#[test]
fn every_history_of_one_machine_is_linearizable() {
    for seed in 0..500 {
        let history = good_history(&mut Random::new(seed));
        assert_eq!(judged(&history), Verdict::Linearizable, "seed {seed}: {history:#?}");
    }
}

/// All orders that respect time, tried one by one.
fn by_force(value: u64, left: &[Operation]) -> bool {
    let until = left.iter().filter_map(|one| one.ended).min();
    let Some(until) = until else { return true };
    (0..left.len()).filter(|at| left[*at].started <= until).any(|at| {
        let rest: Vec<_> =
            left.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, one)| *one).collect();
        match left[at].action {
            Action::Write(written) => by_force(written, &rest),
            Action::Read(seen) => seen == value && by_force(value, &rest),
        }
    })
}

#[test]
fn it_says_what_trying_all_orders_says() {
    let mut broken = 0;
    for seed in 0..3_000 {
        let mut random = Random::new(seed);
        let one = |random: &mut Random| {
            let started = random.below(12);
            let action = match random.below(2) {
                0 => Action::Write(random.below(3)),
                _ => Action::Read(random.below(3)),
            };
            let ended = (random.below(5) > 0).then(|| at(started + random.below(6)));
            Operation { started: at(started), ended, action }
        };
        let history: Vec<_> = (0..6).map(|_| one(&mut random)).collect();
        let seen: Vec<_> = history.iter().copied().filter(|one| matters(one, &history)).collect();
        let expected = by_force(0, &seen);
        broken += u32::from(!expected);
        assert_eq!(judged(&history) == Verdict::Linearizable, expected, "seed {seed}: {history:#?}");
    }
    assert!((500..2_500).contains(&broken), "{broken} of 3000 are broken: the test says little");
}
