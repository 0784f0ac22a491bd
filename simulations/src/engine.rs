//! The engine: runs a scenario ([`run()`]) in a [`World`] of [`Machine`]s and hands over its [`Report`].
//!
//! What makes a run repeat: a fresh thread per scenario, entropy and clocks of the C library answered by
//! `simulation_hooks`, a seeded scheduler, one heap of events ordered by time and sequence, and one entropy stream
//! per host. What does not pass through a host is counted as a leak and fails the run.

mod capture;
mod clock;
mod disk;
mod entropy;
mod gate;
mod leaks;
mod log;
mod machine;
mod network;
mod run;
mod trace;
mod world;

pub use capture::Capture;
pub use disk::{DiskFaults, PowerLoss};
pub use leaks::Leaks;
pub use log::Line;
pub use machine::Machine;
pub use network::{Cut, Link, Reorder};
pub(crate) use network::{Fate, Path};
pub use run::{Captured, Failure, Options, Report, run, run_twice};
pub use simulation_hooks::Random;
pub use trace::{Packet, Trace};
pub use world::World;
