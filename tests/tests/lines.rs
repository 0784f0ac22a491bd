//! Calls of two tenants, from two edges, wait for one model server: its places go to the tenants in turn.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]

use seam::{Host, Task};
use serde_json::{Value, json};
use tests::client::{get, post};
use tests::configure::Story;
use tests::faulty::{Fault, Faulty};
use tests::mesh::Mesh;
use tests::until::until;

const MANY: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_with_many_waiting_calls_leaves_another_edges_tenant_its_turns() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let line = Line::prepare(&mesh).await;
    let first = until("the only place is taken", async || {
        let ask = post("/v1/chat/completions", &line.many.key(), line.ask("first", true));
        let answer = mesh.client().open(&mesh.plain("us"), ask).await.ok()?;
        (answer.status() == 200).then_some(answer)
    })
    .await;
    let mut calls = Vec::new();
    for nth in 0..MANY {
        calls.push(line.call("us", &line.many, &format!("many-{nth}")));
    }
    line.until_waiting(MANY).await;
    for nth in 0..2 {
        calls.push(line.call("eu", &line.few, &format!("few-{nth}")));
    }
    line.until_waiting(MANY + 2).await;

    line.server.release();
    for call in calls {
        assert_eq!(call.await.unwrap(), 200);
    }
    drop(first);
    let served = line.server.all_asked();
    let users: Vec<&str> = served.iter().filter_map(|asked| asked["user"].as_str()).collect();
    let waited: Vec<&str> = users.into_iter().filter(|user| *user != "first").collect();
    assert_eq!(waited.len(), MANY + 2, "{waited:?}");
    let turns: Vec<usize> = (0..waited.len()).filter(|at| waited[*at].starts_with("few")).collect();
    assert!(turns[0] <= 1 && turns[1] <= 3, "they came last and have every second turn: {waited:?}");
}

/// A model with one server in Europe that takes one call at a time.
struct Line<'a> {
    mesh: &'a Mesh,
    host: Host,
    server: Faulty,
    many: Story,
    few: Story,
}

impl<'a> Line<'a> {
    async fn prepare(mesh: &'a Mesh) -> Self {
        let server = Faulty::start().await;
        server.set(Fault::Held);
        let model = format!(
            "models: [{{name: narrow, price: {{input: 0, output: 0}}, context: 8192, output_cap: 64, \
             replicas: [{{name: a, region: eu, url: \"{}\", concurrency: 1}}]}}]",
            server.url()
        );
        let (many, few) = (Story::new("many").with(&model), Story::new("few"));
        for story in [&many, &few] {
            story.apply(mesh);
        }
        let line = Self { mesh, host: Host::real(), server, many, few };
        for (region, story) in [("us", &line.many), ("eu", &line.few)] {
            until("the edge knows the key and the model", async || {
                let answer =
                    mesh.client().ask(&mesh.plain(region), get("/v1/models", &story.key())).await.ok()?;
                answer.body.windows(8).any(|part| part == b"\"narrow\"").then_some(())
            })
            .await;
        }
        line
    }

    fn ask(&self, user: &str, stream: bool) -> String {
        let messages: Value = json!([{"role": "user", "content": "One word, please."}]);
        json!({"model": "narrow", "stream": stream, "user": user, "messages": messages}).to_string()
    }

    fn call(&self, region: &str, story: &Story, user: &str) -> Task<u16> {
        let (client, url) = (self.mesh.client(), self.mesh.plain(region));
        let (key, ask) = (story.key(), self.ask(user, false));
        self.host.spawn("caller", async move {
            client.post(&url, "/v1/chat/completions", &key, ask).await.unwrap().status.as_u16()
        })
    }

    /// Until so many calls wait in Europe.
    async fn until_waiting(&self, calls: usize) {
        let depth = format!("portolan_queue_depth{{queue=\"server\",priority=\"interactive\"}} {calls}\n");
        let url = self.mesh.plain("eu");
        until("calls wait in Europe", async || {
            let metrics = self.mesh.client().ask(&url, get("/metrics", "")).await.ok()?;
            String::from_utf8_lossy(&metrics.body).contains(&depth).then_some(())
        })
        .await;
    }
}
