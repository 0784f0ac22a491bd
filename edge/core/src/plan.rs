//! Which target a call tries, and which next when that failed.
//!
//! A name stands for targets (a route's, ordered or drawn by weight); a target for models (a group's, best first); a
//! model for paths: replicas of this region, edges of the regions that have replicas (nearest first), the central
//! node that relays to its provider (nearest first). The plan walks them in that order and skips what failed. It is
//! asked again after each failure, with the links as they are then. Whether to ask again is [`crate::retry`]'s.
//!
//! Where [`ENOUGH`] nodes of one place could not be reached, the place itself is cut off as far as this call can tell:
//! its other nodes come after everything else, so that they do not use up the tries.

mod links;
mod offers;

use std::sync::Arc;

use base::{Name, RegionName};
use wire::catalog::Operation;

pub use links::{Link, Links};
pub use offers::{Candidate, Offer, Offers};

/// Nodes of one region, or of central, that could not be reached before the others are left for last.
const ENOUGH: usize = 2;

/// How a call reaches what serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// A replica of this region, called by this node.
    Local,
    /// A replica of a peer region, called by that region's edge.
    Peer(Arc<Link>),
    /// The model's provider, called by a central node.
    Central(Arc<Link>),
}

impl Path {
    /// The node that calls the upstream; `None` is this one.
    #[must_use]
    pub fn node(&self) -> Option<&Link> {
        match self {
            Self::Local => None,
            Self::Peer(link) | Self::Central(link) => Some(link),
        }
    }

    /// The path's kind, as metrics and records name it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Peer(_) => "peer",
            Self::Central(_) => "central",
        }
    }
}

/// One try: a model and how to reach it.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// What is called.
    pub candidate: Arc<Candidate>,
    /// How.
    pub path: Path,
}

/// What an attempt's failure says about other attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// The node could not be reached: no path through it serves this call.
    Node,
    /// What serves the model there failed: other nodes would reach the same.
    Upstream,
}

/// Something that failed for this call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Avoided {
    Node(Name),
    Local(usize),
    Region(usize, RegionName),
    Provider(usize),
}

/// The walk of one call over what its name stands for.
#[derive(Clone, Debug)]
pub struct Plan {
    offer: Arc<Offer>,
    operation: Operation,
    drawn: u64,
    avoided: Vec<Avoided>,
}

impl Plan {
    /// A plan for one call. `drawn` is a random number: it alone decides among weighted targets.
    #[must_use]
    pub const fn new(offer: Arc<Offer>, operation: Operation, drawn: u64) -> Self {
        Self { offer, operation, drawn, avoided: Vec::new() }
    }

    /// The best attempt that has not failed; `None` when there is no other. `usable` says which models the call may
    /// use at all (those whose cost has a bound, under a strict budget).
    #[must_use]
    pub fn next(&self, links: &Links, usable: impl Fn(&Candidate) -> bool) -> Option<Attempt> {
        let operation = self.operation;
        let best = |doubtful: bool| {
            self.offer
                .in_order(self.drawn)
                .filter(|candidate| candidate.model.operations.contains(&operation) && usable(candidate))
                .find_map(|candidate| {
                    let path = self.path(candidate, links, doubtful)?;
                    Some(Attempt { candidate: Arc::clone(candidate), path })
                })
        };
        best(false).or_else(|| best(true))
    }

    /// Takes note that an attempt failed, so that [`Plan::next`] skips what would fail the same way.
    pub fn failed(&mut self, attempt: &Attempt, culprit: Culprit) {
        let model = attempt.candidate.index;
        self.avoided.push(match (&attempt.path, culprit) {
            (Path::Local, Culprit::Node | Culprit::Upstream) => Avoided::Local(model),
            (Path::Peer(link) | Path::Central(link), Culprit::Node) => Avoided::Node(link.node.clone()),
            (Path::Peer(link), Culprit::Upstream) => Avoided::Region(model, link.region.clone()),
            (Path::Central(_), Culprit::Upstream) => Avoided::Provider(model),
        });
    }

    /// How to reach a candidate; nodes of places that seem cut off count only when `doubtful`.
    fn path(&self, candidate: &Candidate, links: &Links, doubtful: bool) -> Option<Path> {
        if candidate.local && !self.avoids(&Avoided::Local(candidate.index)) {
            return Some(Path::Local);
        }
        let peers = || links.edges().iter();
        let cut_off = |link: &Link| self.is_cut_off(peers().filter(|other| other.region == link.region));
        let peer = peers().find(|link| self.may_ask(candidate, link) && (doubtful || !cut_off(link)));
        if let Some(peer) = peer {
            return Some(Path::Peer(Arc::clone(peer)));
        }
        if !candidate.relayed
            || self.avoids(&Avoided::Provider(candidate.index))
            || (!doubtful && self.is_cut_off(links.central().iter()))
        {
            return None;
        }
        let central = links.central().iter().find(|link| self.may_use(link))?;
        Some(Path::Central(Arc::clone(central)))
    }

    fn is_cut_off<'a>(&self, place: impl Iterator<Item = &'a Arc<Link>>) -> bool {
        place.filter(|link| !self.may_use(link)).count() >= ENOUGH
    }

    fn may_ask(&self, candidate: &Candidate, link: &Link) -> bool {
        candidate.regions.contains(&link.region)
            && self.may_use(link)
            && !self.avoided.iter().any(|avoided| match avoided {
                Avoided::Region(model, region) => *model == candidate.index && *region == link.region,
                Avoided::Node(_) | Avoided::Local(_) | Avoided::Provider(_) => false,
            })
    }

    fn may_use(&self, link: &Link) -> bool {
        !self.avoided.iter().any(|avoided| match avoided {
            Avoided::Node(node) => *node == link.node,
            Avoided::Local(_) | Avoided::Region(..) | Avoided::Provider(_) => false,
        })
    }

    fn avoids(&self, what: &Avoided) -> bool {
        self.avoided.contains(what)
    }
}

#[cfg(test)]
mod tests;
