//! Calls that are served.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use wire::catalog::{Replica, Timeouts};

use super::caller::{ALL, Over};
use super::server::{Act, COMPLETION, Server};
use super::world::World;
use crate::fixtures;

const CHAT: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"x_mine":[1, 2]}"#;
const STREAM: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true}"#;

#[tokio::test]
async fn every_http_version_serves_calls_streams_embeddings_and_models() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let caller = world.caller();
    for over in ALL {
        server.does(Act::Complete);
        let chat = caller.over(over, caller.post("/v1/chat/completions", CHAT)).await;
        assert_eq!((chat.status.as_u16(), chat.text().as_str()), (200, COMPLETION), "{over:?}");
        assert_eq!(chat.headers["content-type"], "application/json");
        assert!(chat.headers["x-request-id"].to_str().unwrap().starts_with("req_"));
        let advertised = chat.headers.get("alt-svc").map(|value| value.to_str().unwrap().to_owned());
        let expected = format!("h3=\":{}\"; ma=86400", world.secure.port());
        let has_http3 = matches!(over, Over::Secure1 | Over::Secure2);
        assert_eq!(advertised, has_http3.then_some(expected), "{over:?}");

        server.does(Act::Words(&["hel", "lo"]));
        let stream = caller.over(over, caller.post("/v1/chat/completions", STREAM)).await;
        assert_eq!(stream.headers["content-type"], "text/event-stream", "{over:?}");
        assert_eq!(stream.headers["cache-control"], "no-cache");
        assert_eq!(stream.headers["x-accel-buffering"], "no");
        let text = stream.text();
        assert!(text.contains("\"hel\"") && text.ends_with("data: [DONE]\n\n"), "{text}");
        assert!(!text.contains("usage"), "usage that the caller did not ask for stays here: {text}");

        server.does(Act::Complete);
        let body = r#"{"model":"tiny","input":"hi"}"#;
        let embeddings = caller.over(over, caller.post("/v1/embeddings", body)).await;
        assert_eq!(embeddings.json()["data"][0]["embedding"][0], 0.5, "{over:?}");
        let models = caller.over(over, caller.get("/v1/models")).await;
        assert_eq!(models.json()["data"][0]["id"], "tiny", "{over:?}");
    }
    world.quiet().await;
}

