//! A caller asks an edge and is answered from the edge's own region, from a peer region, or by central with the
//! provider's credential; and every kind of bad input is refused with its code.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::panic, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use tests::client::{Answer, Client, get, post};
use tests::configure::Story;
use tests::mesh::Mesh;

#[tokio::test]
async fn a_mesh_serves_from_its_region_a_peer_and_a_provider() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let story = Story::new("serves").with(&models(&mesh));
    story.apply(&mesh);
    let caller = Caller { client: mesh.client(), key: story.key() };

    let (eu, ap) = (mesh.url("eu"), mesh.url("ap"));
    until_known(&caller, &eu, "in-eu").await;
    until_known(&caller, &ap, "in-eu").await;
    caller.is_answered(&eu, "in-eu", "local").await;
    caller.is_answered(&ap, "in-eu", "peer:eu").await;
    caller.is_answered(&ap, "provided", "relay").await;
    caller.streams_with_usage(&ap, "in-eu").await;
    caller.streams_with_usage(&ap, "provided").await;
    caller.embeds(&ap, "embed").await;
    caller.lists_models(&eu).await;
    caller.speaks_http_1(&mesh).await;
    caller.is_refused_for_bad_input(&eu).await;
}

fn models(mesh: &Mesh) -> String {
    let at = |region: &str| mesh.facts.demo.iter().find(|demo| demo.region == region).unwrap().url.clone();
    let eu = at("eu");
    format!(
        "models:\n\
         - {{name: in-eu, price: {{input: 1, output: 2}}, context: 8192, output_cap: 64, \
            replicas: [{{name: a, region: eu, url: \"{eu}\"}}]}}\n\
         - {{name: embed, operations: [embeddings], price: {{input: 1}}, \
            replicas: [{{name: a, region: eu, url: \"{eu}\"}}]}}\n\
         - {{name: provided, price: {{input: 1, output: 2}}, context: 8192, output_cap: 64, provider: demo}}\n"
    )
}

struct Caller {
    client: Client,
    key: String,
}

impl Caller {
    async fn post(&self, url: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        self.client.post(url, path, &self.key, body).await.unwrap()
    }

