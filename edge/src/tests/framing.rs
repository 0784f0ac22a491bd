//! Requests whose bytes lie, crawl, swell or end early: none becomes another request, holds a connection, or is billed.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::caller::{ALL, Over, send_http3};
use super::server::{Act, COMPLETION, Server};
use super::world::World;

const CHAT: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}]}"#;

const STREAM: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true}"#;

const SECOND: Duration = Duration::from_secs(1);

/// The start of a call with a good key.
const HEAD: &str = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-test\r\ncontent-type: application/json\r\n";

#[tokio::test]
async fn a_request_of_two_lengths_is_read_by_its_chunks_and_nothing_is_smuggled_behind_it() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let chunks = format!("{:x}\r\n{CHAT}\r\n0\r\n\r\n", CHAT.len());
    let smuggled = format!("{HEAD}content-length: {}\r\n\r\n{CHAT}", CHAT.len());
    for (calls, length) in [(1, chunks.len() + smuggled.len()), (2, 3)] {
        let (length, chunked) = (format!("content-length: {length}\r\n"), "transfer-encoding: chunked\r\n");
        for both in [format!("{length}{chunked}"), format!("{chunked}{length}connection: keep-alive\r\n")] {
            let before = server.asked().len();
            let bytes = format!("{HEAD}{both}\r\n{chunks}{smuggled}");
            let answer = world.caller().raw(bytes.as_bytes(), 5 * SECOND).await;
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{calls}, {both}: {answer}");
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(COMPLETION), "{answer}");
            assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
            assert_eq!(server.asked().len(), before + 1, "{both}");
        }
    }
}

#[tokio::test]
async fn a_request_whose_length_is_doubtful_is_refused_and_its_connection_closed() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, _| {}).await;
    for doubtful in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5, 6\r\n",
        "content-length: +5\r\n",
        "content-length: -1\r\n",
        "transfer-encoding: gzip\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding : chunked\r\n",
        "content-length: 0\r\n transfer-encoding: chunked\r\n",
    ] {
        let answer =
            world.caller().raw(format!("{HEAD}{doubtful}\r\n0\r\n\r\n").as_bytes(), 5 * SECOND).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{doubtful}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{doubtful}: {answer}");
    }
    assert!(server.asked().is_empty());
    assert_eq!(world.caller().chat(CHAT).await.status, 200, "the next caller is served");
}

#[tokio::test]
async fn a_refused_upload_is_never_asked_to_continue_and_a_good_one_is() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let head = |key: &str, len: usize| {
        let head = HEAD.replace("sk-test", key);
        format!("{head}content-length: {len}\r\nexpect: 100-continue\r\n\r\n")
    };
    for (key, len, status) in [("sk-test", 11 << 20, 413), ("sk-no", 100, 401), ("sk-test", CHAT.len(), 100)]
    {
        let first = world.caller().first_head(head(key, len).as_bytes()).await;
        assert!(first.starts_with(&format!("HTTP/1.1 {status} ")), "{first}");
    }
}

#[tokio::test]
async fn requests_that_crawl_are_closed_in_time() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |config, _| {
        config.guard.header_time = Duration::from_millis(100);
        config.guard.body_time = Duration::from_millis(100);
    })
    .await;
    let caller = world.caller();
    for begun in ["", "POST /v1/chat", "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"] {
        let answer = caller.raw(begun.as_bytes(), 5 * SECOND).await;
        assert!(!answer.contains(" 200 "), "{begun}: {answer}");
    }
    let body = format!("{HEAD}content-length: {}\r\n\r\n{{", CHAT.len());
    let slow = caller.raw(body.as_bytes(), 5 * SECOND).await;
    assert!(slow.starts_with("HTTP/1.1 408 ") && slow.contains("request_timeout"), "{slow}");
    assert!(server.asked().is_empty());
    assert_eq!(caller.chat(CHAT).await.status, 200, "the next caller is served");
}

