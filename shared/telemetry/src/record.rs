//! One JSON record per call with its whole timeline (REQ OBS-1). Failures and slow calls are always kept, successes
//! sampled. Records wait in a bounded queue; when their sink is slower than the calls, they are dropped and counted.

mod attempt;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use base::{Code, ModelName, Name, NanoUsd, RegionName, RequestId, TenantName, WallMs};
use bytes::{Bytes, BytesMut};
use prometheus_client::metrics::counter::Counter;
use seam::{Host, Open, Stop};
use serde::Serialize;
use tokio::sync::mpsc;
use wire::catalog::Operation;
use wire::ledger::{Outcome, Usage};

pub use attempt::Attempt;

/// Records that may wait for the sink.
const QUEUE: usize = 8_192;
/// A record file's size before the next is begun, in bytes.
const FILE_SIZE: u64 = 64 * 1024 * 1024;

/// Everything worth knowing about one call. Times are microseconds since its first byte came in.
#[derive(Clone, Debug, Serialize)]
pub struct CallRecord {
    /// Which call.
    pub request: String,
    /// When its first byte came in.
    pub at: WallMs,
    /// The edge that took it.
    pub node: Name,
    /// That edge's region.
    pub region: RegionName,
    /// The trace, as 32 hexadecimal digits.
    pub trace: Option<String>,
    /// Who asked; absent when the key was refused.
    #[serde(flatten)]
    pub caller: Option<Principal>,
    /// The HTTP version it came by.
    pub http: &'static str,
    /// What was asked to be done; absent when the path was unknown.
    pub operation: Option<Operation>,
    /// The name asked for; absent when the body was not read so far or holds none.
    pub asked: Option<ModelName>,
    /// The physical model of the last attempt.
    pub model: Option<ModelName>,
    /// Whether an event stream was asked for.
    pub stream: bool,
    /// The last attempt's path: `local`, `peer:REGION` or `relay:NODE`.
    pub served_by: Option<String>,
    /// The provider, when central served it.
    pub provider: Option<Name>,
    /// The name of the provider's key that it was asked with.
    pub provider_key: Option<Name>,
    /// The scenario that the caller said.
    pub scenario: Option<Name>,
    /// The hash of the end user that the caller named.
    pub user: Option<String>,
    /// HTTP status sent.
    pub status: u16,
    /// How the call ended.
    pub outcome: Outcome,
    /// Why, when it did not end well.
    #[serde(serialize_with = "attempt::stable")]
    pub code: Option<Code>,
    /// Features that thresholds of its budgets turned off.
    pub features_off: Vec<&'static str>,
    /// What the target's API could not carry of it, by the caller's names, and what became of it.
    pub lost: Vec<String>,
    /// The budget that refused it, or that holds no more for its stream.
    pub budget: Option<Name>,
    /// The limit that refused it: whose, `node`, `tenant`, `app`, `key` or `model`, and which, such as `key.requests_per_s`.
    pub limit: Option<String>,
    /// Until identity was known.
    pub identified_us: Option<u32>,
    /// Until limits and budgets admitted it.
    pub admitted_us: Option<u32>,
    /// Until the answer's head was in hand.
    pub head_us: Option<u32>,
    /// Until the first byte of the answer's body left.
    pub first_byte_us: Option<u32>,
    /// Longest time between two chunks.
    pub longest_gap_us: Option<u32>,
    /// Until the call was over.
    pub total_us: u32,
    /// Chunks sent.
    pub chunks: u32,
    /// Bytes of the body in.
    pub bytes_in: u64,
    /// Bytes of the body out.
    pub bytes_out: u64,
    /// Tokens settled.
    pub usage: Usage,
    /// Whether `usage` is a bound because none was reported.
    pub estimated: bool,
    /// What the call cost.
    pub cost: NanoUsd,
    /// Whether the call waited for credit.
    pub waited_for_credit: bool,
    /// Every attempt at every hop, in order.
    pub hops: Vec<Attempt>,
}

/// Who asked.
#[derive(Clone, Debug, Serialize)]
pub struct Principal {
    /// The tenant.
    pub tenant: TenantName,
    /// The application.
    pub app: Name,
    /// The key's name.
    pub key: Name,
}

/// Where records go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sink {
    /// Nowhere.
    #[default]
    Off,
    /// Standard output, one line each.
    Stdout,
    /// Files `calls-N.jsonl` in a directory, the newest few kept.
    Directory {
        /// Where.
        path: PathBuf,
        /// Files of 64 MiB to keep.
        keep: u32,
    },
}

