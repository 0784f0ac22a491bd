use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::Left;

const fn at(ms: u64) -> Mono {
    Mono::from_nanos(ms * 1_000_000)
}

fn name(name: &str) -> Name {
    name.parse().unwrap()
}

fn terms(keys: &[(&str, u32)]) -> Vec<KeyTerms> {
    let key =
        |(key, weight): &(&str, u32)| KeyTerms { name: name(key), weight: *weight, terms: Terms::default() };
    keys.iter().map(key).collect()
}

fn model(name: &str) -> ModelName {
    name.parse().unwrap()
}

/// What they can do for a call of model `m`.
fn offer(keys: &Keys, tokens: u64, tried: &[Name], now: Mono) -> KeysOffer {
    keys.offer(KeyCall { model: &model("m"), tokens }, tried, now)
}

/// Takes a call of model `m`.
fn take(keys: &mut Keys, tokens: u64, tried: &[Name], now: Mono, draw: u64) -> Option<KeyTicket> {
    keys.take(KeyCall { model: &model("m"), tokens }, tried, now, draw)
}

/// One call of a model that ends as told; the key that it was made with.
fn call_of(of: &str, keys: &mut Keys, now: Mono, health: Health) -> String {
    let ticket = keys.take(KeyCall { model: &model(of), tokens: 0 }, &[], now, 0).unwrap();
    keys.end(&ticket, health, now, 0);
    ticket.name().to_string()
}

fn two() -> Keys {
    Keys::new(&terms(&[("a", 1), ("b", 1)]))
}

/// One call that ends as told; the key that it was made with.
fn call(keys: &mut Keys, now: Mono, health: Health) -> String {
    call_of("m", keys, now, health)
}

#[test]
fn calls_follow_weights_and_the_heavy_key_does_not_serve_in_bursts() {
    let mut keys = Keys::new(&terms(&[("a", 3), ("b", 1)]));
    let served: String = (0..8).map(|_call| call(&mut keys, at(0), Health::Good)).collect();
    assert_eq!(served, "aabaaaba");
}

#[test]
fn a_refused_key_is_suspended_twice_as_long_each_time_and_a_probe_brings_it_back() {
    let mut keys = two();
    assert_eq!(call(&mut keys, at(0), Health::Refused), "a");
    for now in [1, 5_000, 9_999] {
        assert_eq!(call(&mut keys, at(now), Health::Good), "b");
    }
    assert_eq!(call(&mut keys, at(10_000), Health::Refused), "a");
    assert_eq!(call(&mut keys, at(29_999), Health::Good), "b");
    assert_eq!(call(&mut keys, at(30_000), Health::Good), "a");
    let served: String = (0..4).map(|_call| call(&mut keys, at(30_000), Health::Good)).collect();
    assert_eq!(served.matches('a').count(), 2, "{served}");
}

#[test]
fn one_probe_at_a_time_and_a_probe_without_a_verdict_leaves_the_next_call_to_find_out() {
    let mut keys = Keys::new(&terms(&[("a", 1)]));
    call(&mut keys, at(0), Health::Refused);
    let probe = take(&mut keys, 0, &[], at(10_000), 0).unwrap();
    let barred = Barred { until: at(20_000), why: Barrier::Suspended };
    assert_eq!(offer(&keys, 0, &[], at(10_000)), KeysOffer::Barred(barred));
    keys.end(&probe, Health::Failed, at(10_001), 0);
    let probe = take(&mut keys, 0, &[], at(10_001), 0).unwrap();
    keys.answered(&probe);
    assert_eq!(offer(&keys, 0, &[], at(10_001)), KeysOffer::Free);
}

