//! What a host is made of. Each trait has two implementations: the operating system's and the simulator's.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use base::{Mono, WallMs};
use tokio::task::AbortHandle;

use crate::{Disk, Net};

/// A future behind a pointer, as object-safe traits need.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Tells the time of one host. Timers run on tokio's clock, which the simulator pauses.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Monotonic time since the host started.
    fn mono(&self) -> Mono;

    /// Wall time; may step either way.
    fn wall(&self) -> WallMs;
}

/// Runs a host's tasks.
pub trait Tasks: fmt::Debug + Send + Sync {
    /// Starts `task`; `name` tells it apart in diagnostics.
    fn spawn(&self, name: &'static str, task: Boxed<'static, ()>) -> AbortHandle;

    /// Runs blocking or heavy `work` away from the tasks, or inline where time is simulated.
    fn compute(&self, work: Box<dyn FnOnce() + Send>);
}

/// Draws random bytes fit for keys.
pub trait Entropy: fmt::Debug + Send + Sync {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// The parts of a host.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// Its tasks.
    pub tasks: Arc<dyn Tasks>,
    /// Its network.
    pub net: Arc<dyn Net>,
    /// Its disk.
    pub disk: Arc<dyn Disk>,
    /// Its entropy.
    pub entropy: Arc<dyn Entropy>,
}
