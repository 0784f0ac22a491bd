//! Receipts per second into a store in a file, in batches as a busy node writes them.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails to set up shall stop")]

use std::sync::Arc;

use base::{Amount, BudgetId, NanoUsd, RequestId, Revision, Tokens, WallMs, WindowId};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use usage_store::{Batch, Place, Span, Store};
use wire::catalog::Operation;
use wire::ledger::{Charge, Outcome, Receipt, ReceiptKind, Usage};

/// Receipts in one transaction, as of 32 entries of 256.
const ENTRIES: u64 = 32;
const OF_ONE: u64 = 256;

fn receipt(n: u64) -> Receipt {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Receipt {
        request: RequestId(u128::from(1_700_000_000_000 + n / 50) << 80 | u128::from(mixed)),
        kind: ReceiptKind::Call,
        at: WallMs::from_millis(1_700_000_000_000 + n / 50),
        tenant: format!("tenant-{}", mixed % 20).parse().unwrap(),
        app: "app".parse().unwrap(),
        key: format!("key-{}", mixed % 60).parse().unwrap(),
        scenario: None,
        user: None,
        model: Some(format!("model-{}", mixed % 5).parse().unwrap()),
        operation: Some(Operation::Chat),
        region: "eu".parse().unwrap(),
        served_by: Some("us".to_owned()),
        provider: None,
        provider_key: None,
        attempts: 1,
        usage: Usage::of_text(Tokens(1_234), Tokens(321)),
        estimated: false,
        price_from: None,
        cost: NanoUsd(mixed % 9_000_000),
        outcome: Outcome::Complete,
        code: None,
        charges: (0..3)
            .map(|n| Charge {
                budget: BudgetId(n),
                window: WindowId(0),
                amount: Amount(5_000),
                overrun: Amount(0),
            })
            .collect(),
    }
}

fn append(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&Place::File(dir.path().join("usage.db"))).unwrap();
    let mut next = 0;
    let mut group = criterion.benchmark_group("append");
    group.throughput(Throughput::Elements(ENTRIES * OF_ONE)).sample_size(50);
    group.bench_function("receipts", |bencher| {
        let setup = || {
            let first = next;
            next += ENTRIES;
            let batch = |entry| Batch {
                revision: Revision(entry + 1),
                taken: WallMs::from_millis(0),
                receipts: Arc::new(
                    (entry * OF_ONE..(entry + 1) * OF_ONE)
                        .map(|n| ("edge-eu".parse().unwrap(), receipt(n)))
                        .collect(),
                ),
            };
            (Span::new(Revision(first), Revision(next)), (first..next).map(batch).collect::<Vec<_>>())
        };
        bencher.iter_batched(
            setup,
            |(span, batches)| store.append(span, &batches).unwrap(),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, append);
criterion_main!(benches);
