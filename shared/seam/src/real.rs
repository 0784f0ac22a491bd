//! The operating system's side of every door.

#![expect(clippy::disallowed_methods, reason = "the one module that opens the operating system's doors")]

mod disk;
mod net;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base::{Mono, WallMs};
use tokio::task::AbortHandle;

use crate::{Boxed, Clock, Entropy, Parts, Tasks};

pub(crate) fn parts() -> Parts {
    Parts {
        clock: Arc::new(SystemClock { start: tokio::time::Instant::now() }),
        tasks: Arc::new(TokioTasks),
        net: Arc::new(net::SystemNet),
        disk: Arc::new(disk::SystemDisk),
        entropy: Arc::new(SystemEntropy),
    }
}

#[derive(Debug)]
struct SystemClock {
    start: tokio::time::Instant,
}

impl Clock for SystemClock {
    fn mono(&self) -> Mono {
        Mono::ZERO + self.start.elapsed()
    }

    fn wall(&self) -> WallMs {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallMs::default().plus(since)
    }
}

#[derive(Debug)]
struct TokioTasks;

impl Tasks for TokioTasks {
    fn spawn(&self, _name: &'static str, task: Boxed<'static, ()>) -> AbortHandle {
        tokio::spawn(task).abort_handle()
    }

    fn compute(&self, work: Box<dyn FnOnce() + Send>) {
        drop(tokio::task::spawn_blocking(work));
    }
}

#[derive(Debug)]
struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(
        clippy::expect_used,
        reason = "a kernel without entropy cannot run a node; serving on would leak keys"
    )]
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system gives random bytes");
    }
}
