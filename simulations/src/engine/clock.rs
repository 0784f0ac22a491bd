//! Clocks: the world's, and each host's view of it.

use std::time::Duration;

use base::{Mono, WallMs};
use seam::{Clock, Lock};
use tokio::time::Instant;

/// What wall clocks show when a run starts: 2027-01-15 08:00:00 UTC, in milliseconds.
pub(super) const WALL_START_MS: u64 = 1_800_000_000_000;

/// The time of the whole world. Copies agree.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorldClock {
    start: Instant,
}

impl WorldClock {
    #[expect(clippy::disallowed_methods, reason = "the world's clock is tokio's, paused")]
    pub(super) fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Time since the run started.
    #[expect(clippy::disallowed_methods, reason = "the world's clock is tokio's, paused")]
    pub(super) fn now(self) -> Mono {
        Mono::ZERO + self.start.elapsed()
    }

    /// Waits until the world's clock shows `at`.
    #[expect(clippy::disallowed_methods, reason = "the world's clock is tokio's, paused")]
    pub(super) fn sleep_until(self, at: Mono) -> tokio::time::Sleep {
        tokio::time::sleep_until(self.start + at.since(Mono::ZERO))
    }
}

impl Clock for WorldClock {
    fn mono(&self) -> Mono {
        self.now()
    }

    fn wall(&self) -> WallMs {
        WallMs::from_millis(WALL_START_MS).plus(self.now().since(Mono::ZERO))
    }
}

/// One machine's clocks, which outlive its processes.
#[derive(Debug)]
pub(super) struct MachineClock {
    world: WorldClock,
    /// Milliseconds by which its wall clock is ahead.
    ahead_ms: Lock<i64>,
}

impl MachineClock {
    pub(super) const fn new(world: WorldClock) -> Self {
        Self { world, ahead_ms: Lock::new(0) }
    }

    pub(super) fn step(&self, by_ms: i64) {
        let mut ahead = self.ahead_ms.lock();
        *ahead = ahead.saturating_add(by_ms);
    }

    pub(super) fn world(&self) -> Mono {
        self.world.now()
    }

    pub(super) fn wall(&self) -> WallMs {
        let elapsed = self.world().since(Mono::ZERO);
        let steady = WallMs::from_millis(WALL_START_MS).plus(elapsed).as_millis();
        WallMs::from_millis(steady.saturating_add_signed(*self.ahead_ms.lock()))
    }
}

/// The clock of one process: its monotonic time starts with it.
#[derive(Debug)]
pub(super) struct ProcessClock {
    pub(super) machine: std::sync::Arc<MachineClock>,
    pub(super) boot: Mono,
}

impl Clock for ProcessClock {
    fn mono(&self) -> Mono {
        Mono::ZERO + self.machine.world().since(self.boot)
    }

    fn wall(&self) -> WallMs {
        self.machine.wall()
    }
}

/// Whole nanoseconds, saturating.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
