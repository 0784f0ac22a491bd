//! Sessions against central's real state, one entry per message, with a network that forgets on demand.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use base::{Amount, BudgetId, Epoch, Name, Priority, RequestId, Revision, TenantName, Unit, WallMs};
use central_core::ledger::LedgerRow;
use central_core::{CatalogChange, Command, Effect, Entry, LogMs, Registration, State};
use seam::{Bound, Host, Stopper};
use wire::calendar::Zone;
use wire::catalog::{Budget, Change, Limits, Mode, Object, Scope, Tenant, Window};
use wire::control::{ToCentral, ToEdge};

use super::saved;
use super::session::{Session, Step};
use crate::counting::Counting;
use crate::purse::{Billed, Hold, Purse, Refusal, StorageError};
use crate::snapshot::Snapshots;
use crate::spool::tests::receipt;

#[tokio::test(start_paused = true)]
async fn a_session_brings_configuration_and_credit_and_takes_receipts_until_the_edge_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let mut central = Central::new(100);
    let edge = Edge::start(dir.path()).await;
    central.attach(&edge);
    central.talk(&edge, 2).await;
    assert_eq!(edge.session.snapshots().load().epoch(), Epoch(1));
    let budget = central.budget();
    central.serve(&edge, budget, 10, 7).await;
    edge.session.leave();
    central.talk(&edge, 12).await;
    assert!(edge.session.has_left());
    let row = central.row();
    assert_eq!((row.receipts, row.crash, row.outstanding), (Amount(7), Amount(0), Amount(0)));
}

#[tokio::test(start_paused = true)]
async fn what_a_failing_leader_forgets_is_told_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut central = Central::new(100);
    let edge = Edge::start(dir.path()).await;
    central.attach(&edge);
    central.talk(&edge, 2).await;
    let budget = central.budget();
    central.serve(&edge, budget, 10, 7).await;
    central.deaf = true;
    central.talk(&edge, 16).await;
    central.deaf = false;
    central.talk(&edge, 20).await;
    let row = central.row();
    assert_eq!((row.receipts, row.outstanding), (Amount(7), Amount(0)), "idle credit came back: {row:?}");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_edge_settles_its_former_life_and_the_older_process_must_stop() {
    let dir = tempfile::tempdir().unwrap();
    let mut central = Central::new(100);
    let first = Edge::start(dir.path()).await;
    central.attach(&first);
    central.talk(&first, 2).await;
    let budget = central.budget();
    central.serve(&first, budget, 10, 7).await;
    let in_flight = central.hold(&first, budget, 10).await.unwrap();
    first.stop().await;

    let second = Edge::start(dir.path()).await;
    central.attach(&second);
    assert!(central.superseded);
    central.talk(&second, 12).await;
    let row = central.row();
    assert_eq!(
        (row.receipts, row.crash, row.outstanding, row.orphaned),
        (Amount(7), Amount(10), Amount(0), Amount(0))
    );
    drop(in_flight);
}

#[tokio::test(start_paused = true)]
async fn an_edge_without_central_starts_from_disk_and_spends_what_its_journal_proves() {
    let dir = tempfile::tempdir().unwrap();
    let mut central = Central::new(100);
    let first = Edge::start(dir.path()).await;
    central.attach(&first);
    central.talk(&first, 2).await;
    let budget = central.budget();
    first.save(dir.path()).await;
    central.talk(&first, 1).await;
    central.serve(&first, budget, 20, 3).await;
    first.stop().await;
    let granted = u64::try_from(central.row().granted - central.row().returned).unwrap();

    let alone = Edge::start(dir.path()).await;
    assert_eq!(alone.session.snapshots().load().epoch(), Epoch(1));
    assert!(alone.session.take_up_journal());
    let left = granted - 3;
    assert!(left > 0, "the test needs credit left over");
    let hold = alone.hold(budget, left).await.unwrap();
    assert!(alone.hold(budget, 1).await.is_err());
    drop(hold.settle(receipt(9), &[(budget, Amount(1))]));
    central.attach(&alone);
    central.talk(&alone, 12).await;
    let row = central.row();
    assert_eq!((row.receipts, row.crash, row.outstanding), (Amount(4), Amount(0), Amount(0)), "{row:?}");
}

/// One central node in one piece: what it is told is committed at once.
struct Central {
    state: State,
    revision: u64,
    /// Nothing that it is told arrives.
    deaf: bool,
    superseded: bool,
}

impl Central {
    fn new(limit: u64) -> Self {
        let mut central = Self { state: State::default(), revision: 0, deaf: false, superseded: false };
        let tenant: TenantName = "acme".parse().unwrap();
        let objects = [
            Object::Tenant(Tenant {
                name: tenant.clone(),
                limits: Limits::default(),
                max_stale_s: 3_600,
                weight: 1,
                priority: Priority::Interactive,
            }),
            Object::Budget(Budget {
                id: BudgetId(0),
                name: "all".parse().unwrap(),
                scope: Scope::Tenant(tenant),
                unit: Unit::Requests,
                window: Window::Total,
                zone: Zone::default(),
                limit: Amount(limit),
                mode: Mode::Strict,
                thresholds: Vec::new(),
                horizon_ms: 60_000,
            }),
        ];
        let change = CatalogChange {
            base: Epoch(0),
            changes: objects.into_iter().map(Change::Put).collect(),
            credentials: Vec::new(),
            by: "test".to_owned(),
            note: String::new(),
        };
        central.commit(Command::ChangeCatalog(change), WallMs::from_millis(1));
        assert_eq!(central.state.epoch(), Epoch(1));
        central
    }

