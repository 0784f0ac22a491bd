//! Many parallel streams: what a chunk costs, what an open stream costs, and how long chunks are kept.
//!
//! Measured while all streams are open: from the instant at which the last one opened to the end of the first. Chunks
//! of the mock upstream say when they were sent; with another upstream only the gaps are known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use hdrhistogram::Histogram;
use memchr::memmem;
use seam::Lock;
use tokio::task::JoinSet;

use super::connection::{Connection, Reply};
use super::mock::wall_ns;
use super::process::{self, Usage};
use super::report::{Summary, histogram, micros, quantiles, record, say};
use super::target::{Ask, Caller, Target};
use crate::client::Failed;

/// Options of a load of streams.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// The gateway.
    #[arg(long)]
    url: String,
    #[command(flatten)]
    caller: Caller,
    /// Parallel streams, each on a connection of its own.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    streams: u32,
    /// Chunks of each stream.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    chunks: u32,
    /// Milliseconds between two chunks of a stream.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    gap_ms: u32,
    /// Streams opened a second.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    opened_per_s: u32,
    /// Processes of the gateway.
    #[arg(long = "pid", value_delimiter = ',')]
    pids: Vec<u32>,
}

/// Shared by all streams.
struct Watch {
    opened: AtomicU64,
    ended: AtomicU64,
    chunks: AtomicU64,
    measuring: AtomicBool,
    timing: Lock<Timing>,
}

struct Timing {
    gap: Histogram<u64>,
    delay: Histogram<u64>,
}

/// What was measured while all streams were open.
struct Window {
    chunks: u64,
    wall: Duration,
    cpu: Duration,
    rss_kib_before: u64,
    rss_kib: u64,
}

/// How often the open streams are counted.
const POLL: Duration = Duration::from_millis(5);

/// Runs the load and prints what it measured.
pub(super) async fn run(options: Options) -> Result<(), Failed> {
    let target = options.caller.target(&options.url)?;
    let opening = f64::from(options.streams) / f64::from(options.opened_per_s);
    let lasting = f64::from(options.chunks) * f64::from(options.gap_ms) / 1_000.0;
    if lasting < opening + 2.0 || lasting > 3_600.0 {
        return Err(format!(
            "streams of {lasting:.1} s cannot all be open for two seconds when opening takes {opening:.1} s; \
             at most an hour"
        )
        .into());
    }
    let ask = |chunks| Ask {
        stream: true,
        words: 8,
        max_tokens: options.chunks,
        paced: Some((chunks, options.gap_ms)),
    };
    let first = follow(&target, &options.caller.request(&target, ask(1)), &Watch::new()).await;
    first.map_err(|error| format!("the first stream failed: {error}"))?;

    let before = process::usage(&options.pids)?;
    let watch = Arc::new(Watch::new());
    let request: Arc<[u8]> = options.caller.request(&target, ask(options.chunks)).into();
    let mut streams = JoinSet::new();
    for at in 0..options.streams {
        let (target, request, watch) = (target.clone(), Arc::clone(&request), Arc::clone(&watch));
        let wait = Duration::from_secs(1).mul_f64(f64::from(at) / f64::from(options.opened_per_s));
        streams.spawn(async move {
            tokio::time::sleep(wait).await;
            let outcome = follow(&target, &request, &watch).await;
            watch.ended.fetch_add(1, Ordering::Relaxed);
            outcome.map_err(|error| error.to_string())
        });
    }
    let window = measure(&options, &watch, before).await?;
    let mut broken = Vec::new();
    let mut received = 0;
    while let Some(outcome) = streams.join_next().await {
        match outcome? {
            Ok(chunks) => received += chunks,
            Err(error) => broken.push(error),
        }
    }
    print(&options, &window, &watch.timing.lock(), received, &broken);
    Ok(())
}

impl Watch {
    fn new() -> Self {
        Self {
            opened: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            chunks: AtomicU64::new(0),
            measuring: AtomicBool::new(false),
            timing: Lock::new(Timing { gap: histogram(), delay: histogram() }),
        }
    }
}

