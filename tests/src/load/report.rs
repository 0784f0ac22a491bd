//! What loads print: lines for people, and one last line of `name=value` pairs for scripts.

use std::fmt::{Display, Write as _};
use std::io::Write as _;

use hdrhistogram::Histogram;

/// Latencies in nanoseconds up to one minute, to three digits.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap()
}

/// Records a latency; longer than a minute counts as a minute.
pub(super) fn record(histogram: &mut Histogram<u64>, latency: std::time::Duration) {
    histogram.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1));
}

/// Prints a line.
pub(super) fn say(line: &str) {
    // Nobody may be reading any more.
    drop(writeln!(std::io::stdout().lock(), "{line}"));
}

/// Prints a line on standard error.
pub(super) fn complain(line: &str) {
    drop(writeln!(std::io::stderr().lock(), "load: {line}"));
}

/// The quantiles of a histogram, for people.
pub(super) fn quantiles(of: &Histogram<u64>) -> String {
    format!(
        "p50 {:.0} µs, p90 {:.0} µs, p99 {:.0} µs, p99.9 {:.0} µs, max {:.0} µs",
        micros(of, 0.5),
        micros(of, 0.9),
        micros(of, 0.99),
        micros(of, 0.999),
        micros(of, 1.0)
    )
}

/// A quantile in microseconds.
pub(super) fn micros(of: &Histogram<u64>, quantile: f64) -> f64 {
    of.value_at_quantile(quantile) as f64 / 1_000.0
}

/// The last line.
#[derive(Debug)]
pub(super) struct Summary(String);

impl Summary {
    pub(super) fn new() -> Self {
        Self("result".to_owned())
    }

    pub(super) fn with(mut self, name: &str, value: impl Display) -> Self {
        write!(self.0, " {name}={value}").unwrap();
        self
    }

    pub(super) fn say(self) {
        say(&self.0);
    }
}
