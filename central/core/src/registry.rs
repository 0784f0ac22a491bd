//! Which nodes exist. Incarnations belong to the ledger; here is where a node listens and which process speaks for it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use base::{Incarnation, Name, NodeId, RegionName, Role, WallMs};
use serde::{Deserialize, Serialize};
use wire::control::NodeAddr;

use crate::Registration;

/// The nodes of the mesh.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registry {
    /// Members of the Raft group.
    pub members: BTreeMap<NodeId, NodeAddr>,
    /// Every number of a member that was ever seen to hold a log.
    pub joined: BTreeSet<NodeId>,
    /// Edges that registered, by the name in their certificate.
    pub edges: BTreeMap<Name, EdgeNode>,
}

/// An edge as it last registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeNode {
    /// The region in its certificate.
    pub region: RegionName,
    /// Where its mesh endpoint listens.
    pub mesh: SocketAddr,
    /// The process that speaks for it.
    pub boot: u64,
    /// The incarnation that process spends under.
    pub incarnation: Incarnation,
    /// Level of its messages.
    pub level: u16,
    /// Its build's version.
    pub build: String,
    /// When it registered.
    pub registered: WallMs,
    /// Whether it left in good order.
    pub left: bool,
}

impl Registry {
    /// Every node, central ones first, each group in the order of its key. Edges that left are not listed.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeAddr> {
        let present = self.edges.iter().filter(|(_name, edge)| !edge.left);
        let edges = present.map(|(name, edge)| NodeAddr {
            name: name.clone(),
            role: Role::Edge,
            region: edge.region.clone(),
            mesh: edge.mesh,
        });
        self.members.values().cloned().chain(edges).collect()
    }

    /// Notes where an edge is; whether that changed the list of nodes.
    pub(crate) fn register(
        &mut self,
        at: WallMs,
        who: &Registration,
        level: u16,
        incarnation: Incarnation,
    ) -> bool {
        let now = EdgeNode {
            region: who.region.clone(),
            mesh: who.hello.mesh,
            boot: who.hello.boot,
            incarnation,
            level,
            build: who.hello.build.clone(),
            registered: at,
            left: false,
        };
        match self.edges.insert(who.edge.clone(), now) {
            None => true,
            Some(before) => {
                (before.left && !base::mutant!(ReturnUntold))
                    || before.mesh != who.hello.mesh
                    || before.region != who.region
            }
        }
    }

    /// Notes that a process left; whether that changed the list of nodes.
    pub(crate) fn leave(&mut self, edge: &Name, boot: u64) -> bool {
        match self.edges.get_mut(edge) {
            Some(node) if node.boot == boot && !node.left => {
                node.left = true;
                true
            }
            Some(_newer_or_left) => false,
            None => false,
        }
    }
}
