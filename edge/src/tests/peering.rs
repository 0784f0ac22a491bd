//! Two edges of two regions, over the mesh.

use std::time::Duration;

use http_body_util::BodyExt as _;
use mesh::pki;
use seam::Host;
use serde_json::{Value, json};
use wire::catalog::{Catalog, Group};

use super::caller::Over;
use super::server::{Act, COMPLETION, Server};
use super::world::World;
use crate::fixtures;

const CHAT: &str = r#"{"model":"remote","messages":[{"role":"user","content":"hi"}]}"#;
const STREAM: &str = r#"{"model":"remote","messages":[{"role":"user","content":"hi"}],"stream":true}"#;

#[tokio::test]
async fn a_model_of_another_region_is_served_through_its_edge_and_no_hop_is_lost() {
    let pair = Pair::start(Act::Complete).await;
    let caller = pair.here.caller();
    let answer = caller.over(Over::Plain1, caller.post("/v1/chat/completions?debug=true", CHAT)).await;
    assert_eq!(answer.text(), COMPLETION);
    assert_eq!(answer.headers["content-length"], COMPLETION.len().to_string());
    let told: Value = serde_json::from_slice(answer.headers["x-portolan-debug"].as_bytes()).unwrap();
    assert_eq!((&told["node"], &told["served_by"]), (&"edge-here".into(), &"peer:there".into()));
    let hop = &told["hops"][0];
    assert_eq!((&hop["node"], &hop["upstream"]), (&"edge-there".into(), &"remote-1".into()));

    pair.server.does(Act::Words(&["far", "away"]));
    let stream = caller.chat(STREAM).await.text();
    assert!(stream.contains("\"away\"") && stream.ends_with("data: [DONE]\n\n"), "{stream}");
    for record in pair.here.records(2).await {
        assert_eq!((&record["served_by"], &record["usage"]["input"]), (&"peer:there".into(), &7.into()));
    }
}

#[tokio::test]
async fn a_caller_that_leaves_cancels_the_upstream_of_the_other_region() {
    let pair = Pair::start(Act::Silent).await;
    let caller = pair.here.caller();
    let (asking, request) = (caller.clone(), caller.post("/v1/chat/completions", CHAT));
    let call = pair.here.host.spawn("call", async move { asking.over(Over::Plain1, request).await }).bound();
    pair.server.open(1).await;
    drop(call);
    pair.gone().await;

    pair.server.does(Act::Hang(&["one"]));
    let request = caller.post("/v1/chat/completions", STREAM);
    let mut body = caller.open(Over::Secure2, request).await.into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    pair.gone().await;

    let records = pair.here.records(2).await;
    assert_eq!(hops(&records[0]), [("edge-here", "edge-there", json!("caller_gone"))]);
    assert_eq!(hops(&records[1]), [("edge-here", "edge-there", json!(200))]);
    let streamed = &records[1]["hops"][0];
    assert!(streamed["first_byte_us"].as_u64() > streamed["connected_us"].as_u64(), "{streamed}");
}

#[tokio::test]
async fn a_call_whose_other_region_goes_away_before_the_first_byte_is_answered_here_and_tells_of_both() {
    let pair = Pair::start(Act::Silent).await;
    let caller = pair.here.caller();
    let (asking, request) = (caller.clone(), CHAT.replace("remote", "any"));
    let call = pair.here.host.spawn("call", async move { asking.chat(request).await });
    pair.server.open(1).await;
    let Pair { here, there, .. } = pair;
    there.running.abandon().await;
    let answer = here.host.timeout(Duration::from_secs(5), call).await.expect("in time").unwrap();
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, COMPLETION));
    let record = here.records(1).await.remove(0);
    assert_eq!((&record["model"], &record["served_by"]), (&"near".into(), &"local".into()));
    let lost = ("edge-here", "edge-there", json!("mesh_unreachable"));
    assert_eq!(hops(&record), [lost, ("edge-here", "near-1", json!(200))]);
    let [lost, near] = [0, 1].map(|at| record["hops"][at]["total_us"].as_u64().unwrap());
    assert!(lost > 0 && lost + near <= record["total_us"].as_u64().unwrap(), "{record}");
}

#[tokio::test]
async fn a_region_that_goes_away_mid_stream_leaves_its_hop() {
    let pair = Pair::start(Act::Hang(&["one"])).await;
    let caller = pair.here.caller();
    let request = caller.post("/v1/chat/completions?debug=true", STREAM);
    let answer = caller.open(Over::Plain1, request).await;
    let told: Value = serde_json::from_slice(answer.headers()["x-portolan-debug"].as_bytes()).unwrap();
    assert_eq!(
        (&told["hops"][0]["upstream"], &told["hops"][0]["status"]),
        (&"edge-there".into(), &200.into())
    );
    let mut body = answer.into_body();
    body.frame().await.unwrap().unwrap();
    let Pair { here, there, .. } = pair;
    there.running.abandon().await;
    let rest = body.collect().await.unwrap().to_bytes();
    let rest = std::str::from_utf8(&rest).unwrap();
    let told = rest.lines().find_map(|line| line.strip_prefix(": portolan ")).expect(rest);
    let told: Value = serde_json::from_str(told).unwrap();
    assert_eq!(told["hops"][0]["code"], "mesh_unreachable", "{told}");
    let record = here.records(1).await.remove(0);
    assert_eq!(hops(&record), [("edge-here", "edge-there", json!("mesh_unreachable"))]);
}

