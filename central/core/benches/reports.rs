//! Rows of edges' reports per second into the ledger: 20 edges that spend from 50 budgets each and ask for more.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails to set up shall stop")]

use std::hint::black_box;

use base::{Amount, BudgetId, Era, Incarnation, Name, Unit, WallMs, WindowId};
use central_core::LogMs;
use central_core::ledger::{Ledger, Registered};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use wire::calendar::Zone;
use wire::catalog::{Budget, Mode, Scope, Window};
use wire::ledger::{Report, UsageRow};

const EDGES: u64 = 20;
const BUDGETS: u128 = 50;

fn ledger() -> (Ledger, Vec<(Name, Incarnation)>) {
    let mut ledger = Ledger::default();
    for id in 1..=BUDGETS {
        ledger.set_budget(&Budget {
            id: BudgetId(id),
            name: format!("budget-{id}").parse().unwrap(),
            scope: Scope::Key("key".parse().unwrap()),
            unit: Unit::NanoUsd,
            window: Window::Total,
            zone: Zone::default(),
            limit: Amount(1 << 60),
            mode: Mode::Strict,
            thresholds: Vec::new(),
            horizon_ms: 60_000,
        });
    }
    let mut edges = Vec::new();
    for n in 0..EDGES {
        let edge: Name = format!("edge-{n}").parse().unwrap();
        if let Registered::Welcome { incarnation, .. } = ledger.register(&edge, n, None, None) {
            edges.push((edge, incarnation));
        }
    }
    (ledger, edges)
}

/// What every edge says in one round.
fn round(n: u64, edges: &[(Name, Incarnation)]) -> Vec<(Name, Report)> {
    let row = |id| UsageRow {
        budget: BudgetId(id),
        window: WindowId(0),
        spent: Amount(n * 1_000),
        returned: Amount::ZERO,
        want: Amount(1_000_000),
        waiting: Amount::ZERO,
        number: n,
        forgotten: false,
    };
    let report = |incarnation| Report { era: Era(0), incarnation, rows: (1..=BUDGETS).map(row).collect() };
    edges.iter().map(|(edge, incarnation)| (edge.clone(), report(*incarnation))).collect()
}

fn reports(criterion: &mut Criterion) {
    let (mut ledger, edges) = ledger();
    let mut n = 0;
    let mut group = criterion.benchmark_group("reports");
    group.throughput(Throughput::Elements(EDGES * u64::try_from(BUDGETS).unwrap()));
    group.bench_function("rows", |bencher| {
        bencher.iter_batched(
            || {
                n += 1;
                (n, round(n, &edges))
            },
            |(n, reports)| black_box(ledger.report((WallMs::from_millis(n * 50), LogMs(n * 50)), &reports)),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, reports);
criterion_main!(benches);
