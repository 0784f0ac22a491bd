//! What escaped the hosts during a run: entropy, tasks and panics. None may.

use std::fmt;

use seam::Lock;

/// What escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaks {
    /// Entropy drawn while no host was running.
    pub draws: u64,
    /// Where tasks were spawned past `seam::Host::spawn`.
    pub tasks: Vec<String>,
    /// Tasks that panicked, by machine and name.
    pub panics: Vec<String>,
}

impl Leaks {
    /// Whether nothing escaped.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.draws == 0 && self.tasks.is_empty() && self.panics.is_empty()
    }
}

impl fmt::Display for Leaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} entropy draws outside of hosts", self.draws)?;
        if !self.tasks.is_empty() {
            write!(f, "; tasks spawned outside of hosts: {}", self.tasks.join(", "))?;
        }
        if !self.panics.is_empty() {
            write!(f, "; panics: {}", self.panics.join(", "))?;
        }
        Ok(())
    }
}

/// Collects leaks while a run goes on.
#[derive(Debug, Default)]
pub(super) struct Collector(Lock<Leaks>);

impl Collector {
    pub(super) fn task(&self, spawned_at: String) {
        self.0.lock().tasks.push(spawned_at);
    }

    pub(super) fn panic(&self, machine: &str, task: &str) {
        self.0.lock().panics.push(format!("{task} on {machine}"));
    }

    pub(super) fn with_draws(&self, draws: u64) -> Leaks {
        Leaks { draws, ..self.0.lock().clone() }
    }
}
