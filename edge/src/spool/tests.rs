use std::sync::Arc;

use base::{Incarnation, NanoUsd, RequestId, WallMs};
use seam::Host;
use wire::ledger::{Outcome, Receipt, ReceiptKind, Usage};

use super::{Spool, SpoolLog};

const FIRST: Incarnation = Incarnation(1);
const SECOND: Incarnation = Incarnation(2);

#[test]
fn only_durable_receipts_are_sent_and_acknowledged_ones_are_forgotten() {
    let mut spool = Spool::default();
    push(&mut spool, Some(FIRST), 0..5);
    assert_eq!(spool.batch(FIRST, 0, 10), None);
    assert_eq!(spool.count(FIRST), None, "a crash may still take some");
    spool.take_pending(3);
    spool.written(3, 1);
    assert_eq!(sent(&spool, FIRST, 0), (0, vec![0, 1, 2]));
    spool.acked(FIRST, 2);
    assert_eq!(sent(&spool, FIRST, 0), (2, vec![2]));
    write_all(&mut spool);
    assert_eq!(sent(&spool, FIRST, 3), (3, vec![3, 4]));
    assert_eq!(spool.count(FIRST), Some(5));
    spool.acked(FIRST, 5);
    assert!(spool.is_empty());
}

#[test]
fn receipts_without_an_incarnation_belong_to_the_first_one() {
    let mut spool = Spool::default();
    push(&mut spool, None, 0..2);
    write_all(&mut spool);
    spool.assign(FIRST);
    push(&mut spool, Some(FIRST), 2..3);
    assert_eq!(spool.batch(FIRST, 0, 10), None, "to whom they belong is not durable yet");
    write_all(&mut spool);
    assert_eq!(sent(&spool, FIRST, 0), (0, vec![0, 1, 2]));
}

#[tokio::test]
async fn a_log_that_forgot_what_was_acknowledged_reads_back_with_the_same_positions() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::real();
    let (mut log, mut spool) = SpoolLog::open(&host, dir.path()).await.unwrap();
    push(&mut spool, None, 0..4);
    write(&mut log, &mut spool).await;
    spool.assign(FIRST);
    push(&mut spool, Some(FIRST), 4..8);
    push(&mut spool, Some(SECOND), 8..9);
    write(&mut log, &mut spool).await;
    spool.acked(FIRST, 5);
    spool.acked(SECOND, 1);
    write(&mut log, &mut spool).await;
    let floor = spool.floor().unwrap();
    log.purge(floor, &spool.image()).await.unwrap();
    spool.purged(floor);
    push(&mut spool, Some(FIRST), 9..10);
    write(&mut log, &mut spool).await;
    log.close().await;

    let (_log, again) = SpoolLog::open(&host, dir.path()).await.unwrap();
    assert_eq!(sent(&again, FIRST, 0), (5, vec![5, 6, 7, 9]));
    assert_eq!((again.count(FIRST), again.count(SECOND)), (Some(9), Some(1)));
    assert_eq!(sent(&spool, FIRST, 0), sent(&again, FIRST, 0));
}

fn push(spool: &mut Spool, incarnation: Option<Incarnation>, numbers: std::ops::Range<u128>) {
    for number in numbers {
        spool.push(incarnation, Arc::new(receipt(number)));
    }
}

fn write_all(spool: &mut Spool) {
    let count = spool.take_pending(usize::MAX).len();
    spool.written(count, 1);
}

async fn write(log: &mut SpoolLog, spool: &mut Spool) {
    let entries = spool.take_pending(usize::MAX);
    let floor = log.write(&entries).await.unwrap();
    spool.written(entries.len(), floor);
}

fn sent(spool: &Spool, incarnation: Incarnation, from: u64) -> (u64, Vec<u128>) {
    let batch = spool.batch(incarnation, from, 100).unwrap();
    (batch.first, batch.receipts.iter().map(|receipt| receipt.request.0).collect())
}

pub(crate) fn receipt(number: u128) -> Receipt {
    Receipt {
        request: RequestId(number),
        kind: ReceiptKind::Call,
        at: WallMs::from_millis(0),
        tenant: "acme".parse().unwrap(),
        app: "app".parse().unwrap(),
        key: "key".parse().unwrap(),
        scenario: None,
        user: None,
        model: None,
        operation: None,
        region: "eu".parse().unwrap(),
        served_by: None,
        provider: None,
        provider_key: None,
        attempts: 1,
        usage: Usage::default(),
        estimated: false,
        price_from: None,
        cost: NanoUsd(0),
        outcome: Outcome::Complete,
        code: None,
        charges: Vec::new(),
    }
}
