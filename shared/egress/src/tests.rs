//! Upstreams that behave and misbehave, over an in-memory network on a paused clock. What they share is here, each theme
//! has its file.

mod cancelling;
mod dialects;
mod failing;
mod keeping;
mod keys;
mod mesh;
mod network;
mod probing;
mod secured;
mod streaming;
mod tracing;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use base::{Code, Name, Priority, RequestId};
use bytes::Bytes;
use seam::Host;
use wire::call::{CallHead, ServeAt, Tail};
use wire::catalog::{Dialect, Operation, Timeouts};
use wire::ledger::Outcome;

use self::network::{Fake, Step};
use crate::{Credential, Egress, Exchange, Key, KeyTerms, Left, Options, Reply, Terms, Upstream};

const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}], "x_unknown" : 1.50}"#;
const ANSWER: &str = r#"{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11},"x":1.50}"#;

const TEXT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\n";
const FINISH: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// The head of an event stream in chunks.
const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const LAST_CHUNK: &str = "0\r\n\r\n";

fn ok(body: &str) -> Step {
    with_status("200 OK", "", body)
}

fn with_status(status: &str, headers: &str, body: &str) -> Step {
    let length = body.len();
    Step::Send(format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    ))
}

fn chunk(text: &str) -> Step {
    Step::Send(format!("{:x}\r\n{text}\r\n", text.len()))
}

fn sent(text: &str) -> Step {
    Step::Send(text.to_owned())
}

fn healthy_stream() -> Vec<Step> {
    let mut steps = vec![sent(STREAM)];
    steps.extend([TEXT, FINISH, USAGE, DONE].map(chunk));
    steps.push(sent(LAST_CHUNK));
    steps
}

fn call(stream: bool) -> CallHead {
    CallHead {
        request: RequestId(7),
        attempt: 1,
        tenant: "acme".parse().unwrap(),
        key: "key".parse().unwrap(),
        model: "m".parse().unwrap(),
        operation: Operation::Chat,
        serve_at: ServeAt::Replicas,
        stream,
        hide_usage: true,
        timeouts: Timeouts::default(),
        place_ms: 0,
        headers: vec![
            ("content-type".to_owned(), b"application/json".to_vec()),
            ("authorization".to_owned(), b"Bearer vk-1".to_vec()),
            ("cookie".to_owned(), b"s=6".to_vec()),
        ],
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        tokens: 100,
        priority: Priority::Interactive,
        weight: 1,
        dialect: Dialect::Openai,
    }
}

fn at_once(concurrency: Option<u32>) -> Terms {
    Terms { concurrency, ..Terms::default() }
}

fn options() -> Options {
    Options { warm: 0, ..Options::new(node("n1")) }
}

fn node(name: &str) -> Name {
    name.parse().unwrap()
}

fn upstream(name: &str, fake: &Fake) -> Upstream {
    Upstream {
        at: ServeAt::Replicas,
        model: "m".parse().unwrap(),
        name: node(name),
        dialect: Dialect::Openai,
        upstream_model: "m".to_owned(),
        origin: fake.url().parse().unwrap(),
        keys: vec![key("sk-ours", 1)],
        terms: Terms::default(),
    }
}

/// A key of a weight, named as its credential.
fn key(secret: &str, weight: u32) -> Key {
    let terms = KeyTerms { name: node(secret), weight, terms: Terms::default() };
    Key { terms, credential: Credential::of(secret).unwrap() }
}

/// An egress whose model `m` is served by `fakes`, named a, b, c.
fn egress(host: &Host, fakes: &[&Fake]) -> Egress {
    let egress = Egress::new(host, options());
    let names = ["a", "b", "c"];
    egress.install(names.iter().zip(fakes).map(|(name, fake)| upstream(name, fake)).collect());
    egress
}

async fn ask(egress: &Egress, stream: bool) -> Exchange {
    egress.serve(call(stream), Bytes::from_static(BODY.as_bytes()), None).await
}