#[tokio::test]
async fn what_the_other_regions_model_server_said_stands_in_the_record_here() {
    let pair = Pair::start(Act::Fail(500, r#"{"error":{"message":"kaboom"}}"#)).await;
    let answer = pair.here.caller().chat(CHAT).await;
    assert_eq!(answer.error(), (502, "upstream_error".to_owned()));
    assert!(!answer.text().contains("kaboom"), "{}", answer.text());
    let record = pair.here.records(1).await.remove(0);
    let hop = &record["hops"][0];
    assert_eq!((&hop["node"], &hop["status"]), (&"edge-there".into(), &500.into()), "{record}");
    assert_eq!((&hop["code"], &hop["message"]), (&"upstream_error".into(), &"kaboom".into()), "{record}");
}

/// Who asked whom, and what came of it.
fn hops(record: &Value) -> Vec<(&str, &str, Value)> {
    record["hops"].as_array().unwrap().iter().map(told).collect()
}

fn told(hop: &Value) -> (&str, &str, Value) {
    (
        hop["node"].as_str().unwrap(),
        hop["upstream"].as_str().unwrap(),
        hop.get("code").unwrap_or_else(|| &hop["status"]).clone(),
    )
}

#[tokio::test]
async fn a_region_that_drains_ends_its_stream_and_sends_new_calls_elsewhere_with_a_word() {
    let pair = Pair::start(Act::Hang(&["one"])).await;
    let caller = pair.here.caller();
    let request = caller.post("/v1/chat/completions", STREAM);
    let mut body = caller.open(Over::Plain1, request).await.into_body();
    body.frame().await.unwrap().unwrap();
    let Pair { here, there, server } = pair;
    let World { draining, mut running, .. } = there;
    draining.stop();
    let drained = here.host.spawn("drain", async move { running.drain().await });

    let refused = caller.chat(CHAT).await;
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("\"code\":\"draining\""), "{}", refused.text());
    assert_eq!(refused.headers["retry-after"], "1");
    let answer = caller.chat(CHAT.replace("remote", "any")).await;
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, COMPLETION));

    assert!(!drained.is_finished(), "the stream goes on");
    server.open(1).await;
    drop(body);
    here.host.timeout(Duration::from_secs(3), drained).await.expect("it ends with its last call").unwrap();
}

/// Edges of the regions `here` and `there`; model `remote` is served there, `near` here, the group `any` is both.
pub(super) struct Pair {
    pub(super) here: World,
    pub(super) there: World,
    pub(super) server: Server,
}

impl Pair {
    async fn start(act: Act) -> Self {
        Self::with(act, |_catalog| {}).await
    }

    pub(super) async fn with(act: Act, adjust: impl FnOnce(&mut Catalog)) -> Self {
        Self::on(Host::real(), act, adjust).await
    }

    /// A pair whose edge here has this host.
    pub(super) async fn on(host: Host, act: Act, adjust: impl FnOnce(&mut Catalog)) -> Self {
        let mesh =
            pki::create_authority(&host, &"test".parse().unwrap(), Duration::from_secs(3_600)).unwrap();
        let server = Server::start(&host, act).await;
        let near = Server::start(&host, Act::Complete).await;
        let mut catalog = catalog(&server, &near);
        adjust(&mut catalog);
        let here = World::join_on(host.clone(), &mesh, "here", catalog.clone(), |_, _| {}).await;
        let there = World::join(&mesh, "there", catalog, |_, _| {}).await;
        for world in [&here, &there] {
            world.edge.snapshots.install_nodes(vec![here.address.clone(), there.address.clone()]);
        }
        while !here.edge.dispatcher.reaches("there") {
            host.sleep(Duration::from_millis(2)).await;
        }
        Self { here, there, server }
    }

    async fn gone(&self) {
        let cancelled = async {
            self.server.open(0).await;
            self.here.quiet().await;
        };
        self.here.host.timeout(Duration::from_secs(1), cancelled).await.expect("cancelled within a second");
    }
}

fn catalog(there: &Server, here: &Server) -> Catalog {
    let mut catalog = fixtures::catalog();
    catalog.models.clear();
    let mut remote = fixtures::model("remote", &there.url);
    remote.replicas.iter_mut().for_each(|replica| replica.region = "there".parse().unwrap());
    for model in [remote, fixtures::model("near", &here.url)] {
        catalog.models.insert(model.name.clone(), model);
    }
    let models = vec!["remote".parse().unwrap(), "near".parse().unwrap()];
    let any = Group { name: "any".parse().unwrap(), models };
    catalog.groups.insert(any.name.clone(), any);
    catalog
}
