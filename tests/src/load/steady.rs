//! A steady load for tests that kill nodes: it tells each failed call as it happens, and sums up at the end.
//!
//! It behaves as callers behind a load balancer do: a call that gets no connection goes to the next edge, and is counted
//! as moved, not as failed. Once an edge has taken the connection, the call's fate is that edge's.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use memchr::memmem;
use tokio::sync::mpsc;

use super::connection::Connection;
use super::report::{Summary, histogram, micros, quantiles, record, say};
use super::target::{Ask, Caller, Target};
use crate::client::Failed;

/// Options of a steady load.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// An edge; repeat for more, which take turns.
    #[arg(long = "url", required = true)]
    urls: Vec<String>,
    #[command(flatten)]
    caller: Caller,
    /// Calls started a second.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    rate: u32,
    /// Share of the calls that are streams, from 0 to 1.
    #[arg(long, default_value = "0.3", value_parser = per_mille)]
    streams_share: u64,
    /// For how long calls are started.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Words of each prompt; the demo model server says them back.
    #[arg(long, default_value_t = 60)]
    words: usize,
    /// Cap on each reply's tokens.
    #[arg(long, default_value_t = 200)]
    max_tokens: u32,
    /// Every so many seconds, a storm of streams that their callers leave at once; 0: none.
    #[arg(long, default_value_t = 0)]
    storm_every: u64,
    /// Streams of a storm; each is left before its head or after its first events.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=2_000))]
    storm: u64,
}

/// The longest that a caller in a storm waits for its answer's head before it leaves, in milliseconds.
const LEAVES_WITHIN: u64 = 50;

/// After so long without a connection a caller tries the next edge.
const CONNECTING: Duration = Duration::from_secs(5);

/// Longest that a call may last.
const LASTING: Duration = Duration::from_secs(120);

/// An edge and its prepared calls.
struct Edge {
    target: Target,
    whole: Vec<u8>,
    stream: Vec<u8>,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// No edge took the connection.
    Refused,
    /// The connection broke.
    Broken(String),
    /// Nothing came for too long.
    Late,
    /// An error status.
    Status(u16, String),
    /// An error event in a stream, or a stream without its end.
    Stream(String),
}

/// A failure and when it struck.
#[derive(Clone, Debug)]
struct Failure {
    kind: Kind,
    after_first_byte: bool,
}

/// One call's end.
struct End {
    number: u64,
    is_stream: bool,
    started: Duration,
    lasted: Duration,
    first_byte: Option<Duration>,
    moved: bool,
    failure: Option<Failure>,
}

/// Runs the load, tells failures as they happen, and prints the table.
pub(super) async fn run(options: Options) -> Result<(), Failed> {
    let edges: Arc<[Edge]> =
        options.urls.iter().map(|url| Edge::new(&options, url)).collect::<Result<_, _>>()?;
    let (done, mut ends) = mpsc::unbounded_channel();
    let start = Instant::now();
    let begin = tokio::time::Instant::from_std(start);
    let (rate, share, stormy) = (options.rate, options.streams_share, Arc::clone(&edges));
    let calls = u64::from(rate) * options.seconds;
    say(&format!("{rate} calls/s for {} s to {} edges from {}", options.seconds, edges.len(), clock_time()));
    tokio::spawn(async move {
        for number in 0..calls {
            tokio::time::sleep_until(begin + Duration::from_secs(1).mul_f64(number as f64 / f64::from(rate)))
                .await;
            let (edges, done) = (Arc::clone(&edges), done.clone());
            tokio::spawn(async move { drop(done.send(call(&edges, number, share, start).await)) });
        }
    });
    let storm = (options.storm_every, options.storm);
    let stormed = tokio::spawn(storms(stormy, begin, storm, options.seconds));
    let mut all = BTreeMap::new();
    while let Some(end) = ends.recv().await {
        if let Some(failure) = &end.failure {
            tell(&end, failure);
        }
        all.insert(end.number, end);
    }
    if options.storm_every > 0 {
        say(&format!("{} streams left in storms", stormed.await?));
    }
    print(&all.into_values().collect::<Vec<_>>());
    Ok(())
}