#[test]
fn a_new_credential_ends_a_suspension_and_new_terms_do_not() {
    let mut keys = Keys::new(&terms(&[("a", 1)]));
    call(&mut keys, at(0), Health::Refused);
    let late = take(&mut keys, 0, &[], at(10_000), 0).unwrap();
    keys.change(&terms(&[("a", 5)]), |_name| false, at(10_001));
    assert!(matches!(offer(&keys, 0, &[], at(10_001)), KeysOffer::Barred(_)));
    keys.change(&terms(&[("a", 5)]), |_name| true, at(10_001));
    assert_eq!(offer(&keys, 0, &[], at(10_001)), KeysOffer::Free);
    keys.end(&late, Health::Good, at(10_002), 0);
    assert_eq!(keys.status(at(10_002))[0].outstanding, 0);
}

#[test]
fn a_limit_paces_its_key_alone_and_the_first_that_is_back_is_told() {
    let mut keys = two();
    assert_eq!(call(&mut keys, at(0), Health::Limited(Some(Duration::from_secs(7)))), "a");
    assert_eq!(offer(&keys, 0, &[], at(0)), KeysOffer::Free);
    assert_eq!(call(&mut keys, at(0), Health::Refused), "b");
    let paced = Barred { until: at(7_000), why: Barrier::Paced };
    assert_eq!(offer(&keys, 0, &[], at(0)), KeysOffer::Barred(paced));
    assert_eq!(take(&mut keys, 0, &[], at(6_999), 0), None);
    assert_eq!(call(&mut keys, at(7_000), Health::Good), "a");
    let status = keys.status(at(1));
    assert_eq!((status[0].paced, status[1].suspended), (Some(at(7_000)), Some(at(10_000))));
}

#[test]
fn a_limit_without_a_time_slows_its_key_twice_as_long_each_time_until_it_serves() {
    let mut keys = Keys::new(&terms(&[("a", 1)]));
    let paced = |ms| KeysOffer::Barred(Barred { until: at(ms), why: Barrier::Paced });
    // Calls that were under way together are limited together.
    let tickets: Vec<_> = (0..4).map(|_call| take(&mut keys, 0, &[], at(0), 0).unwrap()).collect();
    for ticket in &tickets {
        keys.end(ticket, Health::Limited(None), at(0), 0);
    }
    assert_eq!(offer(&keys, 0, &[], at(0)), paced(1_000));
    call(&mut keys, at(1_000), Health::Limited(None));
    assert_eq!(offer(&keys, 0, &[], at(1_000)), paced(3_000));
    let late = take(&mut keys, 0, &[], at(3_000), 0).unwrap();
    call(&mut keys, at(3_000), Health::Limited(None));
    assert_eq!(offer(&keys, 0, &[], at(3_000)), paced(7_000));
    // One that began before says nothing about what came after.
    keys.end(&late, Health::Good, at(3_001), 0);
    call(&mut keys, at(7_000), Health::Limited(None));
    assert_eq!(offer(&keys, 0, &[], at(7_000)), paced(15_000));
    call(&mut keys, at(15_000), Health::Good);
    call(&mut keys, at(15_000), Health::Limited(None));
    assert_eq!(offer(&keys, 0, &[], at(15_000)), paced(16_000));
    for round in 0..9 {
        call(&mut keys, at(100_000 * (round + 1)), Health::Limited(None));
    }
    assert_eq!(offer(&keys, 0, &[], at(900_000)), paced(930_000));
}

#[test]
fn a_limited_key_leaves_the_call_to_the_next() {
    let mut keys = two();
    call(&mut keys, at(0), Health::Limited(None));
    let other = take(&mut keys, 0, &[name("a")], at(0), 0).unwrap();
    assert_eq!(other.name(), &name("b"));
    keys.end(&other, Health::Failed, at(0), 0);
    assert_eq!(offer(&keys, 0, &[name("a"), name("b")], at(1_000)), KeysOffer::None);
    assert_eq!(offer(&keys, 0, &[], at(1_000)), KeysOffer::Free);
}