#[tokio::test]
async fn headers_beyond_the_limit_are_refused_with_a_code_over_every_version() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |config, _| config.guard.header_bytes = 8 * 1024).await;
    let caller = world.caller();
    for over in ALL {
        for (size, allowed) in [(7 * 1024, true), (9 * 1024, false)] {
            let mut request = caller.post("/v1/chat/completions", CHAT);
            request.headers_mut().insert("x-filler", "a".repeat(size).parse().unwrap());
            let answer = caller.over(over, request).await;
            match allowed {
                true => assert_eq!(answer.status, 200, "{over:?}"),
                false => assert_eq!(answer.error(), (431, "headers_too_large".to_owned()), "{over:?}"),
            }
        }
        let mut request = caller.post("/v1/chat/completions", CHAT);
        for number in 0..200 {
            let name = format!("x-{number}").parse::<header::HeaderName>().unwrap();
            request.headers_mut().insert(name, "a".repeat(20).parse().unwrap());
        }
        // hyper takes 100 over HTTP/1.1.
        if !matches!(over, Over::Plain1 | Over::Secure1) {
            assert_eq!(caller.over(over, request).await.error().0, 431, "{over:?}: many small ones");
        }
    }
    let swollen = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "a".repeat(64 * 1024));
    let swollen = caller.raw(swollen.as_bytes(), 5 * SECOND).await;
    assert!(swollen.starts_with("HTTP/1.1 431 "), "{swollen}");
    assert_eq!(server.asked().len(), ALL.len());
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_call_and_costs_nothing_over_every_version() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let caller = world.caller();
    let mut short = caller.stream(Over::Plain1).await;
    short.write_all(format!("{HEAD}content-length: 100\r\n\r\n{CHAT}").as_bytes()).await.unwrap();
    short.shutdown().await.unwrap();
    let mut told = String::new();
    drop(short.read_to_string(&mut told).await);
    assert!(told.starts_with("HTTP/1.1 400 ") && told.contains("invalid_request"), "{told}");

    for over in [Over::Plain2, Over::Secure2] {
        let (pieces, body) = mpsc::channel::<Result<Frame<Bytes>, std::io::Error>>(2);
        let body = futures_util::stream::unfold(body, async |mut body| Some((body.recv().await?, body)));
        let body = StreamBody::new(Box::pin(body));
        let request = caller.post("/v1/chat/completions", "").map(|_| body);
        let (mut head, body) = request.into_parts();
        head.uri = "http://localhost/v1/chat/completions".parse().unwrap();
        let mut sender = caller.http2(over).await;
        let answer = world
            .host
            .spawn("call", async move { sender.send_request(Request::from_parts(head, body)).await });
        pieces.send(Ok(Frame::data(CHAT.into()))).await.unwrap();
        world.busy().await;
        // The caller resets its stream.
        pieces.send(Err(std::io::ErrorKind::Interrupted.into())).await.unwrap();
        assert!(answer.await.unwrap().is_err(), "{over:?}");
        world.quiet().await;
    }

    let (mut sender, _connection) = caller.http3().await;
    let mut head = caller.post("/v1/chat/completions", "").map(|_| ());
    *head.uri_mut() = "https://localhost/v1/chat/completions".parse().unwrap();
    let mut stream = sender.send_request(head).await.unwrap();
    stream.send_data(CHAT.into()).await.unwrap();
    world.busy().await;
    stream.stop_stream(h3::error::Code::H3_REQUEST_CANCELLED);

    let records = world.records(4).await;
    for record in &records {
        let gone = record["http"] != "1.1" && record["code"] == "caller_gone";
        assert!(gone || record["code"] == "invalid_request", "{record}");
        assert_eq!((&record["cost"], &record["hops"]), (&0.into(), &serde_json::json!([])), "{record}");
    }
    world.quiet().await;
    assert!(server.asked().is_empty());
    assert_eq!(world.edge.purse.open_calls(), 0);
}

#[tokio::test]
async fn a_connection_carries_as_many_calls_at_once_as_it_may_and_the_next_waits() {
    let server = Server::start(&seam::Host::real(), Act::Break(&["one"])).await;
    let world = World::start(&server.url, |config, _| config.guard.streams_per_connection = 2).await;
    let caller = world.caller();

    let mut sender = caller.http2(Over::Secure2).await;
    // By its first answer the caller knows the limit; a stream begun before would be refused, not wait.
    let mut first = caller.get("/healthz");
    *first.uri_mut() = "http://localhost/healthz".parse().unwrap();
    assert_eq!(sender.send_request(first).await.unwrap().status(), 200);
    let mut calls = Vec::new();
    for _call in 0..3 {
        let mut request = caller.post("/v1/chat/completions", STREAM);
        *request.uri_mut() = "http://localhost/v1/chat/completions".parse().unwrap();
        let mut sender = sender.clone();
        let call = async move { drop(sender.send_request(request).await.unwrap().collect().await) };
        calls.push(world.host.spawn("call", call).bound());
    }
    two_and_then_the_third(&world, &server, || server.go_on()).await;
    drop((calls, sender));
    server.open(0).await;
    server.does(Act::Silent);

    let (mut sender, connection) = caller.http3().await;
    let request = || caller.post("/v1/chat/completions", CHAT);
    let mut first = send_http3(&mut sender, request()).await;
    let second = send_http3(&mut sender, request()).await;
    let third = request();
    let third = world.host.spawn("call", async move {
        drop(send_http3(&mut sender, third).await.recv_response().await);
    });
    let third = third.bound();
    let leave = || first.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
    two_and_then_the_third(&world, &server, leave).await;
    drop((second, third, connection));
    server.open(0).await;
}

/// Two calls are with the server, the third is not, until one of the two has ended.
async fn two_and_then_the_third(world: &World, server: &Server, end_one: impl FnOnce()) {
    server.open(2).await;
    let before = server.asked().len();
    // Long enough for the third: another connection's whole call.
    server.does(Act::Complete);
    assert_eq!(world.caller().chat(CHAT).await.status, 200);
    assert_eq!(server.asked().len(), before + 1);
    end_one();
    let third = async {
        while server.asked().len() < before + 2 {
            world.host.sleep(Duration::from_millis(2)).await;
        }
    };
    world.host.timeout(5 * SECOND, third).await.expect("the third call gets the free place");
}