    async fn is_answered(&self, url: &str, model: &str, path: &str) {
        let mut request = post("/v1/chat/completions", &self.key, chat(model, false).to_string());
        request.headers_mut().insert("x-portolan-debug", "true".parse().unwrap());
        let answer = self.client.ask(url, request).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.headers["x-request-id"].to_str().unwrap().starts_with("req_"));
        assert!(answer.json()["usage"]["total_tokens"].as_u64().unwrap() > 0, "{answer:?}");
        let debug = answer.headers["x-portolan-debug"].to_str().unwrap();
        assert!(debug.contains(path), "{path} in {debug}");
    }

    async fn streams_with_usage(&self, url: &str, model: &str) {
        let hidden = self.post(url, "/v1/chat/completions", chat(model, true).to_string()).await;
        let events = events(&hidden);
        assert_eq!(events.last().map(String::as_str), Some("[DONE]"), "{hidden:?}");
        assert!(
            !events.iter().any(|event| event.contains("\"total_tokens\"")),
            "usage was not asked for: {events:?}"
        );

        let mut ask = chat(model, true);
        ask["stream_options"] = json!({"include_usage": true});
        let shown = self.post(url, "/v1/chat/completions", ask.to_string()).await;
        let usage = tests_usage(&shown);
        assert!(usage["total_tokens"].as_u64().unwrap() > 0, "{usage}");
    }

    async fn embeds(&self, url: &str, model: &str) {
        let ask = json!({"model": model, "input": ["one", "two"]});
        let answer = self.post(url, "/v1/embeddings", ask.to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["data"].as_array().unwrap().len(), 2);
    }

    async fn lists_models(&self, url: &str) {
        let answer = self.client.ask(url, get("/v1/models", &self.key)).await.unwrap();
        let listed: Vec<_> =
            answer.json()["data"].as_array().unwrap().iter().map(|m| m["id"].clone()).collect();
        assert!(listed.contains(&json!("in-eu")) && listed.contains(&json!("provided")), "{listed:?}");
    }

    async fn speaks_http_1(&self, mesh: &Mesh) {
        let client = Client::trusting(&mesh.facts.ca, &["http/1.1"]);
        let answer = client
            .post(&mesh.url("us"), "/v1/chat/completions", &self.key, chat("in-eu", false).to_string())
            .await
            .unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.headers["alt-svc"].to_str().unwrap().contains("h3="), "{answer:?}");
    }

    async fn is_refused_for_bad_input(&self, url: &str) {
        let deep = format!("{}{}", "[".repeat(5_000_000), "]".repeat(5_000_000));
        let cases = [
            ("unknown model", chat("nonsense", false).to_string(), 404, "model_not_found"),
            ("not JSON", "{\"model\": ".to_owned(), 400, "invalid_request"),
            ("not an object", "[]".to_owned(), 400, "invalid_request"),
            (
                "stream of the wrong type",
                r#"{"model":"in-eu","messages":[],"stream":"yes"}"#.to_owned(),
                400,
                "invalid_request",
            ),
            ("10 MB of nesting", deep, 400, "invalid_request"),
            ("a body over the limit", " ".repeat(33 << 20), 413, "body_too_large"),
        ];
        for (what, body, status, code) in cases {
            let answer = self.post(url, "/v1/chat/completions", body).await;
            assert_eq!(
                (answer.status.as_u16(), answer.code().as_str()),
                (status, code),
                "{what}: {answer:?}"
            );
        }
        let missing = self
            .client
            .post(url, "/v1/chat/completions", "", chat("in-eu", false).to_string())
            .await
            .unwrap();
        assert_eq!((missing.status.as_u16(), missing.code().as_str()), (401, "missing_api_key"));
        let wrong = self
            .client
            .post(url, "/v1/chat/completions", "sk-wrong", chat("in-eu", false).to_string())
            .await
            .unwrap();
        assert_eq!((wrong.status.as_u16(), wrong.code().as_str()), (401, "invalid_api_key"));
        let mut text = post("/v1/chat/completions", &self.key, chat("in-eu", false).to_string());
        text.headers_mut().insert("content-type", "text/plain".parse().unwrap());
        let text = self.client.ask(url, text).await.unwrap();
        assert_eq!((text.status.as_u16(), text.code().as_str()), (415, "unsupported_media_type"));
        let method =
            Request::builder().method(Method::DELETE).uri("/v1/chat/completions").header("host", "mesh");
        let method =
            method.header("authorization", format!("Bearer {}", self.key)).body(Full::default()).unwrap();
        let method = self.client.ask(url, method).await.unwrap();
        assert_eq!(method.status, 405, "{method:?}");
        let nowhere = self.client.ask(url, get("/v1/nowhere", &self.key)).await.unwrap();
        assert_eq!((nowhere.status.as_u16(), nowhere.code().as_str()), (404, "not_found"));
    }
}

/// A change reaches edges by push; calls before that see the configuration before it.
async fn until_known(caller: &Caller, url: &str, model: &str) {
    for _ in 0..2_000 {
        let answer = caller.client.ask(url, get("/v1/models", &caller.key)).await.unwrap();
        if answer.status == 200 && answer.json()["data"].as_array().unwrap().iter().any(|m| m["id"] == model)
        {
            return;
        }
    }
    panic!("{model} never reached {url}");
}

fn chat(model: &str, stream: bool) -> Value {
    json!({"model": model, "stream": stream, "max_tokens": 16, "messages": [{"role": "user", "content": "Where are you?"}]})
}

fn events(answer: &Answer) -> Vec<String> {
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
}

fn tests_usage(answer: &Answer) -> Value {
    let with_usage = events(answer).into_iter().rev().find(|event| event.contains("\"total_tokens\""));
    serde_json::from_str::<Value>(&with_usage.unwrap_or_else(|| panic!("no usage in {answer:?}"))).unwrap()["usage"].clone()
}
