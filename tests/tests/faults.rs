//! An upstream that misbehaves in every way we know, behind a real mesh: what callers are told is the same whether it
//! stands in their edge's region, in a peer region, or behind central.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]

use std::fmt::Write as _;

use futures_util::future::join_all;
use serde_json::json;
use tests::client::{Answer, Client, get, post};
use tests::configure::Story;
use tests::faulty::{Fault, Faulty};
use tests::mesh::Mesh;
use tests::until::until;

/// How a call ends.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// With the whole answer.
    Whole,
    /// With a status and a code.
    Refused(u16, &'static str),
    /// After a word, with an error event of this code.
    Broken(&'static str),
}

use Expected::{Broken, Refused, Whole};

/// What a call comes to under each fault, whole and streamed.
const TABLE: [(Fault, Expected, Expected); 14] = [
    (Fault::None, Whole, Whole),
    (Fault::Empty, Whole, Whole),
    (Fault::Status500, Refused(502, "upstream_error"), Refused(502, "upstream_error")),
    (Fault::Status429, Refused(429, "upstream_rate_limited"), Refused(429, "upstream_rate_limited")),
    (Fault::RetryAfter, Refused(429, "upstream_rate_limited"), Refused(429, "upstream_rate_limited")),
    (Fault::ErrorIn200, Refused(502, "upstream_error"), Refused(502, "upstream_error")),
    (Fault::Html, Refused(502, "upstream_invalid_response"), Refused(502, "upstream_invalid_response")),
    (Fault::HalfJson, Refused(502, "upstream_invalid_response"), Broken("upstream_invalid_response")),
    (
        Fault::EndlessHeaders,
        Refused(502, "upstream_invalid_response"),
        Refused(502, "upstream_invalid_response"),
    ),
    (Fault::Drop, Refused(502, "upstream_unreachable"), Broken("upstream_cut")),
    (Fault::DropAtOnce, Refused(502, "upstream_unreachable"), Refused(502, "upstream_unreachable")),
    (Fault::Silent, Refused(504, "upstream_timeout"), Refused(504, "upstream_timeout")),
    (Fault::SilentBody, Refused(504, "upstream_timeout"), Refused(504, "upstream_timeout")),
    (Fault::SlowDrip, Refused(504, "upstream_timeout"), Refused(504, "upstream_timeout")),
];

const PATHS: [(&str, &str); 3] = [("near", "local"), ("far", "peer:ap"), ("provided", "relay")];

#[tokio::test]
async fn every_fault_of_an_upstream_comes_to_the_same_end_by_every_path() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let faulty = Faulty::start().await;
    let story = Story::new("faults").with(&catalog(&faulty.url()));
    story.apply(&mesh);
    let (client, url, key) = (mesh.client(), mesh.url("eu"), story.key());
    until("the models at the edge", async || {
        let listed = client.ask(&url, get("/v1/models", &key)).await.ok()?;
        String::from_utf8_lossy(&listed.body).contains("far-13-stream").then_some(())
    })
    .await;
    for (path, shown) in PATHS {
        let served = async || {
            let answer = ask(&client, &url, &key, &format!("{path}-0-whole"), false).await;
            answer.headers.get("x-portolan-debug")?.to_str().unwrap().contains(shown).then_some(())
        };
        until(shown, served).await;
    }

    let mut calls = Vec::new();
    for (number, (fault, whole, streamed)) in TABLE.into_iter().enumerate() {
        for (path, _) in PATHS {
            for (kind, expected) in [("whole", whole), ("stream", streamed)] {
                let (client, url, key) = (client.clone(), url.clone(), key.clone());
                calls.push(async move {
                    let model = format!("{path}-{number}-{kind}");
                    let answer = ask(&client, &url, &key, &model, kind == "stream").await;
                    wrong(&answer, fault, expected).map(|what| format!("{fault:?}, {path}, {kind}: {what}"))
                });
            }
        }
    }
    let wrong: Vec<_> = join_all(calls).await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(faulty.left() > 0, "what never ends was left");
}

/// A model for each fault, path and kind of call, so that no call meets a server that is out for another's failures.
fn catalog(url: &str) -> String {
    // A key that is limited for one model is so for all: each fault has a provider of its own.
    let mut yaml = "providers:\n".to_owned();
    for number in 0..TABLE.len() {
        writeln!(yaml, "- {{name: faulty-{number}, base_url: \"{url}\", credential: sk-faulty}}").unwrap();
    }
    yaml.push_str("models:\n");
    for (number, (fault, ..)) in TABLE.iter().enumerate() {
        for (path, _) in PATHS {
            let served = match path {
                "near" => format!("replicas: [{{name: a, region: eu, url: \"{url}\"}}]"),
                "far" => format!("replicas: [{{name: a, region: ap, url: \"{url}\"}}]"),
                _provided => format!("provider: faulty-{number}"),
            };
            for kind in ["whole", "stream"] {
                writeln!(
                    yaml,
                    "- {{name: {path}-{number}-{kind}, upstream_model: \"{}\", price: {{input: 1, output: 2}}, context: 8192, \
                     output_cap: 64, {served}, \
                     timeouts: {{connect_ms: 1000, first_byte_ms: 1000, idle_ms: 1000, total_ms: 5000}}}}",
                    fault.model()
                )
                .unwrap();
            }
        }
    }
    yaml
}

async fn ask(client: &Client, url: &str, key: &str, model: &str, stream: bool) -> Answer {
    let body =
        json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": "How are you?"}]});
    let mut request = post("/v1/chat/completions", key, body.to_string());
    request.headers_mut().insert("x-portolan-debug", "true".parse().unwrap());
    client.ask(url, request).await.unwrap()
}

/// What is wrong with an answer, if anything is.
fn wrong(answer: &Answer, fault: Fault, expected: Expected) -> Option<String> {
    let (status, text) = (answer.status.as_u16(), String::from_utf8_lossy(&answer.body));
    let named = answer.headers["x-request-id"].to_str().unwrap().starts_with("req_");
    let wait = answer.headers.get("retry-after").map(|wait| wait.to_str().unwrap());
    let as_said = match expected {
        Whole => status == 200 && !text.contains("\"error\"") && text.contains("\"stop\""),
        Refused(said, code) => status == said && answer.code() == code,
        Broken(code) => {
            status == 200
                && text.contains("\"role\":\"assistant\"")
                && text.contains(&format!("\"code\":\"{code}\""))
                && !text.contains("[DONE]")
                && !text.contains("\"stop\"")
        }
    };
    let waits = fault != Fault::RetryAfter || wait == Some("7");
    (!(named && as_said && waits)).then(|| format!("not {expected:?} but {status}, wait {wait:?}: {text}"))
}
