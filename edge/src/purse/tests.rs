//! The purse on a real disk, with central played by the ledger in place.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{Amount, BudgetId, Era, Incarnation, Name, RequestId, Unit};
use bytes::Bytes;
use central_core::ledger::{Ledger, Registered};
use edge_core::wallet::Record;
use seam::{Bound, Boxed, Disk, DiskLock, File, Host, Open, Parts, Stopper};
use wire::calendar::Zone;
use wire::catalog::{Budget, Mode, Scope, Window};
use wire::control::Welcome;
use wire::ledger::Outcome;

use super::{Billed, Purse, Refusal, StorageError};
use crate::spool::tests::receipt;

const BUDGET: BudgetId = BudgetId(1);

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_its_first_credit_and_leaves_one_receipt() {
    let world = World::new(100).await;
    let (hold, ()) = tokio::join!(world.hold(10), world.exchange());
    let receipt = hold.unwrap().settle(receipt(1), &[(BUDGET, Amount(7))]);
    assert_eq!(receipt.charges[0].amount, Amount(7));
    world.settled().await;
    world.exchange().await;
    assert_eq!(world.row(), (Amount(7), true));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_hold_is_charged_in_full() {
    let world = World::new(100).await;
    let (hold, ()) = tokio::join!(world.hold(10), world.exchange());
    drop(hold.unwrap());
    world.settled().await;
    let batch = world.purse.batch(Incarnation(1), 0, 10).unwrap();
    assert_eq!(batch.receipts[0].outcome, Outcome::Lost);
    assert_eq!(batch.receipts[0].charges[0].amount, Amount(10));
    assert_eq!(world.purse.open_calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_the_queue_leaves_nothing_held() {
    let world = World::new(100).await;
    {
        let hold = world.hold(10);
        tokio::pin!(hold);
        assert!(futures_util::poll!(&mut hold).is_pending());
        world.exchange().await;
        // Decided in the meantime, and never looked at.
    }
    assert_eq!(world.purse.open_calls(), 0);
    assert!(world.purse.batch(Incarnation(1), 0, 10).is_none());
    world.host.sleep(Duration::from_secs(3)).await;
    world.exchange().await;
    let row = world.ledger.lock().check().remove(0);
    assert_eq!((row.outstanding, row.receipts), (Amount::ZERO, Amount::ZERO));
}

#[tokio::test(start_paused = true)]
async fn without_central_a_call_is_refused_within_a_second() {
    let world = World::new(100).await;
    let start = world.host.now();
    assert_eq!(world.hold(10).await.unwrap_err(), Refusal::Unavailable { budget: BUDGET });
    assert!(world.host.now().since(start) <= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_restart_without_central_spends_what_the_journal_proves_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::at(dir.path(), 100).await;
    let (hold, ()) = tokio::join!(world.hold(10), world.exchange());
    let hold = hold.unwrap();
    world.settled().await;
    let dead = world.purse.clone();
    // The process ends with the call in flight: what that cost may be anything up to the ceiling.
    let (host, ledger) = world.die().await;
    let ceiling = ceiling(&dead);

    let (purse, keeper) = Purse::open(&host, dir.path()).await.unwrap();
    let (stopper, stop) = Stopper::new();
    let keeping = host.spawn("keeper", keeper.run(stop)).bound();
    purse.install(&budgets(100));
    assert!(purse.adopt());
    let granted = ledger.lock().check().remove(0).granted;
    let rest = u64::try_from(granted).unwrap() - ceiling.0;
    let again = World { host: host.clone(), purse: purse.clone(), ledger, stopper, _keeping: keeping };
    if rest > 0 {
        drop(again.hold(rest).await.unwrap());
    }
    assert!(again.hold(1).await.is_err());
    drop(hold);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_stops_strict_calls_until_it_has_room_again() {
    let dir = tempfile::tempdir().unwrap();
    let (host, full) = small_host();
    let world = World::on(host, dir.path(), 100).await;
    let (hold, ()) = tokio::join!(world.hold(10), world.exchange());
    full.store(true, Ordering::Relaxed);
    // Its receipt claims the spool's first segment, for which there is no room.
    drop(hold.unwrap().settle(receipt(1), &[(BUDGET, Amount(7))]));
    world.settled().await;
    assert_eq!(world.hold(10).await.unwrap_err(), Refusal::StorageFull);
    let unbudgeted = world.purse.hold(RequestId(2), payer(), &[]).await;
    drop(unbudgeted.unwrap().settle(receipt(2), &[]));

    full.store(false, Ordering::Relaxed);
    world.host.sleep(Duration::from_millis(300)).await;
    world.settled().await;
    let (hold, ()) = tokio::join!(world.hold(10), world.exchange());
    drop(hold.unwrap().settle(receipt(3), &[(BUDGET, Amount(1))]));
    world.settled().await;
    world.exchange().await;
    assert_eq!(world.row(), (Amount(8), true), "what was spooled in memory meanwhile is not lost");
}

#[tokio::test(start_paused = true)]
async fn a_second_process_cannot_open_the_same_journal() {
    let dir = tempfile::tempdir().unwrap();
    let _world = World::at(dir.path(), 100).await;
    let second = Purse::open(&Host::real(), dir.path()).await.unwrap_err();
    assert!(matches!(second, StorageError::Wal(wal::WalError::Locked(_))), "{second}");
}

struct World {
    host: Host,
    purse: Purse,
    ledger: seam::Lock<Ledger>,
    stopper: Stopper,
    _keeping: Bound<Result<(), StorageError>>,
}

impl World {
    async fn new(limit: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::at(&dir.keep(), limit).await
    }

    async fn at(dir: &Path, limit: u64) -> Self {
        Self::on(Host::real(), dir, limit).await
    }

    async fn on(host: Host, dir: &Path, limit: u64) -> Self {
        let (purse, keeper) = Purse::open(&host, dir).await.unwrap();
        let (stopper, stop) = Stopper::new();
        let keeping = host.spawn("keeper", keeper.run(stop)).bound();
        let mut ledger = Ledger::default();
        for budget in budgets(limit).values() {
            ledger.set_budget(budget);
        }
        let registered = ledger.register(&edge(), 1, None, None);
        let Registered::Welcome { incarnation, .. } = registered else { panic!("{registered:?}") };
        purse.install(&budgets(limit));
        purse.welcome(&Welcome { level: 1, era: Era(0), incarnation });
        Self { host, purse, ledger: seam::Lock::new(ledger), stopper, _keeping: keeping }
    }

    async fn hold(&self, amount: u64) -> Result<super::Hold, Refusal> {
        self.purse.hold(RequestId(1), payer(), &[(BUDGET, Amount(amount))]).await
    }

    /// Several round trips with central.
    async fn exchange(&self) {
        for _round in 0..4 {
            self.host.sleep(Duration::from_millis(20)).await;
            self.settled().await;
            let Some(report) = self.purse.report() else { continue };
            let now = (self.host.wall(), central_core::LogMs::default());
            let grants = self.ledger.lock().report(now, &[(edge(), report)]);
            for (_edge, grants) in grants {
                self.purse.granted(&grants);
            }
            for (incarnation, from) in self.purse.unsent() {
                let Some(batch) = self.purse.batch(incarnation, from, 100) else { continue };
                let next = self.ledger.lock().receipts(&edge(), &batch).next;
                self.purse.applied(incarnation, next);
            }
        }
    }

    /// Waits for the disk.
    async fn settled(&self) {
        self.host.sleep(Duration::from_millis(10)).await;
        let path = tempfile::NamedTempFile::new().unwrap();
        self.host.disk().read(path.path()).await.unwrap();
        self.host.sleep(Duration::from_millis(10)).await;
    }

    fn row(&self) -> (Amount, bool) {
        let row = self.ledger.lock().check().remove(0);
        (row.receipts, row.balanced)
    }

    async fn die(self) -> (Host, seam::Lock<Ledger>) {
        let Self { host, ledger, stopper, _keeping: keeping, .. } = self;
        stopper.stop();
        keeping.await.unwrap().unwrap();
        (host, ledger)
    }
}

/// The highest ceiling in the journal.
fn ceiling(purse: &Purse) -> Amount {
    let image = purse.shared.state.lock().wallet.image();
    let ceilings = image.iter().filter_map(|record| match record {
        Record::Mark(mark) => Some(mark.ceiling),
        Record::Began(_) | Record::Over(_) | Record::Closed(_) => None,
    });
    ceilings.max().unwrap_or_default()
}

fn payer() -> Billed {
    Billed {
        tenant: "acme".parse().unwrap(),
        app: "app".parse().unwrap(),
        key: "key".parse().unwrap(),
        scenario: None,
        user: None,
        region: "eu".parse().unwrap(),
    }
}

/// A host whose disk has room for no new file while the switch is set.
fn small_host() -> (Host, Arc<AtomicBool>) {
    let real = Host::real();
    let full = Arc::new(AtomicBool::new(false));
    let disk = Arc::new(SmallDisk { disk: Arc::clone(real.disk()), full: Arc::clone(&full) });
    (Host::from_parts(Parts { disk, ..real.parts().clone() }), full)
}

#[derive(Debug)]
struct SmallDisk {
    disk: Arc<dyn Disk>,
    full: Arc<AtomicBool>,
}

impl Disk for SmallDisk {
    fn open<'a>(&'a self, path: &'a Path, how: Open) -> Boxed<'a, io::Result<Box<dyn File>>> {
        if how == Open::Create && self.full.load(Ordering::Relaxed) {
            return Box::pin(async { Err(io::ErrorKind::StorageFull.into()) });
        }
        self.disk.open(path, how)
    }

    fn read<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<Bytes>> {
        self.disk.read(path)
    }

    fn list<'a>(&'a self, dir: &'a Path) -> Boxed<'a, io::Result<Vec<String>>> {
        self.disk.list(dir)
    }

    fn create_dir_all<'a>(&'a self, dir: &'a Path) -> Boxed<'a, io::Result<()>> {
        self.disk.create_dir_all(dir)
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> Boxed<'a, io::Result<()>> {
        self.disk.rename(from, to)
    }

    fn remove<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<()>> {
        self.disk.remove(path)
    }

    fn sync_dir<'a>(&'a self, dir: &'a Path) -> Boxed<'a, io::Result<()>> {
        self.disk.sync_dir(dir)
    }

    fn lock<'a>(&'a self, path: &'a Path) -> Boxed<'a, io::Result<Box<dyn DiskLock>>> {
        self.disk.lock(path)
    }
}

fn edge() -> Name {
    "edge-1".parse().unwrap()
}

fn budgets(limit: u64) -> BTreeMap<Name, Budget> {
    let name: Name = "daily".parse().unwrap();
    let budget = Budget {
        id: BUDGET,
        name: name.clone(),
        scope: Scope::Key("key".parse().unwrap()),
        unit: Unit::Requests,
        window: Window::Total,
        zone: Zone::default(),
        limit: Amount(limit),
        mode: Mode::Strict,
        thresholds: Vec::new(),
        horizon_ms: 60_000,
    };
    [(name, budget)].into()
}
