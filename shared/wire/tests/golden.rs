//! Golden bytes of level 1. A released encoding never changes: when one of these tests fails, add a new type or variant
//! beside the old one instead of editing it.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]

use std::fmt::Debug;

use base::{
    Amount, BudgetId, Code, Epoch, Era, Incarnation, KeyHash, NanoUsd, Price, PriceVersion, Priority, Rates,
    RequestId, Revision, Stamp, Tier, Tokens, Unit, UserHash, WallMs, WindowId,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::calendar::Zone;
use wire::call::{CallHead, Failure, Hop, ReplyHead, ServeAt, Tail};
use wire::catalog::{
    Action, App, Audio, Budget, Change, Dialect, Feature, Group, Key, Limits, Mode, Model, Object, ObjectId,
    Operation, Provider, ProviderKey, Replica, Route, Scope, Strategy, Target, Tenant, Threshold, Timeouts,
    Window,
};
use wire::control::{Health, Hello, MissingTokenizer, NodeAddr, Opening, ToCentral, ToEdge, Welcome};
use wire::ledger::{
    Charge, FinalReport, GrantRow, Grants, Outcome, Receipt, ReceiptBatch, ReceiptKind, Report, Usage,
    UsageRow, WindowState,
};
use wire::refusal::{Refusal, Said, Stood};

#[test]
fn missing_tokenizers() {
    let missing = MissingTokenizer {
        name: "qwen3".to_owned(),
        why: "it cannot be read".to_owned(),
        mend: "put it there".to_owned(),
    };
    golden("missing-tokenizers", &vec![missing]);
}

#[test]
fn dialects() {
    golden("dialects", &Dialect::ALL);
}

#[test]
fn openings() {
    golden("openings", &[Opening::Control, Opening::Call, Opening::Rpc]);
    golden("opening-status", &Opening::Status);
    golden("opening-usage", &Opening::Usage);
    golden("opening-refusal", &Opening::Refusal);
}

#[test]
fn refusals() {
    let said = Said { limit: Amount(1_000), spent: Amount(990), left: Amount(2), ms_before: 40 };
    let budget = Stood {
        account: BudgetId(7),
        name: "b".parse().unwrap(),
        needed: Amount(11),
        free: Amount(8),
        held: Amount(3),
        said: Some(said),
    };
    let refusal = Refusal {
        request: RequestId(1),
        at: WallMs::from_millis(5),
        tenant: "acme".parse().unwrap(),
        app: "chat".parse().unwrap(),
        key: "k1".parse().unwrap(),
        asked: Some("m".parse().unwrap()),
        code: Code::BudgetExceeded,
        told: "no".into(),
        limit: Some("key.streams".into()),
        budget: Some("b".parse().unwrap()),
        attached: true,
        budgets: vec![budget],
    };
    golden("refusal", &refusal);
}

#[test]
fn messages_to_central() {
    golden("to-central", &to_central());
}

#[test]
fn messages_to_edges() {
    golden("to-edge", &to_edge());
}

#[test]
fn calls() {
    golden("call-head", &call_head());
    golden(
        "reply-head",
        &ReplyHead {
            status: 200,
            headers: vec![("a".into(), b"b".to_vec())],
            provider_key: Some("team-a".parse().unwrap()),
        },
    );
    golden(
        "failure",
        &Failure {
            code: Code::ModelOverloaded,
            message: "busy".into(),
            upstream_status: Some(503),
            body: Some(b"{}".to_vec()),
            retry_after_ms: Some(300),
        },
    );
    golden("tail", &tail());
}

#[test]
fn objects() {
    golden("objects", &all_objects());
}

/// Compares with `golden/NAME.hex`, and decodes the golden bytes.
fn golden<T: Serialize + DeserializeOwned + PartialEq + Debug>(name: &str, message: &T) {
    let path = format!("{}/tests/golden/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    let bytes = wire::codec::encode(message).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = read(&path);
    assert_eq!(hex, expected.trim(), "the encoding of {name} changed");
    assert_eq!(&wire::codec::decode::<T>(&bytes).unwrap(), message);
}

#[expect(clippy::disallowed_methods, reason = "a test reads its golden file")]
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn stamp() -> Stamp {
    Stamp { era: Era(1), revision: Revision(300) }
}

fn to_central() -> Vec<ToCentral> {
    let row = UsageRow {
        budget: BudgetId(7),
        window: WindowId(1_700_000_000_000),
        spent: Amount(10),
        returned: Amount(2),
        want: Amount(100),
        waiting: Amount(5),
        number: 9,
        forgotten: false,
    };
    let hello = Hello {
        level: 1,
        build: "0.1.0".into(),
        boot: u64::MAX,
        resume: None,
        last: Some(Incarnation(4)),
        mesh: "127.0.0.1:7000".parse().unwrap(),
        have: Some((stamp(), Epoch(9))),
    };
    vec![
        ToCentral::Hello(hello),
        ToCentral::Report(Report { era: Era(1), incarnation: Incarnation(5), rows: vec![row] }),
        ToCentral::Receipts(ReceiptBatch {
            incarnation: Incarnation(5),
            first: 12,
            receipts: vec![receipt()],
        }),
        ToCentral::Final(FinalReport {
            incarnation: Incarnation(4),
            rows: vec![(BudgetId(7), WindowId(0), Amount(3))],
            receipts: 12,
        }),
        ToCentral::Applied { stamp: stamp(), epoch: Epoch(9) },
        ToCentral::Health(Health {
            in_flight: 3,
            draining: false,
            links: vec![("c1".parse().unwrap(), 30_000)],
        }),
        ToCentral::Bye,
    ]
}

fn to_edge() -> Vec<ToEdge> {
    let row = GrantRow {
        budget: BudgetId(7),
        window: WindowId(0),
        granted: Amount(50),
        heard: 8,
        heard_spent: Amount(12),
        heard_returned: Amount(3),
        state: WindowState::Open,
        keep: Some(Amount(1)),
        limit: Amount(1_000),
        spent: Amount(10),
        left: Amount(940),
        exhausted: false,
    };
    let node = NodeAddr {
        name: "edge-eu".parse().unwrap(),
        role: base::Role::Edge,
        region: "eu".parse().unwrap(),
        mesh: "[::1]:7000".parse().unwrap(),
    };
    vec![
        ToEdge::Welcome(Welcome { level: 1, era: Era(1), incarnation: Incarnation(5) }),
        ToEdge::Snapshot { stamp: stamp(), epoch: Epoch(9), objects: Vec::new() },
        ToEdge::Delta {
            stamp: stamp(),
            from: Epoch(8),
            epoch: Epoch(9),
            changes: vec![Change::Remove(ObjectId::Model("m".parse().unwrap()))],
        },
        ToEdge::Nodes { stamp: stamp(), nodes: vec![node] },
        ToEdge::Grants(Grants { era: Era(1), incarnation: Incarnation(5), rows: vec![row] }),
        ToEdge::ReceiptsApplied { incarnation: Incarnation(5), next: 13 },
        ToEdge::Closed { incarnation: Incarnation(4) },
        ToEdge::Current { stamp: stamp() },
        ToEdge::Superseded,
        ToEdge::Unavailable { why: "no leader".into() },
    ]
}

fn receipt() -> Receipt {
    Receipt {
        request: RequestId(1 << 100),
        kind: ReceiptKind::Call,
        at: WallMs::from_millis(1_700_000_000_123),
        tenant: "acme".parse().unwrap(),
        app: "chat".parse().unwrap(),
        key: "k1".parse().unwrap(),
        scenario: Some("support".parse().unwrap()),
        user: Some(UserHash(1 << 63 | 5)),
        model: Some("m".parse().unwrap()),
        operation: Some(Operation::Chat),
        region: "eu".parse().unwrap(),
        served_by: Some("peer:us".into()),
        provider: None,
        provider_key: Some("team-a".parse().unwrap()),
        attempts: 2,
        usage: usage(),
        estimated: false,
        price_from: Some(WallMs::from_millis(1_700_000_000_000)),
        cost: NanoUsd(1_234_567),
        outcome: Outcome::Cut,
        code: Some(Code::UpstreamCut),
        charges: vec![Charge {
            budget: BudgetId(7),
            window: WindowId(0),
            amount: Amount(9),
            overrun: Amount(1),
        }],
    }
}

fn usage() -> Usage {
    Usage {
        input: Tokens(100),
        cached_input: Tokens(20),
        cache_write: Tokens(10),
        audio_input: Tokens(5),
        output: Tokens(30),
        reasoning: Tokens(12),
        audio_output: Tokens(3),
        images: 2,
        busy_ms: 1_500,
    }
}

fn call_head() -> CallHead {
    CallHead {
        request: RequestId(1 << 100),
        attempt: 2,
        tenant: "acme".parse().unwrap(),
        key: "k1".parse().unwrap(),
        model: "m".parse().unwrap(),
        operation: Operation::Embeddings,
        serve_at: ServeAt::Provider,
        stream: true,
        hide_usage: true,
        timeouts: Timeouts::default(),
        place_ms: 20_000,
        headers: vec![("content-type".into(), b"application/json".to_vec())],
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
        tokens: 1_500,
        priority: Priority::Batch,
        weight: 3,
        dialect: Dialect::Gemini,
    }
}

fn tail() -> Tail {
    let hop = |result| Hop {
        node: "edge-eu".parse().unwrap(),
        upstream: "a".parse().unwrap(),
        key: Some("team-a".parse().unwrap()),
        result,
        connected_us: 10,
        first_byte_us: Some(2_000),
        total_us: 900_000,
    };
    Tail {
        outcome: Outcome::Complete,
        code: None,
        usage: Some(usage()),
        reached_upstream: true,
        hops: vec![hop(Err(Code::UpstreamUnreachable)), hop(Ok(200))],
    }
}

fn price() -> Price {
    let rates = Rates {
        input: NanoUsd(1),
        cached_input: Some(NanoUsd(2)),
        cache_write: Some(NanoUsd(3)),
        audio_input: Some(NanoUsd(4)),
        output: NanoUsd(5),
        reasoning: Some(NanoUsd(6)),
        audio_output: Some(NanoUsd(7)),
        image: NanoUsd(8),
        second: NanoUsd(9),
        call: NanoUsd(10),
    };
    let tiers = vec![Tier { above: Tokens(200_000), rates: Rates::default() }];
    let later = PriceVersion { from: WallMs::from_millis(1_700_000_000_000), rates, tiers };
    Price { versions: vec![PriceVersion::default(), later] }
}

fn model() -> Model {
    Model {
        name: "m".parse().unwrap(),
        upstream_model: Some("vendor/m".into()),
        dialect: Dialect::Openai,
        operations: vec![Operation::Chat, Operation::Embeddings],
        price: Some(price()),
        context: Some(Tokens(8_192)),
        output_cap: None,
        tokenizer: Some("cl100k_base".into()),
        image_tokens: Some(Tokens(1_445)),
        audio: Some(Audio { tokens_per_s: Some(10), least_kbps: Some(16), most_tokens: None }),
        file_tokens: Some(Tokens(9)),
        replicas: vec![Replica {
            name: "a".parse().unwrap(),
            region: "eu".parse().unwrap(),
            url: "http://127.0.0.1:1".into(),
            concurrency: Some(4),
            requests_per_s: None,
            requests_per_min: Some(60),
            tokens_per_min: Some(70_000),
        }],
        provider: Some("p".parse().unwrap()),
        timeouts: Timeouts::default(),
        limits: Limits { tokens_per_min: Some(90_000), ..Limits::default() },
    }
}

fn all_objects() -> Vec<Object> {
    let limits = Limits {
        requests_per_s: Some(10),
        concurrency: None,
        streams: Some(3),
        requests_per_min: Some(300),
        tokens_per_min: None,
        tokens_per_day: Some(5_000_000),
    };
    let budget = |scope, window, unit| {
        Object::Budget(Budget {
            id: BudgetId(7),
            name: "b".parse().unwrap(),
            scope,
            unit,
            window,
            zone: Zone::default(),
            limit: Amount(1_000),
            mode: Mode::Strict,
            thresholds: Vec::new(),
            horizon_ms: 60_000,
        })
    };
    vec![
        Object::Tenant(Tenant {
            name: "acme".parse().unwrap(),
            limits,
            max_stale_s: 86_400,
            weight: 3,
            priority: Priority::Interactive,
        }),
        Object::App(App {
            tenant: "acme".parse().unwrap(),
            name: "chat".parse().unwrap(),
            limits: Limits { concurrency: Some(2), ..Limits::default() },
        }),
        Object::Key(Key {
            name: "k1".parse().unwrap(),
            tenant: "acme".parse().unwrap(),
            app: "chat".parse().unwrap(),
            hash: KeyHash([0xab; 32]),
            limits: Limits::default(),
            models: Some(vec!["m".parse().unwrap()]),
            debug: true,
            revoked: false,
            priority: Priority::Batch,
        }),
        Object::Provider(Provider {
            name: "p".parse().unwrap(),
            dialect: Dialect::Openai,
            base_url: "https://api.example".into(),
            keys: vec![ProviderKey {
                name: "team-a".parse().unwrap(),
                weight: 3,
                concurrency: Some(50),
                requests_per_min: Some(500),
                tokens_per_min: Some(200_000),
            }],
        }),
        Object::Model(model()),
        Object::Group(Group { name: "g".parse().unwrap(), models: vec!["m".parse().unwrap()] }),
        Object::Route(Route {
            name: "r".parse().unwrap(),
            aliases: vec!["smart".parse().unwrap()],
            strategy: Strategy::Weighted,
            targets: vec![Target { model: "g".parse().unwrap(), weight: 3 }],
        }),
        budget(Scope::Tenant("acme".parse().unwrap()), Window::Hour, Unit::Requests),
        budget(Scope::App("acme".parse().unwrap(), "chat".parse().unwrap()), Window::Month, Unit::Tokens),
        budget(Scope::Key("k1".parse().unwrap()), Window::Total, Unit::NanoUsd),
        budget(
            Scope::Scenario("acme".parse().unwrap(), "support".parse().unwrap()),
            Window::Minute,
            Unit::InputTokens,
        ),
        budget(Scope::Model(None, "m".parse().unwrap()), Window::Rolling { seconds: 60 }, Unit::OutputTokens),
        budget(Scope::Provider("p".parse().unwrap()), Window::Day, Unit::NanoUsd),
        budget(Scope::EachUser("acme".parse().unwrap(), None), Window::Day, Unit::NanoUsd),
        soft_budget(),
    ]
}

fn soft_budget() -> Object {
    Object::Budget(Budget {
        id: BudgetId(8),
        name: "soft".parse().unwrap(),
        scope: Scope::Tenant("acme".parse().unwrap()),
        unit: Unit::NanoUsd,
        window: Window::Month,
        zone: Zone { name: "Europe/Berlin".into(), offsets: vec![(WallMs::from_millis(5), -3_600)] },
        limit: Amount(9),
        mode: Mode::Soft { overdraft: Amount(3) },
        thresholds: [
            Action::Warn,
            Action::Downgrade { output_cap: Some(Tokens(4)), cheapest: true },
            Action::Refuse,
            Action::Restrict { output_cap: None, cheapest: true, off: Feature::ALL.into() },
        ]
        .map(|action| Threshold {
            at_per_mille: 800,
            action,
            except_keys: vec!["k1".parse().unwrap()],
            except_tenants: vec!["acme".parse().unwrap()],
        })
        .into(),
        horizon_ms: 1,
    })
}
