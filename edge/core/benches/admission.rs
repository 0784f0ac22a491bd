//! A call's way through the wallet under five budgets: a hold under each, and its settlement. Criterion tells the mean; what one of
//! a hundred takes is printed first, for one thread and for two that share the wallet as an edge's calls do.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::panic,
    reason = "a benchmark: it stops when it cannot set up, says what it found, and measures real time"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Instant;

use base::{Amount, BudgetId, Era, Mono, Name, Unit, WallMs};
use central_core::LogMs;
use central_core::ledger::{Ledger, Registered};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use edge_core::wallet::{Decision, Held, Recovered, Wallet};
use hdrhistogram::Histogram;
use wire::calendar::Zone;
use wire::catalog::{Budget, Mode, Scope, Window};
use wire::control::Welcome;

const BUDGETS: u128 = 5;
const NOW: Mono = Mono::from_nanos(1_000_000);
/// What a call holds, and what it costs, under each budget.
const HELD: Amount = Amount(40_000);
const COST: Amount = Amount(1);
/// Calls of each thread whose times are told.
const CALLS: u32 = 200_000;

/// A wallet that has credit for all calls of the benchmark.
fn funded() -> Wallet {
    let edge: Name = "edge-eu".parse().unwrap();
    let mut ledger = Ledger::default();
    let mut budgets = BTreeMap::new();
    for id in 1..=BUDGETS {
        let budget = Budget {
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
        };
        ledger.set_budget(&budget);
        budgets.insert(budget.name.clone(), budget);
    }
    let Registered::Welcome { incarnation, .. } = ledger.register(&edge, 1, None, None) else {
        return Wallet::new(Recovered::default());
    };
    let mut wallet = Wallet::new(Recovered::default());
    wallet.install(&budgets);
    wallet.welcome(&Welcome { level: 1, era: Era(0), incarnation });
    flush(&mut wallet);
    drop(wallet.ask(&asks(Amount(1 << 50)), NOW));
    while let Some(report) = wallet.report(NOW) {
        let at = (WallMs::from_millis(1_000), LogMs(1));
        let answers = ledger.report(at, &[(edge.clone(), report)]);
        answers.iter().for_each(|(_edge, grants)| wallet.granted(grants, NOW));
        flush(&mut wallet);
        let decided = wallet.decided();
        if !decided.is_empty() {
            decided.into_iter().for_each(|(_id, held)| drop(wallet.settle(held.unwrap(), &[])));
            break;
        }
    }
    flush(&mut wallet);
    wallet
}

fn flush(wallet: &mut Wallet) {
    while wallet.has_records() {
        wallet.records().iter().for_each(|record| wallet.written(record));
    }
}

fn asks(amount: Amount) -> Vec<(BudgetId, Amount)> {
    (1..=BUDGETS).map(|id| (BudgetId(id), amount)).collect()
}

fn hold(wallet: &mut Wallet, asks: &[(BudgetId, Amount)]) -> Held {
    match wallet.ask(asks, NOW) {
        Decision::Held(held) => held,
        other => panic!("no credit: {other:?}"),
    }
}

fn admission(criterion: &mut Criterion) {
    for threads in [1, 2] {
        tell_percentiles(threads);
    }
    let mut wallet = funded();
    let (asked, cost) = (asks(HELD), asks(COST));
    let mut group = criterion.benchmark_group("five budgets");
    group.throughput(Throughput::Elements(1));
    group.bench_function("hold and settle", |bencher| {
        bencher.iter(|| {
            let held = hold(&mut wallet, black_box(&asked));
            black_box(wallet.settle(held, &cost));
            flush(&mut wallet);
        });
    });
    group.finish();
}

/// Times holds, the lock included, of threads that share a wallet.
fn tell_percentiles(threads: usize) {
    let wallet = Arc::new(Mutex::new(funded()));
    let start = Arc::new(Barrier::new(threads));
    let timing: Vec<_> = (0..threads)
        .map(|_thread| {
            let (wallet, start) = (Arc::clone(&wallet), Arc::clone(&start));
            std::thread::spawn(move || {
                let (asked, cost) = (asks(HELD), asks(COST));
                let mut times = Histogram::<u64>::new(3).unwrap();
                start.wait();
                for _call in 0..CALLS {
                    let before = Instant::now();
                    let held = hold(&mut wallet.lock().unwrap(), black_box(&asked));
                    times.record(u64::try_from(before.elapsed().as_nanos()).unwrap()).unwrap();
                    let mut wallet = wallet.lock().unwrap();
                    black_box(wallet.settle(held, &cost));
                    flush(&mut wallet);
                }
                times
            })
        })
        .collect();
    let mut all = Histogram::<u64>::new(3).unwrap();
    timing.into_iter().for_each(|times| all.add(times.join().unwrap()).unwrap());
    let [half, most, rare] = [0.5, 0.99, 0.999].map(|share| all.value_at_quantile(share));
    println!("a hold under five budgets, {threads} threads: p50 {half} ns, p99 {most} ns, p99.9 {rare} ns");
}

criterion_group!(benches, admission);
criterion_main!(benches);
