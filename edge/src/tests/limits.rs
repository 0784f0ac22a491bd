//! Limits of the node, the tenant and the key, each refused with its own code, a time to come back, and places that do.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use wire::catalog::Limits;

use super::caller::{Answered, Caller, Over};
use super::server::{Act, Server};
use super::world::World;
use crate::admission::Level;
use crate::fixtures;

const CHAT: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}]}"#;
const STREAM: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true}"#;

const LEVELS: [Level; 3] = [Level::Node, Level::Tenant, Level::Key];

#[tokio::test]
async fn a_rate_refuses_at_every_level_says_when_and_then_lets_pass() {
    for level in LEVELS {
        let (server, world) = limited(level, Limits { requests_per_s: Some(1), ..Limits::default() }).await;
        let caller = world.caller();
        assert_eq!(caller.chat(CHAT).await.status, 200, "{level:?}");
        refused(&caller.chat(CHAT).await, level, "rate_limited");
        let other = world.caller().with_key("sk-other").chat(CHAT).await;
        assert_eq!(other.status == 200, level == Level::Key, "{level:?}: another key of the tenant");
        let served = server.asked().len();
        comes_back(&world, || async { caller.chat(CHAT).await.status == 200 }).await;
        assert_eq!(server.asked().len(), served + 1, "what is refused reaches no model");
    }
}

#[tokio::test]
async fn calls_at_once_are_refused_beyond_the_limit_at_every_level_and_places_come_back() {
    for level in LEVELS {
        let (server, world) = limited(level, Limits { concurrency: Some(1), ..Limits::default() }).await;
        let caller = world.caller();
        server.does(Act::Silent);
        let (asking, request) = (caller.clone(), caller.post("/v1/chat/completions", CHAT));
        let held = world.host.spawn("call", async move { asking.over(Over::Plain1, request).await }).bound();
        server.open(1).await;
        server.does(Act::Complete);
        refused(&caller.chat(CHAT).await, level, "concurrency_limited");
        refused(
            &caller.over(Over::Secure3, caller.post("/v1/embeddings", EMBED)).await,
            level,
            "concurrency_limited",
        );
        let other = world.caller().with_key("sk-other").chat(CHAT).await;
        assert_eq!(other.status == 200, level == Level::Key, "{level:?}: another key of the tenant");
        drop(held);
        comes_back(&world, || async { caller.chat(CHAT).await.status == 200 }).await;
        // Refusals and failures give their places back too.
        server.does(Act::Fail(400, r#"{"error":{"message":"no"}}"#));
        for _call in 0..3 {
            assert_eq!(caller.chat(CHAT).await.status, 400);
            assert_eq!(caller.chat("nonsense").await.status, 400);
        }
        server.does(Act::Complete);
        assert_eq!(caller.chat(CHAT).await.status, 200);
    }
}

const EMBED: &str = r#"{"model":"tiny","input":"hi"}"#;

#[tokio::test]
async fn open_streams_are_refused_beyond_the_limit_at_every_level_and_other_calls_are_not() {
    for level in LEVELS {
        let (server, world) = limited(level, Limits { streams: Some(1), ..Limits::default() }).await;
        let caller = world.caller();
        server.does(Act::Break(&["one"]));
        let mut held = stream(&caller).await;
        refused(&caller.chat(STREAM).await, level, "concurrency_limited");
        server.does(Act::Complete);
        assert_eq!(caller.chat(CHAT).await.status, 200, "{level:?}: a call that is no stream");
        // The place comes back when the stream ends, while its caller stays.
        server.go_on();
        while held.frame().await.is_some() {}
        comes_back(&world, || async { caller.chat(STREAM).await.status == 200 }).await;
        server.does(Act::Hang(&["one"]));
        let left = stream(&caller).await;
        refused(&caller.chat(STREAM).await, level, "concurrency_limited");
        drop(left);
        server.open(0).await;
        server.does(Act::Complete);
        comes_back(&world, || async { caller.chat(STREAM).await.status == 200 }).await;
    }
}

#[tokio::test]
async fn a_rate_of_none_refuses_without_a_time_to_come_back() {
    let (server, world) = limited(Level::Key, Limits { requests_per_s: Some(0), ..Limits::default() }).await;
    let answer = world.caller().chat(CHAT).await;
    assert_eq!(answer.error(), (429, "rate_limited".to_owned()));
    assert!(!answer.headers.contains_key("retry-after"));
    assert!(server.asked().is_empty());
    let caller = world.caller();
    let page = caller.over(Over::Plain1, caller.get("/metrics")).await.text();
    let counted = r#"portolan_refusals_total{level="key",what="requests_per_s"} 1"#;
    assert!(page.contains(counted), "{page}");
}

/// An edge with limits at one level. The tenant has a second key, `sk-other`, with the same limits of its own.
async fn limited(level: Level, limits: Limits) -> (Server, World) {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |config, catalog| {
        match level {
            Level::Node => config.guard.limits = limits,
            Level::Tenant => catalog.tenants.values_mut().for_each(|tenant| tenant.limits = limits),
            Level::Key => catalog.keys.values_mut().for_each(|key| key.limits = limits),
        }
        let mut other = catalog.keys.values().next().unwrap().clone();
        other.name = "other".parse().unwrap();
        other.hash = fixtures::hash("sk-other");
        catalog.keys.insert(other.name.clone(), other);
    })
    .await;
    (server, world)
}

fn refused(answer: &Answered, level: Level, code: &str) {
    let expected = match level {
        Level::Node => (503, "overloaded"),
        Level::Tenant | Level::Key => (429, code),
    };
    let (status, code) = answer.error();
    assert_eq!((status, code.as_str()), expected, "{level:?}");
    assert_eq!(answer.headers["retry-after"], "1", "{level:?}");
}

/// Opens a stream and reads its first piece.
async fn stream(caller: &Caller) -> Incoming {
    let mut body = caller.open(Over::Plain1, caller.post("/v1/chat/completions", STREAM)).await.into_body();
    body.frame().await.unwrap().unwrap();
    body
}

/// Asks until a call passes, which it must soon.
async fn comes_back<F: Future<Output = bool>>(world: &World, passes: impl Fn() -> F) {
    let passing = async {
        while !passes().await {
            world.host.sleep(Duration::from_millis(20)).await;
        }
    };
    world.host.timeout(Duration::from_secs(5), passing).await.expect("places come back");
}
