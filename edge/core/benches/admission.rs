//! A call's way through five gates, those of node, tenant, application, key and model with every limit that there is, and through
//! the wallet under five budgets: a hold under each, and its settlement. Criterion tells the mean; what one of a hundred takes is
//! printed first, for one thread and for two that share gates and wallet as an edge's calls do.

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
use edge_core::limits::{Ask, Entered, Gate};
use edge_core::wallet::{Decision, Held, Recovered, Wallet};
use hdrhistogram::Histogram;
use wire::calendar::Zone;
use wire::catalog::{Budget, Limits, Mode, Scope, Window};
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

/// The gates of one call, each locked for itself, as those of an edge are.
type Gates = [Mutex<Gate>; 5];

/// Gates with limits of every kind that no call of the benchmark comes to.
fn gates() -> Gates {
    let (calls, tokens) = (Some(1 << 30), Some(1 << 50));
    let limits = Limits {
        requests_per_s: calls,
        concurrency: calls,
        streams: calls,
        requests_per_min: calls,
        tokens_per_min: tokens,
        tokens_per_day: tokens,
    };
    std::array::from_fn(|_gate| Mutex::new(Gate::new(limits)))
}

/// Passes all gates, or none, and looks how their rates stand.
fn pass(gates: &Gates) -> [Entered; 5] {
    let ask = Ask { enters: true, stream: true, tokens: 1_000 };
    let mut gates = gates.each_ref().map(|gate| gate.lock().unwrap());
    assert!(gates.iter().all(|gate| gate.check(NOW, &ask).is_ok()), "no gate is full");
    let entered = gates.each_mut().map(|gate| gate.enter(NOW, ask));
    gates.iter().flat_map(|gate| gate.standings(NOW)).for_each(|standing| {
        black_box(standing);
    });
    entered
}

fn leave(gates: &Gates, entered: &[Entered; 5]) {
    gates.iter().zip(entered).for_each(|(gate, entered)| gate.lock().unwrap().leave(entered, 900));
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
    let (mut wallet, gates) = (funded(), gates());
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
    group.bench_function("five gates, hold, settle and leave", |bencher| {
        bencher.iter(|| {
            let entered = pass(&gates);
            let held = hold(&mut wallet, black_box(&asked));
            black_box(wallet.settle(held, &cost));
            flush(&mut wallet);
            leave(&gates, &entered);
        });
    });
    group.finish();
}

/// Times what admits a call, locks included, of threads that share gates and a wallet: the whole, and the hold alone.
fn tell_percentiles(threads: usize) {
    let shared = Arc::new((gates(), Mutex::new(funded())));
    let start = Arc::new(Barrier::new(threads));
    let timing: Vec<_> = (0..threads)
        .map(|_thread| {
            let (shared, start) = (Arc::clone(&shared), Arc::clone(&start));
            std::thread::spawn(move || {
                let (gates, wallet) = &*shared;
                let (asked, cost) = (asks(HELD), asks(COST));
                let mut times = [(); 2].map(|()| Histogram::<u64>::new(3).unwrap());
                start.wait();
                for _call in 0..CALLS {
                    let before = Instant::now();
                    let entered = pass(gates);
                    let passed = Instant::now();
                    let held = hold(&mut wallet.lock().unwrap(), black_box(&asked));
                    for (times, began) in times.iter_mut().zip([before, passed]) {
                        times.record(u64::try_from(began.elapsed().as_nanos()).unwrap()).unwrap();
                    }
                    let mut wallet = wallet.lock().unwrap();
                    black_box(wallet.settle(held, &cost));
                    flush(&mut wallet);
                    drop(wallet);
                    leave(gates, &entered);
                }
                times
            })
        })
        .collect();
    let mut all = [(); 2].map(|()| Histogram::<u64>::new(3).unwrap());
    for times in timing {
        all.iter_mut().zip(times.join().unwrap()).for_each(|(all, times)| all.add(times).unwrap());
    }
    for (what, times) in ["five gates and five holds", "five holds alone"].into_iter().zip(all) {
        let [half, most, rare] = [0.5, 0.99, 0.999].map(|share| times.value_at_quantile(share));
        println!("{what}, {threads} threads: p50 {half} ns, p99 {most} ns, p99.9 {rare} ns");
    }
}

criterion_group!(benches, admission);
criterion_main!(benches);
