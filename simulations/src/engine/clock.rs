//! Clocks: the world's, and each host's view of it.

use std::cell::Cell;
use std::time::Duration;

use base::{Mono, WallMs};
use seam::{Clock, Lock};
use tokio::time::Instant;

/// What wall clocks show when a run starts: 2027-01-15 08:00:00 UTC, in milliseconds.
pub(super) const WALL_START_MS: u64 = 1_800_000_000_000;

thread_local! {
    /// What the world's clock shows while a task runs: a turn takes no time.
    static TURN: Cell<Option<Mono>> = const { Cell::new(None) };
}

/// While it lives the world's clock is not read anew.
pub(super) struct Turn(Option<Mono>);

impl Turn {
    pub(super) fn begin(clock: &MachineClock) -> Self {
        Self(TURN.replace(Some(clock.world())))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TURN.set(self.0);
    }
}

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
        TURN.get().unwrap_or_else(|| Mono::ZERO + self.start.elapsed())
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

/// One machine's clocks, which outlive its processes. Timers run on the world's.
#[derive(Debug)]
pub(super) struct MachineClock {
    world: WorldClock,
    skew: Lock<Skew>,
}

/// How a machine's clocks differ from the world's.
#[derive(Clone, Copy, Debug, Default)]
struct Skew {
    /// Milliseconds by which the wall clock was set ahead.
    ahead_ms: i64,
    /// Millionths by which both clocks are fast.
    drift_ppm: i64,
    /// Since when they have been, and what they had gained until then, in nanoseconds.
    since: Mono,
    gained_ns: i64,
}

impl Skew {
    fn gained_ns(&self, now: Mono) -> i64 {
        if self.drift_ppm == 0 {
            return self.gained_ns;
        }
        let elapsed = i64::try_from(now.since(self.since).as_nanos()).unwrap_or(i64::MAX);
        let drifted = i128::from(elapsed) * i128::from(self.drift_ppm) / 1_000_000;
        self.gained_ns.saturating_add(i64::try_from(drifted).unwrap_or(0))
    }
}

impl MachineClock {
    pub(super) fn new(world: WorldClock) -> Self {
        Self { world, skew: Lock::default() }
    }

    pub(super) fn step(&self, by_ms: i64) {
        let mut skew = self.skew.lock();
        skew.ahead_ms = skew.ahead_ms.saturating_add(by_ms);
    }

    /// Makes it faster by so many millionths than it is, but never stand still.
    pub(super) fn speed(&self, by_ppm: i64) {
        let now = self.world();
        let mut skew = self.skew.lock();
        skew.gained_ns = skew.gained_ns(now);
        skew.since = now;
        skew.drift_ppm = skew.drift_ppm.saturating_add(by_ppm).clamp(-500_000, 500_000);
    }

    /// Time since the run started, as this machine counts it.
    fn elapsed(&self) -> Mono {
        let now = self.world();
        Mono::from_nanos(now.as_nanos().saturating_add_signed(self.skew.lock().gained_ns(now)))
    }

    pub(super) fn world(&self) -> Mono {
        self.world.now()
    }

    /// Waits until the world's clock shows `at`.
    pub(super) fn sleep_until(&self, at: Mono) -> tokio::time::Sleep {
        self.world.sleep_until(at)
    }

    pub(super) fn wall(&self) -> WallMs {
        let now = self.world();
        let skew = *self.skew.lock();
        let elapsed = now.as_nanos().saturating_add_signed(skew.gained_ns(now));
        let steady = WallMs::from_millis(WALL_START_MS).plus(Duration::from_nanos(elapsed)).as_millis();
        WallMs::from_millis(steady.saturating_add_signed(skew.ahead_ms))
    }
}

/// The clock of one process: its monotonic time starts with it.
#[derive(Debug)]
pub(super) struct ProcessClock {
    machine: std::sync::Arc<MachineClock>,
    boot: Mono,
}

impl ProcessClock {
    /// The clock of a process that starts now.
    pub(super) fn start(machine: &std::sync::Arc<MachineClock>) -> Self {
        Self { machine: std::sync::Arc::clone(machine), boot: machine.elapsed() }
    }
}

impl Clock for ProcessClock {
    fn mono(&self) -> Mono {
        Mono::ZERO + self.machine.elapsed().since(self.boot)
    }

    fn wall(&self) -> WallMs {
        self.machine.wall()
    }
}

/// Whole nanoseconds, saturating.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
