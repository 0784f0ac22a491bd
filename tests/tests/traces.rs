//! A caller's trace goes through the mesh to the model server, by each path; every span comes once, from the node that did
//! the work, below the span that asked for it.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::panic, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use seam::Host;
use serde_json::json;
use tests::client::post;
use tests::configure::Story;
use tests::mesh::Mesh;
use tests::recording::Recording;

const CALLER: &str = "00f067aa0ba902b7";
const ANSWER: &str = r#"{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}"#;

#[tokio::test]
async fn every_path_joins_caller_edge_serving_node_and_upstream() {
    let collector = Recording::start("application/x-protobuf", "").await;
    let upstream = Recording::start("application/json", ANSWER).await;
    let mesh = Mesh::start_with(env!("CARGO_BIN_EXE_node"), &["--traces", &collector.url]);
    let story = Story::new("traces").with(&models(&upstream.url));
    story.apply(&mesh);
    let world = World { mesh, collector, upstream, key: story.key(), host: Host::real() };

    let local = world.call("eu", "near", 1).await;
    assert_eq!(
        tree(&local),
        ["chat Server edge-eu", "attempt Internal edge-eu", "upstream Client edge-eu"],
        "{local:#?}"
    );
    assert_eq!((local[1].fact("portolan.path"), local[1].fact("portolan.node")), ("local", "edge-eu"));

    let peer = world.call("ap", "near", 2).await;
    assert_eq!(
        tree(&peer),
        ["chat Server edge-ap", "attempt Client edge-ap", "serve Server edge-eu", "upstream Client edge-eu"],
        "{peer:#?}"
    );
    assert_eq!((peer[1].fact("portolan.path"), peer[1].fact("portolan.node")), ("peer", "edge-eu"));

    let relayed = world.call("us", "provided", 3).await;
    let central = relayed[1].fact("portolan.node").to_owned();
    assert_eq!(
        tree(&relayed),
        [
            "chat Server edge-us",
            "attempt Client edge-us",
            &format!("serve Server {central}"),
            &format!("upstream Client {central}")
        ],
        "{relayed:#?}"
    );
    assert!(central.starts_with("central-") && relayed[1].fact("portolan.path") == "relay", "{relayed:#?}");

    let refused = world.refused("eu", 4).await;
    assert_eq!(tree(std::slice::from_ref(&refused)), ["chat Server edge-eu"]);
    assert_eq!(
        (refused.fact("gen_ai.request.model"), refused.fact("portolan.request_id").is_empty()),
        ("nonsense", false)
    );
}

fn models(upstream: &str) -> String {
    format!(
        "providers: [{{name: watched, base_url: \"{upstream}\"}}]\n\
         models:\n\
         - {{name: near, price: {{input: 1, output: 2}}, context: 8192, output_cap: 64, \
            replicas: [{{name: a, region: eu, url: \"{upstream}\"}}]}}\n\
         - {{name: provided, price: {{input: 1, output: 2}}, context: 8192, output_cap: 64, provider: watched}}\n"
    )
}

struct World {
    mesh: Mesh,
    collector: Recording,
    upstream: Recording,
    key: String,
    host: Host,
}

/// A span as a collector got it, and the node that it came from.
#[derive(Clone, Debug)]
struct Seen {
    node: String,
    id: String,
    parent: String,
    name: String,
    kind: SpanKind,
    from: u64,
    to: u64,
    facts: Vec<(String, String)>,
}

