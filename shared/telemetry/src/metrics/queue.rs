//! What is counted of calls that wait.

use std::time::Duration;

use base::Priority;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::SECONDS;

/// Handles of one kind of queue. Cheap to clone.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    pub(super) depth: [Gauge; 2],
    pub(super) wait: [Histogram; 2],
}

impl Default for QueueMetrics {
    /// Counted, and shown nowhere.
    fn default() -> Self {
        Self { depth: Default::default(), wait: [SECONDS(), SECONDS()] }
    }
}

/// A call that waits; it is counted until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Waits(Gauge);

impl QueueMetrics {
    /// A call waits.
    pub fn waits(&self, priority: Priority) -> Waits {
        let depth = of(&self.depth, priority);
        depth.inc();
        Waits(depth.clone())
    }

    /// It was a call's turn after so long.
    pub fn waited(&self, priority: Priority, time: Duration) {
        of(&self.wait, priority).observe(time.as_secs_f64());
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.dec();
    }
}

const fn of<T>([interactive, batch]: &[T; 2], priority: Priority) -> &T {
    match priority {
        Priority::Interactive => interactive,
        Priority::Batch => batch,
    }
}
