//! Many short calls, in a closed loop (each connection calls again at once) or at a fixed rate.
//!
//! At a fixed rate a call's latency counts from the instant at which its turn came, also while it waited for a free
//! connection, so that a stalled gateway cannot hide its stall by slowing the load (coordinated omission).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use hdrhistogram::Histogram;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::connection::Connection;
use super::process;
use super::report::{Summary, histogram, micros, quantiles, record, say};
use super::target::{Ask, Caller, Target};
use crate::client::Failed;

/// Options of a load of calls.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// The gateway.
    #[arg(long)]
    url: String,
    #[command(flatten)]
    caller: Caller,
    /// Connections, each with one call at a time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Calls in all.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    calls: u64,
    /// Calls a second; without it, as many as go.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: Option<u32>,
    /// Seconds after which no call is started any more.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Uncounted calls that each connection makes first.
    #[arg(long, default_value_t = 10)]
    warmup: u32,
    /// Cap on each reply's tokens.
    #[arg(long, default_value_t = 64)]
    max_tokens: u32,
    /// Processes of the gateway.
    #[arg(long = "pid", value_delimiter = ',')]
    pids: Vec<u32>,
}

/// Gives out turns.
enum Turns {
    /// At once, until so many were given or the time is over.
    Free { given: AtomicU64, calls: u64, until: Instant },
    /// As a clock releases them.
    Paced(Mutex<mpsc::UnboundedReceiver<Instant>>),
}

/// What the calls of one connection came to.
struct Tally {
    latency: Histogram<u64>,
    failures: BTreeMap<String, u64>,
}

/// Runs the load and prints what it measured.
pub(super) async fn run(options: &Options) -> Result<(), Failed> {
    let target = options.caller.target(&options.url)?;
    let ask = Ask { stream: false, words: 8, max_tokens: options.max_tokens, paced: None };
    let request: Arc<[u8]> = options.caller.request(&target, ask).into();
    let mut ready = Vec::new();
    for _ in 0..options.connections {
        ready.push(warm(&target, &request, options.warmup).await?);
    }

    let before = process::usage(&options.pids)?;
    let start = Instant::now();
    let until = start + Duration::from_secs(options.seconds);
    let (turns, clock) = turns(options, start, until);
    let turns = Arc::new(turns);
    let mut workers = JoinSet::new();
    for connection in ready {
        workers.spawn(work(connection, target.clone(), Arc::clone(&request), Arc::clone(&turns)));
    }
    let mut total = Tally { latency: histogram(), failures: BTreeMap::new() };
    while let Some(tally) = workers.join_next().await {
        total.add(tally?)?;
    }
    let wall = start.elapsed();
    let after = process::usage(&options.pids)?;
    let lag = clock.map(|clock| clock.join().unwrap());
    print(&total, wall, (before, after), lag.as_ref());
    Ok(())
}

async fn warm(target: &Target, request: &[u8], calls: u32) -> Result<Connection, Failed> {
    let mut connection =
        Connection::open(target).await.map_err(|error| format!("{}: {error}", target.addr))?;
    for _ in 0..calls {
        let reply = connection.send(request).await?;
        let status = reply.status;
        let keep = connection.finish(reply).await?;
        if status != 200 {
            return Err(format!("status {status}: {}", String::from_utf8_lossy(connection.body())).into());
        }
        if !keep {
            connection = Connection::open(target).await?;
        }
    }
    Ok(connection)
}

fn turns(
    options: &Options,
    start: Instant,
    until: Instant,
) -> (Turns, Option<thread::JoinHandle<Histogram<u64>>>) {
    let calls = options.calls;
    let Some(rate) = options.rate else {
        return (Turns::Free { given: AtomicU64::new(0), calls, until }, None);
    };
    let (release, released) = mpsc::unbounded_channel();
    // A thread, because the kernel wakes it within tens of microseconds; the runtime's timers tick in milliseconds.
    let clock = thread::spawn(move || {
        let mut lag = histogram();
        for turn in 0..calls {
            let due = start + Duration::from_secs(1).mul_f64(turn as f64 / f64::from(rate));
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let now = Instant::now();
            record(&mut lag, now.saturating_duration_since(due));
            if now > until || release.send(now).is_err() {
                break;
            }
        }
        lag
    });
    (Turns::Paced(Mutex::new(released)), Some(clock))
}

