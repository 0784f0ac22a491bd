//! The real ground: a namespace for every machine, processes in them, and the link emulator between them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::{Mono, WallMs};
use seam::{Boxed, Clock, Host, Lock};
use simulation_chaos::{ChaosError, Emulator, Lateness, Process, SmallDisk};
use simulation_hooks::Random;

use super::actor::{self, Directory};
use super::clocks::{Clocks, Unstepped};
use super::links::Links;
use super::log;
use super::machines::Machines;
use crate::engine::{DiskFaults, Line, Link};
use crate::files;
use crate::ground::Ground;

/// A node and how it starts.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// `central` or `edge`.
    pub(super) command: &'static str,
    /// Its directory: configuration, certificate, data, records.
    pub(super) root: PathBuf,
    /// Its log.
    pub(super) log: PathBuf,
}

/// The binaries that nodes start from.
#[derive(Debug)]
pub(super) struct Builds {
    /// The product's.
    pub(super) portolan: PathBuf,
    /// The next level's.
    pub(super) next: Option<PathBuf>,
}

/// Real machines. What runs on them ends with [`Real::end`].
#[derive(Debug)]
pub(super) struct Real {
    seed: u64,
    builds: Builds,
    host: Host,
    began: WallMs,
    clock: Arc<dyn Clock>,
    directory: Directory,
    /// Places in the emulator's list, by name.
    places: BTreeMap<String, usize>,
    nodes: BTreeMap<String, Node>,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    emulator: Option<Emulator<Links>>,
    machines: Option<Machines>,
    processes: BTreeMap<String, Process>,
    actors: BTreeMap<String, actor::Process>,
    disks: BTreeMap<String, SmallDisk>,
    clocks: Option<Clocks>,
    ended: Vec<String>,
    /// Nodes that were asked to end.
    leaving: BTreeSet<String>,
    /// Nodes that start from the next level's binary.
    ahead: BTreeSet<String>,
}

impl Real {
    /// The `machines` are called as `directory` says, in its order.
    pub(super) fn new(
        (seed, builds): (u64, Builds),
        host: &Host,
        directory: &Directory,
        mut machines: Machines,
        nodes: BTreeMap<String, Node>,
    ) -> Result<Self, ChaosError> {
        let links = Links::new(machines.len(), Random::for_purpose(seed, "real network"));
        let emulator = machines.join(links)?;
        Ok(Self {
            seed,
            builds,
            host: host.clone(),
            began: host.wall(),
            clock: Arc::clone(&host.parts().clock),
            directory: Arc::clone(directory),
            places: directory.keys().cloned().zip(0..).collect(),
            nodes,
            state: Lock::new(State {
                emulator: Some(emulator),
                machines: Some(machines),
                ..State::default()
            }),
        })
    }

    /// Gives nodes disks that can be full.
    pub(super) fn small_disks(&self, mib: u64) -> Result<(), ChaosError> {
        for (name, node) in &self.nodes {
            let disk = SmallDisk::mount(&node.root, mib)?;
            self.state.lock().disks.insert(name.clone(), disk);
        }
        Ok(())
    }

    /// Gives nodes clocks that step; those that run keep the machine's until they are started again.
    pub(super) fn step_clocks(&self, library: PathBuf, root: &Path) -> std::io::Result<()> {
        self.state.lock().clocks = Some(Clocks::make(library, root, self.nodes.keys())?);
        Ok(())
    }

    /// Ends everything, and tells how late packets were.
    pub(super) fn end(&self) -> Option<Lateness> {
        let (emulator, processes, actors, disks, machines) = {
            let mut state = self.state.lock();
            let state = &mut *state;
            (
                state.emulator.take(),
                std::mem::take(&mut state.processes),
                std::mem::take(&mut state.actors),
                std::mem::take(&mut state.disks),
                state.machines.take(),
            )
        };
        drop((actors, processes));
        let lateness = emulator.and_then(|emulator| emulator.stop().ok());
        drop((disks, machines));
        lateness
    }

    fn with_links(&self, change: impl FnOnce(&mut Links)) {
        if let Some(emulator) = &self.state.lock().emulator {
            emulator.change(change);
        }
    }

    fn set_power(&self, name: &str, is_on: bool) {
        if let Some(host) = self.places.get(name) {
            self.with_links(|links| links.set_power(*host, is_on));
        }
    }

    fn try_start(&self, name: &str, node: &Node) -> Result<(), ChaosError> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let (Some(place), Some(machines)) = (self.places.get(name), &state.machines) else { return Ok(()) };
        let config = node.root.join("node.toml");
        let arguments = ["--config".as_ref(), config.as_os_str(), "--log-json".as_ref()];
        let arguments: Vec<&OsStr> = std::iter::once(OsStr::new(node.command)).chain(arguments).collect();
        let build = self.builds.next.as_ref().filter(|_next| state.ahead.contains(name));
        let build = build.unwrap_or(&self.builds.portolan);
        let environment = state.clocks.as_ref().map(|clocks| clocks.environment(name)).unwrap_or_default();
        let on = machines.namespace(*place);
        let process = Process::start(on, build, &arguments, &environment, &node.log)?;
        state.processes.insert(name.to_owned(), process);
        Ok(())
    }
}

impl State {
    /// Notes who ended by itself.
    fn look(&mut self) {
        let ended = self.processes.iter_mut().filter_map(|(name, process)| {
            process.ended().map(|how| (name.clone(), format!("{name}: {how}")))
        });
        for (name, how) in ended.collect::<Vec<_>>() {
            self.processes.remove(&name);
            if !self.leaving.remove(&name) {
                self.ended.push(how);
            }
        }
    }
}

