//! How late packets left the emulator: what a busy machine adds to every link.

use std::fmt;
use std::time::Duration;

/// Lateness beyond this at the 99th percentile makes a run void.
const BEARABLE: Duration = Duration::from_millis(5);

/// Width of a bucket.
const STEP: Duration = Duration::from_micros(10);

/// Buckets: up to 100 ms, and one for all above.
const BUCKETS: usize = 10_001;

/// What an emulator did.
#[derive(Clone, Debug)]
pub struct Lateness {
    /// Packets by how many [`STEP`]s late they were.
    late: Vec<u64>,
    delivered: u64,
    dropped: u64,
    is_urgent: bool,
}

impl Lateness {
    pub(crate) fn new() -> Self {
        Self { late: vec![0; BUCKETS], delivered: 0, dropped: 0, is_urgent: false }
    }

    pub(crate) fn note(&mut self, late: Duration) {
        let bucket = usize::try_from(late.as_micros() / STEP.as_micros()).unwrap_or(BUCKETS).min(BUCKETS - 1);
        if let Some(count) = self.late.get_mut(bucket) {
            *count += 1;
        }
        self.delivered += 1;
    }

    pub(crate) const fn drop_one(&mut self) {
        self.dropped += 1;
    }

    pub(crate) const fn set_urgent(&mut self, is_urgent: bool) {
        self.is_urgent = is_urgent;
    }

    /// Whether the emulator ran at real-time priority.
    #[must_use]
    pub const fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// Packets delivered.
    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Packets dropped for want of room in the emulator or in a host, beside those that a link was to lose.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The lateness that so many of a thousand packets stayed within, rounded up to 10 µs; at most 100 ms.
    #[must_use]
    pub fn within(&self, per_mille: u64) -> Duration {
        let wanted = self.delivered.saturating_mul(per_mille).div_ceil(1_000);
        let mut seen = 0;
        let bucket = self.late.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        STEP * u32::try_from(bucket.unwrap_or(BUCKETS - 1) + 1).unwrap_or(u32::MAX)
    }

    /// Whether the machine was too busy for the run to count.
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.within(990) > BEARABLE
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} packets, late by {:?} (p50), {:?} (p99), {:?} (p99.9), {} dropped, at {} priority",
            self.delivered,
            self.within(500),
            self.within(990),
            self.within(999),
            self.dropped,
            if self.is_urgent { "real-time" } else { "normal" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_void_when_one_packet_in_a_hundred_is_late() {
        let mut lateness = Lateness::new();
        (0..99).for_each(|_packet| lateness.note(Duration::from_micros(35)));
        assert_eq!((lateness.within(500), lateness.is_void()), (Duration::from_micros(40), false));
        (0..2).for_each(|_packet| lateness.note(Duration::from_secs(1)));
        assert!(lateness.is_void(), "{lateness}");
    }
}
