//! `portolan up --upstream URL`: a real server as a provider behind central, and the errors that say what is wrong with it.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(
    clippy::disallowed_methods,
    reason = "a server beside the mesh is a process of the operating system"
)]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tests::faulty::Faulty;
use tests::mesh::Mesh;

const BINARY: &str = env!("CARGO_BIN_EXE_node");
const KEY: &str = "sk-of-the-server";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_asked_for_its_models_and_called_with_its_key() {
    let (server, dir) = (Server::start("theirs"), tempfile::tempdir().unwrap());
    let key = dir.path().join("key");
    std::fs::write(&key, format!("{KEY}\n")).unwrap();
    // As vendors write their base URLs.
    let url = format!("{}/v1/", server.url);
    let mesh = Mesh::start_with(BINARY, &["--upstream", &url, "--upstream-key-file", key.to_str().unwrap()]);
    served(&mesh, "theirs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_that_are_named_are_served_and_the_server_is_not_asked() {
    let server = Faulty::start().await;
    let named = ["--upstream", &server.url(), "--upstream-model", "first", "--upstream-model", "second:7b"];
    let mesh = Mesh::start_with(BINARY, &named);
    served(&mesh, "first").await;
    served(&mesh, "second:7b").await;
    assert_eq!(server.calls(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_be_used_is_named_before_anything_starts() {
    let (server, empty) = (Server::start("theirs"), Faulty::start().await);
    let own = Server::start("demo-small");
    let dir = tempfile::tempdir().unwrap();
    let blank = dir.path().join("blank");
    std::fs::write(&blank, "\n").unwrap();
    let key = dir.path().join("key");
    std::fs::write(&key, KEY).unwrap();
    let (blank, key) = (blank.to_str().unwrap(), key.to_str().unwrap());
    // Nobody listens at port 1 of this machine.
    for (arguments, code, expected) in [
        (vec!["http://127.0.0.1:1"], 1, "cannot ask http://127.0.0.1:1 for its models"),
        (vec![&*server.url], 1, "it answered 401"),
        (vec![&*server.url, "--upstream-key-file", blank], 3, "holds no key"),
        (vec![&*own.url, "--upstream-key-file", key], 3, "a name of the demo's own"),
        (vec![&*empty.url()], 1, "it lists none"),
    ] {
        let output = Command::new(BINARY).args(["up", "--port", "0", "--upstream"]).args(&arguments).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{expected:?} is not in {said}");
    }
}

async fn served(mesh: &Mesh, model: &str) {
    let ask = json!({"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]});
    let url = mesh.plain("ap");
    let answer = mesh.client().post(&url, "/v1/chat/completions", &mesh.facts.key, ask.to_string()).await;
    let answer = answer.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// A demo model server that demands a key, as a process of its own.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(name: &str) -> Self {
        let mut process = Command::new(BINARY)
            .args(["demo", "--listen", "127.0.0.1:0", "--name", name, "--key", KEY])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { process, url: url.trim().to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