impl Ground for Real {
    fn now(&self) -> Mono {
        self.clock.mono()
    }

    fn sleep(&self, time: Duration) -> Boxed<'_, ()> {
        Box::pin(self.host.sleep(time))
    }

    fn random(&self, purpose: &str) -> Random {
        Random::for_purpose(self.seed, purpose)
    }

    fn address(&self, name: &str) -> String {
        self.directory.get(name).map_or_else(|| name.to_owned(), ToString::to_string)
    }

    fn machine_at(&self, address: IpAddr) -> Option<String> {
        let found = self.directory.iter().find(|(_name, at)| IpAddr::from(**at) == address);
        found.map(|(name, _at)| name.clone())
    }

    fn boot(&self, name: &str) -> Option<Host> {
        self.crash(name);
        let started = {
            let state = self.state.lock();
            let (place, machines) = (*self.places.get(name)?, state.machines.as_ref()?);
            let on = (machines.namespace(place), machines.seat(place));
            actor::Process::start(on, &self.clock, &self.directory)
        };
        self.set_power(name, true);
        match started {
            Ok((process, host)) => {
                self.state.lock().actors.insert(name.to_owned(), process);
                Some(host)
            }
            Err(error) => {
                self.state.lock().ended.push(format!("{name}: {}", crate::deployment::chain(&error)));
                None
            }
        }
    }

    fn start(&self, name: &str) {
        let Some(node) = self.nodes.get(name) else { return };
        self.crash(name);
        self.set_power(name, true);
        if let Err(error) = self.try_start(name, node) {
            self.state.lock().ended.push(format!("{name}: {}", crate::deployment::chain(&error)));
        }
    }

    fn crash(&self, name: &str) {
        let (process, actor) = {
            let mut state = self.state.lock();
            state.look();
            state.leaving.remove(name);
            (state.processes.remove(name), state.actors.remove(name))
        };
        drop((process, actor));
    }

    fn stop(&self, name: &str) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(process) = state.processes.get(name) {
            process.terminate();
            state.leaving.insert(name.to_owned());
        }
    }

    fn set_build(&self, name: &str, ahead: u16) {
        let mut state = self.state.lock();
        if ahead > 0 {
            state.ahead.insert(name.to_owned());
        } else {
            state.ahead.remove(name);
        }
    }

    fn power_off(&self, name: &str, _torn: bool) {
        self.set_power(name, false);
        self.crash(name);
    }

    fn pause(&self, name: &str) {
        let mut state = self.state.lock();
        if let Some(process) = state.processes.get(name) {
            process.stop();
        }
        if let Some(actor) = state.actors.get_mut(name) {
            actor.pause();
        }
    }

    fn resume(&self, name: &str) {
        let mut state = self.state.lock();
        if let Some(process) = state.processes.get(name) {
            process.go_on();
        }
        if let Some(actor) = state.actors.get_mut(name) {
            actor.resume();
        }
    }

    fn step_clock(&self, name: &str, by_ms: i64) {
        if let Some(clocks) = &mut self.state.lock().clocks {
            clocks.step(name, by_ms, self.clock.mono());
        }
    }

    /// Skipped: the schedule of a real run has no such fault.
    fn speed_clock(&self, _name: &str, _by_ppm: i64) {}

    /// Skipped: processes share the machine's processors.
    fn slow(&self, _name: &str, _times: u64) {}

    fn set_link(&self, from: &str, to: &str, link: Link) {
        if let (Some(from), Some(to)) = (self.places.get(from), self.places.get(to)) {
            self.with_links(|links| links.set(*from, *to, link));
        }
    }

    /// Full or not: other faults of disks are none of a real run.
    fn set_disk(&self, name: &str, faults: DiskFaults) {
        if let Some(disk) = self.state.lock().disks.get(name) {
            if faults.capacity.is_some() {
                disk.fill();
            } else {
                disk.empty();
            }
        }
    }

    fn disk_used(&self, _name: &str) -> u64 {
        0
    }

    fn is_running(&self, name: &str) -> bool {
        let mut state = self.state.lock();
        state.look();
        state.processes.contains_key(name) || state.actors.contains_key(name)
    }

    fn tasks(&self, _name: &str) -> usize {
        0
    }

    fn streams(&self) -> usize {
        self.state.lock().processes.values().map(Process::open_files).sum()
    }

    fn ended(&self) -> Vec<String> {
        let mut state = self.state.lock();
        state.look();
        state.ended.clone()
    }

    fn log(&self) -> Vec<Line> {
        let state = self.state.lock();
        let read = |(name, node): (&String, &Node)| {
            let text = files::read(&node.log).unwrap_or_default();
            let steps = state.clocks.as_ref().map_or(&[][..], |clocks| clocks.stepped(name));
            let mut times = Unstepped::new(self.began, steps);
            text.lines().filter_map(|line| log::line(name, &mut times, line)).collect::<Vec<_>>()
        };
        self.nodes.iter().flat_map(read).collect()
    }

    fn files<'a>(&'a self, name: &'a str, directory: &'a Path) -> Boxed<'a, Vec<String>> {
        Box::pin(async move {
            let Some(node) = self.nodes.get(name) else { return Vec::new() };
            let directory = node.root.join(directory.strip_prefix("/").unwrap_or(directory));
            let disk = self.host.disk();
            let mut files = disk.list(&directory).await.unwrap_or_default();
            files.sort();
            let mut texts = Vec::new();
            for file in files {
                let bytes = disk.read(&directory.join(file)).await.unwrap_or_default();
                texts.push(String::from_utf8_lossy(&bytes).into_owned());
            }
            texts
        })
    }
}
