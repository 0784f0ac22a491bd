//! The write-ahead log on the disk model: what was acknowledged survives power losses at any instant, torn pages and
//! kills included.

#![cfg(test)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seam::{Host, Lock};
use simulations::engine::{Machine, Options, PowerLoss, Random, World, run};
use wal::{Record, Wal};

const SEEDS: u64 = 150;
const ROUNDS: u64 = 6;
const LAYOUT: wal::Options = wal::Options { segment_bytes: 16 * 1024, max_record: 2000 };

#[test]
fn acknowledged_records_survive_power_losses_and_kills_at_any_instant() {
    let mut acknowledged = 0;
    for seed in 0..SEEDS {
        let report = run(&Options::seed(seed), move |world| survive(world, seed)).unwrap();
        acknowledged += report.value;
    }
    assert!(acknowledged > 100 * SEEDS, "{acknowledged} records were acknowledged");
}

/// The test of the test: with syncs that make nothing durable the check has to fail.
#[test]
fn a_lying_disk_is_caught_losing_what_was_acknowledged() {
    let caught = run(&Options::seed(1), |world| async move {
        let machine = world.machine("machine");
        machine.disk_faults(|faults| faults.lies = true);
        let history = Arc::new(Lock::new(History::default()));
        live(&world, &machine, &history, Duration::from_millis(50)).await;
        machine.power_off(PowerLoss::Unsynced);
        match open(&machine.start()).await {
            Ok((_, found)) => history.lock().check(&found).is_err(),
            Err(_) => true,
        }
    });
    assert!(caught.unwrap().value);
}

/// Writes, loses power or is killed, and opens again, over and over. Gives the records acknowledged.
async fn survive(world: World, seed: u64) -> u64 {
    let machine = world.machine("machine");
    machine.disk_faults(|faults| faults.sync_jitter = Duration::from_millis(3));
    let mut random = world.random("rounds");
    let history = Arc::new(Lock::new(History::default()));
    for round in 0..ROUNDS {
        let time = Duration::from_millis(random.below(40));
        live(&world, &machine, &history, time).await;
        match random.below(3) {
            0 => machine.crash(),
            1 => machine.power_off(PowerLoss::Unsynced),
            _ => machine.power_off(PowerLoss::Torn),
        }
        let opened = open(&machine.start()).await;
        let (_, found) = opened.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
        let mut history = history.lock();
        history.check(&found).unwrap_or_else(|why| panic!("seed {seed}, round {round}: {why}"));
        history.settle(&found);
    }
    history.lock().acknowledged
}

/// Opens the log and appends and purges for a while.
async fn live(world: &World, machine: &Machine, history: &Arc<Lock<History>>, time: Duration) {
    let host = machine.start();
    let random = world.random(&format!("appends at {:?}", world.now()));
    drop(host.spawn("appends", append(host.clone(), Arc::clone(history), random)));
    world.sleep(time).await;
}

async fn append(host: Host, history: Arc<Lock<History>>, mut random: Random) {
    let (wal, _) = open(&host).await.unwrap();
    loop {
        for _ in 0..random.below(20) {
            let value = history.lock().next_value();
            let ticket = wal.append(1, payload(value, &mut random)).unwrap();
            let history = Arc::clone(&history);
            drop(host.spawn("ticket", async move {
                let seq = ticket.await.unwrap();
                history.lock().acknowledge(value, seq);
            }));
        }
        if random.chance(100_000) {
            let (value, seq) = history.lock().purge();
            let purged = wal.purge_before(seq, Vec::new()).unwrap();
            purged.await.unwrap();
            history.lock().purged = value;
        }
        host.sleep(Duration::from_millis(random.below(4))).await;
    }
}

async fn open(host: &Host) -> Result<(Wal, Vec<Record>), wal::WalError> {
    Wal::open(host, Path::new("/log"), LAYOUT).await
}

fn payload(value: u64, random: &mut Random) -> Bytes {
    let mut payload = vec![0; 8 + usize::try_from(random.below(1500)).unwrap()];
    random.fill(&mut payload);
    payload[..8].copy_from_slice(&value.to_le_bytes());
    payload.into()
}

/// What was appended, numbered from 1 without gaps, and what the log promised of it.
#[derive(Debug, Default)]
struct History {
    appended: u64,
    acknowledged: u64,
    acknowledged_seq: u64,
    /// Values below are purged, for certain and perhaps.
    purged: u64,
    purging: u64,
}

impl History {
    const fn next_value(&mut self) -> u64 {
        self.appended += 1;
        self.appended
    }

    fn acknowledge(&mut self, value: u64, seq: u64) {
        assert_eq!(value, self.acknowledged + 1, "tickets resolve in order");
        self.acknowledged = value;
        self.acknowledged_seq = seq;
    }

    /// Up to where to purge: the value and its sequence number.
    const fn purge(&mut self) -> (u64, u64) {
        self.purging = self.acknowledged;
        (self.acknowledged, self.acknowledged_seq)
    }

    fn check(&self, found: &[Record]) -> Result<(), String> {
        let values: Vec<u64> = found.iter().map(value).collect();
        if !values.is_sorted_by(|one, next| one + 1 == *next) {
            return Err(format!("a gap in {values:?}"));
        }
        match (values.first(), values.last()) {
            (Some(first), Some(last)) => {
                let lost = *last < self.acknowledged || *first > self.purging.max(1);
                let invented = *last > self.appended || *first < self.purged;
                if lost || invented { Err(format!("found {first} to {last} of {self:?}")) } else { Ok(()) }
            }
            _ if self.acknowledged == 0 => Ok(()),
            _ => Err(format!("found nothing of {self:?}")),
        }
    }

    /// What was found is what there is from now on.
    fn settle(&mut self, found: &[Record]) {
        if let (Some(first), Some(last)) = (found.first(), found.last()) {
            self.purged = value(first);
            self.purging = value(first);
            self.appended = value(last);
            self.acknowledged = value(last);
            self.acknowledged_seq = last.seq;
        } else {
            *self = Self::default();
        }
    }
}

fn value(record: &Record) -> u64 {
    u64::from_le_bytes(*record.payload.first_chunk().unwrap())
}
