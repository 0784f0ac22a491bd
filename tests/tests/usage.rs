//! Usage told by any central node equals the ledger, to the nano-dollar, though one was killed with receipts on their
//! way and another lost its store.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::panic, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]
#![expect(clippy::disallowed_methods, reason = "the test takes a node's file away")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use seam::Host;
use serde_json::{Value, json};
use tests::client::{Client, post};
use tests::configure::Story;
use tests::faulty::Faulty;
use tests::mesh::{Mesh, kill, text};
use tests::until::until;

const REGIONS: [&str; 3] = ["eu", "us", "ap"];
const CALLS: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_tells_what_the_ledger_says_whatever_it_lost() {
    let mut mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let story = Story::new("billed")
        .with(&model(&mesh))
        .with("budgets: [{name: billed, key: billed-key, unit: usd, window: total, limit: 100}]");
    story.apply(&mesh);
    let central: Vec<String> =
        mesh.facts.nodes.iter().filter(|node| node.role == "central").map(|node| node.name.clone()).collect();

    let mut ids = calls(&mesh, &story, CALLS).await;
    kill(mesh.node(&central[0]).pid);
    ids.extend(calls(&mesh, &story, CALLS).await);
    mesh.restart(&central[0]);
    kill(mesh.node(&central[1]).pid);
    let store = store(&mesh, &central[1]);
    for end in ["", "-wal", "-shm"] {
        let path = format!("{}{end}", store.display());
        assert!(end == "-shm" || std::fs::remove_file(&path).is_ok(), "{path}");
    }
    ids.extend(calls(&mesh, &story, CALLS).await);
    mesh.restart(&central[1]);
    ids.extend(calls(&mesh, &story, CALLS).await);

    let spent = until("credit back", async || settled(&mesh)).await;
    for admin in mesh.facts.admin.clone() {
        let told = until("an answer of each node", async || {
            let report = ask(
                &mesh,
                &admin,
                &["usage", "--by", "tenant,model", "--tenant", "billed", "--since", "1d"],
            )?;
            (report["rows"][0]["cost"].as_u64() == Some(spent)).then_some(report)
        })
        .await;
        let values = &told["rows"][0]["values"];
        assert_eq!((&values["tenant"], &values["model"]), (&json!("billed"), &json!("priced")), "{told}");
        assert_eq!(told["missing_entries"], 0, "{told}");

        let by_region =
            ask(&mesh, &admin, &["usage", "--by", "region,outcome", "--tenant", "billed"]).unwrap();
        let regions: u64 =
            by_region["rows"].as_array().unwrap().iter().map(|row| row["cost"].as_u64().unwrap()).sum();
        assert_eq!(regions, spent, "{by_region}");
        for id in [ids.first().unwrap(), ids.last().unwrap()] {
            let found = ask(&mesh, &admin, &["receipts", id]).unwrap();
            assert_eq!(found["receipts"].as_array().unwrap().len(), 1, "{found}");
            assert_eq!(found["receipts"][0]["values"]["key"], "billed-key", "{found}");
        }
        let of_scenarios = ask(&mesh, &admin, &["usage", "--by", "scenario", "--tenant", "billed"]).unwrap();
        let of_ann = ask(&mesh, &admin, &["usage", "--user", "ann", "--since", "1d"]).unwrap();
        let receipts_of_ann = ask(&mesh, &admin, &["receipts", "--user", "ann", "--since", "1d"]).unwrap();
        assert_eq!(of_scenarios["rows"][1]["values"]["scenario"], "support", "{of_scenarios}");
        assert_eq!(of_scenarios["rows"][1]["calls"], of_ann["rows"][0]["calls"], "{of_scenarios} {of_ann}");
        let receipts_of_ann = receipts_of_ann["receipts"].as_array().unwrap();
        let cost: u64 = receipts_of_ann.iter().map(|one| one["cost"].as_u64().unwrap()).sum();
        assert_eq!((cost > 0, &of_ann["rows"][0]["cost"]), (true, &json!(cost)), "{of_ann}");
        assert_eq!(of_ann["kept_from"], json!(null), "{of_ann}");
        let listed = ask(&mesh, &admin, &["receipts", "--tenant", "billed", "--since", "1d"]).unwrap();
        let listed = listed["receipts"].as_array().unwrap();
        assert!(listed.len() >= ids.len());
        assert_eq!(listed.iter().map(|one| one["cost"].as_u64().unwrap()).sum::<u64>(), spent);
    }
    let csv = mesh.operate(&["usage", "--by", "tenant", "--tenant", "billed", "--format", "csv"]).unwrap();
    assert!(
        csv.starts_with("tenant,calls,attempts,estimated,input,cached_input,output,cost\nbilled,"),
        "{csv}"
    );
    let refused = mesh.operate(&["usage", "--by", "colour"]).unwrap_err();
    assert!(refused.contains("there is no dimension \"colour\""), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_providers_bill_is_checked_line_by_line() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let provider = Faulty::start().await;
    let story = Story::new("reconciled").with(&sold(&provider.url()));
    story.apply(&mesh);
    for n in 0..12 {
        let model = ["fast", "slow"][n % 2];
        until("an answer", async || {
            let body =
                json!({"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]});
            let path = "/v1/chat/completions";
            let answer =
                mesh.client().post(&mesh.url("eu"), path, &story.key(), body.to_string()).await.ok()?;
            (answer.status == 200).then_some(())
        })
        .await;
    }
    let rows = until("usage of every call", async || {
        let asked = ["usage", "--by", "day,model,provider_key", "--provider", "seller", "--json"];
        let report: Value = serde_json::from_str(&mesh.operate(&asked).ok()?).ok()?;
        let rows = report["rows"].as_array()?.clone();
        let calls: u64 = rows.iter().filter_map(|row| row["calls"].as_u64()).sum();
        (calls == 12).then_some(rows)
    })
    .await;
    let check = |lines: &[String]| {
        let file = mesh.dir().join("bill.csv");
        std::fs::write(&file, format!("{HEADING}\n{}\n", lines.join("\n"))).unwrap();
        let asked = ["bills", "check", file.to_str().unwrap(), "--provider", "seller", "--json"];
        let output = mesh.run(&asked);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default(), told)
    };

    let honest: Vec<String> = rows.iter().map(|row| line(row, 0)).collect();
    let (code, report, told) = check(&honest);
    assert_eq!((code, &report["states"]["agrees"]), (Some(0), &json!(rows.len())), "{told} {report}");
    assert!(report["totals"]["cost"]["counted"].as_u64().unwrap() > 0, "{report}");

    // One line too dear, one model forgotten, and one that nobody called.
    let days: BTreeSet<&str> = honest.iter().map(|line| line.split(',').next().unwrap()).collect();
    let mut lines: Vec<String> =
        days.iter().map(|day| format!("{day},ghost,main,1,1,1,0.000000001")).collect();
    let of_fast: Vec<&Value> = rows.iter().filter(|row| row["values"]["model"] == "fast").collect();
    lines.extend(of_fast.iter().enumerate().map(|(at, row)| line(row, u64::from(at == 0))));
    let (code, report, told) = check(&lines);
    let expected = json!({
        "agrees": of_fast.len() - 1, "differs": 1,
        "not billed": rows.len() - of_fast.len(), "not ours": days.len(),
    });
    assert_eq!((code, &report["states"]), (Some(6), &expected), "{told} {report}");
    let differs = report["rows"].as_array().unwrap().iter().find(|row| row["state"] == "differs").unwrap();
    assert_eq!((&differs["model"], &differs["key"]), (&json!("vendor/fast-1"), &json!("main")), "{report}");
    assert_eq!(differs["figures"]["output_tokens"]["more"], 1, "{report}");
    assert_eq!(differs["lines"], json!([lines.len() + 2 - of_fast.len()]), "{report}");

    let (code, _report, told) = check(&["2026-01-01,fast,main,1,1,one,1".to_owned()]);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("bill.csv:2:26: output_tokens: \"one\" is not a whole number"), "{told}");
}

const HEADING: &str = "day,model,key,requests,input_tokens,output_tokens,cost";

/// What a provider bills who counts as we do, and so many output tokens more.
fn line(row: &Value, more: u64) -> String {
    let (values, count) = (&row["values"], |name: &str| row[name].as_u64().unwrap());
    let day = values["day"].as_str().unwrap().split('T').next().unwrap();
    let model = if values["model"] == "fast" { "vendor/fast-1" } else { "slow" };
    let (dollars, nano) = (count("cost") / 1_000_000_000, count("cost") % 1_000_000_000);
    let key = values["provider_key"].as_str().unwrap();
    let tokens = [count("calls"), count("input"), count("output") + more].map(|count| count.to_string());
    format!("{day},{model},{key},{},{dollars}.{nano:09}", tokens.join(","))
}

fn sold(url: &str) -> String {
    format!(
        "providers:\n- name: seller\n  base_url: \"{url}\"\n  keys: [{{name: main, credential: sk-seller}}]\n\
         models:\n\
         - {{name: fast, upstream_model: vendor/fast-1, price: {{input: 1.37, output: 3.11}}, context: 8192, output_cap: 64, provider: seller}}\n\
         - {{name: slow, price: {{input: 2, output: 3}}, context: 8192, output_cap: 64, provider: seller}}"
    )
}

/// Calls from all regions at once; gives the identifiers of those that were answered, which must be all.
async fn calls(mesh: &Mesh, story: &Story, count: usize) -> Vec<String> {
    let host = Host::real();
    let tasks: Vec<_> = (0..count)
        .map(|n| {
            let (url, key, client) = (mesh.plain(REGIONS[n % REGIONS.len()]), story.key(), mesh.client());
            host.spawn("caller", async move { call(&client, &url, &key, n).await })
        })
        .collect();
    let mut ids = Vec::new();
    for task in tasks {
        ids.push(task.await.unwrap());
    }
    ids
}

async fn call(client: &Client, url: &str, key: &str, n: usize) -> String {
    let body = json!({
        "model": "priced", "max_tokens": 8 + n,
        "messages": [{"role": "user", "content": "One word, please. ".repeat(1 + n % 7)}]
    })
    .to_string();
    // A model that is new, or credit that is on its way, answers later.
    let host = Host::real();
    for _ in 0..1_000 {
        let mut request = post("/v1/chat/completions", key, body.clone());
        if n.is_multiple_of(4) {
            let headers = request.headers_mut();
            headers.insert("x-portolan-scenario", "support".parse().unwrap());
            headers.insert("x-portolan-user", "ann".parse().unwrap());
        }
        let answer = client.ask(url, request).await.unwrap();
        if answer.status == 200 {
            return answer.headers["x-request-id"].to_str().unwrap().to_owned();
        }
        host.sleep(Duration::from_millis(20)).await;
    }
    panic!("a call was never answered");
}

/// What the ledger says was spent, once all credit is back.
fn settled(mesh: &Mesh) -> Option<u64> {
    let report: Value = serde_json::from_str(&mesh.operate(&["ledger", "check", "--json"]).ok()?).ok()?;
    assert_eq!(report["balanced"], true, "{report}");
    let row = report["rows"].as_array()?.iter().find(|row| row["name"] == "billed")?;
    let is_settled = row["at_edges"] == 0 && row["settling"] == 0;
    row["receipts"].as_u64().filter(|_spent| is_settled)
}

/// What one node answers; `None` when it cannot yet.
fn ask(mesh: &Mesh, admin: &str, arguments: &[&str]) -> Option<Value> {
    let credentials = mesh.facts.operator.display().to_string();
    let reach = ["--json", "--admin", admin, "--credentials", &credentials];
    let output = mesh.portolan(&[arguments, &reach].concat());
    serde_json::from_slice(&output.stdout).ok().filter(|_answer| output.status.success())
}

/// The usage store of a central node.
fn store(mesh: &Mesh, name: &str) -> PathBuf {
    let config: toml::Value = text(&mesh.node(name).config).parse::<toml::Table>().unwrap().into();
    PathBuf::from(config["data"].as_str().unwrap()).join("usage.db")
}

fn model(mesh: &Mesh) -> String {
    let replicas: Vec<_> = mesh
        .facts
        .demo
        .iter()
        .filter(|demo| demo.region != "provider")
        .map(|demo| format!("{{name: {}, region: {}, url: \"{}\"}}", demo.name, demo.region, demo.url))
        .collect();
    format!(
        "models: [{{name: priced, price: {{input: 1.37, output: 3.11}}, context: 8192, output_cap: 256, replicas: [{}]}}]",
        replicas.join(", ")
    )
}
