//! What lies under a field of faults: the machines that it strikes and the links between them. One ground is simulated,
//! another has real processes on it; actors, faults, phases and invariants are the same on both.

mod simulated;

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use base::Mono;
use seam::{Boxed, Host};
use simulation_hooks::Random;

use crate::engine::{DiskFaults, Line, Link};

pub use simulated::Simulated;

/// Machines by name, and links. A name that no machine has is passed over.
pub trait Ground: fmt::Debug + Send + Sync {
    /// Since the run began.
    fn now(&self) -> Mono;

    /// Lets the run go on for `time`.
    fn sleep(&self, time: Duration) -> Boxed<'_, ()>;

    /// A stream of numbers of its own for `purpose`.
    fn random(&self, purpose: &str) -> Random;

    /// What nodes find a machine by.
    fn address(&self, name: &str) -> String;

    /// The machine that packets from `address` come from.
    fn machine_at(&self, address: IpAddr) -> Option<String>;

    /// Starts the process of an actor, after killing the one that runs. It does what its host is made to do.
    fn boot(&self, name: &str) -> Option<Host>;

    /// Starts a node, after killing its process if one runs.
    fn start(&self, name: &str);

    /// Kills a process.
    fn crash(&self, name: &str);

    /// Asks a node to stop in good order, as SIGTERM does.
    fn stop(&self, name: &str);

    /// Says how many levels of messages a machine's next process knows more than this release.
    fn set_build(&self, name: &str, ahead: u16);

    /// Takes a machine's power away; `torn`: a part of what was not synced survives.
    fn power_off(&self, name: &str, torn: bool);

    /// Lets a process stand still.
    fn pause(&self, name: &str);

    /// Lets it go on.
    fn resume(&self, name: &str);

    /// Steps a wall clock.
    fn step_clock(&self, name: &str, by_ms: i64);

    /// Makes both clocks of a machine faster by so many millionths, or slower, than they are.
    fn speed_clock(&self, name: &str, by_ppm: i64);

    /// Lets a machine do its work so many times slower; 0: as fast as it can.
    fn slow(&self, name: &str, times: u64);

    /// Says what the link from one machine to another is like from now on.
    fn set_link(&self, from: &str, to: &str, link: Link);

    /// Says what a machine's disk does from now on.
    fn set_disk(&self, name: &str, faults: DiskFaults);

    /// Bytes that a machine's disk holds.
    fn disk_used(&self, name: &str) -> u64;

    /// Whether a process runs on the machine.
    fn is_running(&self, name: &str) -> bool;

    /// Tasks of the process that runs, where they can be counted.
    fn tasks(&self, name: &str) -> usize;

    /// Byte streams of which a process holds an end.
    fn streams(&self) -> usize;

    /// Nodes that ended without being asked or killed, and why.
    fn ended(&self) -> Vec<String>;

    /// What nodes logged so far, at `info` or above.
    fn log(&self) -> Vec<Line>;

    /// The texts of the files in a directory of a machine's disk, in order of their names.
    fn files<'a>(&'a self, name: &'a str, directory: &'a Path) -> Boxed<'a, Vec<String>>;
}
