//! A strict budget under a thousand parallel calls from three regions: never overspent, used to the last unit, and the
//! ledger sums exactly.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::panic, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]

use std::collections::BTreeMap;
use std::time::Duration;

use http_body_util::BodyExt as _;
use seam::Host;
use serde_json::{Value, json};
use tests::client::{Client, get, post};
use tests::configure::Story;
use tests::faulty::{Fault, Faulty};
use tests::mesh::Mesh;
use tests::until::until;

const REGIONS: [&str; 3] = ["eu", "us", "ap"];
/// One cent, in nano-dollars.
const CENT: u64 = 10_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_budget_is_never_overspent_and_used_to_the_last_unit() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    exactly_a_hundred_of_a_thousand(&mesh).await;
    charged_within_one_hold_of_the_limit(&mesh).await;
    credit_is_asked_back_and_metrics_tell(&mesh).await;
}

/// The model is priced per call, so that a hold equals its charge: a dollar pays for exactly a hundred.
async fn exactly_a_hundred_of_a_thousand(mesh: &Mesh) {
    let story = Story::new("hundred")
        .with(&model(mesh, "cent", "{input: 0, output: 0, call: 0.01}"))
        .with("budgets: [{name: hundred, key: hundred-key, unit: usd, window: total, limit: 1.00}]");
    story.apply(mesh);
    known_everywhere(mesh, &story, "cent").await;

    let answers = in_parallel(mesh, &story, 1_000, &ask("cent", 8)).await;
    assert_eq!(answers.get(&200), Some(&100), "{answers:?}");
    assert_eq!(answers.get(&402), Some(&900), "{answers:?}");

    let row = settled(mesh, "hundred").await;
    assert_eq!(row["receipts"].as_u64(), Some(100 * CENT), "{row}");
}

/// Holds are 1.5 to 20 times what a call costs in the end; refused callers come back until the budget is gone.
async fn charged_within_one_hold_of_the_limit(mesh: &Mesh) {
    let limit = 40_000;
    let story = Story::new("holds").with(&model(mesh, "tokens", "{input: 1, output: 1}")).with(&format!(
        "budgets: [{{name: holds, key: holds-key, unit: tokens, window: total, limit: {limit}}}]"
    ));
    story.apply(mesh);
    known_everywhere(mesh, &story, "tokens").await;

    let mut largest_hold = 0;
    for round in 0_u64..200 {
        let cap = 20 + round * 37 % 200;
        let body = ask("tokens", cap);
        largest_hold = largest_hold.max(body.len() as u64 + 64 + cap);
        let answers = in_parallel(mesh, &story, 60, &body).await;
        assert!(answers.keys().all(|status| [200, 402].contains(status)), "{answers:?}");
        if !answers.contains_key(&200) {
            break;
        }
    }
    // What is left pays for single calls, as long as a whole hold fits.
    let (mut refused, body) = (0, ask("tokens", 20));
    while refused < 5 {
        match in_parallel(mesh, &story, 1, &body).await.contains_key(&200) {
            true => refused = 0,
            false => refused += 1,
        }
    }
    let row = settled(mesh, "holds").await;
    let charged = row["receipts"].as_u64().unwrap();
    assert!(charged <= limit, "overspent: {row}");
    assert!(limit - charged < largest_hold, "{row}, largest hold {largest_hold}");
}

/// A stream in Europe holds nearly all; while it lasts, calls in America wait for what it will not need.
async fn credit_is_asked_back_and_metrics_tell(mesh: &Mesh) {
    let held = Faulty::start().await;
    held.set(Fault::Held);
    let story = Story::new("recall")
        .with(&format!(
            "models: [{{name: held, price: {{input: 1, output: 1}}, context: 8192, output_cap: 6000, \
             replicas: [{{name: a, region: eu, url: \"{0}\"}}, {{name: b, region: us, url: \"{0}\"}}]}}]",
            held.url()
        ))
        .with("budgets: [{name: recall, key: recall-key, unit: tokens, window: total, limit: 10000}]");
    story.apply(mesh);
    known_everywhere(mesh, &story, "held").await;
    let (client, key) = (mesh.client(), story.key());
    let streamed = json!({"model": "held", "stream": true, "max_tokens": 6000,
        "messages": [{"role": "user", "content": "One word, please."}]});
    let stream = until("the stream has its credit", async || {
        let ask = post("/v1/chat/completions", &key, streamed.to_string());
        client.open(&mesh.plain("eu"), ask).await.ok().filter(|answer| answer.status() == 200)
    })
    .await;

    let eu = mesh.plain("eu");
    let of = |page: &str, name: &str| {
        let line = page.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).unwrap_or(0)
    };
    let counted = async |name: &str| {
        let answer = mesh.client().ask(&eu, get("/metrics", "")).await.unwrap();
        of(std::str::from_utf8(&answer.body).unwrap(), name)
    };
    let by_central =
        async |name: &str| -> u64 { mesh.central_metrics().await.iter().map(|page| of(page, name)).sum() };
    let (asked, came) = (
        "portolan_lease_recalls_total{level=\"key\"}",
        "portolan_lease_recalled_total{level=\"key\",unit=\"tokens\"}",
    );
    let before = (counted(asked).await, counted(came).await, by_central(asked).await, by_central(came).await);
    let host = Host::real();
    let (url, caller, body) = (mesh.plain("us"), mesh.client(), streamed.to_string());
    let waiting = host.spawn("caller", async move {
        // Each is refused when it waited long enough, and comes back.
        for _try in 0..100 {
            let call = caller.open(&url, post("/v1/chat/completions", &key, body.clone())).await.unwrap();
            if call.status() == 200 {
                return true;
            }
        }
        false
    });
    until("the edge is asked for credit", async || (counted(asked).await > before.0).then_some(())).await;
    held.release();
    stream.into_body().collect().await.unwrap();
    assert!(waiting.await.unwrap(), "credit came");
    let given =
        until("what came is counted", async || Some(counted(came).await - before.1).filter(|came| *came > 0))
            .await;
    assert!((3_000..10_000).contains(&given), "what the stream held and did not need: {given}");
    assert!(by_central(asked).await > before.2, "the node that it is attached to counts it, too");
    until("central counts what came", async || (by_central(came).await > before.3).then_some(())).await;
}