#[test]
fn a_model_that_is_refused_to_a_key_leaves_its_other_models_and_other_keys_alone() {
    for health in [Health::Forbidden, Health::Missing] {
        let mut keys = two();
        assert_eq!(call_of("m", &mut keys, at(0), health), "a");
        let served: String = (0..4).map(|_call| call_of("m", &mut keys, at(0), Health::Good)).collect();
        assert_eq!(served, "bbbb");
        let served: String = (0..4).map(|_call| call_of("n", &mut keys, at(0), Health::Good)).collect();
        assert_eq!(served.matches('a').count(), 2, "{served}");
        let status = keys.status(at(0));
        assert_eq!((status[0].suspended, status[0].models[0].suspended), (None, Some(at(10_000))));
        assert_eq!(call_of("m", &mut keys, at(10_000), health), "a");
        assert_eq!(call_of("m", &mut keys, at(29_999), Health::Good), "b");
        assert_eq!(call_of("m", &mut keys, at(30_000), Health::Good), "a");
        assert!(keys.status(at(30_000))[0].models.is_empty());
    }
}

#[test]
fn two_models_forbidden_in_a_row_suspend_a_key_for_all_and_a_success_between_them_does_not() {
    let one = || Keys::new(&terms(&[("a", 1)]));
    let away = |keys: &Keys| keys.status(at(0))[0].suspended;
    let mut keys = one();
    call_of("m", &mut keys, at(0), Health::Forbidden);
    call_of("n", &mut keys, at(0), Health::Good);
    call_of("o", &mut keys, at(0), Health::Forbidden);
    assert_eq!(away(&keys), None);
    call_of("n", &mut keys, at(0), Health::Forbidden);
    assert_eq!(away(&keys), Some(at(10_000)));
    // A model that was refused before tells nothing new: the next call finds out.
    call_of("m", &mut keys, at(10_000), Health::Forbidden);
    call_of("p", &mut keys, at(10_000), Health::Good);
    assert_eq!(away(&keys), None);
    // Two models that do not exist are no fault of the key.
    let mut keys = one();
    call_of("m", &mut keys, at(0), Health::Missing);
    call_of("n", &mut keys, at(0), Health::Missing);
    assert_eq!(away(&keys), None);
}

#[test]
fn what_leaves_a_key_alone_is_told_once() {
    let mut keys = Keys::new(&terms(&[("a", 1)]));
    let mut end = |now, health| {
        let tickets = [(); 2].map(|()| take(&mut keys, 0, &[], at(now), 0));
        tickets.map(|ticket| keys.end(&ticket?, health, at(now), 0))
    };
    assert_eq!(end(0, Health::Limited(None)), [Some(Away::Paced), None]);
    assert_eq!(end(10_000, Health::Forbidden), [Some(Away::SuspendedForModel), None]);
    // As a probe, one call at a time.
    assert_eq!(end(20_000, Health::Missing), [Some(Away::SuspendedForModel), None]);
    assert_eq!(end(60_000, Health::Good), [None, None]);
    assert_eq!(end(60_000, Health::Refused), [Some(Away::Suspended), None]);
    assert_eq!(end(70_000, Health::Unknown), [None, None]);
    assert_eq!(end(70_000, Health::Refused), [Some(Away::Suspended), None]);
    let mut keys = two();
    let ticket = take(&mut keys, 0, &[], at(0), 0).unwrap();
    let told = [(1, 0), (0, 0), (0, 1)].map(|(left, ms)| keys.learn(&ticket, &says(left, 9, 1_000), at(ms)));
    assert_eq!(told, [None, Some(Away::Spent), None]);
}

fn says(requests: u64, tokens: u64, reset_ms: u64) -> Quota {
    let left = |remaining| Some(Left { limit: None, remaining, reset: Duration::from_millis(reset_ms) });
    Quota { requests: left(requests), tokens: left(tokens), ..Quota::default() }
}

