//! The types that openraft is instantiated with. Nothing outside the consensus module names them.

use std::fmt;

use bytes::Bytes;
use openraft::impls::leader_id_std;
use serde::{Deserialize, Serialize};
use wire::codec::{self, CodecError};
use wire::control::NodeAddr;

use central_core::{Entry, Reply};

use super::machine::Machine;
use super::runtime::HostRuntime;

openraft::declare_raft_types!(
    /// One leader a term, as Raft has it.
    pub(crate) Types:
        D = Proposal,
        R = Option<Reply>,
        NodeId = u64,
        Node = Place,
        LeaderId = leader_id_std::LeaderId<u64, u64>,
        AsyncRuntime = HostRuntime,
);

pub(crate) type Raft = openraft::Raft<Types, Machine>;
pub(crate) type LogId = openraft::type_config::alias::LogIdOf<Types>;
pub(crate) type Vote = openraft::type_config::alias::VoteOf<Types>;
pub(crate) type LogEntry = openraft::type_config::alias::EntryOf<Types>;
pub(crate) type StoredMembership = openraft::type_config::alias::StoredMembershipOf<Types>;
pub(crate) type SnapshotMeta = openraft::type_config::alias::SnapshotMetaOf<Types>;
pub(crate) type Snapshot = openraft::type_config::alias::SnapshotOf<Types, Bytes>;

/// Where a member is, as the log has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place(pub(crate) NodeAddr);

/// An entry of central's state machine, encoded once by who proposes it and decoded once by who applies it; between
/// them it is only copied.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Proposal(Bytes);

impl Proposal {
    /// # Errors
    /// When the entry cannot be encoded or is too large.
    pub(crate) fn new(entry: &Entry) -> Result<Self, CodecError> {
        codec::encode(entry).map(|bytes| Self(bytes.into()))
    }

    /// # Errors
    /// When a newer build proposed something that this one does not know.
    pub(crate) fn entry(&self) -> Result<Entry, CodecError> {
        codec::decode(&self.0)
    }

    /// Its length in bytes.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proposal({} bytes)", self.len())
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}
