//! Limits of the node, the tenant, the application, the key and the model, each refused with its own code, a time to come
//! back, and places that do.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use wire::catalog::{Group, Limits};

use super::caller::{Answered, Caller, Over};
use super::server::{Act, Server};
use super::world::World;
use crate::admission::Level;
use crate::fixtures;

const CHAT: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}]}"#;
const STREAM: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true}"#;

const LEVELS: [Level; 5] = [Level::Node, Level::Tenant, Level::App, Level::Key, Level::Model];

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
async fn streams_beyond_the_limit_wait_for_one_to_end_and_what_protects_the_node_refuses_at_once() {
    for limits in [
        Limits { streams: Some(1), ..Limits::default() },
        Limits { concurrency: Some(1), ..Limits::default() },
    ] {
        for level in LEVELS {
            let (server, world) = limited(level, limits).await;
            let caller = world.caller();
            server.does(Act::Break(&["one"]));
            let mut held = stream(&caller).await;
            server.does(Act::Words(&["two"]));
            if level == Level::Node {
                refused(&caller.chat(STREAM).await, level, "concurrency_limited");
            } else {
                let leaver = streams(&world).bound();
                waiting(&world, 1).await;
                drop(leaver);
                waiting(&world, 0).await;
                let next = streams(&world);
                waiting(&world, 1).await;
                assert_eq!(server.asked().len(), 1, "{level:?}: nobody else is served meanwhile");
                // The place comes free when the stream ends, while its caller stays.
                server.go_on();
                while held.frame().await.is_some() {}
                assert_eq!(next.await.unwrap(), 200, "{level:?}");
            }
            drop(held);
            if limits.concurrency.is_none() {
                server.does(Act::Complete);
                assert_eq!(caller.chat(CHAT).await.status, 200, "{level:?}: a call that is no stream");
            }
            world.quiet().await;
        }
    }
}

#[tokio::test]
async fn a_higher_limit_lets_those_pass_who_wait() {
    let limits = Limits { streams: Some(1), ..Limits::default() };
    let (server, world) = limited(Level::Key, limits).await;
    server.does(Act::Hang(&["one"]));
    let _held = stream(&world.caller()).await;
    server.does(Act::Words(&["two"]));
    let next = streams(&world);
    waiting(&world, 1).await;
    let mut catalog = world.edge.snapshots.load().catalog().clone();
    catalog.keys.values_mut().for_each(|key| key.limits.streams = Some(2));
    world.install(2, catalog).await;
    assert_eq!(next.await.unwrap(), 200);
}

/// A call that asks for a stream, and its status.
fn streams(world: &World) -> seam::Task<u16> {
    let caller = world.caller();
    world.host.spawn("stream", async move { caller.chat(STREAM).await.status.as_u16() })
}