#[test]
fn a_key_of_whose_limits_too_little_is_left_is_not_asked_for_that_model_until_they_are_whole() {
    let mut keys = two();
    let ticket = take(&mut keys, 0, &[], at(0), 0).unwrap();
    keys.learn(&ticket, &says(5, 100, 60_000), at(0));
    keys.end(&ticket, Health::Good, at(0), 0);
    let one = |keys: &Keys, tokens| offer(keys, tokens, &[name("b")], at(0));
    assert_eq!(one(&keys, 100), KeysOffer::Free);
    let paced = KeysOffer::Barred(Barred { until: at(60_000), why: Barrier::Paced });
    assert_eq!(one(&keys, 101), paced);
    for _call in 0..3 {
        assert_eq!(take(&mut keys, 101, &[], at(59_999), 0).unwrap().name(), &name("b"));
    }
    let spent = take(&mut keys, 0, &[name("b")], at(0), 0).unwrap();
    keys.learn(&spent, &says(0, 100, 60_000), at(0));
    assert_eq!(one(&keys, 0), paced);
    let elsewhere = KeyCall { model: &model("n"), tokens: 1_000 };
    assert_eq!(keys.offer(elsewhere, &[name("b")], at(0)), KeysOffer::Free);
    let known = &keys.status(at(0))[0].models[0];
    assert_eq!((known.requests, known.tokens, known.spent), (Some(0), Some(100), Some(at(60_000))));
    assert_eq!(offer(&keys, 1_000, &[name("b")], at(60_000)), KeysOffer::Free);
}

#[test]
fn what_is_whole_again_soon_is_waited_for() {
    let mut keys = Keys::new(&terms(&[("a", 1)]));
    let ticket = take(&mut keys, 0, &[], at(0), 0).unwrap();
    keys.learn(&ticket, &says(0, 9, 20_000), at(0));
    assert_eq!(offer(&keys, 0, &[], at(0)), KeysOffer::Full { until: Some(at(20_000)) });
    keys.learn(&ticket, &says(1, 9, 20_000), at(1));
    assert_eq!(offer(&keys, 0, &[], at(1)), KeysOffer::Free);
}

#[test]
fn what_is_known_of_models_is_bounded() {
    let mut keys = Keys::new(&terms(&[("a", 1)]));
    for number in 0..3_000 {
        let ticket = keys
            .take(KeyCall { model: &model(&format!("m{number}")), tokens: 0 }, &[], at(number), 0)
            .unwrap();
        keys.learn(&ticket, &says(1, 1, 1_500), at(number));
        keys.end(&ticket, Health::Good, at(number), 0);
        assert!(keys.status(at(0))[0].models.len() <= 1_024);
    }
    // What is past made room for what is not.
    assert!(keys.status(at(3_000))[0].models.iter().any(|of| of.model == model("m2000")));
}

#[test]
fn a_keys_own_limits_are_of_all_calls_and_others_take_what_it_cannot() {
    let few = Terms { concurrency: Some(1), tokens_per_min: Some(600), ..Terms::default() };
    let mut keys = Keys::new(&[KeyTerms { name: name("a"), weight: 1, terms: few }]);
    let mut first = take(&mut keys, 500, &[], at(0), 0).unwrap();
    assert_eq!(offer(&keys, 1, &[], at(0)), KeysOffer::Full { until: None });
    keys.settle(&mut first, 400);
    keys.end(&first, Health::Good, at(0), 0);
    assert_eq!(offer(&keys, 300, &[], at(0)), KeysOffer::Full { until: Some(at(10_000)) });
    assert_eq!(take(&mut keys, 300, &[], at(0), 0), None);
    assert_eq!(offer(&keys, 200, &[], at(0)), KeysOffer::Free);
}

#[test]
fn a_key_that_went_and_came_back_owes_nothing_to_its_old_calls() {
    let mut keys = two();
    let old = take(&mut keys, 0, &[], at(0), 0).unwrap();
    keys.change(&terms(&[("b", 1)]), |_name| false, at(0));
    keys.change(&terms(&[("a", 1)]), |_name| false, at(0));
    let new = take(&mut keys, 0, &[], at(0), 0).unwrap();
    keys.end(&old, Health::Refused, at(0), 0);
    assert_eq!(keys.status(at(0))[0].outstanding, 1);
    keys.end(&new, Health::Good, at(0), 0);
    assert_eq!(offer(&keys, 0, &[], at(0)), KeysOffer::Free);
}

