//! Callers of Anthropic's and of Gemini's API, answered by models whose servers speak OpenAI's: of the edge's own region, of
//! a peer region, and of a provider. Each call leaves exactly one receipt with what it used.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tests::client::{Answer, Client, get};
use tests::configure::Story;
use tests::mesh::Mesh;
use tests::until::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_other_apis_are_answered_in_theirs_from_everywhere() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let story = Story::new("northbound")
        .with(&models(&mesh))
        .with("budgets: [{name: northbound, key: northbound-key, unit: usd, window: total, limit: 100}]");
    story.apply(&mesh);
    let caller = Caller { client: mesh.client(), key: story.key() };
    let us = mesh.url("us");
    until("the models", async || {
        let answer = caller.client.ask(&us, get("/v1beta/models", &caller.key)).await.ok()?;
        let listed = answer.json()["models"].to_string();
        (listed.contains("models/in-us") && listed.contains("models/provided")).then_some(())
    })
    .await;

    let mut used = Vec::new();
    for model in ["in-us", "in-eu", "provided"] {
        used.push(caller.is_told_a_message(&us, model).await);
        used.push(caller.is_told_a_content(&us, model).await);
        used.push(caller.streams_events(&us, model).await);
        used.push(caller.streams_an_array(&us, model).await);
    }
    let counted = caller.ask(&us, "/v1/messages/count_tokens", "x-api-key", &message("in-us")).await;
    assert!(counted.json()["input_tokens"].as_u64().unwrap() > 0, "{counted:?}");
    let unknown = caller.ask(&us, "/v1/messages", "x-api-key", &message("nothing")).await;
    assert_eq!(
        (unknown.status.as_u16(), unknown.json()["error"]["type"].as_str()),
        (404, Some("not_found_error"))
    );

    for (id, output) in used {
        let found = until("a receipt", async || {
            let told = mesh.operate(&["receipts", &id, "--json"]).ok()?;
            let told: Value = serde_json::from_str(&told).ok()?;
            (!told["receipts"].as_array()?.is_empty()).then_some(told)
        })
        .await;
        let receipts = found["receipts"].as_array().unwrap();
        assert_eq!((receipts.len(), &receipts[0]["output"]), (1, &json!(output)), "{found}");
    }
}

fn models(mesh: &Mesh) -> String {
    let at = |region: &str| mesh.facts.demo.iter().find(|demo| demo.region == region).unwrap().url.clone();
    let replica =
        |region: &str| format!("replicas: [{{name: a, region: {region}, url: \"{}\"}}]", at(region));
    let model = |name: &str, from: &str| {
        format!("- {{name: {name}, price: {{input: 1, output: 2}}, context: 8192, output_cap: 64, {from}}}\n")
    };
    let (us, eu) = (model("in-us", &replica("us")), model("in-eu", &replica("eu")));
    format!("models:\n{us}{eu}{}", model("provided", "provider: demo"))
}

fn message(model: &str) -> Value {
    json!({"model": model, "max_tokens": 16, "messages": [{"role": "user", "content": "Where are you?"}]})
}

struct Caller {
    client: Client,
    key: String,
}

/// A call's id, and the tokens of its answer.
type Used = (String, u64);

impl Caller {
    async fn ask(&self, url: &str, path: &str, carrier: &str, body: &Value) -> Answer {
        let request = Request::post(path).header("content-type", "application/json").header("host", "mesh");
        let request = request.header(carrier, &self.key).body(Full::new(body.to_string().into())).unwrap();
        self.client.ask(url, request).await.unwrap()
    }

    async fn is_told_a_message(&self, url: &str, model: &str) -> Used {
        let answer = self.ask(url, "/v1/messages", "x-api-key", &message(model)).await;
        let body = answer.json();
        assert_eq!((answer.status.as_u16(), &body["type"]), (200, &json!("message")), "{body}");
        assert_eq!(answer.headers["request-id"], answer.headers["x-request-id"]);
        assert!(!body["content"][0]["text"].as_str().unwrap().is_empty(), "{body}");
        used(&answer, &body["usage"]["output_tokens"])
    }

    async fn is_told_a_content(&self, url: &str, model: &str) -> Used {
        let answer = self.ask(url, &path(model, "generateContent"), "x-goog-api-key", &content()).await;
        let body = answer.json();
        assert!(!text(&body).is_empty(), "{body}");
        used(&answer, &body["usageMetadata"]["candidatesTokenCount"])
    }

    async fn streams_events(&self, url: &str, model: &str) -> Used {
        let mut ask = message(model);
        ask["stream"] = true.into();
        let answer = self.ask(url, "/v1/messages", "x-api-key", &ask).await;
        let events: Vec<Value> = String::from_utf8(answer.body.to_vec())
            .unwrap()
            .lines()
            .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
            .collect();
        let ends = [&events[0]["type"], &events[events.len() - 1]["type"]];
        assert_eq!(ends, ["message_start", "message_stop"], "{events:?}");
        let last = events.iter().find(|event| event["type"] == "message_delta").unwrap();
        used(&answer, &last["usage"]["output_tokens"])
    }

    async fn streams_an_array(&self, url: &str, model: &str) -> Used {
        let answer = self.ask(url, &path(model, "streamGenerateContent"), "x-goog-api-key", &content()).await;
        let chunks = answer.json();
        let chunks = chunks.as_array().unwrap();
        let said: String = chunks.iter().map(text).collect();
        let last = chunks.last().unwrap();
        assert!(!said.is_empty() && last["candidates"][0]["finishReason"].is_string(), "{chunks:?}");
        used(&answer, &last["usageMetadata"]["candidatesTokenCount"])
    }
}

fn path(model: &str, verb: &str) -> String {
    format!("/v1beta/models/{model}:{verb}")
}

fn content() -> Value {
    json!({"contents": [{"parts": [{"text": "Where are you?"}]}], "generationConfig": {"maxOutputTokens": 16}})
}

fn text(response: &Value) -> String {
    response["candidates"][0]["content"]["parts"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn used(answer: &Answer, output: &Value) -> Used {
    let id = answer.headers["x-request-id"].to_str().unwrap().to_owned();
    assert!(output.as_u64().is_some_and(|tokens| tokens > 0), "no usage in {answer:?}");
    (id, output.as_u64().unwrap())
}
