//! Callers of Anthropic's and of Gemini's API, and a model whose server speaks OpenAI's.

use std::time::Duration;

use base::{Amount, Code, Unit};
use http::{Method, Request};
use http_body_util::Full;
use seam::Bound;
use serde_json::{Value, json};
use wire::catalog::{Budget, Limits, Window};
use wire::ledger::Outcome;

use super::caller::{ALL, Answered, Caller, Over};
use super::server::{Act, Server};
use super::world::World;
use crate::fixtures;

const MESSAGES: &str = "/v1/messages";
const GENERATE: &str = "/v1beta/models/tiny:generateContent";
const STREAM: &str = "/v1beta/models/tiny:streamGenerateContent";

/// A stream that ends without saying why.
const BEGUN: &str = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hel\"}}]}\n\n";

fn message(more: &Value) -> String {
    with(json!({"model": "tiny", "max_tokens": 16, "messages": [{"role": "user", "content": "hi"}]}), more)
}

fn contents(more: &Value) -> String {
    with(json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}), more)
}

fn with(mut body: Value, more: &Value) -> String {
    body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    body.to_string()
}

async fn world(act: Act) -> (Server, World, Caller) {
    let server = Server::start(&seam::Host::real(), act).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let caller = world.caller();
    (server, world, caller)
}

/// The same with a budget that pays, so that calls leave receipts.
async fn paid(act: Act) -> (Server, World, Caller, Bound<()>) {
    let server = Server::start(&seam::Host::real(), act).await;
    let limit = Amount(1_000_000);
    let budget = Budget { window: Window::Total, limit, ..fixtures::budget("acme-day", Unit::Tokens) };
    let world = World::start(&server.url, |_, catalog| {
        catalog.budgets.insert(budget.name.clone(), budget.clone());
    })
    .await;
    let (caller, central) = (world.caller(), world.fund(&budget));
    (server, world, caller, central)
}

async fn ask(caller: &Caller, path: &str, body: impl Into<bytes::Bytes>) -> Answered {
    caller.over(Over::Plain1, caller.post(path, body)).await
}

