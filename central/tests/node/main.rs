//! One central node over loopback, as edges and operators meet it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly, as tests do")]

mod world;

use std::time::Duration;

use base::{Amount, Epoch, WindowId};
use central::admin::api;
use http::{Method, StatusCode};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use wire::catalog::{Change, Object};
use wire::control::{ToCentral, ToEdge};
use wire::ledger::{Report, UsageRow};
use world::{EdgeSession, World};

const FILE: &str = "
tenants: [{name: acme}]
apps: [{tenant: acme, name: chat}]
keys: [{name: k, tenant: acme, app: chat, secret: sk-0123456789abcdef0123456789}]
providers: [{name: p, base_url: 'http://127.0.0.1:9', credential: sk-provider}]
models: [{name: m, price: {input: 1, output: 2}, provider: p}]
budgets: [{name: b, tenant: acme, unit: tokens, window: total, limit: 1000}]
";

fn files(text: &str) -> serde_json::Value {
    json!({ "files": [{ "name": "mesh.yaml", "text": text }], "note": "a test" })
}

#[tokio::test]
async fn a_change_is_planned_applied_pushed_and_rolled_back() {
    let world = World::start().await;
    let mut edge = world.edge("e1", 1, None).await;
    let ToEdge::Welcome(welcome) = edge.next().await else { panic!() };
    assert_eq!(welcome.incarnation.0, 1);
    let ToEdge::Snapshot { epoch, objects, .. } = edge.next().await else { panic!() };
    assert_eq!((epoch, objects.len()), (Epoch(0), 0));
    let nodes = edge.until(|message| matches!(message, ToEdge::Nodes { .. })).await;
    assert!(matches!(nodes, ToEdge::Nodes { nodes, .. } if nodes.len() == 2));

    let planned: api::Planned = world.ask(Method::POST, "/v1/plan", files(FILE)).await.unwrap();
    assert!(planned.faults.is_empty(), "{:?}", planned.faults);
    assert!(planned.text.ends_with("6 to add, 0 to change, 0 to remove, on epoch 0.\n"), "{}", planned.text);
    let applied: api::Changed = world.ask(Method::POST, "/v1/apply", files(FILE)).await.unwrap();
    assert_eq!((applied.epoch, applied.changed), (Epoch(1), true));
    let started = world.host.now();
    let ToEdge::Delta { from, epoch, changes, .. } = edge.until(is_delta).await else { panic!() };
    assert!(world.host.now().since(started) < Duration::from_secs(1));
    assert_eq!((from, epoch, changes.len()), (Epoch(0), Epoch(1), 6));
    let again: api::Changed = world.ask(Method::POST, "/v1/apply", files(FILE)).await.unwrap();
    assert_eq!((again.epoch, again.changed), (Epoch(1), false), "{}", again.text);

    let revoked: api::Changed = world.ask(Method::POST, "/v1/keys/k/revoke", json!(null)).await.unwrap();
    assert_eq!(revoked.epoch, Epoch(2));
    let ToEdge::Delta { changes, .. } = edge.until(is_delta).await else { panic!() };
    assert!(matches!(&changes[..], [Change::Put(Object::Key(key))] if key.revoked));

    let (status, problem) = world.refused(Method::POST, "/v1/rollback", json!({ "to": 7 })).await;
    assert_eq!((status, problem.code.as_str()), (StatusCode::NOT_FOUND, "not_found"));
    let back: api::Changed = world.ask(Method::POST, "/v1/rollback", json!({ "to": 0 })).await.unwrap();
    assert_eq!(back.epoch, Epoch(3));
    let epochs: Vec<api::EpochRow> = world.ask(Method::GET, "/v1/epochs", json!(null)).await.unwrap();
    let told: Vec<_> = epochs.iter().map(|row| (row.epoch.0, row.by.as_str(), row.note.as_str())).collect();
    let expected = [(3, "op", "rollback to epoch 0"), (2, "op", "revoke key k"), (1, "op", "a test")];
    assert_eq!(told, expected);
    world.stop().await;
}

