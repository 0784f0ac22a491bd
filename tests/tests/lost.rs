//! An edge that dies and is given up by an operator: what it held is written off, others spend the rest, and when it comes
//! back all the same nothing is charged twice. Then a correction, made once.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]

use serde_json::{Value, json};
use tests::configure::Story;
use tests::mesh::{self, Mesh};
use tests::until::until;

/// What a call costs, in nano-dollars: its hold is its charge.
const CENT: u64 = 10_000_000;
const LIMIT: u64 = 60 * CENT;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_edge_is_written_off_and_settles_when_it_comes_back() {
    let mut mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let url = |region: &str| mesh.facts.demo.iter().find(|demo| demo.region == region).unwrap().url.clone();
    let models = format!(
        "models: [{{name: cent, price: {{input: 0, output: 0, call: 0.01}}, context: 8192, output_cap: 64, \
         replicas: [{{name: a, region: eu, url: \"{}\"}}, {{name: b, region: us, url: \"{}\"}}]}}]",
        url("eu"),
        url("us")
    );
    let story = Story::new("lost")
        .with(&models)
        .with("budgets: [{name: lost, key: lost-key, unit: usd, window: total, limit: 0.60}]");
    story.apply(&mesh);
    let mut paid = 0;
    for region in ["eu", "us"] {
        until("both edges spend", async || (pay(&mesh, &story, region).await == 200).then_some(())).await;
        paid += 1;
    }
    let refused = mesh.operate(&["leases", "lost", "edge-eu", "--reason", "a mistake"]).unwrap_err();
    assert!(refused.contains("is attached to"), "{refused}");

    mesh::kill(mesh.edge("eu").pid);
    let lost = ["leases", "lost", "edge-eu", "--reason", "its machine burnt", "--id", "ticket-1"];
    let told = until("central misses it", async || mesh.operate(&lost).ok()).await;
    assert!(told.contains("edge-eu is lost: written off (decision ticket-1)"), "{told}");
    assert_eq!(mesh.operate(&lost).unwrap(), told, "asked again it is the same decision");
    let account = account(&mesh);
    let written_off = account["written_off"].as_u64().unwrap();
    assert!(written_off > 0, "{account}");
    let parts = ["spent", "held", "remaining"].map(|part| account[part].as_u64().unwrap());
    assert_eq!(parts.iter().sum::<u64>(), LIMIT, "{account}");

    // What is left is spent where an edge lives; what was written off is not.
    let status = until("the rest is spent", async || match pay(&mesh, &story, "us").await {
        200 => {
            paid += 1;
            None
        }
        other => Some(other),
    })
    .await;
    assert_eq!(status, 402);
    assert!(paid * CENT + written_off >= LIMIT - 2 * CENT && paid * CENT <= LIMIT, "{paid} were paid");

    mesh.restart("edge-eu");
    until("its former life is closed", async || (self::account(&mesh)["written_off"] == 0).then_some(()))
        .await;
    until("what it did not spend is spent", async || match pay(&mesh, &story, "eu").await {
        200 => {
            paid += 1;
            None
        }
        402 => Some(()),
        _other => None,
    })
    .await;
    assert!(paid * CENT <= LIMIT, "{paid} were paid");
    corrected(&mesh, paid).await;
}

async fn corrected(mesh: &Mesh, paid: u64) {
    let credit =
        ["budgets", "correct", "lost", "--credit", "0.05", "--reason", "the provider's bill", "--id", "c1"];
    for _time in 0..2 {
        let told = mesh.operate(&credit).unwrap();
        assert!(told.contains("credited (decision c1)") && told.contains("$0.05 of lost"), "{told}");
    }
    let beyond =
        mesh.operate(&["budgets", "correct", "lost", "--credit", "5", "--reason", "too much"]).unwrap_err();
    assert!(beyond.contains("no more can be credited"), "{beyond}");
    let books = until("every receipt is in the books", async || {
        let books: Value = serde_json::from_str(&mesh.operate(&["ledger", "check", "--json"]).ok()?).unwrap();
        let row = books["rows"].as_array()?.iter().find(|row| row["name"] == "lost")?.clone();
        let charged = row["receipts"].as_u64()? + row["crash"].as_u64()?;
        (row["settling"] == 0 && charged >= paid * CENT).then_some(row)
    })
    .await;
    assert_eq!((&books["corrected"], &books["balanced"]), (&json!(-50_000_000), &json!(true)), "{books}");
    assert_eq!(books["overrun"], 0, "{books}");
    let decided = mesh.operate(&["ledger", "decisions"]).unwrap();
    for part in ["its machine burnt", "ticket-1", "the provider's bill", "operator"] {
        assert!(decided.contains(part), "{decided}");
    }
    assert!(mesh.operate(&["budgets"]).unwrap().contains("key lost-key"));
}

async fn pay(mesh: &Mesh, story: &Story, region: &str) -> u16 {
    let body = json!({"model": "cent", "messages": [{"role": "user", "content": "One word, please."}]});
    let answer =
        mesh.client().post(&mesh.plain(region), "/v1/chat/completions", &story.key(), body.to_string()).await;
    answer.map_or(0, |answer| answer.status.as_u16())
}

fn account(mesh: &Mesh) -> Value {
    let budgets: Value = serde_json::from_str(&mesh.operate(&["budgets", "--json"]).unwrap()).unwrap();
    budgets["budgets"].as_array().unwrap().iter().find(|row| row["budget"] == "lost").unwrap().clone()
}