/// Streams that many callers begin at the same instant and leave: some before the answer's head, some after a few
/// events. Gives how many were begun.
async fn storms(
    edges: Arc<[Edge]>,
    begin: tokio::time::Instant,
    (every, streams): (u64, u64),
    seconds: u64,
) -> u64 {
    let (mut begun, mut at) = (0, every);
    while every > 0 && at < seconds {
        tokio::time::sleep_until(begin + Duration::from_secs(at)).await;
        for number in 0..streams {
            let edges = Arc::clone(&edges);
            tokio::spawn(async move { leave(&edges, number).await });
        }
        begun += streams;
        at += every;
    }
    begun
}

/// Begins a stream and leaves it.
async fn leave(edges: &[Edge], number: u64) -> Option<()> {
    let edge = edges.get(usize::try_from(number).ok()? % edges.len())?;
    let mut connection = tokio::time::timeout(CONNECTING, Connection::open(&edge.target)).await.ok()?.ok()?;
    let patience = Duration::from_millis(number % LEAVES_WITHIN);
    let events = number % 4;
    if events == 0 {
        drop(tokio::time::timeout(patience, connection.send(&edge.stream)).await);
        return Some(());
    }
    let mut reply = tokio::time::timeout(LASTING, connection.send(&edge.stream)).await.ok()?.ok()?;
    for _event in 0..events {
        tokio::time::timeout(LASTING, connection.event(&mut reply)).await.ok()?.ok()??;
    }
    Some(())
}

impl Edge {
    fn new(options: &Options, url: &str) -> Result<Self, Failed> {
        let target = options.caller.target(url)?;
        let ask = |stream| Ask { stream, words: options.words, max_tokens: options.max_tokens, paced: None };
        let (whole, stream) =
            (options.caller.request(&target, ask(false)), options.caller.request(&target, ask(true)));
        Ok(Self { target, whole, stream })
    }
}

fn per_mille(share: &str) -> Result<u64, String> {
    let share: f64 = share.parse().map_err(|_error| "a share is a number from 0 to 1".to_owned())?;
    let per_mille = format!("{:.0}", share * 1_000.0).parse().ok();
    per_mille.filter(|share| *share <= 1_000).ok_or_else(|| "a share is from 0 to 1".to_owned())
}

async fn call(edges: &[Edge], number: u64, streams_per_mille: u64, start: Instant) -> End {
    // Streams are spread evenly among the calls, and both take turns among the edges by themselves.
    let streams_before = number * streams_per_mille / 1_000;
    let is_stream = (number + 1) * streams_per_mille / 1_000 > streams_before;
    let turn = if is_stream { streams_before } else { number - streams_before };
    let begun = Instant::now();
    let mut end = End {
        number,
        is_stream,
        started: begun - start,
        lasted: Duration::ZERO,
        first_byte: None,
        moved: false,
        failure: None,
    };
    let turn = usize::try_from(turn).unwrap_or_default() % edges.len();
    let mut failure = Some(Failure { kind: Kind::Refused, after_first_byte: false });
    for edge in edges.iter().cycle().skip(turn).take(edges.len()) {
        let Ok(Ok(mut connection)) = tokio::time::timeout(CONNECTING, Connection::open(&edge.target)).await
        else {
            end.moved = true;
            continue;
        };
        let request = if is_stream { &edge.stream } else { &edge.whole };
        let exchange =
            exchange(&mut connection, request, is_stream, || end.first_byte = Some(begun.elapsed()));
        let outcome = tokio::time::timeout(LASTING, exchange).await.unwrap_or(Err(Kind::Late));
        failure = outcome.err().map(|kind| {
            // An error status is the gateway's own first byte: the caller may try again.
            let after_first_byte = end.first_byte.is_some() && !matches!(kind, Kind::Status(..));
            Failure { kind, after_first_byte }
        });
        break;
    }
    end.failure = failure;
    end.lasted = begun.elapsed();
    end
}

async fn exchange(
    connection: &mut Connection,
    request: &[u8],
    is_stream: bool,
    mut first_byte: impl FnMut(),
) -> Result<(), Kind> {
    let of = |error: io::Error| Kind::of(&error);
    let mut reply = connection.send(request).await.map_err(of)?;
    first_byte();
    let status = reply.status;
    if status != 200 || !is_stream {
        connection.finish(reply).await.map_err(of)?;
        let body = String::from_utf8_lossy(connection.body()).into_owned();
        return if status == 200 { Ok(()) } else { Err(Kind::Status(status, code(&body))) };
    }
    while let Some(event) = connection.event(&mut reply).await.map_err(of)? {
        if event.as_ref() == b"[DONE]" {
            return Ok(());
        }
        if event.starts_with(b"{\"error\"") || memmem::find(&event, b"\"choices\"").is_none() {
            return Err(Kind::Stream(format!("error event {}", code(&String::from_utf8_lossy(&event)))));
        }
    }
    Err(Kind::Stream("ended without [DONE]".to_owned()))
}

