//! The gate around every task of a host: it lets the task run only while its process lives and is not paused, and
//! puts the machine's entropy and clocks in place while it runs or is dropped.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use seam::Boxed;
use simulation_hooks::Random;

use super::clock::Turn;
use super::machine::{Admission, Core};

/// What the standard monotonic clock shows when a run starts: not zero, so that subtracting a little is safe.
pub(super) const MONO_START_NS: u64 = 1_000_000_000_000;

thread_local! {
    static SPAWNING: Cell<bool> = const { Cell::new(false) };
    /// The machine whose task runs.
    static RUNNING: RefCell<Option<Arc<Core>>> = const { RefCell::new(None) };
}

/// The machine whose task runs; empty outside of tasks.
pub(super) fn machine_name() -> String {
    RUNNING.with_borrow(|running| running.as_ref().map(|machine| machine.name.clone()).unwrap_or_default())
}

/// Marks the tasks that `spawn` starts as known to the engine.
pub(super) fn spawning<T>(spawn: impl FnOnce() -> T) -> T {
    let before = SPAWNING.replace(true);
    let spawned = spawn();
    SPAWNING.set(before);
    spawned
}

/// Whether a task that is being spawned is known to the engine.
pub(super) fn is_spawning() -> bool {
    SPAWNING.get()
}

/// One task of one process.
pub(super) struct Gated {
    pub(super) machine: Arc<Core>,
    pub(super) generation: u64,
    pub(super) id: u64,
    pub(super) name: &'static str,
    pub(super) work: Option<Boxed<'static, ()>>,
}

impl Future for Gated {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let _turn = Turn::begin(&this.machine.clock);
        match this.machine.admit(this.generation, cx.waker()) {
            Admission::Run => {}
            Admission::Wait => return Poll::Pending,
            Admission::WaitUntil(free) => {
                this.machine.wake_when_free(free);
                return Poll::Pending;
            }
            Admission::Gone => return Poll::Ready(()),
        }
        let Some(work) = &mut this.work else { return Poll::Ready(()) };
        let _inside = Inside::enter(&this.machine, this.name);
        work.as_mut().poll(cx)
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        self.machine.forget_task(self.id);
        let _inside = Inside::enter(&self.machine, self.name);
        drop(self.work.take());
    }
}

/// While it lives, the thread runs as the machine.
struct Inside<'a> {
    machine: &'a Core,
    task: &'static str,
    before: Option<Random>,
    outside: Option<Arc<Core>>,
    panicking_before: bool,
}

impl<'a> Inside<'a> {
    fn enter(machine: &'a Arc<Core>, task: &'static str) -> Self {
        let since_start = machine.clock.world().as_nanos();
        let wall_ns = machine.clock.wall().as_millis().saturating_mul(1_000_000);
        simulation_hooks::set_time(MONO_START_NS.saturating_add(since_start), wall_ns);
        let before = simulation_hooks::swap(Some(machine.stream()));
        let outside = RUNNING.replace(Some(Arc::clone(machine)));
        Self { machine, task, before, outside, panicking_before: std::thread::panicking() }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(stream) = simulation_hooks::swap(self.before) {
            self.machine.keep_stream(stream);
        }
        RUNNING.set(self.outside.take());
        if std::thread::panicking() && !self.panicking_before {
            self.machine.shared.leaks.panic(&self.machine.name, self.task);
        }
    }
}
