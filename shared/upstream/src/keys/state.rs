//! Whether a provider takes a key's credential, at all or for one model.

use base::Mono;

use super::SUSPENDED;
use crate::Health;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// As far as is known, it does.
    Known,
    /// It refused it.
    Suspended { until: Mono, round: u32 },
    /// A call finds out; another may once this one is `stale`.
    Probing { serial: u64, stale: Mono, round: u32 },
}

impl State {
    /// Until when no call may be made.
    pub(super) const fn suspended(self) -> Option<Mono> {
        match self {
            Self::Known => None,
            Self::Suspended { until, .. } | Self::Probing { stale: until, .. } => Some(until),
        }
    }

    /// The call `serial` is made.
    pub(super) fn taken(self, serial: u64, now: Mono, draw: u64) -> Self {
        match self {
            Self::Known => Self::Known,
            Self::Suspended { round, .. } | Self::Probing { round, .. } => {
                Self::Probing { serial, stale: now + SUSPENDED.wait(round, draw), round }
            }
        }
    }

    /// An answer of the call `serial` began.
    pub(super) fn answered(self, serial: u64) -> Self {
        self.after(serial, Health::Good, Mono::ZERO, 0)
    }

    /// The call `serial` showed this. What calls show that began before a suspension says nothing about its end.
    pub(super) fn after(self, serial: u64, health: Health, now: Mono, draw: u64) -> Self {
        let suspended = |round| Self::Suspended { until: now + SUSPENDED.wait(round, draw), round };
        match (self, health) {
            (Self::Known, Health::Refused) => suspended(0),
            (Self::Probing { serial: probe, round, .. }, health) if probe == serial => match health {
                // A provider that limits a key knows it.
                Health::Good | Health::Limited(_) => Self::Known,
                Health::Refused => suspended(round.saturating_add(1)),
                Health::Unknown
                | Health::Failed
                | Health::Broken
                | Health::Forbidden
                | Health::Missing
                | Health::Paced(_) => Self::Suspended { until: now, round },
            },
            (elsewhere @ (Self::Known | Self::Suspended { .. } | Self::Probing { .. }), _) => elsewhere,
        }
    }
}