    fn commit(&mut self, command: Command, at: WallMs) -> Vec<Effect> {
        self.revision += 1;
        self.state
            .apply(Revision(self.revision), &Entry { at, clock: LogMs(at.as_millis()), command })
            .effects
    }

    fn attach(&mut self, edge: &Edge) {
        let hello = edge.session.hello();
        let registration = Registration { edge: name(), region: "eu".parse().unwrap(), hello };
        let effects = self.commit(Command::Register(registration), edge.host.wall());
        self.tell(edge, effects);
        let (stamp, epoch) = (self.state.catalog_stamp(), self.state.epoch());
        let objects = self.state.catalog().objects().collect();
        let step = edge.session.incoming(ToEdge::Snapshot { stamp, epoch, objects });
        assert_eq!(step, Ok(Step::On));
    }

    /// Lets time pass and both ends speak, `rounds` quarters of a second.
    async fn talk(&mut self, edge: &Edge, rounds: usize) {
        for _round in 0..rounds * 5 {
            edge.host.sleep(Duration::from_millis(50)).await;
            edge.disk().await;
            if !edge.session.is_welcomed() {
                continue;
            }
            for message in edge.session.outgoing() {
                self.hear(edge, message);
            }
        }
    }

    fn hear(&mut self, edge: &Edge, message: ToCentral) {
        let command = match message {
            ToCentral::Report(report) => Command::Reports(vec![(name(), report)]),
            ToCentral::Receipts(batch) => Command::Receipts { edge: name(), batch },
            ToCentral::Final(report) => Command::Final { edge: name(), report },
            #[cfg(feature = "next-level")]
            ToCentral::HealthNext { .. } => return,
            ToCentral::Hello(_) | ToCentral::Applied { .. } | ToCentral::Health(_) | ToCentral::Bye => return,
        };
        if !self.deaf {
            let effects = self.commit(command, edge.host.wall());
            self.tell(edge, effects);
        }
    }

    fn tell(&mut self, edge: &Edge, effects: Vec<Effect>) {
        for effect in effects {
            let message = match effect {
                Effect::Welcome { welcome, .. } => ToEdge::Welcome(welcome),
                Effect::Grants { grants, .. } => ToEdge::Grants(grants),
                Effect::ReceiptsApplied { incarnation, next, .. } => {
                    ToEdge::ReceiptsApplied { incarnation, next }
                }
                Effect::Closed { incarnation, .. } => ToEdge::Closed { incarnation },
                Effect::Superseded { .. } => {
                    self.superseded = true;
                    continue;
                }
                _not_for_this_edge => continue,
            };
            assert_eq!(edge.session.incoming(message), Ok(Step::On));
        }
    }

    async fn hold(&mut self, edge: &Edge, budget: BudgetId, amount: u64) -> Result<Hold, Refusal> {
        let (hold, ()) = tokio::join!(edge.hold(budget, amount), self.talk(edge, 1));
        hold
    }

    async fn serve(&mut self, edge: &Edge, budget: BudgetId, hold: u64, cost: u64) {
        let hold = self.hold(edge, budget, hold).await.unwrap();
        drop(hold.settle(receipt(1), &[(budget, Amount(cost))]));
        self.talk(edge, 1).await;
    }

    fn budget(&self) -> BudgetId {
        self.state.catalog().budgets.values().next().unwrap().id
    }

    fn row(&self) -> LedgerRow {
        let row = self.state.ledger().check().remove(0);
        assert!(row.balanced, "{row:?}");
        row
    }
}

struct Edge {
    host: Host,
    purse: Purse,
    session: Session,
    stopper: Stopper,
    keeping: Bound<Result<(), StorageError>>,
}

impl Edge {
    async fn start(data: &Path) -> Self {
        let host = Host::real();
        let (purse, keeper) = Purse::open(&host, data).await.unwrap();
        let (stopper, stop) = Stopper::new();
        let keeping = host.spawn("keeper", keeper.run(stop)).bound();
        let snapshots = Snapshots::new("eu".parse().unwrap());
        saved::restore(&host, &data.join("snapshot"), &snapshots, &purse).await;
        let advertise: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let told = (snapshots, purse.clone(), Counting::new());
        let session = Session::new(&host, advertise, stopper.watch(), told);
        Self { host, purse, session, stopper, keeping }
    }

    async fn hold(&self, budget: BudgetId, amount: u64) -> Result<Hold, Refusal> {
        let payer = Billed {
            tenant: "acme".parse().unwrap(),
            app: "app".parse().unwrap(),
            key: "key".parse().unwrap(),
            scenario: None,
            user: None,
            region: "eu".parse().unwrap(),
        };
        self.purse.hold(RequestId(1), payer, &[(budget, Amount(amount))]).await
    }

    /// Lets the disk catch up; the paused clock waits for it.
    async fn disk(&self) {
        for _write in 0..3 {
            drop(self.host.disk().list(Path::new("/")).await);
            tokio::task::yield_now().await;
        }
    }

    async fn save(&self, data: &Path) {
        let keeping = saved::keep(&self.host, &data.join("snapshot"), self.session.snapshots());
        self.session.snapshots().install_nodes(Vec::new());
        assert!(self.host.timeout(Duration::from_secs(70), keeping).await.is_err());
    }

    /// The process ends; calls in flight are unknown for ever.
    async fn stop(self) {
        self.session.ended();
        self.stopper.stop();
        self.keeping.await.unwrap().unwrap();
    }
}

fn name() -> Name {
    "edge-1".parse().unwrap()
}