/// Reads one stream to its end; how many chunks of content came.
async fn follow(target: &Target, request: &[u8], watch: &Watch) -> Result<u64, Failed> {
    let mut connection = Connection::open(target).await?;
    let mut reply = connection.send(request).await?;
    if reply.status != 200 {
        return refused(connection, reply).await;
    }
    let mut opened = false;
    let mut chunks = 0;
    let mut last = None;
    while let Some(event) = connection.event(&mut reply).await? {
        if !opened {
            opened = true;
            watch.opened.fetch_add(1, Ordering::Relaxed);
        }
        if event.as_ref() == b"[DONE]" {
            return Ok(chunks);
        }
        if memmem::find(&event, b"\"content\":\"").is_none() {
            continue;
        }
        let now = Instant::now();
        if let Some(sent) = sent_ns(&event) {
            chunks += 1;
            watch.chunk(now, last, Duration::from_nanos(wall_ns().saturating_sub(sent)));
            last = Some(now);
        }
    }
    Err(format!("the stream ended after {chunks} chunks without [DONE]").into())
}

async fn refused(mut connection: Connection, reply: Reply) -> Result<u64, Failed> {
    let status = reply.status;
    connection.finish(reply).await?;
    Err(format!("status {status}: {}", String::from_utf8_lossy(connection.body())).into())
}

/// When the mock upstream sent this chunk.
fn sent_ns(event: &[u8]) -> Option<u64> {
    let marker = b"\"content\":\"@";
    let digits = &event[memmem::find(event, marker)? + marker.len()..];
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

impl Watch {
    fn chunk(&self, now: Instant, last: Option<Instant>, delay: Duration) {
        self.chunks.fetch_add(1, Ordering::Relaxed);
        if !self.measuring.load(Ordering::Relaxed) {
            return;
        }
        let mut timing = self.timing.lock();
        record(&mut timing.delay, delay);
        if let Some(last) = last {
            record(&mut timing.gap, now.saturating_duration_since(last));
        }
    }

    async fn until(&self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            tokio::time::sleep(POLL).await;
        }
    }
}

async fn measure(options: &Options, watch: &Watch, before: Usage) -> Result<Window, Failed> {
    let all = u64::from(options.streams);
    watch
        .until(|watch| {
            let (opened, ended) = (watch.opened.load(Ordering::Relaxed), watch.ended.load(Ordering::Relaxed));
            opened >= all || ended > 0
        })
        .await;
    let (start, usage) = (Instant::now(), process::usage(&options.pids)?);
    let chunks = watch.chunks.load(Ordering::Relaxed);
    watch.measuring.store(true, Ordering::Relaxed);
    watch.until(|watch| watch.ended.load(Ordering::Relaxed) > 0).await;
    watch.measuring.store(false, Ordering::Relaxed);
    let after = process::usage(&options.pids)?;
    Ok(Window {
        chunks: watch.chunks.load(Ordering::Relaxed) - chunks,
        wall: start.elapsed(),
        cpu: after.cpu.saturating_sub(usage.cpu),
        rss_kib_before: before.rss_kib,
        rss_kib: usage.rss_kib.max(after.rss_kib),
    })
}

fn print(options: &Options, window: &Window, timing: &Timing, received: u64, broken: &[String]) {
    let cpu_us = window.cpu.as_secs_f64() * 1e6 / window.chunks.max(1) as f64;
    let grown = window.rss_kib.saturating_sub(window.rss_kib_before) as f64 / f64::from(options.streams);
    let per_s = window.chunks as f64 / window.wall.as_secs_f64();
    say(&format!(
        "{} streams, {} broken, {received} chunks; all open for {:.1} s with {per_s:.0} chunks/s",
        options.streams,
        broken.len(),
        window.wall.as_secs_f64()
    ));
    for reason in broken.iter().take(5) {
        say(&format!("  broken: {reason}"));
    }
    say(&format!("chunks kept: {}", quantiles(&timing.delay)));
    say(&format!("gap of {} ms: {}", options.gap_ms, quantiles(&timing.gap)));
    say(&format!(
        "gateway: {cpu_us:.1} µs CPU per chunk, {:.0} % of a core, {grown:.1} KiB per stream, {:.1} MiB resident",
        window.cpu.as_secs_f64() / window.wall.as_secs_f64() * 100.0,
        window.rss_kib as f64 / 1024.0
    ));
    Summary::new()
        .with("chunks_per_s", format_args!("{per_s:.0}"))
        .with("cpu_us", format_args!("{cpu_us:.1}"))
        .with("kib_per_stream", format_args!("{grown:.1}"))
        .with("rss_kib", window.rss_kib)
        .with("delay_p50_us", format_args!("{:.0}", micros(&timing.delay, 0.5)))
        .with("delay_p99_us", format_args!("{:.0}", micros(&timing.delay, 0.99)))
        .with("gap_p99_us", format_args!("{:.0}", micros(&timing.gap, 0.99)))
        .with("broken", broken.len())
        .say();
}
