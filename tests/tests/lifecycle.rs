//! Nodes are told to stop (SIGTERM) while they stream: what is in progress ends whole, what is new is served elsewhere
//! before its first byte, and the process ends well.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use seam::Host;
use serde_json::{Value, json};
use tests::client::{Answer, get, post};
use tests::configure::Story;
use tests::faulty::{Fault, Faulty};
use tests::mesh::Mesh;
use tests::until::until;

const REGIONS: [&str; 3] = ["eu", "us", "ap"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_is_told_to_stop_ends_its_streams_and_others_take_new_calls() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let lives = Lives::prepare(mesh).await;
    let (_told, own) = lives.stream("eu", "held").await;
    let (told, forwarded) = lives.stream("ap", "held").await;
    assert_eq!(told["served_by"], "peer:eu");

    lives.mesh.terminate("edge-eu");
    lives.until_closed(&lives.mesh.plain("eu")).await;
    let refused = lives.call("ap", "held").await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (503, "draining"));
    for _call in 0..3 {
        assert_eq!(lives.served_by("ap", "both").await["served_by"], "peer:us");
        assert_eq!(lives.served_by("us", "both").await["served_by"], "local");
    }
    until("the status says that it drains", async || {
        let edges = lives.status()["edges"].clone();
        edges.as_array()?.iter().find(|edge| edge["name"] == "edge-eu" && edge["draining"] == true).map(drop)
    })
    .await;

    assert_eq!(lives.mesh.death("edge-eu"), None, "it waits for its streams");
    lives.held.release();
    ends_whole(own).await;
    ends_whole(forwarded).await;
    assert_eq!(until("it ends", async || lives.mesh.death("edge-eu")).await, "exit code 0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_told_to_stop_ends_what_it_relays_and_others_lead_and_relay() {
    let lives = Lives::prepare(Mesh::start(env!("CARGO_BIN_EXE_node"))).await;
    let (told, stream) = lives.stream("eu", "held-relayed").await;
    let relay = told["served_by"].as_str().unwrap().strip_prefix("relay:").unwrap();
    let mesh = &lives.mesh;
    mesh.operate(&["members", "transfer", &lives.member(relay)["id"].to_string()]).unwrap();
    until("it leads", async || (lives.status()["leader"] == relay).then_some(())).await;

    mesh.terminate(relay);
    lives.until_closed(&lives.admin_of(relay)).await;
    for call in 0..6 {
        let served = lives.served_by(REGIONS[call % 3], "relayed").await;
        assert_ne!(served["served_by"], format!("relay:{relay}"), "{served}");
    }
    let leader = lives.status()["leader"].clone();
    assert!(leader.is_string() && leader != relay, "leadership was handed over: {leader}");
    assert_eq!(mesh.death(relay), None, "it waits for its stream");
    lives.held.release();
    ends_whole(stream).await;
    assert_eq!(until("it ends", async || mesh.death(relay)).await, "exit code 0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_will_leave_says_so_while_it_still_serves() {
    let mut mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let edge = mesh.edge("ap").clone();
    tests::mesh::kill(edge.pid);
    until("it died", async || mesh.death("edge-ap")).await;
    let config = tests::mesh::text(&edge.config);
    tests::mesh::rewrite(&edge.config, &format!("lame_duck_ms = 5000\n{config}"));
    mesh.restart("edge-ap");
    let (client, url) = (mesh.client(), mesh.plain("ap"));
    let ready = async || Some(client.ask(&url, get("/readyz", "")).await.ok()?.status.as_u16());
    until("it is ready", async || (ready().await == Some(200)).then_some(())).await;

    mesh.terminate("edge-ap");
    until("it says that it leaves", async || (ready().await == Some(503)).then_some(())).await;
    let body =
        json!({"model": "demo-small", "max_tokens": 4, "messages": [{"role": "user", "content": "Hi"}]});
    let answer = client.post(&url, "/v1/chat/completions", &mesh.facts.key, body.to_string()).await.unwrap();
    assert_eq!(answer.status, 200, "it still serves");
    let (ip, port) = url.trim_start_matches("http://").split_once(':').unwrap();
    let (host, port) = (Host::real(), port.parse().unwrap());
    until("it takes no connections", async || host.connect(ip, port).await.is_err().then_some(())).await;
}

/// A mesh with models whose streams end when the test says so.
struct Lives {
    mesh: Mesh,
    key: String,
    held: Faulty,
}

impl Lives {
    async fn prepare(mesh: Mesh) -> Self {
        let held = Faulty::start().await;
        held.set(Fault::Held);
        let demo =
            |region: &str| mesh.facts.demo.iter().find(|demo| demo.region == region).unwrap().url.clone();
        let (eu, us, url) = (demo("eu"), demo("us"), held.url());
        let sizes = "price: {input: 1, output: 2}, context: 8192, output_cap: 64";
        let story = Story::new("lifecycle").with(&format!(
            "providers: [{{name: held, base_url: \"{url}\"}}]\n\
             models:\n\
             - {{name: held, {sizes}, replicas: [{{name: a, region: eu, url: \"{url}\"}}]}}\n\
             - {{name: both, {sizes}, replicas: [{{name: a, region: eu, url: \"{eu}\"}}, {{name: b, region: us, url: \"{us}\"}}]}}\n\
             - {{name: held-relayed, {sizes}, provider: held}}\n\
             - {{name: relayed, {sizes}, provider: demo}}"
        ));
        story.apply(&mesh);
        let lives = Self { mesh, key: story.key(), held };
        for region in REGIONS {
            for model in ["both", "relayed"] {
                until("a model is known", async || {
                    (lives.call(region, model).await.status == 200).then_some(())
                })
                .await;
            }
        }
        lives
    }

    /// Opens a stream and waits for its first word; what is told of it, and the rest.
    async fn stream(&self, region: &str, model: &str) -> (Value, Incoming) {
        let answer = self.mesh.client().open(&self.mesh.plain(region), self.ask(model, true)).await.unwrap();
        let (head, mut body) = answer.into_parts();
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains("\"all\"") {
            let frame = body.frame().await.unwrap().unwrap();
            seen.extend_from_slice(&frame.into_data().unwrap());
        }
        (told(&head.headers), body)
    }

    async fn call(&self, region: &str, model: &str) -> Answer {
        self.mesh.client().ask(&self.mesh.plain(region), self.ask(model, false)).await.unwrap()
    }

    /// Who served a call, which must succeed.
    async fn served_by(&self, region: &str, model: &str) -> Value {
        let answer = self.call(region, model).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        told(&answer.headers)
    }

    fn ask(&self, model: &str, stream: bool) -> Request<Full<Bytes>> {
        let messages = json!([{"role": "user", "content": "Where are you?"}]);
        let ask = json!({"model": model, "stream": stream, "max_tokens": 1, "messages": messages});
        let mut ask = post("/v1/chat/completions", &self.key, ask.to_string());
        ask.headers_mut().insert("x-portolan-debug", "true".parse().unwrap());
        ask
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.mesh.operate(&["status", "--json"]).unwrap()).unwrap()
    }

    fn member(&self, name: &str) -> Value {
        let status = self.status();
        let members = status["members"].as_array().unwrap();
        members.iter().find(|member| member["name"] == name).unwrap().clone()
    }

    fn admin_of(&self, name: &str) -> String {
        let centrals = self.mesh.facts.nodes.iter().filter(|node| node.role == "central");
        centrals.zip(&self.mesh.facts.admin).find(|(node, _)| node.name == name).unwrap().1.clone()
    }

    /// Waits until nobody listens at an address.
    async fn until_closed(&self, url: &str) {
        let (ip, port) = url.trim_start_matches("http://").split_once(':').unwrap();
        let (host, port) = (Host::real(), port.parse().unwrap());
        until("it takes no connections", async || host.connect(ip, port).await.is_err().then_some(())).await;
    }
}

fn told(headers: &HeaderMap) -> Value {
    serde_json::from_slice(headers["x-portolan-debug"].as_bytes()).unwrap()
}

async fn ends_whole(stream: Incoming) {
    let rest = stream.collect().await.unwrap().to_bytes();
    let rest = String::from_utf8_lossy(&rest);
    // What is told of the call follows as a comment.
    assert!(rest.contains("data: [DONE]\n\n") && !rest.contains("\"error\""), "{rest}");
}