impl Turns {
    /// When the next call's turn came; `None` when there is none any more.
    async fn next(&self) -> Option<Instant> {
        match self {
            Self::Free { given, calls, until } => {
                let now = Instant::now();
                (now < *until && given.fetch_add(1, Ordering::Relaxed) < *calls).then_some(now)
            }
            Self::Paced(released) => released.lock().await.recv().await,
        }
    }
}

async fn work(mut connection: Connection, target: Target, request: Arc<[u8]>, turns: Arc<Turns>) -> Tally {
    let mut tally = Tally { latency: histogram(), failures: BTreeMap::new() };
    while let Some(turn) = turns.next().await {
        let keep = match call(&mut connection, &request).await {
            Ok((200, keep)) => {
                record(&mut tally.latency, turn.elapsed());
                keep
            }
            Ok((status, keep)) => {
                tally.fail(format!("status {status}"));
                keep
            }
            Err(error) => {
                tally.fail(error.kind().to_string());
                false
            }
        };
        if keep {
            continue;
        }
        match Connection::open(&target).await {
            Ok(fresh) => connection = fresh,
            // The old connection fails the next call too, which then counts.
            Err(_refused) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    tally
}

async fn call(connection: &mut Connection, request: &[u8]) -> std::io::Result<(u16, bool)> {
    let reply = connection.send(request).await?;
    let status = reply.status;
    Ok((status, connection.finish(reply).await?))
}

impl Tally {
    fn fail(&mut self, kind: String) {
        *self.failures.entry(kind).or_default() += 1;
    }

    fn add(&mut self, other: Self) -> Result<(), Failed> {
        self.latency.add(other.latency)?;
        for (kind, count) in other.failures {
            *self.failures.entry(kind).or_default() += count;
        }
        Ok(())
    }
}

fn print(
    total: &Tally,
    wall: Duration,
    (before, after): (process::Usage, process::Usage),
    lag: Option<&Histogram<u64>>,
) {
    let served = total.latency.len();
    let failed: u64 = total.failures.values().sum();
    let per_s = served as f64 / wall.as_secs_f64();
    let cpu = after.cpu.saturating_sub(before.cpu);
    let cpu_us = cpu.as_secs_f64() * 1e6 / (served + failed).max(1) as f64;
    let busy = cpu.as_secs_f64() / wall.as_secs_f64() * 100.0;
    say(&format!(
        "{served} calls served, {failed} failed in {:.2} s: {per_s:.0} calls/s",
        wall.as_secs_f64()
    ));
    for (kind, count) in &total.failures {
        say(&format!("  {count} × {kind}"));
    }
    say(&format!("latency: {}", quantiles(&total.latency)));
    if let Some(lag) = lag {
        say(&format!("the load's own clock was late: {}", quantiles(lag)));
    }
    say(&format!(
        "gateway: {cpu_us:.1} µs CPU per call, {busy:.0} % of a core, {:.1} MiB resident",
        after.rss_kib as f64 / 1024.0
    ));
    Summary::new()
        .with("calls_per_s", format_args!("{per_s:.0}"))
        .with("p50_us", format_args!("{:.0}", micros(&total.latency, 0.5)))
        .with("p90_us", format_args!("{:.0}", micros(&total.latency, 0.9)))
        .with("p99_us", format_args!("{:.0}", micros(&total.latency, 0.99)))
        .with("p999_us", format_args!("{:.0}", micros(&total.latency, 0.999)))
        .with("cpu_us", format_args!("{cpu_us:.1}"))
        .with("busy", format_args!("{busy:.0}"))
        .with("rss_kib", after.rss_kib)
        .with("failed", failed)
        .say();
}
