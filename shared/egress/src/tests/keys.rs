//! The keys of a provider: which is asked, and what becomes of one that is refused or limited.

use super::*;
use crate::account::KeyState;

/// A provider that refuses `sk-revoked`, limits `sk-limited` for 7 s, and answers the others.
async fn provider(net: &network::Memory) -> Fake {
    Fake::reading(net, |request| {
        vec![if request.contains("Bearer sk-revoked\r\n") {
            with_status("401 No", "", r#"{"error":{"message":"Incorrect API key","code":"invalid_api_key"}}"#)
        } else if request.contains("Bearer sk-limited\r\n") {
            with_status("429 Slow", "retry-after: 7\r\n", "{}")
        } else if request.contains(r#""model":"broken""#) {
            with_status("500 Oops", "", "{}")
        } else {
            ok(ANSWER)
        }]
    })
    .await
}

fn of(model: &str, fake: &Fake, keys: &[Key]) -> Upstream {
    Upstream { model: model.parse().unwrap(), keys: keys.to_vec(), ..upstream("vendor", fake) }
}

fn keyed(net: &network::Memory, fake: &Fake, keys: &[Key]) -> Egress {
    let egress = Egress::new(&net.host(), options());
    egress.install(["m", "broken"].map(|model| of(model, fake, keys)).into());
    egress
}

/// Which keys a call was made with, and how that went.
fn made_with(tail: &Tail) -> Vec<(&str, Result<u16, Code>)> {
    tail.hops.iter().map(|hop| (hop.key.as_ref().unwrap().as_str(), hop.result)).collect()
}

fn state<'a>(states: &'a [KeyState], key: &str) -> &'a KeyState {
    states.iter().find(|state| state.key.as_str() == key).unwrap()
}