/// The ledger's row of a budget once every hold is resolved and every receipt applied.
async fn settled(mesh: &Mesh, budget: &str) -> Value {
    let host = Host::real();
    for _ in 0..300 {
        let report: Value =
            serde_json::from_str(&mesh.operate(&["ledger", "check", "--json"]).unwrap()).unwrap();
        assert_eq!(report["balanced"], true, "{report}");
        let rows = report["rows"].as_array().unwrap();
        let row = rows
            .iter()
            .find(|row| row["name"] == budget)
            .unwrap_or_else(|| panic!("no {budget} in {report}"))
            .clone();
        if row["at_edges"].as_u64() == Some(0) {
            return row;
        }
        // Idle credit returns after two seconds; ask again until it has.
        host.sleep(Duration::from_millis(100)).await;
    }
    panic!("credit of {budget} never came back: {:?}", mesh.operate(&["ledger", "check"]));
}

async fn in_parallel(mesh: &Mesh, story: &Story, calls: usize, body: &str) -> BTreeMap<u16, usize> {
    let host = Host::real();
    let tasks: Vec<_> = (0..calls)
        .map(|n| {
            let (url, key, body) = (mesh.plain(REGIONS[n % REGIONS.len()]), story.key(), body.to_owned());
            let client = mesh.client();
            host.spawn("caller", async move { call(&client, &url, &key, body).await })
        })
        .collect();
    let mut answers = BTreeMap::new();
    for task in tasks {
        *answers.entry(task.await.unwrap()).or_default() += 1;
    }
    answers
}

/// Calls as SDKs do: a 503 says that nothing was spent and when to come back.
async fn call(client: &Client, url: &str, key: &str, body: String) -> u16 {
    for _ in 0..30 {
        let answer = client.post(url, "/v1/chat/completions", key, body.clone()).await.unwrap();
        match answer.status.as_u16() {
            503 => assert_eq!(answer.code(), "budget_unavailable", "{answer:?}"),
            402 => {
                let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
                assert!(message.contains("budget") && message.contains("spent"), "{message}");
                return 402;
            }
            other => return other,
        }
    }
    503
}

async fn known_everywhere(mesh: &Mesh, story: &Story, model: &str) {
    for region in REGIONS {
        let mut known = false;
        for _ in 0..2_000 {
            let answer =
                mesh.client().ask(&mesh.plain(region), get("/v1/models", &story.key())).await.unwrap();
            known = answer.status == 200
                && answer.json()["data"].as_array().unwrap().iter().any(|m| m["id"] == model);
            if known {
                break;
            }
        }
        assert!(known, "{model} never reached {region}");
    }
}

fn model(mesh: &Mesh, name: &str, price: &str) -> String {
    let replicas: Vec<_> = mesh
        .facts
        .demo
        .iter()
        .filter(|demo| demo.region != "provider")
        .map(|demo| format!("{{name: {}, region: {}, url: \"{}\"}}", demo.name, demo.region, demo.url))
        .collect();
    format!(
        "models: [{{name: {name}, price: {price}, context: 8192, output_cap: 256, replicas: [{}]}}]",
        replicas.join(", ")
    )
}

fn ask(model: &str, cap: u64) -> String {
    json!({"model": model, "max_tokens": cap, "messages": [{"role": "user", "content": "One word, please."}]})
        .to_string()
}
