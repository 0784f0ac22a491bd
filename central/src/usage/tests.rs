//! A node's store fed by its log.

use base::{Amount, Incarnation, Name, NanoUsd, NodeId, RequestId, Role, Tokens};
use central_core::{Command, Effect, Registration, Reply};
use mesh::{Credentials, Endpoint, Identity, pki};
use tempfile::TempDir;
use usage_store::{Question, Total};
use wire::control::{Hello, NodeAddr};
use wire::ledger::{Outcome, Receipt, ReceiptBatch, ReceiptKind};

use super::*;
use crate::consensus::Options;

pub(super) const LOOPBACK: std::net::SocketAddr =
    std::net::SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0));

pub(super) fn edge() -> Name {
    "edge".parse().unwrap()
}

fn receipt(n: u64) -> Receipt {
    Receipt {
        request: RequestId(u128::from(n) << 80 | 1),
        kind: ReceiptKind::Call,
        at: WallMs::from_millis(1_700_000_000_000 + n),
        tenant: format!("tenant-{}", n % 20).parse().unwrap(),
        app: "app".parse().unwrap(),
        key: format!("key-{}", n % 60).parse().unwrap(),
        scenario: None,
        user: None,
        model: Some("model".parse().unwrap()),
        operation: None,
        region: "eu".parse().unwrap(),
        served_by: None,
        provider: None,
        provider_key: None,
        attempts: 1,
        usage: wire::ledger::Usage { input: Tokens(5), ..wire::ledger::Usage::default() },
        estimated: false,
        price_from: None,
        cost: NanoUsd(n),
        outcome: Outcome::Complete,
        code: None,
        charges: vec![wire::ledger::Charge {
            budget: base::BudgetId(1),
            window: base::WindowId(0),
            amount: Amount(n),
            overrun: Amount(0),
        }],
    }
}

async fn feed(feed: &Feed, revision: u64, receipts: std::ops::Range<u64>) {
    let list = receipts.map(|n| (edge(), receipt(n))).collect();
    let effects = [Effect::Receipts(Arc::new(list))];
    feed.effects(Revision(revision), WallMs::from_millis(1), &effects).await;
}

async fn total(usage: &Usage) -> Total {
    let question = Question { limit: 1, ..Question::default() };
    let totals = usage.look(move |view| view.totals(&question)).await.unwrap();
    totals.groups.first().map(|group| group.total).unwrap_or_default()
}

#[tokio::test]
async fn what_was_reached_is_there_after_a_restart_and_what_was_jumped_over_is_missing() {
    let (host, dir) = (Host::real(), tempfile::tempdir().unwrap());
    let (usage, into, writing) = Usage::start(&host, dir.path(), Kept::default());
    feed(&into, 3, 0..10).await;
    usage.reach(Some(Revision(5))).await.unwrap();
    assert_eq!((usage.standing().head, total(&usage).await.calls), (Revision(5), 10));
    drop((writing, into, usage));

    let (usage, into, _writing) = Usage::start(&host, dir.path(), Kept::default());
    into.jumped(Revision(2));
    feed(&into, 3, 0..10).await;
    feed(&into, 6, 10..13).await;
    into.jumped(Revision(9));
    feed(&into, 11, 13..14).await;
    usage.reach(None).await.unwrap();
    let standing = usage.standing();
    assert_eq!(standing.head, Revision(11));
    assert_eq!(standing.missing, [Span::new(Revision(6), Revision(9))]);
    assert_eq!(total(&usage).await.calls, 14);
}

#[tokio::test]
async fn applying_waits_for_a_store_that_works_and_passes_one_that_does_not() {
    let (host, dir) = (Host::real(), tempfile::tempdir().unwrap());
    let away = dir.path().join("away");
    let (usage, into, _writing) = Usage::start(&host, &away, Kept::default());
    let mut standing = usage.standing.clone();
    standing.wait_for(|standing| standing.failing.is_some()).await.unwrap();
    feed(&into, 1, 0..MAX_WAITING as u64).await;
    assert_eq!(usage.waiting(), MAX_WAITING);
    assert!(matches!(usage.reach(None).await, Err(UsageError::Failing(_))));
    feed(&into, 2, 0..5).await;
    into.settled(Revision(2)).await;

    host.disk().create_dir_all(&away).await.unwrap();
    standing.wait_for(|standing| standing.failing.is_none()).await.unwrap();
    feed(&into, 3, 0..7).await;
    usage.reach(None).await.unwrap();
    assert_eq!(usage.standing().missing, [Span::new(Revision(0), Revision(2))]);
    assert_eq!((usage.waiting(), total(&usage).await.calls), (0, 7));
}