/// The code of an error body in OpenAI's shape, or its beginning.
fn code(body: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let code = json["error"]["code"].as_str().map(str::to_owned);
    code.unwrap_or_else(|| body.chars().take(80).collect())
}

impl Kind {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::Late,
            kind => Self::Broken(kind.to_string()),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("no edge took the connection"),
            Self::Broken(how) => write!(f, "connection broke: {how}"),
            Self::Late => f.write_str("nothing came in time"),
            Self::Status(status, code) => write!(f, "status {status} {code}"),
            Self::Stream(how) => write!(f, "stream: {how}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = if self.after_first_byte { "after" } else { "before" };
        write!(f, "{} ({when} the first byte)", self.kind)
    }
}

fn tell(end: &End, failure: &Failure) {
    let what = if end.is_stream { "stream" } else { "call" };
    say(&format!(
        "{} failed: {what} {} started at {:.3} s, lasted {:.3} s: {failure}",
        clock_time(),
        end.number,
        end.started.as_secs_f64(),
        end.lasted.as_secs_f64()
    ));
}

/// The time of day, UTC.
fn clock_time() -> String {
    let ms = super::mock::wall_ns() / 1_000_000;
    let s = ms / 1_000;
    format!("{:02}:{:02}:{:02}.{:03}Z", s / 3_600 % 24, s / 60 % 60, s % 60, ms % 1_000)
}

/// From the start of the first of some consecutive failed calls to the start of the next that succeeded.
fn longest_outage(ends: &[End]) -> Duration {
    let mut longest = Duration::ZERO;
    let mut since = None;
    for end in ends {
        match (&end.failure, since) {
            (Some(_), None) => since = Some(end.started),
            (None, Some(first)) => {
                longest = longest.max(end.started - first);
                since = None;
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
    match (since, ends.last()) {
        (Some(first), Some(last)) => longest.max(last.started + last.lasted - first),
        _ => longest,
    }
}

fn print(ends: &[End]) {
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    let mut first_byte = histogram();
    for end in ends {
        if let Some(failure) = &end.failure {
            *kinds.entry(failure.to_string()).or_default() += 1;
        }
        if let Some(time) = end.first_byte {
            record(&mut first_byte, time);
        }
    }
    let failed: u64 = kinds.values().sum();
    let before =
        ends.iter().filter(|end| end.failure.as_ref().is_some_and(|failure| !failure.after_first_byte));
    let before = before.count();
    let moved = ends.iter().filter(|end| end.moved).count();
    let streams = ends.iter().filter(|end| end.is_stream).count();
    let outage = longest_outage(ends);
    say(&format!("calls {} (streams {streams}), moved to another edge {moved}, failed {failed}", ends.len()));
    for (kind, count) in &kinds {
        say(&format!("  {count:>6} × {kind}"));
    }
    say(&format!("longest outage {:.3} s", outage.as_secs_f64()));
    say(&format!("first byte: {}", quantiles(&first_byte)));
    Summary::new()
        .with("calls", ends.len())
        .with("failed", failed)
        .with("failed_before_first_byte", before)
        .with("moved", moved)
        .with("longest_outage_ms", outage.as_millis())
        .with("first_byte_p99_us", format_args!("{:.0}", micros(&first_byte, 0.99)))
        .say();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_lasts_until_a_call_succeeds_again() {
        let end = |number: u64, ok: bool| End {
            number,
            is_stream: false,
            started: Duration::from_millis(number * 20),
            lasted: Duration::from_millis(5),
            first_byte: None,
            moved: false,
            failure: (!ok).then_some(Failure { kind: Kind::Refused, after_first_byte: false }),
        };
        let run = |pattern: &str| -> Vec<End> {
            pattern.bytes().zip(0..).map(|(byte, number)| end(number, byte == b'.')).collect()
        };
        assert_eq!(longest_outage(&run("...")), Duration::ZERO);
        assert_eq!(longest_outage(&run(".x.xx..")), Duration::from_millis(40));
        assert_eq!(longest_outage(&run("..xx")), Duration::from_millis(25));
    }
}
