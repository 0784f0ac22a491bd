use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

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

fn two() -> Keys {
    Keys::new(&terms(&[("a", 1), ("b", 1)]))
}

/// One call that ends as told; the key that it was made with.
fn call(keys: &mut Keys, now: Mono, health: Health) -> String {
    let ticket = keys.take(0, &[], now, 0).unwrap();
    keys.end(&ticket, health, now, 0);
    ticket.name().to_string()
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
    let probe = keys.take(0, &[], at(10_000), 0).unwrap();
    let barred = Barred { until: at(20_000), why: Barrier::Suspended };
    assert_eq!(keys.offer(0, &[], at(10_000)), KeysOffer::Barred(barred));
    keys.end(&probe, Health::Failed, at(10_001), 0);
    let probe = keys.take(0, &[], at(10_001), 0).unwrap();
    keys.answered(&probe);
    assert_eq!(keys.offer(0, &[], at(10_001)), KeysOffer::Free);
}

#[test]
fn a_new_credential_ends_a_suspension_and_new_terms_do_not() {
    let mut keys = Keys::new(&terms(&[("a", 1)]));
    call(&mut keys, at(0), Health::Refused);
    let late = keys.take(0, &[], at(10_000), 0).unwrap();
    keys.change(&terms(&[("a", 5)]), |_name| false, at(10_001));
    assert!(matches!(keys.offer(0, &[], at(10_001)), KeysOffer::Barred(_)));
    keys.change(&terms(&[("a", 5)]), |_name| true, at(10_001));
    assert_eq!(keys.offer(0, &[], at(10_001)), KeysOffer::Free);
    keys.end(&late, Health::Good, at(10_002), 0);
    assert_eq!(keys.status(at(10_002))[0].outstanding, 0);
}

#[test]
fn a_limit_paces_its_key_alone_and_the_first_that_is_back_is_told() {
    let mut keys = two();
    assert_eq!(call(&mut keys, at(0), Health::Limited(Some(Duration::from_secs(7)))), "a");
    assert_eq!(keys.offer(0, &[], at(0)), KeysOffer::Free);
    assert_eq!(call(&mut keys, at(0), Health::Refused), "b");
    let paced = Barred { until: at(7_000), why: Barrier::Paced };
    assert_eq!(keys.offer(0, &[], at(0)), KeysOffer::Barred(paced));
    assert_eq!(keys.take(0, &[], at(6_999), 0), None);
    assert_eq!(call(&mut keys, at(7_000), Health::Good), "a");
    let status = keys.status(at(1));
    assert_eq!((status[0].paced, status[1].suspended), (Some(at(7_000)), Some(at(10_000))));
}

#[test]
fn a_limit_without_a_time_says_nothing_but_that_the_call_goes_elsewhere() {
    let mut keys = two();
    call(&mut keys, at(0), Health::Limited(None));
    let other = keys.take(0, &[name("a")], at(0), 0).unwrap();
    assert_eq!(other.name(), &name("b"));
    assert_eq!(keys.offer(0, &[name("a"), name("b")], at(0)), KeysOffer::None);
    assert_eq!(keys.offer(0, &[], at(0)), KeysOffer::Free);
}

#[test]
fn a_keys_own_limits_are_of_all_calls_and_others_take_what_it_cannot() {
    let few = Terms { concurrency: Some(1), tokens_per_min: Some(600), ..Terms::default() };
    let mut keys = Keys::new(&[KeyTerms { name: name("a"), weight: 1, terms: few }]);
    let mut first = keys.take(500, &[], at(0), 0).unwrap();
    assert_eq!(keys.offer(1, &[], at(0)), KeysOffer::Full { until: None });
    keys.settle(&mut first, 400);
    keys.end(&first, Health::Good, at(0), 0);
    assert_eq!(keys.offer(300, &[], at(0)), KeysOffer::Full { until: Some(at(10_000)) });
    assert_eq!(keys.take(300, &[], at(0), 0), None);
    assert_eq!(keys.offer(200, &[], at(0)), KeysOffer::Free);
}

#[test]
fn a_key_that_went_and_came_back_owes_nothing_to_its_old_calls() {
    let mut keys = two();
    let old = keys.take(0, &[], at(0), 0).unwrap();
    keys.change(&terms(&[("b", 1)]), |_name| false, at(0));
    keys.change(&terms(&[("a", 1)]), |_name| false, at(0));
    let new = keys.take(0, &[], at(0), 0).unwrap();
    keys.end(&old, Health::Refused, at(0), 0);
    assert_eq!(keys.status(at(0))[0].outstanding, 1);
    keys.end(&new, Health::Good, at(0), 0);
    assert_eq!(keys.offer(0, &[], at(0)), KeysOffer::Free);
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
        steps in proptest::collection::vec((0u64..30_000, 0u8..7, any::<u64>()), 0..80),
    ) {
        let few = Terms { concurrency: Some(3), ..Terms::default() };
        let given: Vec<_> =
            ["a", "b", "c"].map(|key| KeyTerms { name: name(key), weight: 1, terms: few }).into();
        let (mut keys, mut now, mut open) = (Keys::new(&given), at(0), Vec::new());
        for (wait, step, draw) in steps {
            now = now + Duration::from_millis(wait);
            let before = keys.status(now);
            let offered = keys.offer(0, &[], now) == KeysOffer::Free;
            if step < 3 || open.is_empty() {
                let ticket = keys.take(0, &[], now, draw);
                prop_assert_eq!(ticket.is_some(), offered);
                if let Some(ticket) = &ticket {
                    let was = before.iter().find(|key| key.name == *ticket.name()).unwrap();
                    prop_assert!(was.suspended.is_none_or(|until| until <= now) && was.paced.is_none());
                    prop_assert!(was.outstanding < 3);
                }
                open.extend(ticket);
                continue;
            }
            let health = match step {
                3 => Health::Refused,
                4 => Health::Limited(Some(Duration::from_millis(draw % 900_000))),
                5 => Health::Good,
                _ => Health::Failed,
            };
            keys.end(&open.remove(0), health, now, draw);
        }
        open.drain(..).for_each(|ticket| keys.end(&ticket, Health::Unknown, now, 0));
        now = now + SUSPENDED.cap.max(MAX_PACE);
        let mut served: Vec<_> = (0..6).map(|_call| call(&mut keys, now, Health::Good)).collect();
        served.sort();
        served.dedup();
        prop_assert_eq!(served, ["a", "b", "c"]);
        prop_assert!(keys.status(now).iter().all(|key| key.suspended.is_none() && key.outstanding == 0));
    }
}
