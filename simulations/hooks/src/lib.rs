//! Entropy and clocks of the C library, answered by the simulator on the threads that ask for it.
//!
//! Decided here: what `getrandom`, `getentropy`, `syscall` and `clock_gettime` give to a thread that runs a
//! simulation. Hash seeds, TLS keys and nonces then come from the stream of the host that is running, and standard
//! clocks show simulated time. Every other thread, and everything else that goes through `syscall`, reaches the real
//! C library. Nothing here allocates or locks: the hooks run inside allocators and thread start-up.
//!
//! Only the simulator's executables link this package. As a library of its own it is loaded into real processes whose wall
//! clock shall step.

mod interpose;
mod random;
mod steps;

use std::cell::Cell;

pub use random::Random;
pub use steps::{STEPS, Steps};

thread_local! {
    static STATE: State = const { State::new() };
}

struct State {
    on: Cell<bool>,
    stream: Cell<Option<Random>>,
    stray: Cell<Random>,
    mono_ns: Cell<u64>,
    wall_ns: Cell<u64>,
    draws: Cell<u64>,
    stray_draws: Cell<u64>,
}

impl State {
    const fn new() -> Self {
        Self {
            on: Cell::new(false),
            stream: Cell::new(None),
            stray: Cell::new(Random::new(0)),
            mono_ns: Cell::new(0),
            wall_ns: Cell::new(0),
            draws: Cell::new(0),
            stray_draws: Cell::new(0),
        }
    }
}

/// How often a thread drew entropy through the C library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// Draws answered from a host's stream.
    pub hosted: u64,
    /// Draws made while no host was running: they tie the result to something other than the hosts.
    pub stray: u64,
}

/// Makes the calling thread a simulated one, for ever. Draws outside of hosts come from a stream of `seed`.
pub fn enter(seed: u64) {
    STATE.with(|state| {
        state.stray.set(Random::new(seed));
        state.on.set(true);
    });
}

/// Puts the stream of the host that starts running in place, and gives back the one that was there.
pub fn swap(stream: Option<Random>) -> Option<Random> {
    STATE.with(|state| state.stream.replace(stream))
}

/// Sets what the standard clocks of this thread show, in nanoseconds since their epochs.
pub fn set_time(mono_ns: u64, wall_ns: u64) {
    STATE.with(|state| {
        state.mono_ns.set(mono_ns);
        state.wall_ns.set(wall_ns);
    });
}

/// Nanoseconds that this thread's monotonic clock shows.
#[must_use]
pub fn mono_ns() -> u64 {
    STATE.with(|state| state.mono_ns.get())
}

/// Counts of this thread since [`enter`] or the last [`forget_draws`].
#[must_use]
pub fn draws() -> Draws {
    STATE.with(|state| Draws { hosted: state.draws.get(), stray: state.stray_draws.get() })
}

/// Starts the counts of this thread again.
pub fn forget_draws() {
    STATE.with(|state| {
        state.draws.set(0);
        state.stray_draws.set(0);
    });
}

/// Fills `bytes` when this thread is simulated, and says whether it did.
fn fill(bytes: &mut [u8]) -> bool {
    STATE
        .try_with(|state| {
            if !state.on.get() {
                return false;
            }
            if let Some(mut stream) = state.stream.get() {
                stream.fill(bytes);
                state.stream.set(Some(stream));
                state.draws.set(state.draws.get().saturating_add(1));
            } else {
                let mut stream = state.stray.get();
                stream.fill(bytes);
                state.stray.set(stream);
                state.stray_draws.set(state.stray_draws.get().saturating_add(1));
            }
            true
        })
        .unwrap_or(false)
}

/// Nanoseconds of the wall clock or the monotonic clock, when this thread is simulated.
fn time_ns(wall: bool) -> Option<u64> {
    STATE
        .try_with(|state| match (state.on.get(), wall) {
            (false, _) => None,
            (true, true) => Some(state.wall_ns.get()),
            (true, false) => Some(state.mono_ns.get()),
        })
        .unwrap_or(None)
}
