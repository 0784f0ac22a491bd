//! A model server that fails goes out, is asked again by one call at a time, and comes back.

use std::time::Duration;

use seam::Bound;
use wire::catalog::Replica;

use super::caller::Answered;
use super::server::{Act, Server};
use super::world::World;

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
    let page = page.over(super::caller::Over::Plain1, page.get("/metrics")).await.text();
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
