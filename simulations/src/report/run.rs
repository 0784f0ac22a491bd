//! A run as reports count it, of either kind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use simulation_chaos::Lateness;

use crate::evidence::Evidence;
use crate::invariants::Violation;
use crate::marks::Mark;
use crate::{play, real};

/// A run as reports count it.
#[derive(Debug)]
pub struct Run<'a> {
    /// Its seed.
    pub seed: u64,
    /// What must not be.
    pub violations: &'a [Violation],
    /// What happened that must happen sometimes.
    pub marks: &'a BTreeSet<Mark>,
    /// All that is known of it.
    pub evidence: &'a Evidence,
    /// How long it took, as its own clock has it.
    pub took: Duration,
    /// Processor time, where it is known.
    pub cpu: Duration,
    /// Whether it was played twice, and was the same.
    pub twice: bool,
    /// What only a run with real processes has.
    pub real: Option<Processes>,
}

/// What only runs with real processes have.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Processes {
    /// Runs that say nothing, since packets were too late.
    pub void: u64,
    /// What of the schedules was not done, and why.
    pub skipped: BTreeSet<String>,
    /// What the link emulator did, by seed.
    pub links: BTreeMap<u64, Links>,
}

/// What a link emulator did. Packets were so late, in microseconds, beside what their links were to take.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Links {
    /// Packets delivered.
    pub packets: u64,
    /// Packets dropped for want of room.
    pub dropped: u64,
    /// Half were at most so late.
    pub late_p50_us: u64,
    /// 99 in a hundred.
    pub late_p99_us: u64,
    /// 999 in a thousand.
    pub late_p999_us: u64,
    /// Whether it ran at real-time priority.
    pub real_time: bool,
}

impl Processes {
    pub(super) fn add(&mut self, more: &Self) {
        self.void += more.void;
        self.skipped.extend(more.skipped.iter().cloned());
        self.links.extend(&more.links);
    }
}

impl From<&Lateness> for Links {
    fn from(lateness: &Lateness) -> Self {
        let us = |per_mille| u64::try_from(lateness.within(per_mille).as_micros()).unwrap_or(u64::MAX);
        Self {
            packets: lateness.delivered(),
            dropped: lateness.dropped(),
            late_p50_us: us(500),
            late_p99_us: us(990),
            late_p999_us: us(999),
            real_time: lateness.is_urgent(),
        }
    }
}

impl<'a> From<&'a play::Outcome> for Run<'a> {
    fn from(outcome: &'a play::Outcome) -> Self {
        Self {
            seed: outcome.schedule.seed,
            violations: &outcome.violations,
            marks: &outcome.marks,
            evidence: &outcome.evidence,
            took: outcome.simulated,
            cpu: outcome.cpu,
            twice: outcome.twice,
            real: None,
        }
    }
}

impl<'a> From<&'a real::Outcome> for Run<'a> {
    fn from(outcome: &'a real::Outcome) -> Self {
        let processes = Processes {
            void: u64::from(outcome.lateness.is_void()),
            skipped: outcome.skipped.iter().cloned().collect(),
            links: BTreeMap::from([(outcome.seed, Links::from(&outcome.lateness))]),
        };
        Self {
            seed: outcome.seed,
            violations: &outcome.violations,
            marks: &outcome.marks,
            evidence: &outcome.evidence,
            took: outcome.took,
            cpu: Duration::ZERO,
            twice: false,
            real: Some(processes),
        }
    }
}
