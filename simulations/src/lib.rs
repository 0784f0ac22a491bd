//! A deterministic world around the code that ships: one seed, one history.
//!
//! All hosts of a scenario live on one paused single-threaded runtime; time jumps from event to event. The hosts'
//! clocks, tasks, networks, disks and entropy are the engine's, so that a run repeats byte for byte, encrypted
//! packets included, and faults strike where and when the scenario says.

#[cfg(not(tokio_unstable))]
compile_error!(
    "the simulator needs `--cfg tokio_unstable` (see .cargo/config.toml; an exported RUSTFLAGS replaces it)"
);

pub mod actors;
pub mod authority;
pub mod caller;
pub mod cli;
pub mod deployment;
pub mod engine;
pub mod evidence;
pub mod faults;
pub mod figures;
mod files;
pub mod ground;
pub mod history;
pub mod http;
pub mod invariants;
pub mod linear;
pub mod marks;
pub mod mutants;
pub mod operator;
pub mod play;
pub mod real;
pub mod report;
pub mod scenario;
pub mod schedule;
pub mod shrink;
mod threads;
mod waits;
