//! The other nodes of the mesh as this one reaches them, nearest first.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{Name, RegionName, Role};
use wire::control::NodeAddr;

/// One other node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub node: Name,
    /// Its role; never an operator's.
    pub role: Role,
    /// Its region.
    pub region: RegionName,
    /// Where its mesh endpoint listens.
    pub mesh: SocketAddr,
    /// Round trip of the standing connection; `None` when there is none.
    pub rtt: Option<Duration>,
}

impl Link {
    /// Where the node is.
    #[must_use]
    pub fn address(&self) -> NodeAddr {
        NodeAddr { name: self.node.clone(), role: self.role, region: self.region.clone(), mesh: self.mesh }
    }
}

/// The order of links is policy: those that stand before those that do not, then the nearest, then by name.
fn rank(link: &Link) -> (bool, Option<Duration>, &Name) {
    (link.rtt.is_none(), link.rtt, &link.node)
}

/// All links of a node at one instant.
#[derive(Clone, Debug, Default)]
pub struct Links {
    edges: Vec<Arc<Link>>,
    central: Vec<Arc<Link>>,
}

impl Links {
    /// The links of node `own` in region `home`, given where nodes are and which connections stand. Edges of the own
    /// region are no targets: they would call the same replicas.
    #[must_use]
    pub fn new(nodes: &[NodeAddr], own: &Name, home: &RegionName, standing: &[(Name, Duration)]) -> Self {
        let mut links: Vec<_> = nodes
            .iter()
            .filter(|node| node.name != *own)
            .map(|node| {
                let rtt = standing.iter().find(|(name, _)| *name == node.name).map(|(_, rtt)| *rtt);
                Arc::new(Link {
                    node: node.name.clone(),
                    role: node.role,
                    region: node.region.clone(),
                    mesh: node.mesh,
                    rtt,
                })
            })
            .collect();
        links.sort_by(|a, b| rank(a).cmp(&rank(b)));
        let edges = links.iter().filter(|link| link.role == Role::Edge && link.region != *home).cloned();
        let central = links.iter().filter(|link| link.role == Role::Central).cloned();
        Self { edges: edges.collect(), central: central.collect() }
    }

    /// Edges of other regions, best first.
    #[must_use]
    pub fn edges(&self) -> &[Arc<Link>] {
        &self.edges
    }

    /// Central nodes, best first.
    #[must_use]
    pub fn central(&self) -> &[Arc<Link>] {
        &self.central
    }
}
