//! Usage is always asked of the model, and reaches only the callers who asked for it.

use super::caller::Over;
use super::server::{Act, Server};
use super::world::World;

const STREAM: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true"#;

const TEXT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
/// Some servers report on the chunk that ends the answer, some on each.
const END: &str = "data: {\"choices\": [{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,\"total_tokens\":9},\"x\" : 1.50}\n\n";
const HIDDEN: &str =
    "data: {\"choices\": [{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"x\" : 1.50}\n\n";
const COUNT: &str =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,\"total_tokens\":9}}\n\n";
const STOP: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[tokio::test]
async fn usage_is_asked_for_counted_and_kept_from_callers_who_did_not_ask() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let caller = world.caller();
    let mut calls = 0;
    for (events, hidden) in [
        (&[TEXT, STOP, COUNT, DONE][..], [TEXT, STOP, DONE].concat()),
        (&[TEXT, END, DONE][..], [TEXT, HIDDEN, DONE].concat()),
    ] {
        server.does(Act::Events(events));
        for (options, asked) in [
            ("", false),
            (r#","stream_options":{"include_usage":false}"#, false),
            (r#","stream_options":{"include_usage":true}"#, true),
        ] {
            let answer = caller.chat(format!("{STREAM}{options}}}")).await.text();
            let sent = server.asked().pop().unwrap();
            assert_eq!(sent["stream_options"]["include_usage"], true, "{options}: {sent}");
            assert_eq!(answer, if asked { events.concat() } else { hidden.clone() }, "{options}");
            calls += 1;
            let record = world.records(calls).await.pop().unwrap();
            let usage = (&record["usage"]["input"], &record["usage"]["output"]);
            assert_eq!(usage, (&7.into(), &2.into()), "{options}: {record}");
        }
    }
    server.does(Act::Complete);
    caller
        .over(
            Over::Plain1,
            caller.post("/v1/chat/completions", format!("{}}}", STREAM.replace("true", "false"))),
        )
        .await;
    assert!(
        server.asked().pop().unwrap().get("stream_options").is_none(),
        "nothing is asked of what is no stream"
    );
}

#[tokio::test]
async fn a_cap_beyond_the_models_is_lowered_on_the_wire_and_a_smaller_one_passes() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, _| {}).await;
    for (given, sent) in [
        (r#""max_tokens":100000"#, r#""max_tokens":64"#),
        (r#""max_completion_tokens": 65,"n":2"#, r#""max_completion_tokens": 64,"n":2"#),
        (r#""max_tokens":10,"max_completion_tokens":100"#, r#""max_tokens":10,"max_completion_tokens":64"#),
        (r#""max_tokens": 63"#, r#""max_tokens": 63"#),
    ] {
        let body = |caps: &str| {
            format!(r#"{{"model":"tiny",{caps},"messages":[{{"role":"user","content":"hi"}}]}}"#)
        };
        assert_eq!(world.caller().chat(body(given)).await.status, 200);
        assert_eq!(server.asked_bytes().pop().unwrap(), body(sent).as_bytes(), "{given}");
    }
}
