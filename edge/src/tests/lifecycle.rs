//! Callers that leave, and a node that does.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Unit;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::caller::Over;
use super::server::{Act, Server};
use super::world::World;
use crate::fixtures;

const CHAT: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}]}"#;
const STREAM: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true}"#;

#[tokio::test]
async fn a_caller_that_leaves_before_the_head_cancels_its_call_over_every_version() {
    let server = Server::start(&seam::Host::real(), Act::Silent).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let caller = world.caller();
    for over in [Over::Plain1, Over::Plain2, Over::Secure1, Over::Secure2] {
        let asking = caller.clone();
        let request = caller.post("/v1/chat/completions", CHAT);
        let call = world.host.spawn("call", async move { asking.over(over, request).await }).bound();
        server.open(1).await;
        drop(call);
        gone(&world, &server).await;
    }
    let (mut stream, connection) = caller.begin_http3(caller.post("/v1/chat/completions", CHAT)).await;
    server.open(1).await;
    // Only the stream is given up; the connection stays.
    stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
    gone(&world, &server).await;
    drop((stream, connection));
    let records = world.records(5).await;
    for record in records {
        assert_eq!(record["outcome"], "caller_gone", "{record}");
        let hop = &record["hops"][0];
        assert_eq!((&hop["upstream"], &hop["code"]), (&"tiny-1".into(), &"caller_gone".into()));
    }
}

#[tokio::test]
async fn a_caller_that_leaves_mid_stream_cancels_the_upstream() {
    let server = Server::start(&seam::Host::real(), Act::Hang(&["one"])).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let caller = world.caller();
    for over in [Over::Plain1, Over::Secure2] {
        let request = caller.post("/v1/chat/completions", STREAM);
        let mut body = caller.open(over, request).await.into_body();
        body.frame().await.unwrap().unwrap();
        drop(body);
        gone(&world, &server).await;
    }
    let (mut stream, connection) = caller.begin_http3(caller.post("/v1/chat/completions", STREAM)).await;
    stream.recv_response().await.unwrap();
    stream.recv_data().await.unwrap().unwrap();
    stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
    gone(&world, &server).await;
    // With its whole connection.
    drop((stream, connection));
    let (mut stream, connection) = caller.begin_http3(caller.post("/v1/chat/completions", STREAM)).await;
    stream.recv_response().await.unwrap();
    stream.recv_data().await.unwrap().unwrap();
    drop((stream, connection));
    gone(&world, &server).await;
    let records = world.records(4).await;
    assert!(records.iter().all(|record| record["outcome"] == "caller_gone"), "{records:?}");
    let record = &records[0];
    assert_eq!((&record["outcome"], &record["estimated"]), (&"caller_gone".into(), &true.into()));
    assert!(record["usage"]["output"].as_u64().unwrap() > 0, "what was sent is not free: {record}");
}

#[tokio::test]
async fn a_caller_that_leaves_while_its_call_waits_for_credit_holds_nothing() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let budgets: BTreeMap<_, _> =
        [fixtures::budget("acme-day", Unit::Requests)].map(|budget| (budget.name.clone(), budget)).into();
    let world = World::start(&server.url, |_, catalog| catalog.budgets.clone_from(&budgets)).await;
    world.edge.purse.install(&budgets);
    let caller = world.caller();
    for over in [Over::Plain1, Over::Secure2] {
        let (asking, request) = (caller.clone(), caller.post("/v1/chat/completions", CHAT));
        let call = world.host.spawn("call", async move { asking.over(over, request).await }).bound();
        while world.edge.purse.open_calls() == 0 {
            world.host.sleep(Duration::from_millis(1)).await;
        }
        drop(call);
        gone(&world, &server).await;
        assert_eq!(world.edge.purse.open_calls(), 0, "{over:?}");
    }
    assert_eq!(caller.chat(CHAT).await.error(), (503, "budget_unavailable".to_owned()));
    let codes: Vec<_> = world.records(3).await.into_iter().map(|record| record["code"].clone()).collect();
    assert_eq!(codes, ["caller_gone", "caller_gone", "budget_unavailable"]);
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_drain_ends_no_stream_takes_nothing_new_and_says_so() {
    let server = Server::start(&seam::Host::real(), Act::Hang(&["one"])).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let caller = world.caller();
    let ready = async {
        while caller.over(Over::Plain1, caller.get("/readyz")).await.text() != "ready\n" {
            world.host.sleep(Duration::from_millis(5)).await;
        }
    };
    world.host.timeout(Duration::from_secs(15), ready).await.expect("it gets ready");
    let mut asking = caller.stream(Over::Plain1).await;
    asking.write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\n").await.unwrap();
    let silent = caller.stream(Over::Plain1).await;
    let resting = {
        let (mut http3, connection) = caller.begin_http3(caller.get("/healthz")).await;
        http3.recv_response().await.unwrap();
        connection
    };
    let mut bodies = Vec::new();
    for over in [Over::Plain1, Over::Secure2] {
        let request = caller.post("/v1/chat/completions", STREAM);
        let mut body = caller.open(over, request).await.into_body();
        body.frame().await.unwrap().unwrap();
        bodies.push(body);
    }
    let (mut http3, connection) = caller.begin_http3(caller.post("/v1/chat/completions", STREAM)).await;
    http3.recv_response().await.unwrap();
    http3.recv_data().await.unwrap();
    server.open(3).await;
    let World { host, plain, draining, mut running, edge, .. } = world;
    draining.stop();
    let drained = host.spawn("drain", async move { running.drain().await });
    while host.connect(&plain.ip().to_string(), plain.port()).await.is_ok() {
        host.sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(edge.gate.lock().in_progress().0, 3, "calls in progress go on");
    assert!(!drained.is_finished());
    // A request that had begun to come in is answered.
    asking.write_all(b"\r\n").await.unwrap();
    let mut told = String::new();
    asking.read_to_string(&mut told).await.unwrap();
    assert!(told.starts_with("HTTP/1.1 503 ") && told.ends_with("\r\n\r\ndraining\n"), "{told}");
    drop((bodies, http3, connection));
    // Connections without a call, even one that never said a word, hold nothing up.
    host.timeout(Duration::from_secs(3), drained).await.expect("it ends with its last call").unwrap();
    drop((silent, resting));
}

#[tokio::test]
async fn a_drain_has_a_deadline() {
    let server = Server::start(&seam::Host::real(), Act::Hang(&["one"])).await;
    let mut world = World::start(&server.url, |config, _| config.drain = Duration::from_millis(50)).await;
    let caller = world.caller();
    let mut body = caller.open(Over::Plain1, caller.post("/v1/chat/completions", STREAM)).await.into_body();
    body.frame().await.unwrap().unwrap();
    world.draining.stop();
    world.host.timeout(Duration::from_secs(3), world.running.drain()).await.expect("the deadline ends it");
}

async fn gone(world: &World, server: &Server) {
    let cancelled = async {
        server.open(0).await;
        world.quiet().await;
    };
    world.host.timeout(Duration::from_secs(1), cancelled).await.expect("cancelled within a second");
}
