//! The simulated ground: machines of a [`World`].

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use base::Mono;
use seam::{Boxed, Host};
use simulation_hooks::Random;

use super::Ground;
use crate::deployment::Deployment;
use crate::engine::{DiskFaults, Line, Link, Machine, PowerLoss, World};

/// Machines of a world, some of them with the nodes of a mesh.
#[derive(Debug)]
pub struct Simulated {
    world: World,
    mesh: Deployment,
    machines: BTreeMap<String, Machine>,
}

impl Simulated {
    /// All machines that `world` has by now.
    #[must_use]
    pub fn new(world: &World, mesh: &Deployment) -> Self {
        let named = |machine: Machine| (machine.name().to_owned(), machine);
        let machines = world.machines().into_iter().map(named).collect();
        Self { world: world.clone(), mesh: mesh.clone(), machines }
    }

    fn with(&self, name: &str, work: impl FnOnce(&Machine)) {
        if let Some(machine) = self.machines.get(name) {
            work(machine);
        }
    }
}

impl Ground for Simulated {
    fn now(&self) -> Mono {
        self.world.now()
    }

    fn sleep(&self, time: Duration) -> Boxed<'_, ()> {
        Box::pin(self.world.sleep(time))
    }

    fn random(&self, purpose: &str) -> Random {
        self.world.random(purpose)
    }

    fn address(&self, name: &str) -> String {
        name.to_owned()
    }

    fn machine_at(&self, address: IpAddr) -> Option<String> {
        let mut machines = self.machines.iter();
        machines.find(|(_name, machine)| machine.address() == address).map(|(name, _machine)| name.clone())
    }

    fn boot(&self, name: &str) -> Option<Host> {
        Some(self.machines.get(name)?.start())
    }

    fn start(&self, name: &str) {
        self.mesh.start(name);
    }

    fn crash(&self, name: &str) {
        self.with(name, Machine::crash);
    }

    fn stop(&self, name: &str) {
        self.mesh.stop(name);
    }

    fn set_build(&self, name: &str, ahead: u16) {
        self.with(name, |machine| machine.set_build(ahead));
    }

    fn power_off(&self, name: &str, torn: bool) {
        let loss = if torn { PowerLoss::Torn } else { PowerLoss::Unsynced };
        self.with(name, |machine| machine.power_off(loss));
    }

    fn pause(&self, name: &str) {
        self.with(name, Machine::pause);
    }

    fn resume(&self, name: &str) {
        self.with(name, Machine::resume);
    }

    fn step_clock(&self, name: &str, by_ms: i64) {
        self.with(name, |machine| machine.step_clock(by_ms));
    }

    fn speed_clock(&self, name: &str, by_ppm: i64) {
        self.with(name, |machine| machine.speed_clock(by_ppm));
    }

    fn slow(&self, name: &str, times: u64) {
        self.with(name, |machine| machine.slow(times));
    }

    fn set_link(&self, from: &str, to: &str, link: Link) {
        if let (Some(from), Some(to)) = (self.machines.get(from), self.machines.get(to)) {
            self.world.change_link(from, to, |old| *old = link);
        }
    }

    fn set_disk(&self, name: &str, faults: DiskFaults) {
        self.with(name, |machine| machine.disk_faults(|old| *old = faults));
    }

    fn disk_used(&self, name: &str) -> u64 {
        self.machines.get(name).map_or(0, Machine::disk_used)
    }

    fn is_running(&self, name: &str) -> bool {
        self.tasks(name) > 0
    }

    fn tasks(&self, name: &str) -> usize {
        self.machines.get(name).map_or(0, Machine::tasks)
    }

    fn streams(&self) -> usize {
        self.world.streams()
    }

    fn ended(&self) -> Vec<String> {
        self.mesh.ended()
    }

    fn log(&self) -> Vec<Line> {
        self.world.log()
    }

    fn files<'a>(&'a self, name: &'a str, directory: &'a Path) -> Boxed<'a, Vec<String>> {
        Box::pin(async move {
            let Some(machine) = self.machines.get(name) else { return Vec::new() };
            let disk = machine.disk();
            let mut files = disk.list(directory).await.unwrap_or_default();
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