/// Case B126: another key is no retry of the same one.
#[tokio::test(start_paused = true)]
async fn a_call_goes_on_with_another_key_and_later_ones_leave_the_refused_alone() {
    let net = network::Memory::new();
    let fake = provider(&net).await;
    let keys = [key("sk-revoked", 5), key("sk-limited", 4), key("sk-good", 3), key("sk-better", 1)];
    let egress = keyed(&net, &fake, &keys);
    let reply = ask(&egress, false).await.unwrap();
    assert_eq!(reply.provider_key, Some(node("sk-good")));
    let (body, tail) = read(reply).await;
    let refused = [("sk-revoked", Err(Code::UpstreamAuth)), ("sk-limited", Err(Code::UpstreamRateLimited))];
    assert_eq!((body.as_str(), made_with(&tail)), (ANSWER, [&refused[..], &[("sk-good", Ok(200))]].concat()));

    let mut served: Vec<String> = Vec::new();
    for _call in 0..8 {
        served.extend(ask(&egress, true).await.unwrap().provider_key.map(|key| key.to_string()));
    }
    assert_eq!(served.iter().filter(|key| *key == "sk-good").count(), 6, "{served:?}");
    assert_eq!(fake.requests().len(), 11);
    assert!(egress.instances().iter().all(|one| one.serving));
    let states = egress.keys();
    assert!(state(&states, "sk-revoked").suspended.is_some_and(|left| left >= Duration::from_secs(9)));
    assert!(state(&states, "sk-limited").paced.is_some_and(|left| left > Duration::from_secs(6)));
    assert_eq!((state(&states, "sk-good").suspended, state(&states, "sk-good").outstanding), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn when_no_key_serves_the_first_that_is_back_tells_whose_fault_it_is_and_when() {
    let net = network::Memory::new();
    let fake = provider(&net).await;
    let egress = keyed(&net, &fake, &[key("sk-limited", 2), key("sk-revoked", 1)]);
    for hops in [2, 0] {
        let failed = ask(&egress, false).await.unwrap_err();
        assert_eq!((failed.failure.code, failed.tail.hops.len()), (Code::UpstreamRateLimited, hops));
        assert!(failed.failure.retry_after_ms.is_some_and(|wait| (6_900..=7_000).contains(&wait)));
    }
    egress.install(vec![of("m", &fake, &[key("sk-revoked", 1)])]);
    let failed = ask(&egress, false).await.unwrap_err().failure;
    assert_eq!(failed.code, Code::UpstreamAuth);
    assert!(failed.retry_after_ms.is_some_and(|wait| (9_000..=20_000).contains(&wait)), "{failed:?}");
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_credential_serves_at_once() {
    let net = network::Memory::new();
    let fake = provider(&net).await;
    let renamed = |secret| Key { terms: key("team", 1).terms, ..key(secret, 1) };
    let egress = keyed(&net, &fake, &[renamed("sk-revoked")]);
    assert_eq!(ask(&egress, false).await.unwrap_err().failure.code, Code::UpstreamAuth);
    let wider = Terms { concurrency: Some(9), ..Terms::default() };
    let mut same = renamed("sk-revoked");
    same.terms.terms = wider;
    egress.install(vec![of("m", &fake, &[same])]);
    assert_eq!(ask(&egress, false).await.unwrap_err().tail.hops.len(), 0);
    egress.install(vec![of("m", &fake, &[renamed("sk-new")])]);
    assert!(ask(&egress, false).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_model_that_fails_says_nothing_about_the_keys() {
    let net = network::Memory::new();
    let fake = provider(&net).await;
    let egress = keyed(&net, &fake, &[key("sk-a", 1), key("sk-b", 1)]);
    for _call in 0..3 {
        let head = CallHead { model: "broken".parse().unwrap(), ..call(false) };
        let body = Bytes::from_static(br#"{"model":"broken"}"#);
        let failed = egress.serve(head, body, None).await.unwrap_err();
        assert_eq!((failed.failure.code, failed.tail.hops.len()), (Code::UpstreamError, 1));
    }
    let out: Vec<_> = egress.instances().iter().map(|one| (one.model.to_string(), one.serving)).collect();
    assert_eq!(out, [("broken".to_owned(), false), ("m".to_owned(), true)]);
    assert!(egress.keys().iter().all(|key| key.suspended.is_none() && key.paced.is_none()));
    assert!(ask(&egress, false).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_keys_limits_are_of_all_models_and_whoever_waits_for_another_model_is_served() {
    let net = network::Memory::new();
    let fake = Fake::reading(&net, |request| {
        let held = request.contains("held");
        if held { vec![sent(STREAM), chunk(TEXT), Step::Hang] } else { vec![ok(ANSWER)] }
    })
    .await;
    let mut narrow = key("sk-a", 1);
    narrow.terms.terms = at_once(Some(1));
    let egress = keyed(&net, &fake, &[narrow]);
    let head = CallHead { model: "broken".parse().unwrap(), ..call(true) };
    let held = egress.serve(head, Bytes::from_static(b"held"), None).await.unwrap();
    assert_eq!(ask(&egress, false).await.unwrap_err().failure.code, Code::ModelOverloaded);
    let waits = egress.clone();
    let head = CallHead { place_ms: 60_000, ..call(false) };
    let waiting = net.host().spawn("waits", async move {
        waits.serve(head, Bytes::from_static(BODY.as_bytes()), None).await.is_ok()
    });
    net.host().sleep(Duration::from_millis(1)).await;
    let begun = net.host().now();
    drop(held);
    assert!(waiting.await.unwrap());
    assert!(net.host().now().since(begun) < Duration::from_millis(100));
}

/// A provider that limits `sk-slow` without a time, forbids it and `sk-narrow` the model `broken`, and says of `sk-spent` that
/// nothing is left for a minute, of `sk-short` that it is for 300 ms.
async fn limiting(net: &network::Memory) -> Fake {
    Fake::reading(net, |request| {
        let says = |remaining: &str, reset: &str| {
            let headers = format!(
                "x-ratelimit-limit-requests: 60\r\nx-ratelimit-remaining-requests: {remaining}\r\n\
                 x-ratelimit-reset-requests: {reset}\r\n"
            );
            with_status("200 OK", &headers, ANSWER)
        };
        vec![if request.contains("Bearer sk-slow\r\n") {
            with_status("429 Slow", "", "{}")
        } else if request.contains("Bearer sk-spent\r\n") {
            says("0", "1m0s")
        } else if request.contains("Bearer sk-short\r\n") {
            says("0", "300ms")
        } else if request.contains(r#""model":"broken""#) {
            with_status("403 No", "", r#"{"error":{"type":"permission_error","message":"not this one"}}"#)
        } else {
            says("59", "1s")
        }]
    })
    .await
}

async fn ask_broken(egress: &Egress) -> Exchange {
    let head = CallHead { model: "broken".parse().unwrap(), ..call(false) };
    egress.serve(head, Bytes::from_static(br#"{"model":"broken"}"#), None).await
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_limited_without_a_time_is_left_alone_and_alone_tells_when_to_come_again() {
    let net = network::Memory::new();
    let fake = limiting(&net).await;
    let egress = keyed(&net, &fake, &[key("sk-slow", 5), key("sk-good", 1)]);
    for hops in [2, 1, 1, 1] {
        let (_body, tail) = read(ask(&egress, false).await.unwrap()).await;
        assert_eq!(tail.hops.len(), hops);
    }
    let egress = keyed(&net, &fake, &[key("sk-slow", 1)]);
    for hops in [1, 0] {
        let failed = ask(&egress, false).await.unwrap_err();
        assert_eq!((failed.failure.code, failed.tail.hops.len()), (Code::UpstreamRateLimited, hops));
        assert!(failed.failure.retry_after_ms.is_some_and(|wait| (900..=2_000).contains(&wait)));
    }
    net.host().sleep(Duration::from_secs(2)).await;
    assert_eq!(ask(&egress, false).await.unwrap_err().tail.hops.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_model_suspends_the_key_for_that_model_alone() {
    let net = network::Memory::new();
    let fake = limiting(&net).await;
    let egress = keyed(&net, &fake, &[key("sk-narrow", 1)]);
    for hops in [1, 0] {
        let failed = ask_broken(&egress).await.unwrap_err();
        assert_eq!((failed.failure.code, failed.tail.hops.len()), (Code::UpstreamAuth, hops));
        assert!(failed.failure.retry_after_ms.is_some_and(|wait| (9_000..=20_000).contains(&wait)));
    }
    assert!(ask(&egress, false).await.is_ok());
    let states = egress.keys();
    let narrow = state(&states, "sk-narrow");
    let broken = narrow.models.iter().find(|of| of.model.as_str() == "broken").unwrap();
    assert!(narrow.suspended.is_none() && broken.suspended.is_some(), "{narrow:?}");
}

/// What the provider says of its limits is heeded, and is not the caller's.
#[tokio::test(start_paused = true)]
async fn a_key_with_nothing_left_is_not_asked_before_its_limit_is_whole_again() {
    let net = network::Memory::new();
    let fake = limiting(&net).await;
    let egress = keyed(&net, &fake, &[key("sk-spent", 9), key("sk-good", 1)]);
    let mut served = Vec::new();
    for _call in 0..4 {
        let reply = ask(&egress, false).await.unwrap();
        assert!(reply.headers.keys().all(|name| !name.as_str().contains("ratelimit")), "{:?}", reply.headers);
        served.extend(reply.provider_key.map(|key| key.to_string()));
    }
    assert_eq!(served, ["sk-spent", "sk-good", "sk-good", "sk-good"]);
    let states = egress.keys();
    let (spent, good) = (&state(&states, "sk-spent").models[0], &state(&states, "sk-good").models[0]);
    assert_eq!((spent.requests, good.requests, good.spent), (Some(0), Some(59), None));
    assert!(spent.spent.is_some_and(|left| left > Duration::from_secs(59)));
    assert_eq!(ask_broken(&egress).await.unwrap().provider_key, Some(node("sk-spent")));
    net.host().sleep(Duration::from_secs(60)).await;
    let served = ask(&egress, false).await.unwrap().provider_key;
    assert_eq!(served, Some(node("sk-spent")));
}

#[tokio::test(start_paused = true)]
async fn ends_of_calls_and_what_leaves_keys_alone_are_counted_by_key() {
    let net = network::Memory::new();
    let fake = limiting(&net).await;
    let metrics = telemetry::metrics::CentralMetrics::new();
    let egress = Egress::new(&net.host(), Options { keys: metrics.keys.clone(), ..options() });
    let keys = [key("sk-slow", 9), key("sk-spent", 5), key("sk-good", 1)];
    egress.install(["m", "broken"].map(|model| of(model, &fake, &keys)).into());
    for _call in 0..3 {
        ask(&egress, false).await.unwrap();
    }
    let text = metrics.exposition().render(None).unwrap().text;
    for (what, times) in [
        (r#"calls_total{provider="vendor",key="sk-slow",result="limited"}"#, 1),
        (r#"calls_total{provider="vendor",key="sk-spent",result="served"}"#, 1),
        (r#"calls_total{provider="vendor",key="sk-good",result="served"}"#, 2),
        (r#"away_total{provider="vendor",key="sk-slow",why="paced"}"#, 1),
        (r#"away_total{provider="vendor",key="sk-spent",why="spent"}"#, 1),
    ] {
        assert!(text.contains(&format!("portolan_provider_key_{what} {times}\n")), "{what} in {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_whole_again_soon_is_waited_for() {
    let net = network::Memory::new();
    let fake = limiting(&net).await;
    let egress = keyed(&net, &fake, &[key("sk-short", 1)]);
    let begun = net.host().now();
    for _call in 0..3 {
        let head = CallHead { place_ms: 20_000, ..call(false) };
        egress.serve(head, Bytes::from_static(BODY.as_bytes()), None).await.unwrap();
    }
    let took = net.host().now().since(begun);
    assert!((Duration::from_millis(600)..Duration::from_millis(700)).contains(&took), "{took:?}");
}