/// Which records are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Of a thousand calls that ended well, how many.
    pub success_per_mille: u16,
    /// Calls that took longer are always kept.
    pub slow: Duration,
}

impl Default for Sampling {
    /// A tenth of the successes; everything above 10 s.
    fn default() -> Self {
        Self { success_per_mille: 100, slow: Duration::from_secs(10) }
    }
}

impl Sampling {
    /// Whether to keep the record of a call; decided by its identifier, so that every node decides alike.
    #[must_use]
    pub fn keeps(&self, request: RequestId, outcome: Outcome, total: Duration) -> bool {
        let drawn = u16::try_from(request.0 % 1_000).unwrap_or_default();
        outcome != Outcome::Complete || total >= self.slow || drawn < self.success_per_mille
    }
}

/// Takes records. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    queue: Option<mpsc::Sender<CallRecord>>,
    dropped: Counter,
}

impl Recorder {
    /// A recorder that writes to `sink` until `stop`, then what is left.
    #[must_use]
    pub fn start(host: &Host, sink: Sink, dropped: Counter, stop: Stop) -> Self {
        if sink == Sink::Off {
            return Self { queue: None, dropped };
        }
        let (queue, records) = mpsc::channel(QUEUE);
        let writer = Writer {
            host: host.clone(),
            sink,
            file: None,
            next: 0,
            failing: false,
            dropped: dropped.clone(),
        };
        drop(host.spawn("records", writer.run(records, stop)));
        Self { queue: Some(queue), dropped }
    }

    /// Whether records go anywhere.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Hands over a record; never waits.
    pub fn keep(&self, record: CallRecord) {
        if let Some(queue) = &self.queue
            && queue.try_send(record).is_err()
        {
            self.dropped.inc();
        }
    }
}

struct Writer {
    host: Host,
    sink: Sink,
    file: Option<(Box<dyn seam::File>, u64)>,
    next: u64,
    failing: bool,
    dropped: Counter,
}

impl Writer {
    async fn run(mut self, mut records: mpsc::Receiver<CallRecord>, stop: Stop) {
        let mut batch = Vec::with_capacity(256);
        loop {
            let count = tokio::select! {
                biased;
                count = records.recv_many(&mut batch, 256) => count,
                () = stop.wanted() => {
                    records.close();
                    records.recv_many(&mut batch, 256).await
                }
            };
            if count == 0 {
                return;
            }
            let lines = lines(&batch);
            batch.clear();
            self.write_all(lines, count).await;
        }
    }

    async fn write_all(&mut self, lines: Bytes, count: usize) {
        match self.write(lines).await {
            Ok(()) => self.failing = false,
            Err(error) => {
                self.dropped.inc_by(count as u64);
                self.file = None;
                if !self.failing {
                    tracing::warn!(%error, "call records cannot be written; they are dropped until they can");
                }
                self.failing = true;
            }
        }
    }

    async fn write(&mut self, lines: Bytes) -> io::Result<()> {
        match self.sink.clone() {
            Sink::Off => Ok(()),
            Sink::Stdout => self.host.compute(move || print(&lines)).await.unwrap_or(Ok(())),
            Sink::Directory { path, keep } => self.append(path, keep, lines).await,
        }
    }

    async fn append(&mut self, dir: PathBuf, keep: u32, lines: Bytes) -> io::Result<()> {
        if self.file.as_ref().is_none_or(|(_, size)| *size >= FILE_SIZE) {
            self.file = Some((self.begin_file(dir, keep).await?, 0));
        }
        if let Some((file, size)) = &mut self.file {
            let len = lines.len() as u64;
            file.write_at(*size, lines).await?;
            *size += len;
        }
        Ok(())
    }

    async fn begin_file(&mut self, dir: PathBuf, keep: u32) -> io::Result<Box<dyn seam::File>> {
        let disk = self.host.disk();
        disk.create_dir_all(&dir).await?;
        let mut numbers: Vec<u64> = disk.list(&dir).await?.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        self.next = numbers.last().map_or(self.next, |last| self.next.max(last + 1));
        let surplus = (numbers.len() + 1).saturating_sub(keep.max(1) as usize);
        for old in numbers.iter().take(surplus) {
            disk.remove(&dir.join(format!("calls-{old}.jsonl"))).await?;
        }
        disk.open(&dir.join(format!("calls-{}.jsonl", self.next)), Open::Create).await
    }
}

fn print(lines: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(lines)?;
    out.flush()
}

fn number(name: &str) -> Option<u64> {
    name.strip_prefix("calls-")?.strip_suffix(".jsonl")?.parse().ok()
}

