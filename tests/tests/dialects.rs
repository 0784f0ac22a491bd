//! Callers of OpenAI's API are served by models that speak Anthropic's (through central) and Gemini's (through another region):
//! answers, tools and streams in their own API, and receipts that are right to the nano-dollar.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]

use serde_json::{Value, json};
use tests::client::{Answer, Client};
use tests::configure::Story;
use tests::faulty::Faulty;
use tests::foreign::Foreign;
use tests::mesh::Mesh;
use tests::until::until;

/// By its usage: 3 plain, 5 cached and 2 written tokens of input, 9 of output.
const CLAUDE_COST: u64 = 3 * 3_000 + 5 * 300 + 2 * 3_750 + 9 * 15_000;
/// 5 plain and 5 cached tokens of input, 9 of output, of which 4 are thoughts.
const GEMINI_COST: u64 = 5 * 1_250 + 5 * 125 + 5 * 10_000 + 4 * 12_000;
const EMBED_COST: u64 = 4 * 150;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openai_callers_use_models_of_other_apis_and_pay_what_they_used() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let (server, plain) = (Foreign::start().await, Faulty::start().await);
    let story = Story::new("abroad").with(&catalog(&server.url(), &plain.url()));
    story.apply(&mesh);
    let asking = Asking { client: mesh.client(), url: mesh.plain("eu"), key: story.key() };
    until("the edge knows the models", async || {
        let embedded = asking.embed("vectors").await;
        (asking.chat("claude", json!({})).await.status == 200
            && asking.chat("gemini", json!({})).await.status == 200
            && embedded.status == 200)
            .then_some(())
    })
    .await;

    for (model, cost, path) in [
        ("claude", CLAUDE_COST, "/v1/messages"),
        ("gemini", GEMINI_COST, "/v1beta/models/gemini-2.5-flash:generateContent"),
    ] {
        answers(&mesh, &server, &asking, (model, cost, path)).await;
        streams(&mesh, &asking, (model, cost)).await;
    }

    let vectors = asking.embed("vectors").await;
    assert_eq!(vectors.json()["data"][1]["embedding"], json!([0.5, -0.25]), "{vectors:?}");
    assert_eq!(recorded(&mesh, &vectors).await["cost"], EMBED_COST);

    // What the API cannot express is named, and goes to a model of another one where the route has it.
    let refused = asking.chat("claude", json!({"n": 2})).await;
    let error = refused.json();
    assert_eq!((refused.status.as_u16(), &error["error"]["param"]), (400, &json!("n")), "{error}");
    assert_eq!(plain.calls(), 0);
    let answered = asking.chat("either", json!({"n": 2})).await;
    assert_eq!((answered.status.as_u16(), plain.calls()), (200, 1), "{answered:?}");
    // 529 moves the call on, too.
    let moved = asking.saying("either", "busy", json!({})).await;
    assert_eq!((moved.status.as_u16(), plain.calls()), (200, 2), "{moved:?}");

    let books = until("every receipt is applied", async || {
        let books: Value =
            serde_json::from_str(&mesh.operate(&["ledger", "check", "--json"]).unwrap()).unwrap();
        let row = books["rows"].as_array()?.iter().find(|row| row["name"] == "abroad-all")?;
        let costs = records(&mesh).iter().filter_map(|record| record["cost"].as_u64()).sum::<u64>();
        (row["receipts"] == costs).then(|| books.clone())
    })
    .await;
    assert_eq!(books["balanced"], true, "{books}");
}

/// Whole answers, and what the server was asked.
async fn answers(mesh: &Mesh, server: &Foreign, asking: &Asking, (model, cost, path): (&str, u64, &str)) {
    let answer = asking.chat(model, json!({"seed": 7})).await;
    let body = answer.json();
    assert_eq!(body["object"], "chat.completion", "{body}");
    assert_eq!(body["choices"][0]["message"]["content"], "all is well", "{body}");
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert_eq!([&body["usage"]["prompt_tokens"], &body["usage"]["completion_tokens"]], [10, 9]);
    assert_eq!(body["usage"]["prompt_tokens_details"]["cached_tokens"], 5, "{body}");
    let asked = server.asked();
    assert_eq!(asked.path, path);
    let record = recorded(mesh, &answer).await;
    assert_eq!(record["cost"], cost, "{record}");
    let lost = record["lost"].as_array().cloned().unwrap_or_default();
    let of_seed = lost.iter().any(|field| field.as_str().unwrap().starts_with("seed"));
    assert_eq!(of_seed, model == "claude", "{record}");
    if model == "claude" {
        assert_eq!((asked.key.as_deref(), &asked.body["max_tokens"]), (Some("sk-ant-canary"), &json!(64)));
        assert_eq!(asked.body["model"], "claude-sonnet-4-5", "{}", asked.body);
    }

    let body = asking.chat(model, tools()).await.json();
    let call = &body["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["function"], json!({"name": "weather", "arguments": "{\"city\":\"Köln\"}"}), "{body}");
    assert_eq!(body["choices"][0]["finish_reason"], "tool_calls");
}