/// Waits until so many calls wait under limits.
async fn waiting(world: &World, many: u32) {
    let line = format!("portolan_queue_depth{{queue=\"limit\",priority=\"interactive\"}} {many}\n");
    let seen = async {
        let caller = world.caller();
        while !caller.over(Over::Plain1, caller.get("/metrics")).await.text().contains(&line) {
            world.host.sleep(Duration::from_millis(2)).await;
        }
    };
    world.host.timeout(Duration::from_secs(5), seen).await.expect("calls wait");
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

#[tokio::test]
async fn tokens_are_taken_by_the_bound_and_settled_at_what_was_used_at_every_level() {
    let taken = bound().await;
    for level in LEVELS {
        // Once, and what two answers were; not twice.
        let limits = Limits { tokens_per_min: Some(taken + 40), ..Limits::default() };
        let (server, world) = limited(level, limits).await;
        let caller = world.caller();
        for _call in 0..2 {
            let answer = caller.chat(CHAT).await;
            assert_eq!(answer.status, 200, "{level:?}");
            let told = answer.headers.get("x-ratelimit-limit-tokens").map(|value| value.to_str().unwrap());
            let limit = (taken + 40).to_string();
            assert_eq!(told, (level != Level::Node).then_some(&*limit), "{level:?}");
            world.quiet().await;
        }
        // What is in progress counts by its bound.
        server.does(Act::Silent);
        let (asking, request) = (caller.clone(), caller.post("/v1/chat/completions", CHAT));
        let held = world.host.spawn("call", async move { asking.over(Over::Plain1, request).await }).bound();
        server.open(1).await;
        let refused = caller.chat(CHAT).await;
        let expected = if level == Level::Node { (503, "overloaded") } else { (429, "rate_limited") };
        assert_eq!(refused.error(), (expected.0, expected.1.to_owned()), "{level:?}");
        let wait: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((2..=60).contains(&wait), "{level:?}: {wait} s");
        drop(held);
    }
}

/// Tokens that a call takes before it is made.
async fn bound() -> u64 {
    const MANY: u64 = 1_000_000;
    let (_server, world) =
        limited(Level::Key, Limits { tokens_per_day: Some(MANY), ..Limits::default() }).await;
    let answer = world.caller().chat(CHAT).await;
    let left: u64 = answer.headers["x-ratelimit-remaining-tokens"].to_str().unwrap().parse().unwrap();
    assert!(left < MANY - 64, "{left}");
    MANY - left
}

#[tokio::test]
async fn callers_are_told_of_the_tightest_rate_and_what_is_refused_costs_nothing_anywhere() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_config, catalog| {
        let tenant = catalog.tenants.values_mut().next().unwrap();
        tenant.limits = Limits { requests_per_min: Some(50), ..Limits::default() };
        let key = catalog.keys.values_mut().next().unwrap();
        key.limits = Limits { requests_per_min: Some(2), ..Limits::default() };
    })
    .await;
    let caller = world.caller();
    let told = |answer: &Answered, name: &str| answer.headers[name].to_str().unwrap().to_owned();
    for left in ["1", "0"] {
        let answer = caller.chat(CHAT).await;
        assert_eq!(answer.status, 200);
        assert_eq!(told(&answer, "x-ratelimit-limit-requests"), "2");
        assert_eq!(told(&answer, "x-ratelimit-remaining-requests"), left);
    }
    let refused = caller.chat(CHAT).await;
    assert_eq!(refused.error(), (429, "rate_limited".to_owned()));
    assert_eq!(told(&refused, "x-ratelimit-remaining-requests"), "0");
    assert_eq!(told(&refused, "x-ratelimit-reset-requests"), "1m0s");
    let wait: u64 = told(&refused, "retry-after").parse().unwrap();
    assert!((28..=30).contains(&wait), "{wait} s until one of two a minute comes free");
    for _call in 0..60 {
        assert_eq!(caller.chat(CHAT).await.status, 429);
    }
    let principal = world.edge.snapshots.load();
    let principal = principal.principal(&fixtures::hash("sk-test")).unwrap();
    let tenant: Vec<_> = principal.tenant_gate.lock().standings(world.host.now()).collect();
    assert!(tenant[0].1.left >= 48, "{tenant:?}");
}

#[tokio::test]
async fn a_model_over_its_limit_is_passed_over_while_its_route_has_others() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_config, catalog| {
        let mut other = catalog.models.values().next().unwrap().clone();
        other.name = "other".parse().unwrap();
        other.upstream_model = Some("other".to_owned());
        let tiny = catalog.models.values_mut().next().unwrap();
        tiny.limits = Limits { requests_per_min: Some(1), ..Limits::default() };
        let models = vec![tiny.name.clone(), other.name.clone()];
        catalog.models.insert(other.name.clone(), other);
        let both = Group { name: "both".parse().unwrap(), models };
        catalog.groups.insert(both.name.clone(), both);
    })
    .await;
    let caller = world.caller();
    let both = CHAT.replace("tiny", "both");
    let mut asked = Vec::new();
    for _call in 0..3 {
        assert_eq!(caller.chat(both.clone()).await.status, 200);
        asked = server.asked();
    }
    let models: Vec<_> = asked.iter().map(|body| body["model"].as_str().unwrap()).collect();
    assert_eq!(models, ["tiny", "other", "other"]);
    assert_eq!(caller.chat(CHAT).await.error(), (429, "rate_limited".to_owned()));
}

/// An edge with limits at one level. The tenant has a second key, `sk-other`, with the same limits of its own.
async fn limited(level: Level, limits: Limits) -> (Server, World) {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |config, catalog| {
        match level {
            Level::Node => config.guard.limits = limits,
            Level::Tenant => catalog.tenants.values_mut().for_each(|tenant| tenant.limits = limits),
            Level::App => catalog.apps.values_mut().for_each(|app| app.limits = limits),
            Level::Key => catalog.keys.values_mut().for_each(|key| key.limits = limits),
            Level::Model => catalog.models.values_mut().for_each(|model| model.limits = limits),
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
        Level::Tenant | Level::App | Level::Key | Level::Model => (429, code),
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
