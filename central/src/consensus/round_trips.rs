//! The round trips to the other members, as measured. The longest of them is written down, and the clockwork of the
//! member's next start is made for it: openraft fixes it when it starts.
//!
//! A link's round trip is the median of its last samples: one pause of a process, one burst of traffic, says nothing of
//! the way between two nodes.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::time::Duration;

use base::Name;
use bytes::Bytes;
use seam::Host;

use crate::config::LONGEST_RTT_MS;

/// The file's name in a member's data directory; it holds whole milliseconds.
const FILE: &str = "round-trip";
/// Samples kept of each link, the newest.
const KEPT: usize = 31;
/// A link with fewer samples says nothing yet.
const ENOUGH: usize = 8;
/// Longest round trip that is believed.
const LONGEST: Duration = Duration::from_millis(LONGEST_RTT_MS as u64);

/// Samples of each link.
#[derive(Debug, Default)]
pub(super) struct RoundTrips(BTreeMap<Name, VecDeque<Duration>>);

impl RoundTrips {
    /// Adds a sample of each link. Links to nodes that are not `wanted` any more are forgotten; one that is only broken
    /// keeps what was measured.
    pub(super) fn add(&mut self, now: Vec<(Name, Duration)>, wanted: impl Fn(&Name) -> bool) {
        self.0.retain(|name, _samples| wanted(name));
        for (name, round_trip) in now.into_iter().filter(|(name, _)| wanted(name)) {
            let samples = self.0.entry(name).or_default();
            samples.push_back(round_trip);
            if samples.len() > KEPT {
                samples.pop_front();
            }
        }
    }

    /// The link with the longest round trip, of those that were measured often enough.
    pub(super) fn longest(&self) -> Option<(&Name, Duration)> {
        let measured = self.0.iter().filter(|(_name, samples)| samples.len() >= ENOUGH);
        let medians = measured.filter_map(|(name, samples)| Some((name, median(samples)?)));
        medians.max_by_key(|(_name, median)| *median)
    }
}

fn median(samples: &VecDeque<Duration>) -> Option<Duration> {
    let mut sorted: Vec<Duration> = samples.iter().copied().collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// Whether a measured round trip differs so much from the one written down that the next start should know it.
pub(super) fn differs(written: Option<Duration>, measured: Duration) -> bool {
    written.is_none_or(|written| {
        let (less, more) = (written.min(measured), written.max(measured));
        more - less > less / 8 + Duration::from_millis(2)
    })
}

/// Reads what an earlier life wrote down; `None` when it wrote nothing, or nothing that makes sense.
pub(super) async fn read(host: &Host, dir: &Path) -> Option<Duration> {
    parse(&host.disk().read(&dir.join(FILE)).await.ok()?)
}

/// Writes a round trip down, in whole milliseconds, rounded up.
pub(super) async fn write(host: &Host, dir: &Path, measured: Duration) -> io::Result<()> {
    seam::write_atomic(host.disk().as_ref(), &dir.join(FILE), format(measured)).await
}

fn format(measured: Duration) -> Bytes {
    let ms = measured.min(LONGEST).as_micros().div_ceil(1_000).max(1);
    Bytes::from(format!("{ms}\n"))
}

fn parse(text: &[u8]) -> Option<Duration> {
    let ms: u32 = std::str::from_utf8(text).ok()?.strip_suffix('\n')?.parse().ok()?;
    let round_trip = Duration::from_millis(ms.into());
    (Duration::from_millis(1)..=LONGEST).contains(&round_trip).then_some(round_trip)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn add(measured: &mut RoundTrips, node: &str, ms: u32, times: usize) {
        for _ in 0..times {
            measured.add(vec![(name(node), MS * ms)], |_name| true);
        }
    }

    #[test]
    fn the_longest_link_counts_once_it_was_measured_often_enough() {
        let mut measured = RoundTrips::default();
        add(&mut measured, "near", 30, ENOUGH);
        add(&mut measured, "far", 70, ENOUGH - 1);
        assert_eq!(measured.longest(), Some((&name("near"), MS * 30)));
        add(&mut measured, "far", 70, 1);
        assert_eq!(measured.longest(), Some((&name("far"), MS * 70)));
    }

    #[test]
    fn a_pause_changes_nothing_and_a_longer_way_does() {
        let mut measured = RoundTrips::default();
        add(&mut measured, "far", 70, KEPT);
        add(&mut measured, "far", 650, KEPT / 3);
        assert_eq!(measured.longest().unwrap().1, MS * 70);
        add(&mut measured, "far", 90, KEPT);
        assert_eq!(measured.longest().unwrap().1, MS * 90);
    }

    #[test]
    fn a_node_that_left_is_forgotten() {
        let mut measured = RoundTrips::default();
        add(&mut measured, "far", 70, ENOUGH);
        measured.add(Vec::new(), |node| *node != name("far"));
        assert_eq!(measured.longest(), None);
    }

    #[test]
    fn what_is_written_reads_back_and_nonsense_does_not() {
        for (measured, read) in [(70 * MS, 70), (Duration::from_micros(70_001), 71), (Duration::ZERO, 1)] {
            assert_eq!(parse(&format(measured)), Some(MS * read));
        }
        assert_eq!(parse(&format(LONGEST * 2)), Some(LONGEST));
        for nonsense in ["", "70", "0\n", "-3\n", "70 ms\n", "3000\n", "99999999999\n"] {
            assert_eq!(parse(nonsense.as_bytes()), None, "{nonsense:?}");
        }
    }

    #[test]
    fn small_changes_are_not_written() {
        assert!(differs(None, MS));
        assert!(!differs(Some(MS), 2 * MS));
        assert!(!differs(Some(70 * MS), 76 * MS));
        assert!(differs(Some(70 * MS), 90 * MS));
        assert!(differs(Some(90 * MS), 70 * MS));
    }
}
