//! How long the members wait for each other, derived from the longest round trip between any two of them.
//!
//! A leader bounds each heartbeat by the heartbeat's own interval. A round trip longer than that makes an idle leader
//! refuse everything, so the interval must exceed the slowest round trip with room to spare, and a drift must be seen
//! ([`Timing::judge`]).

use std::time::Duration;

use openraft::{Config, ConfigError, SnapshotPolicy};

/// The shortest interval: even nearby nodes share processors with other work.
const SHORTEST: Duration = Duration::from_millis(100);
/// Largest read of entries for one message, in entries; bytes bound it as well.
const MAX_ENTRIES: u64 = 512;

/// The clockwork of one Raft group; all members have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two heartbeats of a leader.
    pub heartbeat: Duration,
    /// A follower stands for election after at least this long without a leader.
    pub election_min: Duration,
    /// And after at most this long; a leader's lease lasts as long.
    pub election_max: Duration,
    /// Snapshot after this many entries.
    pub snapshot_every: u64,
    /// Entries kept behind a snapshot. A new leader finds a follower's place in them by bisection, a round trip each
    /// step, so that a long log makes a slow failover.
    pub keep: u64,
}

/// What a measured round trip means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It fits.
    Good,
    /// It leaves less room than wanted; late heartbeats will cost leaders.
    Tight,
    /// No heartbeat can be answered in time: an idle leader accepts nothing.
    Unworkable,
}

impl Timing {
    /// The clockwork for members at most `round_trip` apart: 1.75 round trips between heartbeats, elections after 3 to
    /// 4.5 heartbeats, and a log that is shorter the longer the round trip.
    #[must_use]
    pub fn for_round_trip(round_trip: Duration) -> Self {
        let heartbeat = (round_trip * 7 / 4).max(SHORTEST);
        let (snapshot_every, keep) =
            if round_trip > Duration::from_millis(100) { (512, 256) } else { (1_024, 512) };
        Self { heartbeat, election_min: heartbeat * 3, election_max: heartbeat * 9 / 2, snapshot_every, keep }
    }

    /// What `round_trip`, as measured, means under this clockwork.
    #[must_use]
    pub fn judge(&self, round_trip: Duration) -> Verdict {
        if round_trip >= self.heartbeat {
            Verdict::Unworkable
        } else if round_trip * 3 / 2 > self.heartbeat {
            Verdict::Tight
        } else {
            Verdict::Good
        }
    }

    /// How long a reply about the log may take: a follower syncs before it answers.
    pub(crate) fn append_deadline(&self) -> Duration {
        self.heartbeat * 10
    }

    pub(crate) fn config(&self, group: &str) -> Result<Config, ConfigError> {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let config = Config {
            cluster_name: group.to_owned(),
            heartbeat_interval: ms(self.heartbeat),
            election_timeout_min: ms(self.election_min),
            election_timeout_max: ms(self.election_max),
            install_snapshot_timeout: ms(SNAPSHOT_WITHIN),
            max_payload_entries: MAX_ENTRIES,
            replication_lag_threshold: (self.snapshot_every + self.keep) * 2,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_every),
            max_in_snapshot_log_to_keep: self.keep,
            // Overlaps the leader's sync with the network.
            broadcast_submitted_on_append: Some(true),
            enable_pre_vote: Some(true),
            // A restarted leader stands for election like everybody.
            enable_leader_restore: Some(false),
            // Without it a leader that reaches one voter but no majority keeps all others from electing. At least
            // lease and election must pass.
            quorum_loss_probe_interval: Some(ms(self.election_max * 5 / 2)),
            backoff: "50ms 100ms 200ms ..500ms".to_owned(),
            ..Config::default()
        };
        config.validate()
    }
}

/// A snapshot that is not across and installed after this long is tried again.
const SNAPSHOT_WITHIN: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_trip_gives_a_clockwork_that_openraft_takes_and_that_fits_it() {
        for ms in [0, 1, 30, 80, 200, 400] {
            let round_trip = Duration::from_millis(ms);
            let timing = Timing::for_round_trip(round_trip);
            assert_eq!(timing.judge(round_trip), Verdict::Good);
            timing.config("portolan").unwrap();
        }
    }

    #[test]
    fn a_round_trip_as_long_as_the_heartbeat_is_unworkable() {
        let timing = Timing::for_round_trip(Duration::from_millis(80));
        assert_eq!(timing.heartbeat, Duration::from_millis(140));
        assert_eq!(timing.judge(Duration::from_millis(100)), Verdict::Tight);
        assert_eq!(timing.judge(Duration::from_millis(140)), Verdict::Unworkable);
    }
}
