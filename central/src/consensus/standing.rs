//! How a member stands in the group, for operators and metrics.

use base::{NodeId, Revision};
use openraft::async_runtime::WatchReceiver as _;
use wire::control::NodeAddr;

use super::machine::revision;
use super::{Consensus, StorageState};

/// One member as another sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub id: NodeId,
    /// Where it is.
    pub node: NodeAddr,
    /// Whether it votes; a learner does not.
    pub votes: bool,
    /// How far its log is known to agree with the leader's; only the leader knows.
    pub matched: Option<Revision>,
}

/// How a member stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its number.
    pub id: NodeId,
    /// Who leads, as far as it knows.
    pub leader: Option<NodeId>,
    /// The leader's term.
    pub term: u64,
    /// Everybody in the group.
    pub members: Vec<Member>,
    /// How far its log is.
    pub last: Revision,
    /// How far it knows the log to be committed.
    pub committed: Revision,
    /// How far its state is.
    pub applied: Revision,
    /// What its snapshot covers.
    pub snapshot: Revision,
    /// What its log no longer holds.
    pub purged: Revision,
    /// What its disk does.
    pub storage: StorageState,
}

impl Consensus {
    /// How this member stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let voters: Vec<u64> = membership.voter_ids().collect();
        let matched = |id: &u64| metrics.replication.as_ref()?.get(id).copied().map(revision);
        let members = membership.nodes().map(|(id, place)| Member {
            id: NodeId(*id),
            node: place.0.clone(),
            votes: voters.contains(id),
            matched: matched(id),
        });
        Standing {
            id: NodeId(metrics.id),
            leader: metrics.current_leader.map(NodeId),
            term: metrics.current_term,
            members: members.collect(),
            last: Revision(metrics.last_log_index.unwrap_or(0)),
            committed: revision(metrics.local_committed),
            applied: revision(metrics.last_applied),
            snapshot: revision(metrics.snapshot),
            purged: revision(metrics.purged),
            storage: self.storage().borrow().clone(),
        }
    }

    /// Whether this member is being removed, or was, as far as its log tells. It may never hear of the end of its removal.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let steps = membership.get_joint_config();
        let voted = steps.iter().any(|voters| voters.contains(&metrics.id));
        let votes = steps.last().is_some_and(|voters| voters.contains(&metrics.id));
        (voted && !votes) || (!steps.is_empty() && membership.get_node(&metrics.id).is_none())
    }

    /// Whether this node leads, as far as it knows.
    #[must_use]
    pub fn leads(&self) -> bool {
        let metrics = self.raft().metrics();
        let leader = metrics.borrow_watched().current_leader;
        leader.map(NodeId) == Some(self.shared.options.id)
    }
}
