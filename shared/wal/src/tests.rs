//! Crashes at every point, rot at every byte, full and failing disks.

mod disk;

use std::future::Future as _;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use disk::MemDisk;

const SMALL: Options = Options { segment_bytes: 1_024, max_record: 600 };

fn dir() -> &'static Path {
    Path::new("/log")
}

async fn open(disk: &MemDisk) -> Result<(Wal, Vec<Record>), WalError> {
    Wal::open(&disk.host(), dir(), SMALL).await
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

/// What a test asked the log to hold, in order.
#[derive(Debug, Default)]
struct Model {
    entries: Vec<Entry>,
    made: u64,
    /// The purge that was acknowledged, and the one that may have happened.
    purged: u64,
    purging: u64,
}

#[derive(Debug)]
struct Entry {
    payload: Bytes,
    acked: Option<u64>,
}

#[derive(Clone, Debug)]
enum Step {
    /// Appends of these lengths, together or one by one, then waits for all.
    Append(Vec<usize>, bool),
    /// Gives up what is below the acknowledged record at this part (of 8) of the log.
    Purge(usize),
}

impl Model {
    fn entry(&mut self, len: usize) -> (u8, Bytes) {
        self.made += 1;
        let mut payload = self.made.to_le_bytes().to_vec();
        payload.resize(8 + len, 0x5a);
        let payload = Bytes::from(payload);
        self.entries.push(Entry { payload: payload.clone(), acked: None });
        (1, payload)
    }

    async fn step(&mut self, wal: &Wal, step: &Step) -> Result<(), WalError> {
        match step {
            Step::Append(lens, true) => {
                let first = self.entries.len();
                let records: Vec<_> = lens.iter().map(|len| self.entry(*len)).collect();
                let last = wal.append_all(records)?.await?;
                self.ack(first, last);
            }
            Step::Append(lens, false) => {
                let mut tickets = Vec::new();
                for len in lens {
                    let at = self.entries.len();
                    let (kind, payload) = self.entry(*len);
                    tickets.push((at, wal.append(kind, payload)?));
                }
                for (at, ticket) in tickets {
                    self.entries[at].acked = Some(ticket.await?);
                }
            }
            Step::Purge(eighths) => {
                let acked: Vec<u64> = self.entries.iter().filter_map(|entry| entry.acked).collect();
                self.purging = acked.get(acked.len() * eighths / 8).copied().unwrap_or(0).max(self.purging);
                let first = self.entries.len();
                let carry = vec![self.entry(8)];
                let mark = wal.purge_before(self.purging, carry)?.await?;
                self.ack(first, mark - 1);
                self.purged = self.purging;
            }
        }
        Ok(())
    }

    fn ack(&mut self, first: usize, last_seq: u64) {
        let count = self.entries.len() - first;
        for (i, entry) in self.entries[first..].iter_mut().enumerate() {
            entry.acked = Some(last_seq + 1 - (count - i) as u64);
        }
    }

    /// Acknowledged records survived, and what was found is a prefix of what was appended; the model then is what was
    /// found.
    fn check(&mut self, found: &[Record]) {
        let kept = |entry: &&Entry, before: u64| entry.acked.is_none_or(|seq| seq >= before);
        let fits = |before: u64| {
            let expected: Vec<_> = self.entries.iter().filter(|entry| kept(entry, before)).collect();
            let must = expected.iter().rposition(|entry| entry.acked.is_some()).map_or(0, |last| last + 1);
            found.len() >= must
                && found.len() <= expected.len()
                && found.iter().zip(&expected).all(|(record, entry)| record.payload == entry.payload)
        };
        assert!(fits(self.purged) || fits(self.purging), "found {found:?}\nexpected {self:?}");
        let seqs = found.iter().map(|record| record.seq);
        assert!(seqs.clone().zip(seqs.skip(1)).all(|(a, b)| a < b));
        let as_found = |record: &Record| Entry { payload: record.payload.clone(), acked: Some(record.seq) };
        self.entries = found.iter().map(as_found).collect();
    }
}

async fn round(disk: &MemDisk, model: &mut Model, steps: &[Step], halt: u32, seed: u64) {
    let (wal, found) = open(disk).await.unwrap();
    model.check(&found);
    disk.halt_after(halt);
    let worked = async {
        for step in steps {
            model.step(&wal, step).await.unwrap();
        }
    };
    tokio::select! {
        biased;
        () = disk.halted() => {}
        () = worked => {}
    }
    disk.crash(seed);
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let append = (prop::collection::vec(0usize..120, 1..5), any::<bool>());
    let step = prop_oneof![
        4 => append.prop_map(|(lens, together)| Step::Append(lens, together)),
        1 => (0usize..8).prop_map(Step::Purge),
    ];
    prop::collection::vec(step, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_was_acknowledged_survives_a_crash_at_any_point(
        rounds in prop::collection::vec((steps(), 0u32..60, any::<u64>()), 1..5),
    ) {
        let disk = MemDisk::default();
        let mut model = Model::default();
        for (steps, halt, seed) in rounds {
            run(round(&disk, &mut model, &steps, halt, seed));
        }
        let (_wal, found) = run(open(&disk)).unwrap();
        model.check(&found);
    }
}

fn script() -> Vec<Step> {
    let mut script: Vec<_> = (1..9).map(|n| Step::Append(vec![n * 13, 40, 90], n % 2 == 0)).collect();
    script.insert(6, Step::Purge(5));
    script.push(Step::Purge(7));
    script.push(Step::Append(vec![30, 30], false));
    script
}

#[test]
fn a_log_survives_power_loss_after_each_of_its_disk_operations() {
    for halt in 0..90 {
        for seed in 0..8 {
            let disk = MemDisk::default();
            let mut model = Model::default();
            run(round(&disk, &mut model, &script(), halt, seed));
            run(round(&disk, &mut model, &[Step::Append(vec![10], true)], u32::MAX / 2, seed));
            let (_wal, found) = run(open(&disk)).unwrap();
            model.check(&found);
        }
    }
}

#[test]
fn rot_in_any_byte_is_refused_or_harmless() {
    let disk = MemDisk::default();
    run(async {
        let (wal, _) = open(&disk).await.unwrap();
        let mut model = Model::default();
        for step in &script() {
            model.step(&wal, step).await.unwrap();
        }
        wal.close().await;
    });
    let (_, whole) = run(open(&disk.copy())).unwrap();
    let mut refused = 0;
    for (path, len) in disk.files() {
        for at in 0..len {
            let rotten = disk.copy();
            rotten.flip(&path, at, u32::try_from(at % 8).unwrap());
            match run(open(&rotten)) {
                Err(WalError::Corrupt { .. }) => refused += 1,
                Ok((_, found)) => assert_eq!(found, whole, "byte {at} of {}", path.display()),
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn a_file_that_was_cut_short_is_refused() {
    let disk = MemDisk::default();
    run(async {
        let (wal, _) = open(&disk).await.unwrap();
        for _ in 0..8 {
            wal.append(1, Bytes::from(vec![7; 500])).unwrap().await.unwrap();
        }
        wal.close().await;
    });
    for (path, len) in disk.files() {
        for left in [segment::HEADER + 256, len / 2, len - 1] {
            let cut = disk.copy();
            cut.cut(&path, left);
            assert!(matches!(run(open(&cut)), Err(WalError::Corrupt { .. })), "{} of {len}", left);
        }
    }
}

#[test]
fn a_missing_segment_is_refused() {
    let disk = MemDisk::default();
    run(async {
        let (wal, _) = open(&disk).await.unwrap();
        for _ in 0..8 {
            wal.append(1, Bytes::from(vec![7; 500])).unwrap().await.unwrap();
        }
        wal.close().await;
    });
    let files = disk.files();
    for (path, _) in &files[..files.len() - 1] {
        let torn = disk.copy();
        torn.lose(path);
        assert!(matches!(run(open(&torn)), Err(WalError::Corrupt { .. })), "{}", path.display());
    }
}

#[tokio::test]
async fn a_full_disk_refuses_and_recovers_once_there_is_room() {
    let disk = MemDisk::default();
    disk.set_capacity(Some(2 * SMALL.segment_bytes));
    let (wal, _) = open(&disk).await.unwrap();
    let big = || Bytes::from(vec![7; 500]);
    let first = wal.append(1, big()).unwrap().await.unwrap();
    let second = wal.append(1, big()).unwrap().await.unwrap();
    assert_eq!(wal.append(1, big()).unwrap().await, Err(WalError::Full));
    assert_eq!(wal.failed(), None);

    // A purge needs no new segment.
    wal.purge_before(second, vec![(2, Bytes::from_static(b"vote"))]).unwrap().await.unwrap();
    let third = wal.append(1, big()).unwrap().await.unwrap();
    wal.close().await;
    let (_, found) = open(&disk).await.unwrap();
    let kept: Vec<_> = found.iter().map(|record| (record.seq, record.kind)).collect();
    assert_eq!((first, second), (1, 2));
    assert_eq!(kept, [(second, 1), (3, 2), (third, 1)]);
}

#[tokio::test]
async fn a_failed_sync_is_final_until_the_log_is_opened_anew() {
    let disk = MemDisk::default();
    let (wal, _) = open(&disk).await.unwrap();
    wal.append(1, Bytes::from_static(b"safe")).unwrap().await.unwrap();
    disk.fail_syncs();
    let lost = wal.append(1, Bytes::from_static(b"lost")).unwrap().await;
    assert!(matches!(lost, Err(WalError::Failed(_))));
    assert!(matches!(wal.append(1, Bytes::from_static(b"late")), Err(WalError::Failed(_))));
    assert!(wal.failed().is_some());
}

#[tokio::test]
async fn one_process_at_a_time_has_the_log_open_also_on_a_real_disk() {
    let dir = tempfile::tempdir().unwrap();
    let host = seam::Host::real();
    let (wal, _) = Wal::open(&host, dir.path(), SMALL).await.unwrap();
    assert!(matches!(Wal::open(&host, dir.path(), SMALL).await, Err(WalError::Locked(_))));
    wal.append(3, Bytes::from_static(b"hello")).unwrap().await.unwrap();
    wal.close().await;
    let (_, found) = Wal::open(&host, dir.path(), SMALL).await.unwrap();
    assert_eq!(found, [Record { seq: 1, kind: 3, payload: Bytes::from_static(b"hello") }]);
}

#[test]
fn appends_are_bounded_and_kinds_reserved() {
    run(async {
        let (wal, _) = open(&MemDisk::default()).await.unwrap();
        assert!(matches!(wal.append(1, Bytes::from(vec![0; 700])), Err(WalError::TooLarge { .. })));
        assert!(matches!(wal.append(0xf0, Bytes::new()), Err(WalError::ReservedKind(0xf0))));
        let ticket = wal.append(1, Bytes::new()).unwrap();
        drop(wal);
        let mut ticket = pin!(ticket);
        let now = ticket.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(now, Poll::Pending));
        assert_eq!(ticket.await, Ok(1));
    });
}
