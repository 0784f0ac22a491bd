//! Changes of configuration are in force at every connected edge within a second of the command that made them: a new
//! key, a route that leads to another model, a model on another server, a revoked key.
//!
//! With `--nocapture` it says how long each took.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]
#![expect(clippy::print_stdout, reason = "how long it took is a result")]

use std::time::Duration;

use base::Mono;
use seam::{Host, Task};
use serde_json::{Value, json};
use tests::client::{Client, post};
use tests::configure::Story;
use tests::faulty::Faulty;
use tests::mesh::Mesh;

const REGIONS: [&str; 3] = ["eu", "us", "ap"];
/// What the product promises, counted from the command's return.
const PROMISED: Duration = Duration::from_secs(1);
const ROUNDS: usize = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_is_in_force_at_every_edge_within_a_second() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let server = Faulty::start().await;
    for round in 0..ROUNDS {
        let name = format!("changes-{round}");
        let story = |target, replica| Story::new(&name).with(&served(&name, &server.url(), target, replica));
        let callers = REGIONS.map(|region| Caller::new(&mesh, region, &story("one", "a").key(), &name));

        seen(&callers, "a new key", "200", || story("one", "a").apply(&mesh)).await;
        seen(&callers, "a changed route", "model two", || story("two", "a").apply(&mesh)).await;
        seen(&callers, "a changed model", "replica b", || story("two", "b").apply(&mesh)).await;
        let revoke = || drop(mesh.operate(&["keys", "revoke", &format!("{name}-key")]).unwrap());
        seen(&callers, "a revoked key", "401", revoke).await;
    }
}

/// Makes a change while callers look for its sign at every edge, and holds it to the promise.
async fn seen(callers: &[Caller; 3], what: &str, sign: &'static str, apply: impl FnOnce()) {
    let host = Host::real();
    for caller in callers {
        let before = caller.look().await;
        assert!(!before.contains(sign), "{what} was in force before: {before}");
    }
    let looking: Vec<Task<Mono>> =
        callers.iter().map(|caller| host.spawn("caller", caller.clone().until(sign))).collect();
    let begun = host.now();
    apply();
    let returned = host.now();
    let mut last = returned;
    for caller in looking {
        last = last.max(caller.await.unwrap());
    }
    let (after, in_all) = (last.since(returned), last.since(begun));
    println!(
        "{what}: in force at every edge {after:?} after the command returned, {in_all:?} after it began"
    );
    assert!(after < PROMISED, "{what} took {after:?}");
}

/// One who calls a route at an edge.
#[derive(Clone)]
struct Caller {
    client: Client,
    url: String,
    key: String,
    ask: String,
}

impl Caller {
    fn new(mesh: &Mesh, region: &str, key: &str, route: &str) -> Self {
        let messages = json!([{"role": "user", "content": "hi"}]);
        let ask = json!({"model": route, "max_tokens": 4, "messages": messages}).to_string();
        Self { client: mesh.client(), url: mesh.plain(region), key: key.to_owned(), ask }
    }

    /// Calls, and says what is seen of the configuration.
    async fn look(&self) -> String {
        let mut request = post("/v1/chat/completions", &self.key, self.ask.clone());
        request.headers_mut().insert("x-portolan-debug", "true".parse().unwrap());
        let answer = self.client.ask(&self.url, request).await.unwrap();
        let Some(told) = answer.headers.get("x-portolan-debug") else {
            return format!("{} {}", answer.status, answer.code());
        };
        let told: Value = serde_json::from_slice(told.as_bytes()).unwrap();
        let (model, replica) = (&told["model"], &told["hops"][0]["upstream"]);
        format!("{} model {model} replica {replica}", answer.status).replace('"', "")
    }

    /// When the sign is first seen.
    async fn until(self, sign: &'static str) -> Mono {
        let host = Host::real();
        let begun = host.now();
        while !self.look().await.contains(sign) {
            assert!(host.now().since(begun) < 30 * PROMISED, "never seen: {sign}");
        }
        host.now()
    }
}

/// Two models on one server, and a route to one of them.
fn served(route: &str, url: &str, target: &str, replica: &str) -> String {
    let model = |name: &str| {
        format!("{{name: {name}-{route}, replicas: [{{name: {replica}, region: eu, url: \"{url}\"}}]}}")
    };
    let (one, two) = (model("one"), model("two"));
    format!("models: [{one}, {two}]\nroutes: [{{name: {route}, targets: [{target}-{route}]}}]")
}
