//! The log's clock as a node keeps it. A leader stamps its entries with it, and a node that hears an entry goes on from
//! there: a new leader adds what passed since it heard the last one, never what passed on the way.

use std::sync::Arc;

use base::Mono;
use central_core::LogMs;
use seam::Lock;

/// A node's clock may run fast by one part in so many; the log's clock is slower by as much.
const DRIFT: u32 = 2_000;

/// Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub(super) struct LogClock(Arc<Lock<Heard>>);

/// What the log's clock showed when.
#[derive(Clone, Copy, Debug)]
struct Heard {
    shown: LogMs,
    at: Mono,
}

impl Heard {
    fn now(self, now: Mono) -> LogMs {
        let passed = now.since(self.at);
        let ms = passed.saturating_sub(passed / DRIFT).as_millis();
        LogMs(self.shown.0.saturating_add(u64::try_from(ms).unwrap_or(u64::MAX)))
    }
}

impl LogClock {
    /// A clock that shows nothing yet.
    pub(super) fn new(now: Mono) -> Self {
        Self(Arc::new(Lock::new(Heard { shown: LogMs::default(), at: now })))
    }

    /// What it shows.
    pub(super) fn now(&self, now: Mono) -> LogMs {
        self.0.lock().now(now)
    }

    /// An entry, or a snapshot, shows this.
    pub(super) fn heard(&self, shown: LogMs, now: Mono) {
        let mut heard = self.0.lock();
        if shown > heard.now(now) {
            *heard = Heard { shown, at: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_goes_on_from_what_it_heard_and_never_back_or_ahead() {
        let start = Mono::ZERO + SECOND;
        let clock = LogClock::new(start);
        assert_eq!(clock.now(start), LogMs(0));
        clock.heard(LogMs(5_000), start + SECOND);
        assert_eq!(clock.now(start + SECOND * 3), LogMs(6_999));
        clock.heard(LogMs(6_000), start + SECOND * 3);
        assert_eq!(clock.now(start + SECOND * 3), LogMs(6_999), "an older entry changes nothing");
    }
}
