//! A model server that fails goes out, is asked again by one call at a time, and comes back.

use std::time::Duration;

use base::Priority;
use seam::Bound;
use wire::catalog::Replica;

use super::caller::{Answered, Caller, Over};
use super::server::{Act, Server};
use super::world::World;
use crate::fixtures;

const CHAT: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}]}"#;
const OOPS: Act = Act::Fail(500, r#"{"error":{"message":"oops"}}"#);

#[tokio::test]
async fn a_server_is_out_after_three_failures_and_one_call_at_a_time_finds_out_whether_it_is_back() {
    let pair = Pair::start().await;
    pair.sick.does(OOPS);
    pair.until_asked(3).await;
    assert_eq!(pair.world.edge.dispatcher.instances_out(), 1);
    pair.others_go_elsewhere(10).await;

    // After its pause, one call finds out; while it does, others go elsewhere.
    pair.sick.does(Act::Silent);
    let probe = pair.probe().await;
    pair.others_go_elsewhere(3).await;

    // A caller that leaves says nothing about the server: the next call finds out, at once.
    drop(probe);
    pair.sick.open(0).await;
    pair.sick.does(OOPS);
    let freed = pair.world.host.now();
    pair.until_asked(5).await;
    assert!(pair.world.host.now().since(freed) < Duration::from_millis(400), "no pause passed meanwhile");

    // It failed: still out, and for longer.
    assert_eq!(pair.world.edge.dispatcher.instances_out(), 1);
    pair.others_go_elsewhere(10).await;

    pair.sick.does(Act::Complete);
    pair.until_asked(6).await;
    assert_eq!(pair.world.edge.dispatcher.instances_out(), 0, "its answer brought it back");
    pair.until_asked(8).await;
    let page = pair.world.caller();
    let page = page.over(Over::Plain1, page.get("/metrics")).await.text();
    assert!(page.contains("portolan_upstreams_out 0"), "{page}");
}

#[tokio::test]
async fn a_call_waits_for_a_place_when_every_server_is_full() {
    let host = seam::Host::real();
    let server = Server::start(&host, Act::Silent).await;
    let world = World::start(&server.url, |_, catalog| {
        for replica in &mut catalog.models.values_mut().next().unwrap().replicas {
            replica.concurrency = Some(1);
        }
    })
    .await;
    let (caller, held) = (world.caller(), world.caller());
    let holding = host.spawn("holding", async move { held.chat(CHAT).await }).bound();
    server.open(1).await;
    let waiting = host.spawn("waiting", async move { caller.chat(CHAT).await });
    server.does(Act::Complete);
    drop(holding);
    let answer = waiting.await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn a_server_over_its_rate_is_passed_over() {
    let host = seam::Host::real();
    let (slow, other) =
        (Server::start(&host, Act::Complete).await, Server::start(&host, Act::Complete).await);
    let url = other.url.clone();
    let world = World::start(&slow.url, |_, catalog| {
        let tiny = catalog.models.values_mut().next().unwrap();
        let second = Replica { name: "tiny-2".parse().unwrap(), url, ..tiny.replicas[0].clone() };
        tiny.replicas[0].requests_per_min = Some(1);
        tiny.replicas.push(second);
    })
    .await;
    for _call in 0..5 {
        assert_eq!(world.caller().chat(CHAT).await.status, 200);
    }
    assert_eq!((slow.asked().len(), other.asked().len()), (1, 4));
}

#[tokio::test]
async fn batch_work_yields_to_whoever_waits_for_an_answer_and_a_key_may_be_for_batch_work_alone() {
    let host = seam::Host::real();
    let server = Server::start(&host, Act::Silent).await;
    let world = World::start(&server.url, |_, catalog| {
        catalog.models.values_mut().for_each(|model| model.replicas[0].concurrency = Some(1));
        let mut nightly = catalog.keys.values().next().unwrap().clone();
        (nightly.name, nightly.hash) = ("nightly".parse().unwrap(), fixtures::hash("sk-nightly"));
        nightly.priority = Priority::Batch;
        catalog.keys.insert(nightly.name.clone(), nightly);
    })
    .await;
    let call = |caller: Caller, who: &str, priority: Option<&'static str>| {
        let body = CHAT.replace("hi", who);
        let mut request = caller.post("/v1/chat/completions", body);
        if let Some(priority) = priority {
            request.headers_mut().insert("x-portolan-priority", priority.parse().unwrap());
        }
        let host = world.host.clone();
        host.spawn("call", async move { caller.over(Over::Plain1, request).await.status })
    };
    let held = call(world.caller(), "held", None).bound();
    server.open(1).await;
    let lowered = call(world.caller(), "lowered", Some("batch"));
    waiting(&world, "batch", 1).await;
    let nightly = call(world.caller().with_key("sk-nightly"), "nightly", Some("interactive"));
    waiting(&world, "batch", 2).await;
    let pressing = call(world.caller(), "pressing", None);
    waiting(&world, "interactive", 1).await;
    let malformed = call(world.caller(), "malformed", Some("vip"));
    assert_eq!(malformed.await.unwrap(), 400);

    server.does(Act::Complete);
    drop(held);
    for call in [lowered, nightly, pressing] {
        assert_eq!(call.await.unwrap(), 200);
    }
    let asked = server.asked();
    let order: Vec<_> = asked.iter().map(|body| body["messages"][0]["content"].as_str().unwrap()).collect();
    assert_eq!(order, ["held", "pressing", "lowered", "nightly"]);
    let caller = world.caller();
    let page = caller.over(Over::Plain1, caller.get("/metrics")).await.text();
    let counted = r#"portolan_queue_wait_seconds_count{queue="server",priority="batch"} 2"#;
    assert!(page.contains(counted), "{page}");
}

/// Waits until so many calls wait for a server.
pub(super) async fn waiting(world: &World, priority: &str, many: u32) {
    let line = format!("portolan_queue_depth{{queue=\"server\",priority=\"{priority}\"}} {many}\n");
    let seen = async {
        let caller = world.caller();
        while !caller.over(Over::Plain1, caller.get("/metrics")).await.text().contains(&line) {
            world.host.sleep(Duration::from_millis(2)).await;
        }
    };
    world.host.timeout(Duration::from_secs(5), seen).await.expect("calls wait");
}

/// One model on two servers, one of which is well.
struct Pair {
    world: World,
    sick: Server,
    well: Server,
}

impl Pair {
    async fn start() -> Self {
        let host = seam::Host::real();
        let (sick, well) =
            (Server::start(&host, Act::Complete).await, Server::start(&host, Act::Complete).await);
        let url = well.url.clone();
        let world = World::start(&sick.url, |_, catalog| {
            let tiny = catalog.models.values_mut().next().unwrap();
            let second = Replica { name: "tiny-2".parse().unwrap(), url, ..tiny.replicas[0].clone() };
            tiny.replicas.push(second);
        })
        .await;
        Self { world, sick, well }
    }

    async fn call(&self) -> Answered {
        let answer = self.world.caller().chat(CHAT).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer
    }

    /// Calls, each of which must be answered, until the sick server was asked so many times in all.
    async fn until_asked(&self, times: usize) {
        let asking = async {
            while self.sick.asked().len() < times {
                self.call().await;
            }
        };
        self.world.host.timeout(Duration::from_secs(10), asking).await.expect("it is asked");
        assert_eq!(self.sick.asked().len(), times);
    }

    async fn others_go_elsewhere(&self, calls: usize) {
        let (sick, well) = (self.sick.asked().len(), self.well.asked().len());
        for _call in 0..calls {
            self.call().await;
        }
        assert_eq!((self.sick.asked().len(), self.well.asked().len()), (sick, well + calls));
    }

    /// Calls until one is with the sick server, and gives that one.
    async fn probe(&self) -> Bound<Answered> {
        let probing = async {
            loop {
                let caller = self.world.caller();
                let call = self.world.host.spawn("call", async move { caller.chat(CHAT).await });
                let mut call = call.bound();
                tokio::select! {
                    biased;
                    () = self.sick.open(1) => return Some(call),
                    answered = &mut call => assert_eq!(answered.unwrap().status, 200),
                }
            }
        };
        let probe = self.world.host.timeout(Duration::from_secs(10), probing).await;
        probe.expect("its pause ends").unwrap()
    }
}