#[tokio::test]
async fn both_apis_are_answered_in_their_own_shape_over_every_http_version() {
    let (server, world, caller, _central) = paid(Act::Complete).await;
    for over in ALL {
        server.does(Act::Complete);
        let told = caller.over(over, caller.post(MESSAGES, message(&json!({})))).await;
        let body = told.json();
        assert_eq!((told.status.as_u16(), &body["type"]), (200, &"message".into()), "{over:?}: {body}");
        assert_eq!(body["content"], json!([{"type": "text", "text": "hello"}]));
        assert_eq!((&body["stop_reason"], &body["usage"]["output_tokens"]), (&"end_turn".into(), &3.into()));
        assert_eq!(told.headers["request-id"], told.headers["x-request-id"]);

        let told = caller.over(over, caller.post(GENERATE, contents(&json!({})))).await;
        let body = told.json();
        assert_eq!(body["candidates"][0]["content"]["parts"][0]["text"], "hello", "{over:?}: {body}");
        assert_eq!(body["usageMetadata"]["totalTokenCount"], 10);
        assert!(told.headers.get("request-id").is_none());

        server.does(Act::Words(&["hel", "lo"]));
        let stream = caller.over(over, caller.post(MESSAGES, message(&json!({"stream": true})))).await;
        let text = stream.text();
        assert!(text.starts_with("event: message_start\n") && text.contains("\"hel\""), "{over:?}: {text}");
        assert!(text.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"), "{text}");

        let sse = caller.over(over, caller.post(&format!("{STREAM}?alt=sse"), contents(&json!({})))).await;
        assert_eq!(sse.headers["content-type"], "text/event-stream");
        assert!(sse.text().starts_with("data: {\"candidates\""), "{over:?}: {}", sse.text());
        let array = caller.over(over, caller.post(STREAM, contents(&json!({})))).await;
        assert_eq!(array.headers["content-type"], "application/json");
        let chunks = array.json();
        let said =
            |chunk: &Value| chunk["candidates"][0]["content"]["parts"][0]["text"].as_str().map(str::to_owned);
        let said: String = chunks.as_array().unwrap().iter().filter_map(said).collect();
        assert_eq!(said, "hello", "{over:?}: {chunks}");
        assert_eq!(chunks.as_array().unwrap().last().unwrap()["candidates"][0]["finishReason"], "STOP");
    }
    world.quiet().await;
    let receipts = world.receipts(25).await;
    assert_eq!(receipts.len(), 25, "one for each call");
    assert!(receipts.iter().all(|receipt| receipt.usage.input.0 == 7 && !receipt.estimated));
}

#[tokio::test]
async fn the_model_is_asked_in_its_own_api_and_tools_and_losses_are_told() {
    let (server, world, caller) = world(Act::Complete).await;
    let tool = json!({"name": "f", "description": "d", "input_schema": {"type": "object"}});
    let asked = json!({"tools": [tool], "top_k": 5, "system": "be brief", "x_é": 1});
    let told = ask(&caller, MESSAGES, message(&asked)).await;
    assert_eq!(told.status, 200, "{told:?}");
    let lost = told.headers["x-portolan-lost"].to_str().unwrap();
    assert!(lost.contains("x_?"), "{lost}");
    let sent = server.asked().remove(0);
    assert_eq!(sent["messages"][0], json!({"role": "system", "content": "be brief"}), "{sent}");
    assert_eq!((&sent["tools"][0]["function"]["name"], &sent["max_tokens"]), (&"f".into(), &16.into()));
    let record = world.records(1).await.remove(0);
    assert!(record["lost"].to_string().contains("x_é"), "{record}");

    let said = r#"{"id":"c","object":"chat.completion","created":1,"model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}"#;
    server.does(Act::Fail(200, said));
    let told = ask(&caller, MESSAGES, message(&json!({"tools": [tool]}))).await.json();
    let expected = json!({"type": "tool_use", "id": "call_1", "name": "f", "input": {"a": 1}});
    assert_eq!((&told["content"][0], &told["stop_reason"]), (&expected, &"tool_use".into()), "{told}");
    let functions = json!({"tools": [{"functionDeclarations": [{"name": "f", "description": "d"}]}]});
    let told = ask(&caller, GENERATE, contents(&functions)).await.json();
    assert_eq!(
        told["candidates"][0]["content"]["parts"][0]["functionCall"]["args"],
        json!({"a": 1}),
        "{told}"
    );
}

#[tokio::test]
async fn gemini_embeds_one_and_many() {
    let (server, _world, caller) = world(Act::Complete).await;
    let one = json!({"content": {"parts": [{"text": "hi"}]}});
    let told = ask(&caller, "/v1beta/models/tiny:embedContent", one.to_string()).await;
    assert_eq!(told.json()["embedding"]["values"], json!([0.5]), "{told:?}");
    assert_eq!(server.asked()[0]["input"], json!(["hi"]));
    let many = json!({"requests": [one]}).to_string();
    let told = ask(&caller, "/v1/models/tiny:batchEmbedContents", many).await;
    assert_eq!(told.json()["embeddings"][0]["values"], json!([0.5]), "{told:?}");
}

#[tokio::test]
async fn every_refusal_is_told_in_the_callers_shape() {
    let (server, world, caller) = world(Act::Complete).await;
    let told = |answer: &Answered| {
        let body = answer.json();
        assert!(body["error"]["message"].as_str().is_some_and(|words| !words.is_empty()), "{body}");
        (answer.status.as_u16(), body)
    };
    let missing = ask(&caller, MESSAGES, r#"{"model":"tiny","messages":[]}"#).await;
    let (status, body) = told(&missing);
    assert_eq!((status, &body["error"]["param"]), (400, &"max_tokens".into()), "{body}");
    let (status, body) = told(&ask(&caller, GENERATE, r#"{"cachedContent":"c"}"#).await);
    assert_eq!((status, &body["error"]["status"]), (400, &"INVALID_ARGUMENT".into()));
    assert_eq!(body["error"]["details"][1]["fieldViolations"][0]["field"], "cachedContent");
    let nobody = caller.with_key("sk-wrong");
    assert_eq!(
        told(&ask(&nobody, MESSAGES, message(&json!({}))).await).1["error"]["type"],
        "authentication_error"
    );
    assert_eq!(
        told(&ask(&nobody, GENERATE, contents(&json!({}))).await).1["error"]["status"],
        "UNAUTHENTICATED"
    );
    let (status, body) =
        told(&ask(&caller, "/v1beta/models/none:generateContent", contents(&json!({}))).await);
    assert_eq!((status, &body["error"]["status"]), (404, &"NOT_FOUND".into()));
    let (status, body) = told(&ask(&caller, "/v1/messages/batches", "{}").await);
    assert_eq!((status, &body["error"]["type"]), (404, &"not_found_error".into()));
    let wrong = caller.over(Over::Plain1, caller.get(GENERATE)).await;
    assert_eq!((told(&wrong).0, &wrong.headers["allow"]), (405, &"POST".parse().unwrap()));

    server.does(Act::Fail(400, r#"{"error":{"message":"no such thing","type":"invalid_request_error"}}"#));
    let (status, body) = told(&ask(&caller, MESSAGES, message(&json!({}))).await);
    assert_eq!(
        (status, &body["type"], &body["error"]["message"]),
        (400, &"error".into(), &"no such thing".into())
    );
    let (status, body) = told(&ask(&caller, GENERATE, contents(&json!({}))).await);
    assert_eq!((status, &body["error"]["message"]), (400, &"no such thing".into()));
    world.quiet().await;
}

#[tokio::test]
async fn limits_are_told_as_each_api_tells_them() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, catalog| {
        let limits = Limits { requests_per_min: Some(2), ..Limits::default() };
        catalog.tenants.values_mut().for_each(|tenant| tenant.limits = limits);
    })
    .await;
    let caller = world.caller();
    let told = ask(&caller, MESSAGES, message(&json!({}))).await;
    assert_eq!(told.headers["anthropic-ratelimit-requests-limit"], "2", "{told:?}");
    assert!(told.headers["anthropic-ratelimit-requests-reset"].to_str().unwrap().ends_with('Z'));
    let counted = ask(&caller, "/v1/messages/count_tokens", message(&json!({}))).await;
    assert_eq!(counted.headers["anthropic-ratelimit-requests-remaining"], "0", "a count is a request");
    let refused = ask(&caller, MESSAGES, message(&json!({}))).await;
    assert_eq!(
        (refused.status.as_u16(), &refused.json()["error"]["type"]),
        (429, &"rate_limit_error".into())
    );
    assert!(refused.headers.contains_key("retry-after"));
    let refused = ask(&caller, GENERATE, contents(&json!({}))).await.json();
    let retry = &refused["error"]["details"][1];
    assert_eq!(retry["@type"], "type.googleapis.com/google.rpc.RetryInfo", "{refused}");
    let refused = ask(&caller, "/v1beta/models/tiny:countTokens", contents(&json!({}))).await;
    assert_eq!(
        (refused.status.as_u16(), &refused.json()["error"]["status"]),
        (429, &"RESOURCE_EXHAUSTED".into())
    );
}

#[tokio::test]
async fn streams_that_fail_end_in_their_own_shape_and_never_as_finished() {
    let (_server, world, caller, _central) = paid(Act::Events(&[BEGUN])).await;
    let text = ask(&caller, MESSAGES, message(&json!({"stream": true}))).await.text();
    assert!(text.contains("event: error\n") && text.contains("upstream_cut"), "{text}");
    assert!(!text.contains("message_stop"), "{text}");
    let array = ask(&caller, STREAM, contents(&json!({}))).await.json();
    let last = array.as_array().unwrap().last().unwrap();
    assert_eq!(last["error"]["details"][0]["reason"], "UPSTREAM_CUT", "{array}");
    assert!(!array.to_string().contains("finishReason"), "{array}");
    world.quiet().await;
    for receipt in world.receipts(2).await {
        assert_eq!((receipt.outcome, receipt.code), (Outcome::Cut, Some(Code::UpstreamCut)));
    }
}

#[tokio::test]
async fn a_caller_that_hangs_up_cancels_the_model_and_leaves_one_receipt() {
    let (server, world, caller, _central) = paid(Act::Hang(&["hel"])).await;
    for (path, body) in [(MESSAGES, message(&json!({"stream": true}))), (STREAM, contents(&json!({})))] {
        let answer = caller.open(Over::Plain1, caller.post(path, body)).await;
        server.open(1).await;
        drop(answer);
        server.open(0).await;
    }
    world.quiet().await;
    let outcomes: Vec<_> = world.receipts(2).await.iter().map(|receipt| receipt.outcome).collect();
    assert_eq!(outcomes, [Outcome::CallerGone, Outcome::CallerGone]);
}

#[tokio::test]
async fn silence_before_the_first_event_is_filled_as_the_framing_allows_and_a_failure_is_told_in_it() {
    let server = Server::start(&seam::Host::real(), Act::Silent).await;
    let world = World::start(&server.url, |config, catalog| {
        config.guard.keep_alive = Duration::from_millis(20);
        let model = catalog.models.get_mut("tiny").unwrap();
        model.timeouts.first_byte_ms = 300;
    })
    .await;
    let caller = world.caller();
    let array = ask(&caller, STREAM, contents(&json!({}))).await;
    assert!(array.text().starts_with('\n'), "{array:?}");
    assert_eq!(array.json()[0]["error"]["code"], 504, "{array:?}");
    let sse = ask(&caller, &format!("{STREAM}?alt=sse"), contents(&json!({}))).await.text();
    assert!(sse.trim_start().starts_with("data: {\"error\""), "{sse}");
    let events = ask(&caller, MESSAGES, message(&json!({"stream": true}))).await.text();
    assert!(events.starts_with(": keep-alive\n\n") && events.contains("event: error\n"), "{events}");
}

#[tokio::test]
async fn tokens_are_counted_without_a_call_and_without_a_charge() {
    let (server, world, caller, _central) = paid(Act::Complete).await;
    let body =
        json!({"model": "tiny", "messages": [{"role": "user", "content": "hi there, you"}]}).to_string();
    let told = ask(&caller, "/v1/messages/count_tokens", body).await;
    assert_eq!(
        (told.status.as_u16(), &told.headers["x-portolan-count"]),
        (200, &"estimated".parse().unwrap())
    );
    let counted = told.json()["input_tokens"].as_u64().unwrap();
    assert!((4..30).contains(&counted), "{counted}");
    let told = ask(&caller, "/v1beta/models/tiny:countTokens", contents(&json!({}))).await;
    assert!(told.json()["totalTokens"].as_u64().unwrap() > 0, "{told:?}");
    let absent = ask(&caller, "/v1beta/models/none:countTokens", contents(&json!({}))).await;
    assert_eq!(absent.json()["error"]["status"], "NOT_FOUND", "{absent:?}");
    assert!(server.asked().is_empty(), "no model is asked");
    ask(&caller, MESSAGES, message(&json!({}))).await;
    assert_eq!(world.receipts(1).await.len(), 1, "a count leaves none");
}

#[tokio::test]
async fn models_are_listed_in_each_apis_shape() {
    let (_server, _world, caller) = world(Act::Complete).await;
    let get = async |path: &str, header: Option<&'static str>| {
        let mut request = caller.get(path);
        if let Some(name) = header {
            request.headers_mut().insert(name, "2023-06-01".parse().unwrap());
        }
        caller.over(Over::Plain1, request).await.json()
    };
    let list = get("/v1/models", Some("anthropic-version")).await;
    assert_eq!(
        (&list["data"][0]["type"], &list["data"][0]["id"]),
        (&"model".into(), &"tiny".into()),
        "{list}"
    );
    assert_eq!(get("/v1/models/tiny", Some("anthropic-version")).await["type"], "model");
    assert_eq!(get("/v1beta/models", None).await["models"][0]["name"], "models/tiny");
    let one = get("/v1beta/models/tiny", None).await;
    assert_eq!(one["supportedGenerationMethods"][0], "generateContent", "{one}");
    assert_eq!(get("/v1beta/models/none", None).await["error"]["status"], "NOT_FOUND");
    assert_eq!(get("/v1/models", None).await["object"], "list");
}

/// Case B112.
#[tokio::test]
async fn no_credential_of_a_caller_reaches_a_model_or_a_record() {
    let (server, world, caller) = world(Act::Complete).await;
    let others = ["api-key", "xi-api-key", "cookie", "proxy-authorization", "x-internal-secret"];
    let request = |path: &str, body: String, carrier: &'static str| {
        let request =
            Request::builder().method(Method::POST).uri(path).header("content-type", "application/json");
        let request = if carrier.is_empty() { request } else { request.header(carrier, "sk-test") };
        let request = others.iter().fold(request, |request, name| request.header(*name, "hidden-of-ours"));
        request.body(Full::new(body.into())).unwrap()
    };
    for request in [
        request(MESSAGES, message(&json!({})), "x-api-key"),
        request(GENERATE, contents(&json!({})), "x-goog-api-key"),
        request(&format!("{GENERATE}?key=sk-test"), contents(&json!({})), ""),
    ] {
        assert_eq!(caller.over(Over::Plain1, request).await.status, 200);
    }
    let differs = request(&format!("{GENERATE}?key=sk-other"), contents(&json!({})), "x-goog-api-key");
    assert_eq!(caller.over(Over::Plain1, differs).await.json()["error"]["code"], 401);
    // Of an API that has no keys in its URLs, one is none.
    let no_key = request(&format!("{MESSAGES}?key=sk-test"), message(&json!({})), "");
    assert_eq!(caller.over(Over::Plain1, no_key).await.status, 401);
    let seen = format!("{:?}{:?}{:?}", server.headers(), server.asked(), world.records(5).await);
    assert!(!seen.contains("sk-test") && !seen.contains("hidden-of-ours"), "{seen}");
}
