//! The links between real hosts: the very model of the simulated network decides packets' fates.

use std::time::Duration;

use base::Mono;
use simulation_chaos::{Fate, Fates};
use simulation_hooks::Random;

use crate::engine::{self, Link, Path};

/// Headers of IPv4 and UDP, which the model's largest datagram leaves out.
const HEADERS: usize = 28;

/// All links, by the hosts' places in the emulator's list.
#[derive(Debug)]
pub(super) struct Links {
    hosts: usize,
    paths: Vec<Path<()>>,
    without_power: Vec<bool>,
    random: Random,
}

impl Links {
    pub(super) fn new(hosts: usize, random: Random) -> Self {
        let paths = (0..hosts * hosts).map(|_link| Path::new(Link::default())).collect();
        Self { hosts, paths, without_power: vec![false; hosts], random }
    }

    pub(super) fn set(&mut self, from: usize, to: usize, link: Link) {
        if let Some(path) = self.paths.get_mut(from * self.hosts + to) {
            path.link = link;
        }
    }

    /// A host without power neither sends nor hears.
    pub(super) fn set_power(&mut self, host: usize, is_on: bool) {
        if let Some(without) = self.without_power.get_mut(host) {
            *without = !is_on;
        }
    }
}

impl Fates for Links {
    fn fate(&mut self, from: usize, to: usize, bytes: usize, is_datagram: bool, now: Duration) -> Fate {
        let is_off = |host: usize| self.without_power.get(host).copied().unwrap_or(true);
        if is_off(from) || is_off(to) {
            return Fate::Lost;
        }
        let Some(path) = self.paths.get_mut(from * self.hosts + to) else { return Fate::Lost };
        let len = if is_datagram { bytes.saturating_sub(HEADERS) } else { bytes };
        let since = |at: Mono| at.since(Mono::ZERO);
        match path.fate(Mono::ZERO + now, len, is_datagram, &mut self.random) {
            engine::Fate::Lost => Fate::Lost,
            engine::Fate::Held => Fate::Held,
            engine::Fate::Arrives(due) => Fate::Arrives(since(due)),
            engine::Fate::ArrivesTwice(due, again) => Fate::Twice(since(due), since(again)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Cut;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn links_follow_the_model_of_the_simulated_network_one_way_each() {
        let mut links = Links::new(2, Random::new(1));
        links.set(0, 1, Link { delay: 20 * MS, ..Link::default() });
        links.set(1, 0, Link { cut: Some(Cut::Hold), ..Link::default() });
        assert_eq!(links.fate(0, 1, 1_228, true, 5 * MS), Fate::Arrives(25 * MS));
        assert_eq!(links.fate(1, 0, 1_228, true, 5 * MS), Fate::Held);
        assert_eq!(links.fate(0, 1, 1_501, true, 5 * MS), Fate::Lost, "larger than an Ethernet frame");
    }

    #[test]
    fn a_host_without_power_neither_sends_nor_hears() {
        let mut links = Links::new(2, Random::new(1));
        links.set_power(1, false);
        assert_eq!([links.fate(0, 1, 100, true, MS), links.fate(1, 0, 100, true, MS)], [Fate::Lost; 2]);
        links.set_power(1, true);
        assert_eq!(links.fate(0, 1, 100, true, MS), Fate::Arrives(2 * MS));
    }
}