proptest! {
    /// However many keys and whichever weights, each serves its share of any number of calls, within one turn of each key.
    #[test]
    fn shares_follow_weights(weights in proptest::collection::vec(1u32..20, 1..6), calls in 1u32..400) {
        let names = ["a", "b", "c", "d", "e"];
        let given: Vec<_> = names.into_iter().zip(weights.iter().copied()).collect();
        let mut keys = Keys::new(&terms(&given));
        let mut served: BTreeMap<String, i64> = BTreeMap::new();
        for _call in 0..calls {
            *served.entry(call(&mut keys, at(0), Health::Good)).or_default() += 1;
        }
        let sum = i64::from(weights.iter().sum::<u32>());
        for (key, weight) in given {
            let off = served.get(key).copied().unwrap_or_default() * sum - i64::from(calls) * i64::from(weight);
            prop_assert!(off.abs() <= sum * i64::try_from(weights.len()).unwrap(), "{key}: {off} of {sum}");
        }
    }

    /// Whatever happens: no key that is kept away is used but as a probe, one that can serve is found, no key has more calls
    /// than it may, and after the longest wait every key serves again.
    #[test]
    fn no_key_serves_that_may_not_and_each_comes_back(
        steps in proptest::collection::vec((0u64..30_000, 0u8..12, any::<u64>()), 0..80),
    ) {
        let few = Terms { concurrency: Some(3), ..Terms::default() };
        let given: Vec<_> =
            ["a", "b", "c"].map(|key| KeyTerms { name: name(key), weight: 1, terms: few }).into();
        let (mut keys, mut now, mut open) = (Keys::new(&given), at(0), Vec::new());
        for (wait, step, draw) in steps {
            now = now + Duration::from_millis(wait);
            let before = keys.status(now);
            let of = model(["m", "n"][usize::from(draw % 2 == 0)]);
            let wanted = KeyCall { model: &of, tokens: draw % 100 };
            let offered = keys.offer(wanted, &[], now) == KeysOffer::Free;
            if step < 4 || open.is_empty() {
                let ticket = keys.take(wanted, &[], now, draw);
                prop_assert_eq!(ticket.is_some(), offered);
                if let Some(ticket) = &ticket {
                    let was = before.iter().find(|key| key.name == *ticket.name()).unwrap();
                    prop_assert!(was.suspended.is_none_or(|until| until <= now) && was.paced.is_none());
                    prop_assert!(was.outstanding < 3);
                    let known = was.models.iter().find(|known| known.model == of);
                    prop_assert!(known.is_none_or(|known| known.suspended.is_none_or(|until| until <= now)
                        && known.spent.is_none()
                        && known.tokens.is_none_or(|left| left >= wanted.tokens)));
                }
                open.extend(ticket);
                continue;
            }
            let health = match step {
                4 => Health::Refused,
                5 => Health::Limited(Some(Duration::from_millis(draw % 900_000))),
                6 => Health::Limited(None),
                7 => Health::Forbidden,
                8 => Health::Missing,
                9 => Health::Good,
                10 => Health::Failed,
                _ => {
                    keys.learn(&open[0], &says(draw % 3, draw % 100, 1 + draw % 600_000), now);
                    continue;
                }
            };
            keys.end(&open.remove(0), health, now, draw);
        }
        for ticket in open {
            keys.end(&ticket, Health::Unknown, now, 0);
        }
        now = now + SUSPENDED.cap.max(MAX_PACE);
        for of in ["m", "n"] {
            let mut served: Vec<_> = (0..6).map(|_call| call_of(of, &mut keys, now, Health::Good)).collect();
            served.sort();
            served.dedup();
            prop_assert_eq!(served, ["a", "b", "c"]);
        }
        let is_well = |key: &KeyStatus| key.suspended.is_none() && key.outstanding == 0 && key.models.is_empty();
        prop_assert!(keys.status(now).iter().all(is_well));
    }
}
