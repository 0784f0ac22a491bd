//! What real machines are made of: namespaces, or addresses of the loopback device for those who are not root.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use simulation_chaos::{ChaosError, Emulator, Loopback, Namespace, Ports};

use super::links::Links;
use crate::deployment::{ADMIN, CALLS, MESH, MODELS};

/// What namespaces are called, before the number of the process that made them.
pub(super) const PREFIX: &str = "portolan-real";
/// Where hosts' addresses start.
const FIRST_ADDRESS: u32 = Ipv4Addr::new(10, 99, 0, 1).to_bits();

/// What machines are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// A network namespace each; needs root.
    Namespaces,
    /// Addresses of the loopback device; fewer faults.
    Loopback,
}

/// All machines, in the order of their names.
#[derive(Debug)]
pub(super) enum Machines {
    Namespaces(Vec<Namespace>),
    Loopback(Loopback),
}

impl Machines {
    /// Machines called so, and where others reach them.
    pub(super) fn make(
        ground: Ground,
        names: impl Iterator<Item = String>,
    ) -> Result<(Self, BTreeMap<String, Ipv4Addr>), ChaosError> {
        let addresses = (FIRST_ADDRESS..).map(Ipv4Addr::from_bits);
        let mut directory: BTreeMap<String, Ipv4Addr> = names.zip(addresses).collect();
        if ground == Ground::Loopback {
            let loopback = Loopback::new(directory.len());
            for (place, address) in directory.values_mut().enumerate() {
                *address = loopback.face(place);
            }
            return Ok((Self::Loopback(loopback), directory));
        }
        let prefix = format!("{PREFIX}-{}", std::process::id());
        let namespace = |(name, address): (&String, &Ipv4Addr)| {
            Namespace::new(&prefix, &simulation_chaos::Host { name: name.clone(), address: *address })
        };
        let namespaces = directory.iter().map(namespace).collect::<Result<_, _>>()?;
        Ok((Self::Namespaces(namespaces), directory))
    }

    /// Starts what is between them.
    pub(super) fn join(&mut self, links: Links) -> Result<Emulator<Links>, ChaosError> {
        match self {
            Self::Namespaces(namespaces) => Emulator::start(namespaces, links),
            Self::Loopback(loopback) => {
                let ports = Ports { datagrams: MESH, streams: &[ADMIN, CALLS, MODELS] };
                Emulator::on_loopback(*loopback, &ports, links)
            }
        }
    }

    pub(super) const fn len(&self) -> usize {
        match self {
            Self::Namespaces(namespaces) => namespaces.len(),
            Self::Loopback(loopback) => loopback.hosts(),
        }
    }

    pub(super) fn namespace(&self, place: usize) -> Option<&Namespace> {
        match self {
            Self::Namespaces(namespaces) => namespaces.get(place),
            Self::Loopback(_) => None,
        }
    }

    /// What processes of a machine bind; any address in a namespace.
    pub(super) fn seat(&self, place: usize) -> Option<Ipv4Addr> {
        match self {
            Self::Namespaces(_) => None,
            Self::Loopback(loopback) => Some(loopback.seat(place)),
        }
    }
}
