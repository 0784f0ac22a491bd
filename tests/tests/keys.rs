//! A provider with several keys, of which one is revoked and one is over its rate: no caller notices, calls follow the weights
//! of the keys that serve, and usage tells by which key each was made.

use serde_json::{Value, json};
use tests::client::get;
use tests::configure::Story;
use tests::faulty::{Fault, Faulty};
use tests::mesh::Mesh;
use tests::until::until;

const CALLS: u64 = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_for_a_key_and_usage_tells_which_key_served() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let provider = Faulty::start().await;
    provider.set_for("sk-canary-revoked", Fault::Status401);
    provider.set_for("sk-canary-limited", Fault::RetryAfter);
    let story = Story::new("pooled").with(&catalog(&provider.url(), "sk-canary-revoked"));
    story.apply(&mesh);
    let (client, url, key) = (mesh.client(), mesh.url("eu"), story.key());
    until("the model at the edge", async || {
        let listed = client.ask(&url, get("/v1/models", &key)).await.ok()?;
        String::from_utf8_lossy(&listed.body).contains("pooled").then_some(())
    })
    .await;

    for number in 0..CALLS {
        let ask = json!({
            "model": "pooled", "stream": number % 2 == 0, "max_tokens": 4,
            "messages": [{"role": "user", "content": "hi"}],
        });
        let answer = client.post(&url, "/v1/chat/completions", &key, ask.to_string()).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    let [large, small] = ["sk-canary-large", "sk-canary-small"].map(|key| provider.calls_with(key));
    assert_eq!(large + small, CALLS);
    assert!((42..=48).contains(&large), "{large} of {CALLS} for three parts of four");
    // One of each central node at first, and a probe or what follows a wait of 7 s.
    let refused = ["sk-canary-revoked", "sk-canary-limited"].map(|key| provider.calls_with(key));
    assert!(refused.iter().all(|calls| (1..=12).contains(calls)), "{refused:?}");

    let rows = until("usage of every call", async || {
        let report =
            mesh.operate(&["usage", "--by", "provider,provider_key", "--tenant", "pooled", "--json"]).ok()?;
        let report: Value = serde_json::from_str(&report).ok()?;
        let rows = report["rows"].as_array()?.clone();
        let calls: u64 = rows.iter().filter_map(|row| row["calls"].as_u64()).sum();
        (calls == CALLS).then_some(rows)
    })
    .await;
    let of = |key: &str| {
        let row = rows.iter().find(|row| row["values"]["provider_key"] == key);
        let row = row.filter(|row| row["values"]["provider"] == "vendor");
        row.map_or(0, |row| row["calls"].as_u64().unwrap())
    };
    assert_eq!((of("large"), of("small"), rows.len()), (large, small, 2), "{rows:?}");
    let chosen = ["usage", "--by", "tenant", "--provider-key", "small", "--tenant", "pooled", "--json"];
    let report: Value = serde_json::from_str(&mesh.operate(&chosen).unwrap()).unwrap();
    assert_eq!(report["rows"][0]["calls"], small, "{report}");

    let status = mesh.operate(&["status", "--json"]).unwrap();
    let keys: Value = serde_json::from_str(&status).unwrap();
    let keys = keys["keys"].as_array().unwrap();
    let suspended = |row: &&Value| !row["suspended_ms"].is_null();
    assert!(keys.iter().filter(suspended).all(|row| row["key"] == "revoked"), "{keys:?}");
    assert!(keys.iter().any(|row| suspended(&row)), "{keys:?}");
    let shown = [status, mesh.operate(&["status"]).unwrap(), mesh.operate(&["get"]).unwrap()];
    assert!(shown.iter().all(|text| !text.contains("canary")), "{shown:?}");

    // A new credential of one key, the others' left out: it serves at once, and they still do.
    let renewed = Story::new("pooled").with(&catalog(&provider.url(), "sk-canary-new"));
    renewed.apply(&mesh);
    until("a call with the new credential", async || {
        let ask =
            json!({"model": "pooled", "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]});
        let answer = client.post(&url, "/v1/chat/completions", &key, ask.to_string()).await.ok()?;
        assert_eq!(answer.status, 200, "{answer:?}");
        (provider.calls_with("sk-canary-new") > 0).then_some(())
    })
    .await;
}

/// A provider whose revoked key has the credential `second`; credentials of the others are given once.
fn catalog(url: &str, second: &str) -> String {
    let given = |secret: &str| match second {
        "sk-canary-revoked" => format!(", credential: {secret}"),
        _renewed => String::new(),
    };
    format!(
        "providers:\n- name: vendor\n  base_url: \"{url}\"\n  keys:\n\
         \x20 - {{name: large, weight: 3{}}}\n\
         \x20 - {{name: revoked, weight: 2, credential: {second}}}\n\
         \x20 - {{name: limited, weight: 2{}}}\n\
         \x20 - {{name: small, weight: 1{}}}\n\
         models:\n- {{name: pooled, price: {{input: 1, output: 2}}, context: 8192, output_cap: 64, provider: vendor}}",
        given("sk-canary-large"),
        given("sk-canary-limited"),
        given("sk-canary-small"),
    )
}
