//! Callers who leave, and callers who do not read, seen by the upstream: of the same region, of a peer region, and
//! behind central. It is let go within a second, and can send no more than a bound.

#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use base::Mono;
use seam::{ByteStream, Host, Lock};
use simulations::deployment::{CALLS, Deployment, Layout, MODELS};
use simulations::engine::{Link, Machine, Options, World, run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const KEY: &str = "sk-of-the-scenario-0123456789abcdef0123456789abcdef";
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// After so long a caller that takes nothing is gone, unless configured otherwise.
const STALL: Duration = Duration::from_secs(60);

/// What may be between an upstream and a caller that takes nothing, over up to three hops: 256 KiB in each simulated
/// socket, 64 KiB in HTTP's buffers at either side of each, and a stream's window between two nodes.
const HELD: usize = 4 * 1024 * 1024;

const PATHS: [&str; 3] = ["near", "far", "relayed"];

#[test]
fn a_caller_that_leaves_lets_the_upstream_go_within_a_second_by_every_path_and_in_every_phase() {
    run(&Options::seed(21), leaving).unwrap();
}

#[test]
fn a_caller_that_takes_nothing_holds_the_upstream_back_and_is_cut_by_every_path() {
    run(&Options::seed(22), stalling).unwrap();
}

async fn leaving(world: World) {
    let mesh = Mesh::start(&world).await;
    for path in PATHS {
        for act in ["silent", "talks"] {
            let seen = mesh.seen();
            let (stream, caller) = mesh.ask(&format!("{path}-{act}"), act == "talks").await;
            mesh.until(SECOND * 5, "the upstream is asked", || mesh.seen().asked > seen.asked).await;
            assert_eq!(mesh.seen().let_go, seen.let_go, "{path}, {act}: nobody left yet");
            let left = world.now();
            drop(stream);
            mesh.until(SECOND, &format!("{path}, {act}: let go"), || mesh.seen().let_go > seen.let_go).await;
            assert!(world.now().since(left) <= SECOND);
            caller.crash();
        }
    }
}

async fn stalling(world: World) {
    let mesh = Mesh::start(&world).await;
    for path in PATHS {
        let before = mesh.seen();
        let (stream, caller) = mesh.ask(&format!("{path}-floods"), true).await;
        world.sleep(STALL / 3).await;
        let held = mesh.seen();
        world.sleep(STALL / 3).await;
        assert_eq!(mesh.seen().sent, held.sent, "{path}: it stands still");
        let sent = held.sent - before.sent;
        assert!((64 * 1024..HELD).contains(&sent), "{path}: {sent} bytes were sent to nobody");
        assert_eq!(held.let_go, before.let_go, "{path}: it has its time");
        mesh.until(STALL, &format!("{path}: cut"), || mesh.seen().let_go > before.let_go).await;
        drop(stream);
        caller.crash();
    }
}

/// A mesh, and an upstream of ours that stands in its first region, in its second and behind central.
struct Mesh {
    world: World,
    deployment: Deployment,
    seen: Arc<Lock<Seen>>,
    callers: Lock<u32>,
}

/// What the upstream saw.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    asked: usize,
    let_go: usize,
    sent: usize,
}

impl Mesh {
    async fn start(world: &World) -> Self {
        world.default_link(Link { delay: 15 * MS, ..Link::default() });
        let layout = Layout {
            centrals: vec!["eu", "us", "ap"],
            edges: vec!["eu", "us"],
            models: Vec::new(),
            round_trip: 40 * MS,
            ..Layout::default()
        };
        let seen = Arc::<Lock<Seen>>::default();
        let host = world.machine("upstream").start();
        drop(host.spawn("upstream", upstream(host.clone(), Arc::clone(&seen))));
        let deployment = Deployment::new(world, &layout).await.unwrap();
        let mesh = Self { world: world.clone(), deployment, seen, callers: Lock::new(0) };
        mesh.apply().await;
        for path in PATHS {
            mesh.serves(path).await;
        }
        mesh
    }

    fn seen(&self) -> Seen {
        *self.seen.lock()
    }

