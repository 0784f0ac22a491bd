//! Usage is always asked of the model, and reaches only the callers who asked for it.

use std::time::Duration;

use bytes::Bytes;
use wire::catalog::Catalog;

use super::caller::Over;
use super::server::{Act, Server};
use super::world::World;
use crate::fixtures;

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
async fn what_a_model_bills_beyond_what_its_calls_say_is_measured_and_alarms() {
    const SAYS_TOO_MUCH: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":2,\"total_tokens\":1002}}\n\n";
    let server = Server::start(&seam::Host::real(), Act::Events(&[TEXT, STOP, COUNT, DONE])).await;
    let world = World::start(&server.url, |_, catalog| {
        catalog.models.get_mut("tiny").unwrap().tokenizer = Some("o200k_base".to_owned());
    })
    .await;
    let metrics = async || world.caller().over(Over::Plain1, world.caller().get("/metrics")).await.text();
    let call = async || assert_eq!(world.caller().chat(format!("{STREAM}}}")).await.status, 200);
    for _call in 0..20 {
        call().await;
    }
    world.records(20).await;
    let calm = metrics().await;
    assert!(
        calm.contains("portolan_input_deviates{model=\"tiny\"} 0"),
        "7 for `hi` and OpenAI's template are 8"
    );
    server.does(Act::Events(&[TEXT, STOP, SAYS_TOO_MUCH, DONE]));
    call().await;
    world.records(21).await;
    let alarmed = metrics().await;
    assert!(alarmed.contains("portolan_input_deviates{model=\"tiny\"} 1"), "{alarmed}");
    assert!(alarmed.contains("portolan_input_ratio_count{model=\"tiny\"} 21"), "{alarmed}");
}

#[tokio::test]
async fn a_tokenizer_that_a_node_lacks_is_told_and_fails_no_call() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let by_file = |catalog: &mut Catalog| {
        catalog.models.get_mut("tiny").unwrap().tokenizer = Some("tiny".to_owned());
    };
    let world = World::start(&server.url, |_, catalog| by_file(catalog)).await;
    let call = async || {
        let body = format!("{}}}", STREAM.replace("true", "false"));
        world.caller().over(Over::Plain1, world.caller().post("/v1/chat/completions", body)).await.status
    };
    let missing = async |count: u8| {
        let line = format!("portolan_tokenizers_missing {count}\n");
        while !world.caller().over(Over::Plain1, world.caller().get("/metrics")).await.text().contains(&line)
        {
            world.host.sleep(Duration::from_millis(5)).await;
        }
    };
    missing(1).await;
    let told = world.edge.counting.missing();
    assert_eq!((told.len(), told[0].name.as_str()), (1, "tiny"), "{told:?}");
    assert!(
        told[0].why.starts_with("it cannot be read: ") && told[0].mend.contains("tokenizers/tiny.json"),
        "{told:?}"
    );
    assert_eq!(call().await, 200);
    let dir = world.dir.path().join("tokenizers");
    world.host.disk().create_dir_all(&dir).await.unwrap();
    let json = Bytes::from_static(fixtures::TINY_TOKENIZER.as_bytes());
    seam::write_atomic(world.host.disk().as_ref(), &dir.join("tiny.json"), json).await.unwrap();
    let mut catalog = world.edge.snapshots.load().catalog().clone();
    by_file(&mut catalog);
    world.install(2, catalog).await;
    missing(0).await;
    assert_eq!(call().await, 200);
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