#[tokio::test]
async fn what_cannot_be_applied_changes_nothing_and_says_where() {
    let world = World::start().await;
    let text = "tenants: [{name: acme, limt: 3}]\nmodels:\n  - {name: m, provider: gone}\n";
    let (status, problem) = world.refused(Method::POST, "/v1/apply", files(text)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(problem.faults.len(), 1);
    assert_eq!((problem.faults[0].line, problem.faults[0].column), (1, 24), "{:?}", problem.faults);
    let (status, problem) =
        world.refused(Method::POST, "/v1/apply", files("models: [{name: m, provider: gone}]")).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(problem.faults[0].to_string().contains("no provider \"gone\""), "{:?}", problem.faults);
    let mut stale = files(FILE);
    stale["base"] = json!(5);
    let (status, _problem) = world.refused(Method::POST, "/v1/apply", stale).await;
    assert_eq!(status, StatusCode::CONFLICT);
    for (method, path, body, expected) in [
        (Method::POST, "/v1/apply", json!({ "fils": [] }), StatusCode::BAD_REQUEST),
        (Method::GET, "/v1/nowhere", json!(null), StatusCode::NOT_FOUND),
        (Method::DELETE, "/v1/status", json!(null), StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "/v1/keys/none/revoke", json!(null), StatusCode::NOT_FOUND),
        (Method::DELETE, "/v1/members/1", json!(null), StatusCode::CONFLICT),
        (Method::POST, "/v1/keys/%ff/revoke", json!(null), StatusCode::BAD_REQUEST),
        (Method::DELETE, "/v1/members/one", json!(null), StatusCode::BAD_REQUEST),
        (Method::POST, "/v1/plan", json!("x".repeat(17 << 20)), StatusCode::PAYLOAD_TOO_LARGE),
        (Method::POST, "/v1/level", json!({ "to": 99 }), StatusCode::CONFLICT),
    ] {
        let (status, problem) = world.refused(method, path, body).await;
        assert_eq!(status, expected, "{path}: {problem:?}");
    }
    let catalog: api::Catalog = world.ask(Method::GET, "/v1/catalog", json!(null)).await.unwrap();
    assert_eq!((catalog.epoch, catalog.catalog), (Epoch(0), json!({})));
    world.stop().await;
}

#[tokio::test]
async fn only_operators_come_in() {
    let world = World::start().await;
    for stranger in ["edge/eu/e1", "central/eu/c2"] {
        // TLS 1.3 lets the client finish first; the refusal comes with the first answer.
        let mut stream = world.connect_admin(stranger).await.unwrap();
        let refused = stream.read_u8().await.unwrap_err().to_string();
        assert!(refused.contains("alert"), "{stranger}: {refused}");
    }
    world.stop().await;
}

#[tokio::test]
async fn the_newest_process_of_an_edge_wins_and_credit_comes_by_grant() {
    let world = World::start().await;
    let _applied: api::Changed = world.ask(Method::POST, "/v1/apply", files(FILE)).await.unwrap();
    let mut old = world.edge("e1", 1, None).await;
    old.until(|message| matches!(message, ToEdge::Current { .. })).await;
    let mut new = world.edge("e1", 2, None).await;
    let last = old.until(|message| matches!(message, ToEdge::Superseded)).await;
    assert_eq!(last, ToEdge::Superseded);
    assert!(old.ended().await);
    let ToEdge::Welcome(welcome) = new.next().await else { panic!() };
    let ToEdge::Snapshot { objects, .. } = new.next().await else { panic!() };
    let budget = objects.iter().find_map(|object| match object {
        Object::Budget(budget) => Some(budget.id),
        _other => None,
    });
    let row = UsageRow {
        budget: budget.unwrap(),
        window: WindowId(0),
        spent: Amount(0),
        returned: Amount(0),
        want: Amount(10),
        waiting: Amount(10),
        number: 0,
        forgotten: false,
    };
    let report = Report { era: welcome.era, incarnation: welcome.incarnation, rows: vec![row] };
    new.say(&ToCentral::Report(report)).await;
    let ToEdge::Grants(grants) = new.until(|message| matches!(message, ToEdge::Grants(_))).await else {
        panic!()
    };
    assert!(grants.rows[0].granted >= Amount(10), "{grants:?}");
    let ledger: api::Ledger = world.ask(Method::GET, "/v1/ledger", json!(null)).await.unwrap();
    assert!(ledger.balanced && ledger.rows[0].outstanding >= Amount(10), "{ledger:?}");
    let status: api::Status = world.ask(Method::GET, "/v1/status", json!(null)).await.unwrap();
    assert_eq!(status.leader.unwrap().as_str(), "c1");
    assert_eq!(status.edges[0].attached_to.as_ref().unwrap().as_str(), "c1");
    world.stop().await;
}

#[tokio::test]
async fn a_restarted_node_knows_what_it_acknowledged_and_an_edge_gets_only_what_is_new() {
    let world = World::start().await;
    let _applied: api::Changed = world.ask(Method::POST, "/v1/apply", files(FILE)).await.unwrap();
    let mut edge = world.edge("e1", 1, None).await;
    let ToEdge::Snapshot { stamp, epoch, .. } =
        edge.until(|message| matches!(message, ToEdge::Snapshot { .. })).await
    else {
        panic!()
    };
    let world = world.restart().await;
    let catalog: api::Catalog = world.ask(Method::GET, "/v1/catalog", json!(null)).await.unwrap();
    assert_eq!((catalog.epoch, catalog.credentials.len()), (Epoch(1), 1));
    let mut edge: EdgeSession = world.edge("e1", 1, Some((stamp, epoch))).await;
    assert!(matches!(edge.next().await, ToEdge::Welcome(_)));
    assert!(matches!(edge.next().await, ToEdge::Nodes { .. }));
    assert!(matches!(edge.next().await, ToEdge::Current { .. }));
    world.stop().await;
}

fn is_delta(message: &ToEdge) -> bool {
    matches!(message, ToEdge::Delta { .. })
}
