//! What a key that may debug is told, of calls that succeed and of calls that do not.

use std::time::Duration;

use serde_json::Value;

use super::caller::Over;
use super::server::{Act, Server};
use super::world::World;

const ASKED: &str = "/v1/chat/completions?debug=true";
const CHAT: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}]}"#;
const STREAM: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true}"#;

#[tokio::test]
async fn a_key_that_may_debug_is_told_hops_attempts_and_timings() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let caller = world.caller();
    let asked = caller.over(Over::Plain1, caller.post(ASKED, CHAT)).await;
    let told = header(&asked.headers).unwrap();
    assert_eq!((&told["served_by"], &told["attempts"]), (&"local".into(), &1.into()));
    assert_eq!(told["hops"][0]["status"], 200);
    assert_eq!(header(&caller.chat(CHAT).await.headers), None);

    server.does(Act::Words(&["a"]));
    let mut request = caller.post("/v1/chat/completions", STREAM);
    request.headers_mut().insert("x-portolan-debug", "true".parse().unwrap());
    let stream = caller.over(Over::Plain1, request).await;
    assert!(header(&stream.headers).is_some());
    assert_eq!(comment(&stream.text()).unwrap()["hops"][0]["upstream"], "tiny-1");
}

#[tokio::test]
async fn a_failed_call_is_told_of_as_one_that_succeeds() {
    let server = Server::start(
        &seam::Host::real(),
        Act::Fail(500, r#"{"error":{"message":"kaboom with sk-secret"}}"#),
    )
    .await;
    let world = World::start(&server.url, |_, _| {}).await;
    let caller = world.caller();
    for body in [CHAT, STREAM] {
        let failed = caller.over(Over::Plain1, caller.post(ASKED, body)).await;
        let told = header(&failed.headers).unwrap();
        assert_eq!((failed.status.as_u16(), &told["served_by"]), (502, &"local".into()));
        assert_eq!(
            (&told["hops"][0]["upstream"], &told["hops"][0]["code"]),
            (&"tiny-1".into(), &"upstream_error".into())
        );
        assert_eq!((&told["hops"][0]["status"], told["hops"][0].get("message")), (&500.into(), None));
        assert!(!failed.text().contains("kaboom"), "{}", failed.text());
        assert!(told["admitted_us"].is_u64(), "{told}");
    }
    for record in world.records(2).await {
        let hop = &record["hops"][0];
        assert_eq!(
            (&hop["status"], &hop["code"], &hop["message"]),
            (&500.into(), &"upstream_error".into(), &"kaboom with [redacted]".into())
        );
    }
    let unknown = caller.over(Over::Plain1, caller.post(ASKED, CHAT.replace("tiny", "nonsense"))).await;
    let told = header(&unknown.headers).unwrap();
    assert_eq!((unknown.status.as_u16(), &told["node"]), (404, &"edge-here".into()));
    assert!(told["identified_us"].is_u64() && told["admitted_us"].is_null(), "{told}");
}

#[tokio::test]
async fn a_failure_after_the_head_is_told_of_in_a_comment() {
    let server = Server::start(&seam::Host::real(), Act::Silent).await;
    let world = World::start(&server.url, |config, catalog| {
        config.guard.keep_alive = Duration::from_millis(20);
        catalog.models.values_mut().next().unwrap().timeouts.first_byte_ms = 100;
    })
    .await;
    let caller = world.caller();
    let text = caller.over(Over::Plain1, caller.post(ASKED, STREAM)).await.text();
    assert_eq!(comment(&text).unwrap()["hops"][0]["code"], "upstream_timeout", "{text}");
    assert!(text.contains("\"code\":\"upstream_timeout\""), "{text}");
    assert_eq!(comment(&caller.chat(STREAM).await.text()), None);
}

#[tokio::test]
async fn a_key_that_may_not_debug_is_told_nothing_whatever_becomes_of_its_call() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |config, catalog| {
        config.guard.keep_alive = Duration::from_millis(20);
        catalog.models.values_mut().next().unwrap().timeouts.first_byte_ms = 100;
        catalog.keys.values_mut().for_each(|key| key.debug = false);
    })
    .await;
    let caller = world.caller();
    for act in [Act::Complete, Act::Words(&["a"]), Act::Fail(500, "{}"), Act::Silent] {
        server.does(act.clone());
        for body in [CHAT.to_owned(), STREAM.to_owned(), CHAT.replace("tiny", "nonsense")] {
            let answer = caller.over(Over::Plain1, caller.post(ASKED, body)).await;
            assert_eq!((header(&answer.headers), comment(&answer.text())), (None, None), "{act:?}");
        }
    }
    let nobody = world.caller().with_key("sk-unknown");
    let answer = nobody.over(Over::Plain1, nobody.post(ASKED, CHAT)).await;
    assert_eq!((answer.status.as_u16(), header(&answer.headers)), (401, None));
}

fn header(headers: &http::HeaderMap) -> Option<Value> {
    let told = headers.get("x-portolan-debug")?;
    Some(serde_json::from_slice(told.as_bytes()).unwrap())
}

fn comment(events: &str) -> Option<Value> {
    let told = events.lines().find_map(|line| line.strip_prefix(": portolan "))?;
    Some(serde_json::from_str(told).unwrap())
}
