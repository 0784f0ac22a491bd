//! Processes are killed with SIGKILL under calls: a model server, a follower, the leader, all of central, an edge. Calls
//! without a first byte go elsewhere, and the ledger balances before, between and after.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]
#![expect(clippy::panic, reason = "a helper's failure is the test's failure")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use seam::Host;
use serde_json::{Value, json};
use tests::mesh::Mesh;
use tokio::sync::Notify;

const MODEL: &str = "demo-small";
/// Calls of each caller around a kill; a third of them before it.
const CALLS: usize = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_cost_no_call_that_had_no_first_byte() {
    let mut mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    balanced(&mesh).await;

    let replica = mesh.facts.demo.iter().find(|demo| demo.region == "eu").unwrap().pid;
    let failed = around(&mesh, &["eu", "us", "ap"], || tests::mesh::kill(replica)).await;
    assert_eq!(failed, Vec::<String>::new(), "a model server was killed");

    let leader = leader(&mesh);
    let follower =
        mesh.facts.nodes.iter().find(|node| node.role == "central" && node.name != leader).unwrap().clone();
    let failed = around(&mesh, &["eu", "us", "ap"], || tests::mesh::kill(follower.pid)).await;
    assert_eq!(failed, Vec::<String>::new(), "a follower was killed");
    mesh.restart(&follower.name);
    balanced(&mesh).await;

    let failed = around(&mesh, &["eu", "us", "ap"], || tests::mesh::kill(pid(&mesh, &leader))).await;
    assert_eq!(failed, Vec::<String>::new(), "the leader was killed");
    mesh.restart(&leader);
    balanced(&mesh).await;

    let edge = mesh.edge("ap").pid;
    let failed = around(&mesh, &["eu", "us"], || tests::mesh::kill(edge)).await;
    assert_eq!(failed, Vec::<String>::new(), "the edge of another region was killed");
    mesh.restart("edge-ap");
    until_served(&mesh, "ap").await;
    balanced(&mesh).await;

    let central: Vec<_> = mesh.facts.nodes.iter().filter(|node| node.role == "central").cloned().collect();
    let failed =
        around(&mesh, &["eu", "us", "ap"], || central.iter().for_each(|node| tests::mesh::kill(node.pid)))
            .await;
    assert_eq!(failed, Vec::<String>::new(), "all of central was killed while grants last");
    for node in &central {
        mesh.restart(&node.name);
    }
    balanced(&mesh).await;
    until_served(&mesh, "eu").await;
}

/// Calls from every region, `kill` in their midst; what failed.
async fn around(mesh: &Mesh, regions: &[&str], kill: impl FnOnce()) -> Vec<String> {
    let (host, begun, go) = (Host::real(), Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let callers: Vec<_> = regions
        .iter()
        .map(|region| {
            let (client, url, key) = (mesh.client(), mesh.plain(region), mesh.facts.key.clone());
            let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
            let region = (*region).to_owned();
            host.spawn("caller", async move {
                let mut failed = Vec::new();
                for call in 0..CALLS {
                    begun.fetch_add(1, Ordering::Relaxed);
                    go.notify_one();
                    match client.post(&url, "/v1/chat/completions", &key, ask()).await {
                        Ok(answer) if answer.status == 200 => {}
                        Ok(answer) => {
                            failed.push(format!("{region} call {call}: {} {}", answer.status, answer.code()));
                        }
                        Err(error) => failed.push(format!("{region} call {call}: {error}")),
                    }
                }
                failed
            })
        })
        .collect();
    while begun.load(Ordering::Relaxed) < CALLS / 3 * regions.len() {
        go.notified().await;
    }
    kill();
    let mut failed = Vec::new();
    for caller in callers {
        failed.extend(caller.await.unwrap());
    }
    failed
}

/// The ledger balances; asked until central answers, which an election may delay.
async fn balanced(mesh: &Mesh) {
    let host = Host::real();
    let mut last = String::new();
    for _ in 0..300 {
        match mesh.operate(&["ledger", "check", "--json"]) {
            Ok(report) => {
                let report: Value = serde_json::from_str(&report).unwrap();
                assert_eq!(report["balanced"], true, "{report}");
                return;
            }
            Err(error) => last = error,
        }
        host.sleep(Duration::from_millis(100)).await;
    }
    panic!("central does not answer: {last}");
}

async fn until_served(mesh: &Mesh, region: &str) {
    let host = Host::real();
    for _ in 0..300 {
        let answer =
            mesh.client().post(&mesh.plain(region), "/v1/chat/completions", &mesh.facts.key, ask()).await;
        if answer.is_ok_and(|answer| answer.status == 200) {
            return;
        }
        host.sleep(Duration::from_millis(100)).await;
    }
    panic!("the edge of {region} does not serve");
}

fn leader(mesh: &Mesh) -> String {
    let status: Value = serde_json::from_str(&mesh.operate(&["status", "--json"]).unwrap()).unwrap();
    status["leader"].as_str().unwrap_or_else(|| panic!("no leader in {status}")).to_owned()
}

fn pid(mesh: &Mesh, name: &str) -> u32 {
    mesh.facts.nodes.iter().find(|node| node.name == name).unwrap().pid
}

fn ask() -> String {
    json!({"model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "Where are you?"}]})
        .to_string()
}
