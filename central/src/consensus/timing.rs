//! How long the members wait for each other, derived from the longest round trip between any two of them.
//!
//! A leader bounds each heartbeat by the heartbeat's own interval. A round trip longer than that makes an idle leader
//! refuse everything, so the interval must exceed the slowest round trip with room to spare, and a drift must be seen
//! ([`Timing::judge`]).
//!
//! A leader that falls silent is replaced after the lease: for that long its followers refuse to vote. Three heartbeats
//! must be lost on the way to one follower before it stands, and on the way to a majority before that costs the leader:
//! the others are asked before a term begins. Members need not have the same clockwork: nothing safe rests on it.

use std::time::Duration;

use openraft::{Config, ConfigError, SnapshotPolicy};

/// The shortest interval: even nearby nodes share processors with other work.
const SHORTEST: Duration = Duration::from_millis(100);
/// Largest read of entries for one message, in entries; bytes bound it as well.
const MAX_ENTRIES: u64 = 512;

/// The clockwork of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two heartbeats of a leader.
    pub heartbeat: Duration,
    /// A question for a vote may take so long, and a member that stood in vain waits at least as long.
    pub election_min: Duration,
    /// For so long after a leader's message a follower gives no vote to others.
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
    /// The clockwork for members at most `round_trip` apart: one and a half round trips between heartbeats, a lease of
    /// four heartbeats, and a log that is shorter the longer the round trip.
    #[must_use]
    pub fn for_round_trip(round_trip: Duration) -> Self {
        let heartbeat = (round_trip * 3 / 2).max(SHORTEST);
        let (snapshot_every, keep) =
            if round_trip > Duration::from_millis(100) { (512, 256) } else { (1_024, 512) };
        Self { heartbeat, election_min: heartbeat * 3, election_max: heartbeat * 4, snapshot_every, keep }
    }

    /// What `round_trip`, as measured, means under this clockwork.
    #[must_use]
    pub fn judge(&self, round_trip: Duration) -> Verdict {
        if round_trip >= self.heartbeat {
            Verdict::Unworkable
        } else if round_trip * 5 / 4 > self.heartbeat {
            Verdict::Tight
        } else {
            Verdict::Good
        }
    }

    /// For so long after a leader's message nobody stands against it.
    pub(crate) const fn lease(&self) -> Duration {
        self.election_max
    }

    /// After the lease a member waits a little for those who heard the leader later.
    pub(crate) fn margin(&self) -> Duration {
        self.heartbeat / 6
    }

    /// Between two members that stand: the first asks and gets its votes in two round trips and two syncs, and its
    /// request is on the way to the second after one and a half.
    pub(crate) fn turn(&self) -> Duration {
        self.heartbeat * 3 / 2
    }

    /// A leader is silent that was not heard for so long: a heartbeat may come late, two do not.
    pub(crate) fn silence(&self) -> Duration {
        self.heartbeat * 9 / 4
    }

    /// A majority that confirms nothing newer within this is too far: one heartbeat may be lost on the way, and its round
    /// trip fits one.
    pub(crate) fn in_time(&self) -> Duration {
        self.heartbeat * 3
    }

    /// A leader that hears no majority for so long is given up, by itself or by its followers. At least lease and election
    /// must pass.
    pub(crate) fn out_of_touch(&self) -> Duration {
        self.election_max * 5 / 2
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
            // Members stand in turn, see `candidacy`.
            enable_elect: false,
            // A restarted leader stands for election like everybody.
            enable_leader_restore: Some(false),
            // Without it a leader that reaches one voter but no majority keeps all others from electing.
            quorum_loss_probe_interval: Some(ms(self.out_of_touch())),
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

    const MS: Duration = Duration::from_millis(1);

    fn all() -> impl Iterator<Item = (Duration, Timing)> {
        (0..=2_000).map(|ms| (MS * ms, Timing::for_round_trip(MS * ms)))
    }

    #[test]
    fn every_round_trip_gives_a_clockwork_that_openraft_takes_and_that_fits_it() {
        for (round_trip, timing) in all() {
            assert_eq!(timing.judge(round_trip), Verdict::Good, "{round_trip:?}");
            timing.config("portolan").unwrap();
        }
    }

    #[test]
    fn a_longer_round_trip_never_makes_anything_faster() {
        for ((_, near), (round_trip, far)) in all().zip(all().skip(1)) {
            let times = |of: Timing| {
                [of.heartbeat, of.election_min, of.lease(), of.margin(), of.turn(), of.silence()]
            };
            assert!(times(near).iter().zip(times(far)).all(|(near, far)| *near <= far), "{round_trip:?}");
        }
    }

    /// A follower hears a leader every heartbeat and a tick of 13/64 of one; a heartbeat that was lost is followed by
    /// the next after as long again.
    #[test]
    fn one_lost_heartbeat_never_makes_a_follower_stand() {
        for (round_trip, timing) in all() {
            let gap = timing.heartbeat * 77 / 64;
            let late = gap * 2 + round_trip / 2;
            assert!(timing.silence() > gap, "{round_trip:?}");
            assert!(timing.lease() > late, "{round_trip:?}");
        }
    }

    /// From asking to having its votes a candidate needs two round trips; the second in line must not ask before the
    /// first one's request reached it.
    #[test]
    fn the_next_in_line_waits_for_the_votes_of_the_one_before() {
        for (round_trip, timing) in all() {
            assert!(timing.turn() >= round_trip * 3 / 2 + 2 * MS, "{round_trip:?}");
            assert!(timing.election_min > round_trip * 4, "{round_trip:?}");
        }
    }

    #[test]
    fn at_70_ms_a_leader_is_missed_within_half_a_second() {
        let timing = Timing::for_round_trip(MS * 70);
        assert_eq!((timing.heartbeat, timing.lease()), (MS * 105, MS * 420));
        assert!(timing.lease() + timing.margin() < MS * 500);
    }

    #[test]
    fn a_round_trip_as_long_as_the_heartbeat_is_unworkable() {
        let timing = Timing::for_round_trip(MS * 80);
        assert_eq!(timing.heartbeat, MS * 120);
        assert_eq!(timing.judge(MS * 100), Verdict::Tight);
        assert_eq!(timing.judge(MS * 120), Verdict::Unworkable);
    }
}