/// The rest of an answer and its tail.
async fn read(mut reply: Reply) -> (String, Tail) {
    let mut all = Vec::new();
    while let Some(item) = reply.body.next().await {
        assert!(!item.is_empty());
        all.extend_from_slice(&item);
    }
    (String::from_utf8(all).unwrap(), reply.body.tail())
}

/// Where each attempt went and how it ended.
fn hops(tail: &Tail) -> Vec<(&str, Result<u16, Code>)> {
    tail.hops.iter().map(|hop| (hop.upstream.as_str(), hop.result)).collect()
}

/// What was told of a call that was left at this node.
fn told(left: Left) -> Tail {
    let Left::Told(tail) = left else { panic!("{left:?}") };
    assert_eq!((tail.outcome, tail.code), (Outcome::CallerGone, Some(Code::CallerGone)));
    tail
}

#[tokio::test(start_paused = true)]
async fn a_call_crosses_untouched_but_for_credentials() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| {
        vec![with_status("200 OK", "set-cookie: a=b\r\nx-ms: 7\r\nconnection: keep-alive\r\n", ANSWER)]
    })
    .await;
    let egress = egress(&net.host(), &[&fake]);

    let reply = ask(&egress, false).await.unwrap();

    let names: Vec<_> = reply.headers.keys().map(|name| name.as_str().to_owned()).collect();
    assert_eq!((reply.status, names), (200, vec!["content-type".to_owned(), "x-ms".to_owned()]));
    let (body, tail) = read(reply).await;
    assert_eq!(body, ANSWER);
    let usage = tail.usage.unwrap();
    assert_eq!((tail.outcome, usage.input.0, usage.output.0), (Outcome::Complete, 9, 2));
    assert_eq!(hops(&tail), [("a", Ok(200))]);
    let request = fake.requests().remove(0);
    assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with(BODY), "{request}");
    assert!(request.contains("authorization: Bearer sk-ours\r\n") && request.contains("traceparent: 00-"));
    assert!(!request.contains("vk-1") && !request.contains("cookie"), "{request}");
}

#[tokio::test(start_paused = true)]
async fn a_model_without_a_server_is_said_so() {
    let net = network::Memory::new();
    let failed = ask(&egress(&net.host(), &[]), false).await.unwrap_err();
    assert_eq!((failed.failure.code, failed.tail.reached_upstream), (Code::NoTarget, false));
}

#[tokio::test(start_paused = true)]
async fn a_full_instance_takes_no_more_and_takes_again() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| vec![sent(STREAM), chunk(TEXT), Step::Hang]).await;
    let egress = Egress::new(&net.host(), options());
    egress.install(vec![Upstream { terms: at_once(Some(1)), ..upstream("a", &fake) }]);

    let held = ask(&egress, true).await.unwrap();
    let refused = ask(&egress, true).await.unwrap_err();

    assert_eq!(refused.failure.code, Code::ModelOverloaded);
    assert!(refused.failure.retry_after_ms.is_some());
    drop(held);
    assert!(ask(&egress, true).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_new_set_keeps_what_did_not_change() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| vec![ok(ANSWER)]).await;
    let egress = egress(&net.host(), &[&fake]);
    read(ask(&egress, false).await.unwrap()).await;

    egress.install(vec![Upstream { terms: at_once(Some(5)), ..upstream("a", &fake) }]);
    read(ask(&egress, false).await.unwrap()).await;

    assert_eq!(fake.connections(), 1);
    egress.install(Vec::new());
    assert!(!egress.serves(ServeAt::Replicas, &"m".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn connections_stand_before_the_first_call() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| vec![ok(ANSWER)]).await;
    let egress = Egress::new(&net.host(), Options { warm: 1, ..options() });
    egress.install(vec![upstream("a", &fake)]);
    net.host().sleep(Duration::from_millis(10)).await;

    assert_eq!((fake.connections(), egress.instances()[0].idle), (1, 1));
    read(ask(&egress, false).await.unwrap()).await;
    assert_eq!(fake.connections(), 1);
    assert_eq!(Arc::strong_count(&egress.shared), 1);
}
