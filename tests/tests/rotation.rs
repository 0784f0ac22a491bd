//! A mesh changes its authority and every certificate while it serves: no process restarts, no call fails, and in the
//! end whoever shows only the old authority's certificate is refused.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::disallowed_methods, reason = "operators stand outside every node, on the operating system")]

use std::path::{Path, PathBuf};

use serde_json::json;
use tests::mesh::{Mesh, kill};
use tests::until::until;

/// What a node logs at its start and each time it takes up new files.
const IN_FORCE: &str = "credentials in force";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_mesh_takes_up_a_new_authority_without_a_restart() {
    let mut mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let home = mesh.dir().join("mesh");
    let (authority, outdated) = (home.join("pki"), mesh.dir().join("outdated"));
    copy(&mesh.facts.operator, &outdated);
    let old = std::fs::read_to_string(authority.join("ca.pem")).unwrap();
    assert!(mesh.run_as(&outdated, &["status"]).status.success());

    rotate(&mesh, &["--authority"]);
    rotate_all(&mesh, &["--trust-only"], 2).await;
    rotate_all(&mesh, &[], 3).await;
    let both = std::fs::read_to_string(authority.join("ca.pem")).unwrap();
    std::fs::write(authority.join("ca.pem"), both.strip_suffix(&old).unwrap()).unwrap();
    rotate_all(&mesh, &["--trust-only"], 4).await;

    for node in &mesh.facts.nodes {
        assert_eq!(mesh.death(&node.name), None, "nobody restarted");
    }
    let refused = mesh.run_as(&outdated, &["status"]);
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("do not accept each other's certificates"), "{said}");
    assert!(mesh.run(&["status"]).status.success());
    // A new process has no session from before: all its handshakes are new.
    kill(mesh.node("edge-ap").pid);
    mesh.restart("edge-ap");
    until("the edge serves through its peers", async || is_served(&mesh, "ap").await.then_some(())).await;
}

/// Renews the files of every node and the operator, and waits until every node has taken them up for the `times`th time.
async fn rotate_all(mesh: &Mesh, how: &[&str], times: usize) {
    let all: Vec<String> = credentials(mesh).map(|dir| dir.to_str().unwrap().to_owned()).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    rotate(mesh, &[how, &["--credentials"], &all].concat());
    for node in &mesh.facts.nodes {
        until("new files are in force", async || {
            assert!(is_served(mesh, "eu").await && is_served(mesh, "ap").await, "calls go on");
            let log = std::fs::read_to_string(&node.log).unwrap();
            (log.matches(IN_FORCE).count() >= times).then_some(())
        })
        .await;
    }
}

fn rotate(mesh: &Mesh, how: &[&str]) {
    let authority = mesh.dir().join("mesh/pki");
    let rotated = mesh.portolan(&[&["pki", "rotate", "--dir", authority.to_str().unwrap()], how].concat());
    assert!(rotated.status.success(), "{rotated:?}");
}

fn credentials(mesh: &Mesh) -> impl Iterator<Item = PathBuf> {
    let home = mesh.dir().join("mesh/credentials");
    std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().path())
}

async fn is_served(mesh: &Mesh, region: &str) -> bool {
    let ask =
        json!({"model": "demo-small", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]});
    let url = mesh.plain(region);
    let answer = mesh.client().post(&url, "/v1/chat/completions", &mesh.facts.key, ask.to_string()).await;
    answer.is_ok_and(|answer| answer.status == 200)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