fn lines(records: &[CallRecord]) -> Bytes {
    let mut lines = BytesMut::new();
    for record in records {
        // A record holds only strings, numbers and lists of them: it always has a JSON form.
        if let Ok(line) = serde_json::to_vec(record) {
            lines.extend_from_slice(&line);
            lines.extend_from_slice(b"\n");
        }
    }
    lines.freeze()
}

#[cfg(test)]
mod tests {
    use seam::Stopper;
    use wire::call::{Hop, Note};

    use super::*;

    #[tokio::test]
    async fn records_are_written_as_lines_and_the_rest_on_stop() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::real();
        let (stopper, stop) = Stopper::new();
        let sink = Sink::Directory { path: dir.path().to_owned(), keep: 2 };
        let (queue, records) = mpsc::channel(QUEUE);
        let writer = Writer {
            host: host.clone(),
            sink,
            file: None,
            next: 0,
            failing: false,
            dropped: Counter::default(),
        };
        let task = host.spawn("records", writer.run(records, stop));
        let recorder = Recorder { queue: Some(queue), dropped: Counter::default() };
        recorder.keep(record());
        recorder.keep(record());
        stopper.stop();
        task.await.unwrap();
        let text = host.disk().read(&dir.path().join("calls-0.jsonl")).await.unwrap();
        let lines: Vec<serde_json::Value> = text
            .split(|b| *b == b'\n')
            .filter(|l| !l.is_empty())
            .map(|l| serde_json::from_slice(l).unwrap())
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["tenant"], "acme");
    }

    #[test]
    fn failures_and_slow_calls_are_always_kept() {
        let none = Sampling { success_per_mille: 0, slow: Duration::from_secs(1) };
        let id = RequestId(7);
        assert!(!none.keeps(id, Outcome::Complete, Duration::ZERO));
        assert!(none.keeps(id, Outcome::Complete, Duration::from_secs(1)));
        assert!(none.keeps(id, Outcome::Cut, Duration::ZERO));
        let tenth = Sampling::default();
        let kept =
            (0..10_000).filter(|n| tenth.keeps(RequestId(*n), Outcome::Complete, Duration::ZERO)).count();
        assert_eq!(kept, 1_000);
    }

    #[test]
    fn the_page_on_records_lists_exactly_the_fields_and_outcomes_that_there_are() {
        let hop = Hop {
            node: "edge-eu".parse().unwrap(),
            upstream: "tiny-1".parse().unwrap(),
            key: Some("team-a".parse().unwrap()),
            result: Err(Code::UpstreamError),
            connected_us: 1,
            first_byte_us: None,
            total_us: 2,
        };
        let note = Note { hop: 0, status: Some(500), said: "no".to_owned() };
        let hops = vec![Attempt::new(&hop, Some(&note))];
        let record = serde_json::to_value(CallRecord { hops, ..record() }).unwrap();
        let fields =
            |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let outcomes = [Outcome::Complete, Outcome::CallerGone, Outcome::Cut, Outcome::Failed, Outcome::Lost]
            .map(|outcome| serde_json::to_value(outcome).unwrap().as_str().unwrap().to_owned());
        let mut known = [fields(&record), outcomes.to_vec(), fields(&record["hops"][0])].concat();
        let page = include_str!("../../../docs/records.md");
        let mut listed: Vec<_> = page
            .lines()
            .filter_map(|line| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned()))
            .collect();
        known.sort();
        listed.sort();
        assert_eq!(listed, known);
    }

    fn record() -> CallRecord {
        let principal = Principal {
            tenant: "acme".parse().unwrap(),
            app: "web".parse().unwrap(),
            key: "web-1".parse().unwrap(),
        };
        CallRecord {
            request: RequestId(1).to_string(),
            at: WallMs::default(),
            node: "edge-eu".parse().unwrap(),
            region: "eu".parse().unwrap(),
            trace: None,
            caller: Some(principal),
            http: "1.1",
            operation: Some(Operation::Chat),
            asked: None,
            model: None,
            stream: false,
            served_by: None,
            provider: None,
            provider_key: None,
            scenario: None,
            user: None,
            status: 200,
            outcome: Outcome::Complete,
            code: None,
            budget: None,
            features_off: Vec::new(),
            lost: Vec::new(),
            limit: None,
            identified_us: None,
            admitted_us: None,
            head_us: None,
            first_byte_us: None,
            longest_gap_us: None,
            total_us: 1,
            chunks: 0,
            bytes_in: 0,
            bytes_out: 0,
            usage: Usage::default(),
            estimated: false,
            cost: NanoUsd(0),
            waited_for_credit: false,
            hops: Vec::new(),
        }
    }
}