/// Streams: words, calls of tools, and one that breaks.
async fn streams(mesh: &Mesh, asking: &Asking, (model, cost): (&str, u64)) {
    let streams = json!({"stream": true});
    let answer = asking.chat(model, streams.clone()).await;
    let chunks = chunks(&answer);
    assert_eq!(text(&chunks), "all is well");
    assert!(chunks.iter().all(|chunk| chunk["usage"].is_null()), "no usage was asked for: {chunks:?}");
    assert_eq!(recorded(mesh, &answer).await["cost"], cost);

    let mut with_tools = tools();
    with_tools["stream"] = true.into();
    with_tools["stream_options"] = json!({"include_usage": true});
    let chunks = self::chunks(&asking.chat(model, with_tools).await);
    let calls = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0].as_object());
    let arguments: String = calls.filter_map(|call| call["function"]["arguments"].as_str()).collect();
    assert_eq!(arguments, "{\"city\":\"Köln\"}", "{chunks:?}");
    let usage = &chunks.last().unwrap()["usage"];
    assert_eq!([&usage["prompt_tokens"], &usage["completion_tokens"]], [10, 9], "{chunks:?}");

    let broken = asking.saying(model, "break", streams).await;
    let said = String::from_utf8(broken.body.to_vec()).unwrap();
    assert!(said.contains("all is well") && !said.contains("[DONE]"), "{said}");
    let last = said.trim_end().rsplit("data: ").next().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert!(last["error"]["code"].is_string(), "{said}");
}

struct Asking {
    client: Client,
    url: String,
    key: String,
}

impl Asking {
    async fn chat(&self, model: &str, more: Value) -> Answer {
        self.saying(model, "hi", more).await
    }

    async fn saying(&self, model: &str, words: &str, more: Value) -> Answer {
        let mut body = json!({"model": model, "messages": [{"role": "user", "content": words}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.client.post(&self.url, "/v1/chat/completions", &self.key, body.to_string()).await.unwrap()
    }

    async fn embed(&self, model: &str) -> Answer {
        let body = json!({"model": model, "input": ["a", "b"]}).to_string();
        self.client.post(&self.url, "/v1/embeddings", &self.key, body).await.unwrap()
    }
}

fn tools() -> Value {
    json!({"tools": [{"type": "function", "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }}]})
}

/// The chunks of a stream that ended well.
fn chunks(answer: &Answer) -> Vec<Value> {
    let stream = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(answer.status == 200 && stream.trim_end().ends_with("data: [DONE]"), "{stream}");
    let payloads = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    payloads
        .filter(|payload| *payload != "[DONE]")
        .map(|payload| serde_json::from_str(payload).unwrap())
        .collect()
}

fn text(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

/// What the edge in Europe wrote of a call.
async fn recorded(mesh: &Mesh, answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    until("the record is written", async || {
        let request = answer.headers["x-request-id"].to_str().unwrap();
        records(mesh).into_iter().find(|record| record["request"] == request)
    })
    .await
}

/// All that it wrote.
fn records(mesh: &Mesh) -> Vec<Value> {
    let text = tests::mesh::text(&mesh.dir().join("mesh/records/edge-eu/calls-0.jsonl"));
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn catalog(foreign: &str, plain: &str) -> String {
    format!(
        "providers:
  - {{name: anthropic, dialect: anthropic, base_url: \"{foreign}\", credential: sk-ant-canary}}
models:
  - name: claude
    upstream_model: claude-sonnet-4-5
    dialect: anthropic
    price: {{input: 3, cached_input: 0.3, cache_write: 3.75, output: 15}}
    context: 200000
    output_cap: 64
    provider: anthropic
  - name: gemini
    upstream_model: gemini-2.5-flash
    dialect: gemini
    price: {{input: 1.25, cached_input: 0.125, output: 10, reasoning: 12}}
    context: 1000000
    output_cap: 64
    replicas: [{{name: google, region: us, url: \"{foreign}\"}}]
  - name: vectors
    upstream_model: gemini-embedding-001
    dialect: gemini
    operations: [embeddings]
    price: {{input: 0.15}}
    context: 2048
    replicas: [{{name: google, region: us, url: \"{foreign}\"}}]
  - name: plain
    price: {{input: 1, output: 2}}
    context: 8192
    output_cap: 64
    replicas: [{{name: a, region: eu, url: \"{plain}\"}}]
routes:
  - {{name: either, strategy: ordered, targets: [claude, plain]}}
budgets:
  - {{name: abroad-all, tenant: abroad, unit: usd, window: month, limit: 5}}"
    )
}
