//! Calls that are refused: cheaply, with a code, and without harm to the next.

use std::time::Duration;

use base::{NanoUsd, Price, Rates, Unit};

use super::caller::{ALL, Over};
use super::server::{Act, Server};
use super::world::World;
use crate::fixtures;

const CHAT: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}]}"#;

#[tokio::test]
async fn bodies_that_are_no_calls_are_told_what_is_wrong() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |config, _| config.guard.body_bytes = 12 * 1024 * 1024).await;
    let caller = world.caller();
    let nested = format!(r#"{{"model":"tiny","messages":{}{}}}"#, "[".repeat(5 << 20), "]".repeat(5 << 20));
    for (body, expected) in [
        ("", (400, "invalid_request")),
        ("hello", (400, "invalid_request")),
        ("[]", (400, "invalid_request")),
        (r#"{"model":"tiny"}"#, (400, "invalid_request")),
        (r#"{"model":"tiny","messages":[{"role":"user"#, (400, "invalid_request")),
        (r#"{"model":7,"messages":[]}"#, (400, "invalid_request")),
        (r#"{"model":"tiny","messages":[{}],"stream":"yes"}"#, (400, "invalid_request")),
        (r#"{"model":"absent","messages":[{}]}"#, (404, "model_not_found")),
        (nested.as_str(), (400, "invalid_request")),
    ] {
        let (status, code) = caller.chat(body.to_owned()).await.error();
        let start = body.get(..60).unwrap_or(body);
        assert_eq!((status, code.as_str()), expected, "{start}");
    }
    assert!(server.asked().is_empty());
    assert_eq!(caller.chat(CHAT).await.status, 200);
}

#[tokio::test]
async fn keys_that_are_missing_wrong_or_revoked_are_refused_over_every_version() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, _| {}).await;
    for (key, expected) in
        [("", "missing_api_key"), ("sk-no", "invalid_api_key"), ("sk-revoked", "invalid_api_key")]
    {
        let caller = world.caller().with_key(key);
        for over in ALL {
            let answer = caller.over(over, caller.post("/v1/chat/completions", CHAT)).await;
            assert_eq!(answer.error(), (401, expected.to_owned()), "{over:?}");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
        }
        assert_eq!(caller.over(Over::Plain1, caller.get("/v1/models")).await.status, 401);
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_announced_or_not_over_every_version() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |config, _| config.guard.body_bytes = 1_024).await;
    let caller = world.caller();
    for over in ALL {
        let answer = caller.over(over, caller.post("/v1/chat/completions", vec![b' '; 4_096])).await;
        assert_eq!(answer.error(), (413, "body_too_large".to_owned()), "{over:?}");
    }
    let chunked = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-test\r\n\
                   transfer-encoding: chunked\r\n\r\n800\r\n";
    let mut bytes = chunked.as_bytes().to_vec();
    bytes.extend_from_slice(&vec![b' '; 0x800]);
    bytes.extend_from_slice(b"\r\n");
    let answer = caller.raw(&bytes, Duration::from_secs(2)).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn wrong_types_paths_and_methods_are_told_apart() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let caller = world.caller();
    let mut text = caller.post("/v1/chat/completions", CHAT);
    text.headers_mut().insert("content-type", "text/plain".parse().unwrap());
    assert_eq!(caller.over(Over::Plain1, text).await.error(), (415, "unsupported_media_type".to_owned()));
    let mut packed = caller.post("/v1/chat/completions", CHAT);
    packed.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
    assert_eq!(caller.over(Over::Plain1, packed).await.error().0, 415);
    let absent = caller.over(Over::Plain1, caller.post("/v1/nothing", CHAT)).await;
    assert_eq!(absent.error(), (404, "not_found".to_owned()));
    let wrong = caller.over(Over::Plain1, caller.get("/v1/chat/completions")).await;
    assert_eq!(wrong.error(), (405, "method_not_allowed".to_owned()));
    assert_eq!(wrong.headers["allow"], "POST");
    let hidden = caller.over(Over::Secure2, caller.get("/metrics")).await;
    assert_eq!(hidden.status, 404, "this listener does not serve metrics");
}

#[tokio::test]
async fn a_strict_budget_that_cannot_be_asked_or_bounded_refuses_and_spends_nothing() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, catalog| {
        let budget = fixtures::budget("acme-day", Unit::NanoUsd);
        catalog.budgets.insert(budget.name.clone(), budget);
        let mut priced = fixtures::model("priced", "http://127.0.0.1:1");
        priced.price = Some(Price::flat(Rates { call: NanoUsd(5), ..Rates::default() }));
        catalog.models.insert(priced.name.clone(), priced);
    })
    .await;
    let caller = world.caller();
    let unbounded = caller.chat(CHAT).await;
    assert_eq!(unbounded.error(), (400, "unbounded_cost".to_owned()));
    let said = unbounded.text();
    assert!(said.contains("acme-day") && said.contains("model tiny has no `price`"), "{said}");
    assert!(!said.contains("Send "), "nothing that the caller sends would help: {said}");
    let unasked = caller.chat(CHAT.replace("tiny", "priced")).await;
    assert_eq!(unasked.error(), (503, "budget_unavailable".to_owned()));
    assert!(server.asked().is_empty());
    world.quiet().await;
}

#[tokio::test]
async fn no_more_connections_are_open_than_the_node_takes_and_places_come_back() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |config, _| config.guard.connections = 2).await;
    let caller = world.caller();
    let held = (caller.stream(Over::Plain1).await, caller.stream(Over::Plain1).await);
    let refused = caller.raw(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", Duration::from_secs(2)).await;
    assert_eq!(refused, "");
    drop(held);
    let served = async {
        let request = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        while caller.raw(request, Duration::from_secs(2)).await.is_empty() {}
    };
    world.host.timeout(Duration::from_secs(2), served).await.expect("places come back");
}

#[tokio::test]
async fn a_renewed_certificate_is_served_without_a_restart() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let old = world.caller();
    assert_eq!(old.over(Over::Secure1, old.get("/healthz")).await.status, 200);
    let new = world.renew_certificate().await;
    let served = async {
        while !new.trusts(Over::Secure1).await {
            world.host.sleep(Duration::from_millis(50)).await;
        }
    };
    world.host.timeout(Duration::from_secs(12), served).await.expect("the new one is in force");
    assert_eq!(new.over(Over::Secure3, new.get("/healthz")).await.status, 200);
}