    async fn apply(&self) {
        let began = self.world.now();
        loop {
            let operator = self.deployment.operator().clone();
            let applying = operator.host().spawn("apply", {
                let operator = operator.clone();
                async move { operator.apply("central-eu", &catalog()).await }
            });
            match applying.await.unwrap() {
                Ok(_changed) => return,
                Err(error) if self.world.now().since(began) > 15 * SECOND => panic!("{error:?}"),
                Err(_) => self.world.sleep(100 * MS).await,
            }
        }
    }

    /// Waits until a path serves.
    async fn serves(&self, path: &str) {
        let began = self.world.now();
        loop {
            let (_stream, caller) = self.ask(&format!("{path}-talks"), false).await;
            self.world.sleep(500 * MS).await;
            let served = self.seen().asked > 0;
            caller.crash();
            self.world.sleep(SECOND).await;
            if served {
                *self.seen.lock() = Seen::default();
                return;
            }
            assert!(self.world.now().since(began) < 15 * SECOND, "{path} never serves");
        }
    }

    /// Asks for a stream as a caller on a machine of its own; `reads` its first event, else nothing.
    async fn ask(&self, model: &str, reads: bool) -> (ByteStream, Machine) {
        let number = {
            let mut callers = self.callers.lock();
            *callers += 1;
            *callers
        };
        let machine = self.world.machine(&format!("caller-{number}"));
        let host = machine.start();
        let body =
            format!(r#"{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"hi"}}]}}"#);
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let of = host.clone();
        let asking = host.spawn("call", async move {
            let mut stream = of.connect("edge-eu", CALLS).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut read = Vec::new();
            while reads && !read.ends_with(b"data: {") {
                read.push(stream.read_u8().await.unwrap());
            }
            stream
        });
        (asking.await.unwrap(), machine)
    }

    async fn until(&self, within: Duration, what: &str, done: impl Fn() -> bool) {
        let began: Mono = self.world.now();
        while !done() {
            assert!(self.world.now().since(began) <= within, "not within {within:?}: {what}");
            self.world.sleep(5 * MS).await;
        }
    }
}

fn catalog() -> String {
    let url = format!("http://upstream:{MODELS}");
    let mut yaml = format!(
        "tenants: [{{name: acme}}]\napps: [{{tenant: acme, name: web}}]\n\
         keys: [{{name: acme-key, tenant: acme, app: web, secret: {KEY}}}]\n\
         providers: [{{name: ours, base_url: \"{url}\", credential: sk-ours}}]\nmodels:\n"
    );
    for (path, served) in PATHS.iter().zip([
        format!("replicas: [{{name: a, region: eu, url: \"{url}\"}}]"),
        format!("replicas: [{{name: a, region: us, url: \"{url}\"}}]"),
        "provider: ours".to_owned(),
    ]) {
        for act in ["silent", "talks", "floods"] {
            yaml.push_str(&format!(
                "- {{name: {path}-{act}, upstream_model: {act}, price: {{input: 1, output: 2}}, context: 8192, output_cap: 64, {served}}}\n"
            ));
        }
    }
    yaml
}

async fn upstream(host: Host, seen: Arc<Lock<Seen>>) {
    let listener = host.listen(([0, 0, 0, 0], MODELS).into()).await.unwrap();
    while let Ok((stream, _peer)) = listener.accept().await {
        drop(host.spawn("connection", connection(stream, Arc::clone(&seen))));
    }
}

/// One call: it says nothing, says a word, or never stops, and in the end sees that it was let go.
async fn connection(mut stream: ByteStream, seen: Arc<Lock<Seen>>) {
    let mut asked = Vec::new();
    while !asked.ends_with(b"}]}") {
        // Connections that stand ahead of need are closed without a word.
        let Ok(byte) = stream.read_u8().await else { return };
        asked.push(byte);
    }
    seen.lock().asked += 1;
    let asked = String::from_utf8(asked).unwrap();
    if !asked.contains("\"silent\"") {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let word = if asked.contains("\"floods\"") { "x".repeat(16 * 1024) } else { "hi".to_owned() };
        let event =
            format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{word}\"}}}}]}}\n\n");
        let times = if word.len() > 2 { usize::MAX } else { 1 };
        for _event in 0..times {
            if stream.write_all(event.as_bytes()).await.is_err() {
                break;
            }
            seen.lock().sent += event.len();
        }
    }
    // Nothing more comes from a gateway that waits; the end does when it leaves.
    drop(stream.read_u8().await);
    seen.lock().let_go += 1;
}