impl World {
    /// Makes a call of trace `number` and gives its spans from the caller's down, each the only child of the one before.
    async fn call(&self, region: &str, model: &str, number: u64) -> Vec<Seen> {
        let trace = format!("4bf92f3577b34da6a3ce929d0e0e{number:04}");
        let traceparent = format!("00-{trace}-{CALLER}-01");
        let ask = json!({"model": model, "messages": [{"role": "user", "content": "hi"}]}).to_string();
        let asking = Box::pin(async {
            let (client, url) = (self.mesh.client(), self.mesh.url(region));
            // The edge may not have heard of the model yet.
            let untraced = || post("/v1/chat/completions", &self.key, ask.clone());
            while matches!(client.ask(&url, untraced()).await.unwrap().status.as_u16(), 401 | 404) {}
            let mut request = untraced();
            request.headers_mut().insert("traceparent", traceparent.parse().unwrap());
            let answer = client.ask(&url, request).await.unwrap();
            assert_eq!(answer.status, 200, "{answer:?}");
        });
        self.host.timeout(Duration::from_secs(20), asking).await.unwrap();
        let sent = self
            .upstream
            .asked()
            .into_iter()
            .map(|(headers, _)| headers["traceparent"].to_str().unwrap().to_owned());
        let sent: Vec<_> = sent.filter(|sent| sent.contains(&trace)).collect();
        assert_eq!(sent.len(), 1, "{sent:?}");
        let last = sent[0].split('-').nth(2).unwrap().to_owned();
        let arriving = async {
            loop {
                let seen = self.seen(&trace);
                match line(&seen) {
                    Some(line) if line.last().unwrap().id == last => return line,
                    Some(_) | None => self.host.sleep(Duration::from_millis(20)).await,
                }
            }
        };
        let line = self.host.timeout(Duration::from_secs(20), arriving).await;
        line.unwrap_or_else(|_late| panic!("the spans do not join to {last}: {:#?}", self.seen(&trace)))
    }

    /// Makes a call of trace `number` that is refused before it is admitted, and gives its only span.
    async fn refused(&self, region: &str, number: u64) -> Seen {
        let trace = format!("4bf92f3577b34da6a3ce929d0e0e{number:04}");
        let ask = json!({"model": "nonsense", "messages": [{"role": "user", "content": "hi"}]}).to_string();
        let mut request = post("/v1/chat/completions", &self.key, ask);
        request.headers_mut().insert("traceparent", format!("00-{trace}-{CALLER}-01").parse().unwrap());
        let answer = self.mesh.client().ask(&self.mesh.url(region), request).await.unwrap();
        assert_eq!(answer.status, 404, "{answer:?}");
        let arriving = async {
            loop {
                match line(&self.seen(&trace)) {
                    Some(mut line) => return line.remove(0),
                    None => self.host.sleep(Duration::from_millis(20)).await,
                }
            }
        };
        self.host.timeout(Duration::from_secs(20), arriving).await.unwrap()
    }

    fn seen(&self, trace: &str) -> Vec<Seen> {
        let mut seen = Vec::new();
        for (_headers, body) in self.collector.asked() {
            for resource in ExportTraceServiceRequest::decode(body).unwrap().resource_spans {
                let node = facts(&resource.resource.unwrap().attributes);
                let node = node.into_iter().find(|(key, _)| key == "service.instance.id").unwrap().1;
                let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
                seen.extend(spans.filter(|span| hex(&span.trace_id) == trace).map(|span| Seen {
                    node: node.clone(),
                    id: hex(&span.span_id),
                    parent: hex(&span.parent_span_id),
                    kind: span.kind(),
                    from: span.start_time_unix_nano,
                    to: span.end_time_unix_nano,
                    facts: facts(&span.attributes),
                    name: span.name,
                }));
            }
        }
        seen
    }
}

/// The spans from the caller's down; `None` while some are missing. No span may come twice.
fn line(seen: &[Seen]) -> Option<Vec<Seen>> {
    let mut line: Vec<Seen> = Vec::new();
    let mut parent = CALLER;
    while line.len() < seen.len() {
        let mut children = seen.iter().filter(|span| span.parent == parent);
        let child = children.next()?;
        assert!(children.next().is_none(), "two spans below {parent}: {seen:#?}");
        if let Some(above) = line.last().filter(|above| above.node == child.node) {
            assert!(above.from <= child.from && child.from <= child.to, "{above:?} {child:?}");
        }
        parent = &child.id;
        line.push(child.clone());
    }
    (!line.is_empty()).then_some(line)
}

fn tree(line: &[Seen]) -> Vec<String> {
    line.iter().map(|span| format!("{} {:?} {}", span.name, span.kind, span.node)).collect()
}

impl Seen {
    fn fact(&self, name: &str) -> &str {
        let fact = self.facts.iter().find(|(key, _)| key == name);
        fact.map_or_else(|| panic!("no {name} in {self:?}"), |(_, value)| value)
    }
}

fn facts(attributes: &[KeyValue]) -> Vec<(String, String)> {
    let value = |fact: &KeyValue| match fact.value.clone().and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        other => format!("{other:?}"),
    };
    attributes.iter().map(|fact| (fact.key.clone(), value(fact))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
