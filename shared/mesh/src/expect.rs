//! Whether a peer is let in: the checks of a verified certificate's identity, and the one that failed.

use std::fmt;

use base::{Name, RegionName, Role};

use crate::Identity;

/// Who the dialled node must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expect {
    /// Its role.
    pub role: Role,
    /// Its region, when known.
    pub region: Option<RegionName>,
    /// Its name, when known.
    pub node: Option<Name>,
}

/// The check that a peer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// The certificate itself is malformed or unfit.
    Certificate,
    /// Another authority signed it.
    Authority,
    /// It is no longer valid.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// It names no node.
    Identity,
    /// It is of another mesh.
    Mesh,
    /// The node's role is not the one expected, or may not do this.
    Role,
    /// The node is of another region.
    Region,
    /// It is another node.
    Node,
}

impl Check {
    const ALL: [Self; 9] = [
        Self::Certificate,
        Self::Authority,
        Self::Expired,
        Self::NotYetValid,
        Self::Identity,
        Self::Mesh,
        Self::Role,
        Self::Region,
        Self::Node,
    ];

    /// The failure in words; also how it crosses the wire in a closing reason.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Certificate => "bad certificate",
            Self::Authority => "wrong authority",
            Self::Expired => "expired certificate",
            Self::NotYetValid => "certificate not yet valid",
            Self::Identity => "no identity",
            Self::Mesh => "wrong mesh",
            Self::Role => "wrong role",
            Self::Region => "wrong region",
            Self::Node => "wrong node",
        }
    }

    /// The check named in a closing reason, and the refusal's words without what TLS wraps around them.
    pub(crate) fn named_in(reason: &str) -> Option<(Self, &str)> {
        let found = |check: Self| Some((check, reason.get(reason.find(check.as_str())?..)?));
        let (check, words) = Self::ALL.into_iter().find_map(found)?;
        Some((check, words.strip_suffix("))").unwrap_or(words)))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a peer is not let in. Goes to the peer as well: it names what the peer showed and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{check}: {detail}")]
pub struct Refusal {
    /// The check that failed.
    pub check: Check,
    /// What was shown and what was expected.
    pub detail: String,
}

impl Refusal {
    pub(crate) fn new(check: Check, detail: impl Into<String>) -> Self {
        Self { check, detail: detail.into() }
    }

    fn mismatch(
        check: Check,
        found: &dyn fmt::Display,
        expected: &dyn fmt::Display,
        peer: &Identity,
    ) -> Self {
        Self::new(check, format!("found {found}, expected {expected} ({peer})"))
    }
}

impl Expect {
    /// A node of `role`, whichever and wherever it is.
    #[must_use]
    pub const fn role(role: Role) -> Self {
        Self { role, region: None, node: None }
    }

    /// The node that `addr` describes.
    #[must_use]
    pub fn node(addr: &wire::control::NodeAddr) -> Self {
        Self { role: addr.role, region: Some(addr.region.clone()), node: Some(addr.name.clone()) }
    }

    pub(crate) fn check(&self, peer: &Identity) -> Result<(), Refusal> {
        if peer.role != self.role {
            return Err(Refusal::mismatch(Check::Role, &peer.role, &self.role, peer));
        }
        if let Some(region) = self.region.as_ref().filter(|region| **region != peer.region) {
            return Err(Refusal::mismatch(Check::Region, &peer.region, region, peer));
        }
        if let Some(node) = self.node.as_ref().filter(|node| **node != peer.node) {
            return Err(Refusal::mismatch(Check::Node, &peer.node, node, peer));
        }
        Ok(())
    }
}

pub(crate) fn check_mesh(own: &Identity, peer: &Identity) -> Result<(), Refusal> {
    if own.mesh == peer.mesh {
        Ok(())
    } else {
        Err(Refusal::mismatch(Check::Mesh, &peer.mesh, &own.mesh, peer))
    }
}

pub(crate) fn check_roles(allowed: &[Role], peer: &Identity) -> Result<(), Refusal> {
    if allowed.contains(&peer.role) {
        return Ok(());
    }
    let expected: Vec<&str> = allowed.iter().map(|role| role.as_str()).collect();
    Err(Refusal::mismatch(Check::Role, &peer.role, &expected.join(" or "), peer))
}
