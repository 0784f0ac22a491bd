//! A world: its machines, the links between them, and time.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use base::Mono;
use seam::{Clock, Lock};
use simulation_hooks::Random;

use super::clock::{MachineClock, WorldClock};
use super::log::{self, Line};
use super::machine::{Machine, Shared};
use super::network::{Cut, Link};

/// Where machines' addresses start; each machine takes the next one.
const FIRST_ADDRESS: u32 = Ipv4Addr::new(10, 0, 0, 1).to_bits();

/// One scenario's world. Cheap to clone.
#[derive(Clone, Debug)]
pub struct World {
    clock: WorldClock,
    shared: Arc<Shared>,
    machines: Arc<Lock<Vec<Machine>>>,
}

impl World {
    pub(super) fn new(clock: WorldClock, shared: Arc<Shared>) -> Self {
        Self { clock, shared, machines: Arc::default() }
    }

    /// Adds a machine, without a process.
    #[must_use]
    pub fn machine(&self, name: &str) -> Machine {
        let mut machines = self.machines.lock();
        let number = u32::try_from(machines.len()).unwrap_or(u32::MAX);
        let address = IpAddr::from(Ipv4Addr::from_bits(FIRST_ADDRESS.saturating_add(number)));
        let machine = Machine::new(name, address, MachineClock::new(self.clock), Arc::clone(&self.shared));
        self.shared.network.name(name, address);
        machines.push(machine.clone());
        machine
    }

    /// All machines, in the order they were added.
    #[must_use]
    pub fn machines(&self) -> Vec<Machine> {
        self.machines.lock().clone()
    }

    /// Gives a machine another name to be found by.
    pub fn alias(&self, name: &str, machine: &Machine) {
        self.shared.network.name(name, machine.address());
    }

    /// Time since the run started.
    #[must_use]
    pub fn now(&self) -> Mono {
        self.clock.now()
    }

    /// The clock that shows it.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock)
    }

    /// Lets the world go on for `time`.
    pub async fn sleep(&self, time: Duration) {
        self.clock.sleep_until(self.now() + time).await;
    }

    /// A stream of numbers of its own for `purpose`.
    #[must_use]
    pub fn random(&self, purpose: &str) -> Random {
        Random::for_purpose(self.shared.seed, purpose)
    }

    /// Sets what links are like that no other call changed. Call it before machines talk.
    pub fn default_link(&self, link: Link) {
        self.shared.network.set_default_link(link);
    }

    /// Changes the link from one machine to another, one way.
    pub fn change_link(&self, from: &Machine, to: &Machine, change: impl FnOnce(&mut Link)) {
        self.shared.network.change_link(from.address(), to.address(), change);
    }

    /// Cuts every link from `from` to `to`, one way.
    pub fn cut(&self, from: &[Machine], to: &[Machine], cut: Cut) {
        self.between(from, to, |link| link.cut = Some(cut));
    }

    /// Cuts every link between two sets of machines, both ways.
    pub fn partition(&self, one: &[Machine], other: &[Machine], cut: Cut) {
        self.cut(one, other, cut);
        self.cut(other, one, cut);
    }

    /// Makes every cut link whole. What was held is sent on.
    pub fn heal(&self) {
        let all = self.machines();
        self.between(&all, &all, |link| link.cut = None);
    }

    /// Byte streams of which a process still holds an end.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.shared.network.streams()
    }

    /// What machines logged so far, at `info` or above.
    #[must_use]
    pub fn log(&self) -> Vec<Line> {
        log::lines()
    }

    /// Ends all processes.
    pub(super) fn end(&self) {
        for machine in self.machines() {
            machine.crash();
        }
    }

    fn between(&self, from: &[Machine], to: &[Machine], change: impl Fn(&mut Link)) {
        for from in from {
            for to in to.iter().filter(|to| to.address() != from.address()) {
                self.change_link(from, to, &change);
            }
        }
    }
}
