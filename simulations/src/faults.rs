//! The vocabulary of faults: each is data, struck and healed on a [`Field`].

mod field;
mod target;

use serde::{Deserialize, Serialize};

use crate::schedule::Until;

pub use field::{Field, Kind, Place};
pub use target::Target;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// A process is killed; started again when the fault heals.
    Crash {
        /// Whose.
        target: Target,
    },
    /// A machine loses its power; started again when the fault heals.
    PowerOff {
        /// Which.
        target: Target,
        /// Whether a part of what was not synced survives.
        torn: bool,
    },
    /// A process stands still.
    Pause {
        /// Whose.
        target: Target,
    },
    /// Links between two sides are cut.
    Partition {
        /// One side.
        target: Target,
        /// The other.
        other: Target,
        /// Which way, and what becomes of packets.
        mode: Mode,
    },
    /// Links between two sides get worse.
    Degrade {
        /// One side.
        target: Target,
        /// The other.
        other: Target,
        /// By how much.
        how: Degrade,
    },
    /// A region is cut from all others, its callers included.
    CutRegion {
        /// Which.
        region: String,
        /// Which way, and what becomes of packets.
        mode: Mode,
    },
    /// All nodes and model servers of a region lose their power at once. Its callers stay.
    LoseRegion {
        /// Which.
        region: String,
        /// Whether a part of what was not synced survives.
        torn: bool,
    },
    /// A wall clock jumps, and back when the fault heals.
    ClockStep {
        /// Whose.
        target: Target,
        /// By how much, forwards or backwards.
        by_ms: i64,
    },
    /// A disk misbehaves.
    Disk {
        /// Whose.
        target: Target,
        /// How.
        how: DiskFault,
    },
    /// Links between two sides are cut and mended in turn.
    Flap {
        /// One side.
        target: Target,
        /// The other.
        other: Target,
        /// How long each turn takes.
        period_ms: u64,
    },
    /// A process does its work as if its processor were so many times slower.
    Slow {
        /// Whose.
        target: Target,
        /// How many times.
        times: u64,
    },
    /// Both clocks of a machine run at another speed, and its wall clock jumps; the jump goes when the fault heals.
    ClockSkew {
        /// Whose.
        target: Target,
        /// By how much the wall clock jumps.
        by_ms: i64,
        /// By how much they are fast, in millionths.
        drift_ppm: i64,
    },
    /// An operator stops a node in good order, as SIGTERM does; started again when the fault heals.
    Drain {
        /// Which.
        target: Target,
    },
    /// An operator stops a node in good order; when the fault heals it starts with a build that knows so many levels of
    /// messages more than this release.
    Upgrade {
        /// Which.
        target: Target,
        /// 1: the next, 0: this one.
        ahead: u16,
    },
    /// An operator lets the mesh use the next level of messages, as soon as every central node knows it.
    RaiseLevel {
        /// Who is asked first.
        target: Target,
    },
    /// An operator lets another central node lead.
    Transfer {
        /// Which.
        target: Target,
    },
    /// A central node's machine and disk are lost for good, and an operator puts a new member in its place.
    Replace {
        /// Whose.
        target: Target,
    },
}

/// How links are cut, seen from the first side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Packets are lost, both ways.
    #[default]
    Drop,
    /// Packets are kept and arrive when the fault heals, both ways.
    Hold,
    /// Packets to it are lost.
    In,
    /// Packets from it are lost.
    Out,
}

/// How links get worse. Chances count in a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Degrade {
    /// Added to the delay.
    pub delay_ms: u64,
    /// Added to the jitter.
    pub jitter_ms: u64,
    /// Packets lost.
    pub loss: u32,
    /// Datagrams that arrive twice.
    pub duplicate: u32,
    /// Datagrams that are overtaken.
    pub reorder: u32,
    /// Bytes per second.
    pub rate: Option<u64>,
}

/// How a disk misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskFault {
    /// Syncs take 50 to 400 ms.
    Slow,
    /// Nothing more fits.
    Full,
    /// Syncs fail.
    Fails,
    /// Syncs say done and make nothing durable.
    Lies,
}

impl Fault {
    /// Its kind, as scenario files call it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Crash { .. } => "crash",
            Self::PowerOff { .. } => "power_off",
            Self::Pause { .. } => "pause",
            Self::Partition { .. } => "partition",
            Self::Degrade { .. } => "degrade",
            Self::CutRegion { .. } => "cut_region",
            Self::LoseRegion { .. } => "lose_region",
            Self::ClockStep { .. } => "clock_step",
            Self::Disk { .. } => "disk",
            Self::Flap { .. } => "flap",
            Self::Slow { .. } => "slow",
            Self::ClockSkew { .. } => "clock_skew",
            Self::Drain { .. } => "drain",
            Self::Upgrade { .. } => "upgrade",
            Self::RaiseLevel { .. } => "raise_level",
            Self::Transfer { .. } => "transfer",
            Self::Replace { .. } => "replace",
        }
    }

    /// When it heals that strikes at `at` and is asked to last `until`: a transfer is over at once, a disk that was lost
    /// for good never comes back.
    #[must_use]
    pub const fn lasts(&self, at: u64, until: Until) -> Until {
        match self {
            Self::Transfer { .. } | Self::RaiseLevel { .. } => Until::At(at + 1),
            Self::Replace { .. } => Until::Never,
            _ => until,
        }
    }

    /// Everybody it names.
    #[must_use]
    pub fn targets(&self) -> Vec<Target> {
        match self {
            Self::Crash { target }
            | Self::PowerOff { target, .. }
            | Self::Pause { target }
            | Self::ClockStep { target, .. }
            | Self::Slow { target, .. }
            | Self::ClockSkew { target, .. }
            | Self::Drain { target }
            | Self::Upgrade { target, .. }
            | Self::RaiseLevel { target }
            | Self::Transfer { target }
            | Self::Replace { target }
            | Self::Disk { target, .. } => vec![target.clone()],
            Self::Partition { target, other, .. }
            | Self::Degrade { target, other, .. }
            | Self::Flap { target, other, .. } => vec![target.clone(), other.clone()],
            Self::CutRegion { region, .. } | Self::LoseRegion { region, .. } => {
                vec![Target::Region(region.clone())]
            }
        }
    }
}
