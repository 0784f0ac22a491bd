//! Receipts per second through one node's log and into its usage store: sessions of edges that send batch after batch, until all
//! is on the disk. Prints the best and the worst of five rounds, each in a new node.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a benchmark: it stops when it cannot set up, and says what it found"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use base::{Amount, Incarnation, Name, NanoUsd, NodeId, RequestId, Role, Tokens, WallMs};
use central::consensus::{Consensus, Options};
use central::usage::{Kept, Usage};
use central_core::{Command, Registration, Reply, State};
use mesh::{Credentials, Endpoint, Identity, pki};
use seam::Host;
use wire::control::{Hello, NodeAddr};
use wire::ledger::{Charge, Outcome, Receipt, ReceiptBatch, ReceiptKind, Usage as Used};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const ROUNDS: usize = 5;
const EDGES: u64 = 16;
const BATCHES: u64 = 250;
const OF_ONE: u64 = 256;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let rates: Vec<f64> = (0..ROUNDS).map(|_round| runtime.block_on(round())).collect();
    let [worst, best] = [f64::min, f64::max].map(|of| rates.iter().copied().reduce(of).unwrap());
    println!("receipts through one node's log and store: {worst:.0} to {best:.0} a second");
}

async fn round() -> f64 {
    let (host, dir) = (Host::real(), tempfile::tempdir().unwrap());
    let endpoint = endpoint(&host, dir.path()).await;
    let data = dir.path().join("data");
    host.disk().create_dir_all(&data).await.unwrap();
    let (usage, feed, _writing) = Usage::start(&host, &data, Kept::default());
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
        Consensus::start(&host, options, &endpoint, State::default()).await.unwrap();
    drop(host.spawn("events", async move { while events.recv().await.is_some() {} }));
    let began = host.now();
    let sessions: Vec<_> = (0..EDGES)
        .map(|n| host.spawn("edge", session(consensus.clone(), format!("edge-{n}").parse().unwrap())))
        .collect();
    for session in sessions {
        session.await.unwrap();
    }
    usage.reach(None).await.unwrap();
    let took = host.now().since(began).as_secs_f64();
    let calls: u64 = consensus.read(|state| state.usage().totals().map(|(_who, total)| total.calls).sum());
    assert_eq!(calls, EDGES * BATCHES * OF_ONE, "each receipt counts once");
    consensus.shutdown().await;
    f64::from(u32::try_from(calls).unwrap()) / took
}

async fn endpoint(host: &Host, dir: &Path) -> Endpoint {
    let day = Duration::from_secs(24 * 3_600);
    let authority = pki::create_authority(host, &"bench".parse().unwrap(), day).unwrap();
    let who: Identity = "portolan://bench/central/eu/c1".parse().unwrap();
    let issued = pki::issue(host, &authority, &who, day).unwrap();
    let files =
        [("node.pem", issued.certificate), ("node.key", issued.key), ("ca.pem", authority.certificate)];
    for (file, text) in files {
        seam::write_atomic(host.disk().as_ref(), &dir.join(file), text.into()).await.unwrap();
    }
    Endpoint::bind(host, LOOPBACK, Credentials::load(host, dir).await.unwrap()).unwrap()
}

/// An edge's session: one batch after the other.
async fn session(consensus: Consensus, edge: Name) {
    let incarnation = register(&consensus, &edge).await;
    for first in (0..BATCHES).map(|batch| batch * OF_ONE) {
        let receipts = (first..first + OF_ONE).map(receipt).collect();
        let batch = ReceiptBatch { incarnation, first, receipts };
        consensus.propose(Command::Receipts { edge: edge.clone(), batch }).await.unwrap();
    }
}

async fn register(consensus: &Consensus, edge: &Name) -> Incarnation {
    let hello = Hello {
        level: 1,
        build: "bench".to_owned(),
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
        usage: Used { input: Tokens(5), ..Used::default() },
        estimated: false,
        price_from: None,
        cost: NanoUsd(n),
        outcome: Outcome::Complete,
        code: None,
        charges: vec![Charge {
            budget: base::BudgetId(1),
            window: base::WindowId(0),
            amount: Amount(n),
            overrun: Amount(0),
        }],
    }
}