#[tokio::test]
async fn a_damaged_store_is_set_aside() {
    let (host, dir) = (Host::real(), tempfile::tempdir().unwrap());
    let damaged = bytes::Bytes::from(vec![7; 8_192]);
    seam::write_atomic(host.disk().as_ref(), &dir.path().join(FILE), damaged).await.unwrap();
    let (usage, into, _writing) = Usage::start(&host, dir.path(), Kept::default());
    into.jumped(Revision(4));
    feed(&into, 5, 0..3).await;
    let mut standing = usage.standing.clone();
    standing.wait_for(|standing| standing.head == Revision(5)).await.unwrap();
    assert_eq!(usage.standing().missing, [Span::new(Revision(0), Revision(4))]);
    assert_eq!(total(&usage).await.calls, 3);
    assert!(host.disk().list(dir.path()).await.unwrap().contains(&"usage.db.damaged".to_owned()));
}

pub(super) struct One {
    pub(super) host: Host,
    pub(super) dir: TempDir,
}

impl One {
    pub(super) async fn new() -> Self {
        let (host, dir) = (Host::real(), tempfile::tempdir().unwrap());
        let day = Duration::from_secs(24 * 3_600);
        let authority = pki::create_authority(&host, &"test".parse().unwrap(), day).unwrap();
        let who: Identity = "portolan://test/central/eu/c1".parse().unwrap();
        let issued = pki::issue(&host, &authority, &who, day).unwrap();
        let files =
            [("node.pem", issued.certificate), ("node.key", issued.key), ("ca.pem", authority.certificate)];
        for (file, text) in files {
            let path = dir.path().join(file);
            seam::write_atomic(host.disk().as_ref(), &path, text.into()).await.unwrap();
        }
        Self { host, dir }
    }

    /// A group of one, fed into a store.
    pub(super) async fn start(&self) -> (Consensus, Usage, Bound<()>) {
        let data = self.dir.path().join("data");
        self.host.disk().create_dir_all(&data).await.unwrap();
        let credentials = Credentials::load(&self.host, self.dir.path()).await.unwrap();
        let endpoint = Endpoint::bind(&self.host, LOOPBACK, credentials).unwrap();
        let (usage, feed, writing) = Usage::start(&self.host, &data, Kept::default());
        let addr = NodeAddr {
            name: "c1".parse().unwrap(),
            role: Role::Central,
            region: "eu".parse().unwrap(),
            mesh: endpoint.local_addr().unwrap(),
        };
        let options = Options {
            id: NodeId(1),
            dir: data,
            round_trip: Duration::from_millis(10),
            first_members: [(NodeId(1), addr)].into(),
            patience: Duration::from_secs(10),
            feed,
        };
        let (consensus, mut events) =
            Consensus::start(&self.host, options, &endpoint, State::default()).await.unwrap();
        drop(self.host.spawn("events", async move { while events.recv().await.is_some() {} }));
        (consensus, usage, writing)
    }
}

async fn register(consensus: &Consensus, edge: &Name) -> Incarnation {
    let hello = Hello {
        level: 1,
        build: "test".to_owned(),
        boot: 1,
        mesh: LOOPBACK,
        resume: None,
        last: None,
        have: None,
    };
    let who = Registration { edge: edge.clone(), region: "eu".parse().unwrap(), hello };
    match consensus.propose(Command::Register(who)).await.unwrap() {
        Reply::Registered(incarnation) => incarnation,
        other => panic!("{other:?}"),
    }
}

/// An edge's session: batches of `of_one` receipts, one after the other.
pub(super) async fn bill(consensus: Consensus, edge: Name, batches: u64, of_one: u64) {
    let incarnation = register(&consensus, &edge).await;
    for first in (0..batches).map(|batch| batch * of_one) {
        let receipts = (first..first + of_one).map(receipt).collect();
        let batch = ReceiptBatch { incarnation, first, receipts };
        consensus.propose(Command::Receipts { edge: edge.clone(), batch }).await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_holds_what_was_acknowledged_and_equals_the_state() {
    let one = One::new().await;
    let (consensus, usage, _writing) = one.start().await;
    bill(consensus.clone(), edge(), 50, 10).await;
    let question = Question { limit: 1, ..Question::default() };
    let told = usage.ask(&consensus, false, move |view| view.totals(&question)).await.unwrap();
    let state = consensus.read(|state| {
        let totals = state.usage().totals();
        totals.fold((0, 0), |sum, (_who, total)| (sum.0 + total.calls, sum.1 + total.cost.0))
    });
    let total = told.groups[0].total;
    assert_eq!((total.calls, total.cost), state);
    assert_eq!(total.calls, 500);
}