#[tokio::test]
async fn a_model_is_found_by_its_name_however_a_path_spells_it() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, catalog| {
        let mut slashed = fixtures::model("slashed", &server.url);
        slashed.name = "meta/llama-3:8b".parse().unwrap();
        catalog.models.insert(slashed.name.clone(), slashed);
    })
    .await;
    let caller = world.caller();
    for path in ["meta/llama-3:8b", "meta%2Fllama-3%3A8b", "meta%2fllama%2D3:8b"] {
        let found = caller.over(Over::Plain1, caller.get(&format!("/v1/models/{path}"))).await;
        assert_eq!(
            (found.status.as_u16(), found.json()["id"].as_str()),
            (200, Some("meta/llama-3:8b")),
            "{path}"
        );
    }
    for path in ["meta%252Fllama-3:8b", "meta%2Fllama-3%3A8b%00", "%ff%fe", "%", "meta%2"] {
        let absent = caller.over(Over::Plain1, caller.get(&format!("/v1/models/{path}"))).await;
        assert_eq!(absent.error(), (404, "model_not_found".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn what_is_unknown_passes_byte_for_byte_and_credentials_stay() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, catalog| {
        let tiny = catalog.models.values_mut().next().unwrap();
        tiny.upstream_model = Some("real-tiny".to_owned());
    })
    .await;
    let mut request = world.caller().post("/v1/chat/completions", CHAT);
    request.headers_mut().insert("x-api-key", "sk-test".parse().unwrap());
    request.headers_mut().insert("traceparent", TRACE.parse().unwrap());
    world.caller().over(Over::Plain1, request).await;
    let sent = server.asked_bytes().remove(0);
    let sent = std::str::from_utf8(&sent).unwrap();
    assert!(sent.contains(r#""x_mine":[1, 2]"#) && sent.contains(r#""model":"real-tiny""#), "{sent}");
    assert!(sent.contains(r#""max_tokens":64"#), "the model's cap goes on the wire: {sent}");
    let headers = server.headers().remove(0);
    assert!(headers.get("authorization").is_none() && headers.get("x-api-key").is_none());
    assert_eq!(headers["traceparent"], TRACE, "a node that has no collector leaves the trace as it came");
}

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test]
async fn the_record_tells_the_whole_timeline() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let answer = world.caller().chat(CHAT).await;
    let record = world.records(1).await.remove(0);
    assert_eq!(record["request"], answer.headers["x-request-id"].to_str().unwrap());
    assert_eq!((&record["tenant"], &record["served_by"]), (&"acme".into(), &"local".into()));
    assert_eq!((&record["status"], &record["outcome"]), (&200.into(), &"complete".into()));
    assert_eq!(record["usage"]["input"], 7);
    for time in ["identified_us", "admitted_us", "head_us", "first_byte_us", "total_us"] {
        assert!(record[time].is_u64(), "{time} is missing in {record}");
    }
    assert_eq!(record["hops"][0]["upstream"], "tiny-1");
}

#[tokio::test]
async fn another_target_answers_at_once_when_one_fails_before_its_first_byte() {
    let host = seam::Host::real();
    let bad = Server::start(&host, Act::Fail(500, r#"{"error":{"message":"no"}}"#)).await;
    let good = Server::start(&host, Act::Complete).await;
    let url = good.url.clone();
    let world = World::start(&bad.url, |_, catalog| {
        let spare = fixtures::model("spare", &url);
        catalog.models.insert(spare.name.clone(), spare);
        let group = wire::catalog::Group {
            name: "any".parse().unwrap(),
            models: vec!["tiny".parse().unwrap(), "spare".parse().unwrap()],
        };
        catalog.groups.insert(group.name.clone(), group);
    })
    .await;
    let answer = world.caller().chat(CHAT.replace("tiny", "any")).await;
    assert_eq!(answer.text(), COMPLETION);
    let record = world.records(1).await.remove(0);
    assert_eq!((record["model"].as_str(), record["asked"].as_str()), (Some("spare"), Some("any")));
    let hops = record["hops"].as_array().unwrap();
    assert_eq!((hops.len(), &hops[1]["status"]), (2, &200.into()), "{record}");
    assert_eq!((&hops[0]["code"], &hops[0]["upstream"]), (&"upstream_error".into(), &"tiny-1".into()));
}

#[tokio::test]
async fn a_stream_that_breaks_off_ends_with_an_error_event_and_no_finish() {
    let server = Server::start(&seam::Host::real(), Act::Break(&["half"])).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let caller = world.caller();
    let mut body = caller.open(Over::Plain1, caller.post("/v1/chat/completions", STREAM)).await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    server.go_on();
    let rest = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8([first, rest].concat()).unwrap();
    assert!(text.contains("\"half\"") && text.contains("\"code\":\"upstream_cut\""), "{text}");
    assert!(!text.contains("[DONE]") && !text.contains("\"stop\""), "{text}");
    assert_eq!(server.asked().len(), 1, "nothing is tried again after the first byte");
    let record = world.records(1).await.remove(0);
    assert_eq!((&record["outcome"], &record["code"]), (&"cut".into(), &"upstream_cut".into()));
}

#[tokio::test]
async fn silence_on_a_stream_is_filled_with_comments() {
    let server = Server::start(&seam::Host::real(), Act::Hang(&["slow"])).await;
    let world = World::start(&server.url, |config, _| {
        config.guard.keep_alive = std::time::Duration::from_millis(20);
    })
    .await;
    let caller = world.caller();
    let mut body = caller.open(Over::Plain1, caller.post("/v1/chat/completions", STREAM)).await.into_body();
    let mut read = Vec::new();
    while read.windows(KEPT.len()).filter(|window| *window == KEPT).count() < 2 {
        let frame: Bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
        read.extend_from_slice(&frame);
    }
    let text = String::from_utf8(read).unwrap();
    assert!(text.starts_with("data: ") && text.contains("\n\n: keep-alive\n\n"), "{text}");
}

#[tokio::test]
async fn a_model_that_thinks_long_is_covered_by_comments_and_its_failure_told_as_an_event() {
    let server = Server::start(&seam::Host::real(), Act::Silent).await;
    let world = World::start(&server.url, |config, catalog| {
        config.guard.keep_alive = std::time::Duration::from_millis(20);
        let tiny = catalog.models.values_mut().next().unwrap();
        tiny.timeouts.first_byte_ms = 100;
    })
    .await;
    let answer = world.caller().chat(STREAM).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.headers["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    let text = answer.text();
    assert!(text.starts_with(": keep-alive\n\n") && text.contains("\"code\":\"upstream_timeout\""), "{text}");
    let record = world.records(1).await.remove(0);
    assert_eq!((&record["outcome"], &record["code"]), (&"failed".into(), &"upstream_timeout".into()));
}

#[tokio::test]
async fn a_whole_answer_after_the_streams_head_still_comes_as_events() {
    let server = Server::start(&seam::Host::real(), Act::Late).await;
    let world = World::start(&server.url, |config, _| {
        config.guard.keep_alive = std::time::Duration::from_millis(20);
    })
    .await;
    let caller = world.caller();
    let mut body = caller.open(Over::Plain1, caller.post("/v1/chat/completions", STREAM)).await.into_body();
    body.frame().await.unwrap().unwrap();
    server.go_on();
    let text = body.collect().await.unwrap().to_bytes();
    let text = std::str::from_utf8(&text).unwrap();
    assert!(text.contains("\"hello\"") && text.ends_with("data: [DONE]\n\n"), "{text}");
    let record = world.records(1).await.remove(0);
    assert_eq!((&record["outcome"], &record["usage"]["input"]), (&"complete".into(), &7.into()));
}

const KEPT: &[u8] = b": keep-alive\n\n";

#[tokio::test]
async fn a_model_that_never_answers_is_given_up_in_time_and_its_error_says_so() {
    let server = Server::start(&seam::Host::real(), Act::Silent).await;
    let world = World::start(&server.url, |_, catalog| {
        let tiny = catalog.models.values_mut().next().unwrap();
        tiny.timeouts = Timeouts { first_byte_ms: 50, ..Timeouts::default() };
        tiny.replicas = tiny.replicas.iter().map(|replica| Replica { ..replica.clone() }).collect();
    })
    .await;
    assert_eq!(world.caller().chat(CHAT).await.error(), (504, "upstream_timeout".to_owned()));
    server.open(0).await;
}

#[tokio::test]
async fn metrics_count_calls_by_model_and_tenant_and_show_the_node() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let caller = world.caller();
    caller.chat(CHAT).await;
    caller.chat("nonsense").await;
    let page = caller.over(Over::Plain1, caller.get("/metrics")).await.text();
    for line in [
        r#"portolan_calls_total{model="tiny",operation="chat",outcome="complete"} 1"#,
        r#"portolan_tenant_calls_total{tenant="acme",outcome="complete"} 1"#,
        r#"portolan_rejections_total{code="invalid_request"} 1"#,
        r#"portolan_attempts_total{path="local",result="ok"} 1"#,
        r#"portolan_connections{version="1.1"}"#,
        "portolan_upstreams_out 0",
        "portolan_calls_in_flight 0",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
}
