//! Finding the leader, and asking it: the index that makes a read linearizable, and changes of membership.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{NodeId, Revision};
use mesh::MeshError;
use openraft::async_runtime::WatchReceiver as _;
use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{ChangeMembers, ReadPolicy};
use seam::Late;
use serde::{Deserialize, Serialize};
use wire::control::{NodeAddr, Opening};
use wire::frame::Kind;

use super::propose::ProposeError;
use super::protocol::{Asked, LeaderAnswer, LeaderQuestion};
use super::types::{Place, Types};
use super::{Consensus, Member, PAUSE};

/// A learner that lacks more entries than this is not made a voter: commits might have to wait for it.
const MAX_LAG: u64 = 64;

/// Where the leader is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leader {
    Here,
    At(NodeId, NodeAddr),
}

/// Why a leader has no answer for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unasked {
    /// It never got the question.
    Unreachable(MeshError),
    /// It may have got it.
    Silent(String),
}

impl<T> From<Unasked> for Result<T, ProposeError> {
    fn from(unasked: Unasked) -> Self {
        match unasked {
            Unasked::Unreachable(_) => Err(ProposeError::NoLeader),
            Unasked::Silent(why) => Err(ProposeError::Unknown(why)),
        }
    }
}

/// Why a read cannot be promised to be current.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ReadError {
    /// Nobody leads, or the leader reaches no majority.
    #[error("central has no leader at the moment: {0}")]
    NoLeader(String),
    /// This node does not catch up.
    #[error("this central node is behind and did not catch up in time")]
    Behind,
}

/// A change of who is a member, one step at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberChange {
    /// A node follows the log without a vote. Its number must never have been given before.
    AddLearner(NodeId, NodeAddr),
    /// A learner that has caught up gets a vote.
    Promote(NodeId),
    /// A voter or learner leaves for ever. One that comes back is another member with another number.
    Remove(NodeId),
    /// A learner that has caught up takes a voter's place, in one step.
    Replace {
        /// The voter that leaves.
        old: NodeId,
        /// The learner that comes.
        new: NodeId,
    },
    /// The leader hands over to this voter.
    Transfer(NodeId),
}

/// Why the membership did not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum MemberError {
    /// No such member.
    #[error("there is no member {0}")]
    Unknown(NodeId),
    /// The number or name is, or was, a member's.
    #[error("{0} is a member already; numbers are never given twice")]
    Taken(String),
    /// It lacks entries still.
    #[error("member {id} still lacks {lag} log entries; try again when it has caught up")]
    Lagging {
        /// Which.
        id: NodeId,
        /// How many entries it lacks.
        lag: u64,
    },
    /// The last voter cannot leave.
    #[error("member {0} is the last voter")]
    Last(NodeId),
    /// No leader was found in time.
    #[error("central has no leader at the moment")]
    NoLeader,
    /// Leadership moved in the middle: whether the change is made is not known.
    #[error("central's leader changed while the members did")]
    Moved,
    /// One change at a time.
    #[error("another change of the members is under way")]
    Busy,
    /// The change was refused or is only half made.
    #[error("the membership change failed: {0}")]
    Failed(String),
}

impl Consensus {
    /// Where the leader is, as far as this node knows. Nothing is sent to one that has fallen silent: it is not known
    /// what would become of it, and soon there is another.
    pub(super) fn leader(&self) -> Option<Leader> {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let leader = metrics.current_leader?;
        if leader == metrics.id {
            return Some(Leader::Here);
        }
        if self.is_leader_silent() {
            return None;
        }
        let node = metrics.membership_config.membership().get_node(&leader)?;
        Some(Leader::At(NodeId(leader), node.0.clone()))
    }

    /// Asks the leader; gives up as soon as another leads, for a dead one's silence shows late.
    pub(super) async fn ask_leader(
        &self,
        to: NodeId,
        node: &NodeAddr,
        question: LeaderQuestion,
        within: Duration,
    ) -> Result<LeaderAnswer, Unasked> {
        tokio::select! {
            biased;
            answer = self.ask(to, node, question, within) => answer,
            () = self.leader_other_than(to) => Err(Unasked::Silent("leadership changed".to_owned())),
        }
    }

    async fn leader_other_than(&self, old: NodeId) {
        let mut metrics = self.raft().metrics();
        loop {
            let now = metrics.borrow_watched().current_leader;
            let changed = now.is_some_and(|now| now != old.0);
            if changed || metrics.changed().await.is_err() {
                return;
            }
        }
    }

    /// Asks a member.
    pub(super) async fn ask(
        &self,
        to: NodeId,
        node: &NodeAddr,
        question: LeaderQuestion,
        within: Duration,
    ) -> Result<LeaderAnswer, Unasked> {
        let opening = async {
            let connection = self.calls().connect(node).await?;
            connection.open(Opening::Rpc).await
        };
        let opened = self.host().timeout(within, opening).await;
        let opened = opened.unwrap_or(Err(MeshError::Unreachable { remote: node.mesh }));
        let (mut sender, mut receiver) = opened.map_err(Unasked::Unreachable)?;
        let asking = async {
            sender.send(Kind::RPC_REQUEST, &Asked { to, question }).await?;
            sender.finish()?;
            receiver.expect(Kind::RPC_REPLY).await
        };
        match self.host().timeout(within, asking).await {
            Ok(answered) => answered.map_err(|error: MeshError| Unasked::Silent(error.to_string())),
            Err(Late) => Err(Unasked::Silent("the leader did not answer in time".to_owned())),
        }
    }

    /// Waits until this node's state holds everything that was acknowledged anywhere before this call, and gives back
    /// how far it is. A read of the state after that is linearizable.
    ///
    /// # Errors
    /// [`ReadError`] when no leader confirms it in time, or this node does not catch up.
    pub async fn read_index(&self) -> Result<Revision, ReadError> {
        if base::mutant!(ReadUnconfirmed) {
            return Ok(*self.applied().borrow());
        }
        let deadline = self.host().now() + self.patience();
        let wanted = loop {
            let left = deadline.since(self.host().now());
            let tried = match self.leader() {
                Some(Leader::Here) => self.read_index_here().await,
                Some(Leader::At(id, node)) => {
                    match self.ask_leader(id, &node, LeaderQuestion::ReadIndex, left).await {
                        Ok(LeaderAnswer::ReadIndex(answer)) => answer,
                        Ok(_other) => Err(ReadError::NoLeader("it answered another question".to_owned())),
                        Err(Unasked::Unreachable(error)) => Err(ReadError::NoLeader(error.to_string())),
                        Err(Unasked::Silent(why)) => Err(ReadError::NoLeader(why)),
                    }
                }
                None => Err(ReadError::NoLeader("none is known".to_owned())),
            };
            match tried {
                Ok(wanted) => break wanted,
                Err(error) if self.host().now() >= deadline => return Err(error),
                Err(_again) => self.host().sleep(PAUSE).await,
            }
        };
        let mut applied = self.applied();
        let caught_up = applied.wait_for(|applied| *applied >= wanted);
        match self.host().timeout(deadline.since(self.host().now()), caught_up).await {
            Ok(Ok(revision)) => Ok(*revision),
            Ok(Err(_stopped)) => Err(ReadError::Behind),
            Err(Late) => Err(ReadError::Behind),
        }
    }

    /// Asks a majority whether this node still leads, which takes one round trip. A leader that has asked in vain for long
    /// hands over.
    pub(super) async fn read_index_here(&self) -> Result<Revision, ReadError> {
        let term = self.raft().metrics().borrow_watched().current_term;
        let (asked, timing) = (self.host().now(), self.shared.timing);
        let gives_up = self.leads() && self.shared.contact.lock().asked(term, asked, timing.out_of_touch());
        if gives_up {
            self.hand_over("the majority answers too late").await;
        }
        let confirmed = self.raft().get_read_linearizer(ReadPolicy::ReadIndex);
        match self.host().timeout(self.patience(), confirmed).await {
            Ok(Ok(linearizer)) => {
                if self.host().now().since(asked) <= timing.in_time() {
                    self.shared.contact.lock().answered();
                }
                Ok(Revision(linearizer.read_log_id().index()))
            }
            Ok(Err(error)) => Err(ReadError::NoLeader(error.to_string())),
            Err(Late) => Err(ReadError::NoLeader("no majority answers".to_owned())),
        }
    }

    /// Changes who is a member; asks the leader when this node is not it, and its successor when leadership moves
    /// meanwhile: what a step did already is not done again.
    ///
    /// # Errors
    /// [`MemberError`]. After [`MemberError::Failed`] look at the members before trying again.
    pub async fn change_members(&self, change: MemberChange) -> Result<(), MemberError> {
        let deadline = self.host().now() + self.patience();
        let mut unsure = false;
        loop {
            let left = deadline.since(self.host().now());
            let tried = self.try_change_members(change.clone(), left).await;
            let is_late = self.host().now() >= deadline;
            match tried {
                Err(MemberError::Unknown(_)) if unsure && self.is_made(&change) => return Ok(()),
                Err(MemberError::Moved | MemberError::NoLeader | MemberError::Busy) if !is_late => {
                    unsure |= tried == Err(MemberError::Moved);
                    self.host().sleep(PAUSE).await;
                }
                Err(MemberError::NoLeader | MemberError::Busy) if unsure => return Err(MemberError::Moved),
                done => return done,
            }
        }
    }

    /// Whether a change that may have been made was, now that the member it takes out is unknown.
    fn is_made(&self, change: &MemberChange) -> bool {
        match change {
            MemberChange::Remove(_) => true,
            MemberChange::Replace { new, .. } => self.membership().0.contains(new),
            MemberChange::AddLearner(..) | MemberChange::Promote(_) | MemberChange::Transfer(_) => false,
        }
    }

    async fn try_change_members(&self, change: MemberChange, left: Duration) -> Result<(), MemberError> {
        match self.leader() {
            Some(Leader::Here) => self.change_members_here(change).await,
            Some(Leader::At(id, node)) => {
                let question = LeaderQuestion::Members(change);
                match self.ask_leader(id, &node, question, left).await {
                    Ok(LeaderAnswer::Members(answer)) => answer,
                    Ok(_other) => Err(MemberError::Failed("the leader answered another question".to_owned())),
                    Err(Unasked::Unreachable(_)) => Err(MemberError::NoLeader),
                    Err(Unasked::Silent(_)) => Err(MemberError::Moved),
                }
            }
            None => Err(MemberError::NoLeader),
        }
    }

    /// The change goes on when its time is over: half of one is worse than a late one.
    pub(super) async fn change_members_here(&self, change: MemberChange) -> Result<(), MemberError> {
        let member = self.clone();
        let changing = self.host().spawn("raft-change", async move { member.take_step(change).await });
        let failed = |why: &str| Err(MemberError::Failed(why.to_owned()));
        match self.host().timeout(self.patience(), changing).await {
            Ok(changed) => changed.unwrap_or_else(|_gone| failed("the node is closing")),
            Err(Late) => failed("it was not committed in time"),
        }
    }

    async fn take_step(self, change: MemberChange) -> Result<(), MemberError> {
        let (voters, nodes) = self.membership();
        match change {
            MemberChange::AddLearner(id, node) => {
                let moved = |known: &NodeAddr| known.name == node.name && *known != node;
                if voters.contains(&id) {
                    return Err(MemberError::Taken(format!("member {id}")));
                }
                if nodes.values().any(moved) {
                    return Err(MemberError::Taken(format!("{}, at another address,", node.name)));
                }
                let used = self.read(|state| state.registry().joined.contains(&id));
                if used && !nodes.contains_key(&id) {
                    return Err(MemberError::Taken(format!("member {id}, who left for ever,")));
                }
                let added = self.raft().add_learner(id.0, Place(node), false).await;
                added.map(drop).map_err(unmade)
            }
            MemberChange::Promote(id) => {
                self.check_caught_up(id)?;
                self.change(ChangeMembers::AddVoterIds(BTreeSet::from([id.0])), false).await
            }
            MemberChange::Remove(id) if voters.contains(&id) => {
                if voters.len() == 1 {
                    return Err(MemberError::Last(id));
                }
                self.change(ChangeMembers::RemoveVoters(BTreeSet::from([id.0])), false).await
            }
            MemberChange::Remove(id) if nodes.contains_key(&id) => {
                self.change(ChangeMembers::RemoveNodes(BTreeSet::from([id.0])), false).await
            }
            MemberChange::Remove(id) => Err(MemberError::Unknown(id)),
            MemberChange::Replace { old, new } => {
                if !voters.contains(&old) {
                    return Err(MemberError::Unknown(old));
                }
                self.check_caught_up(new)?;
                let mut wanted: BTreeSet<u64> = voters.iter().map(|id| id.0).collect();
                wanted.remove(&old.0);
                wanted.insert(new.0);
                self.change(ChangeMembers::ReplaceAllVoters(wanted), false).await
            }
            MemberChange::Transfer(to) => {
                if !voters.contains(&to) {
                    return Err(MemberError::Unknown(to));
                }
                let asked = self.raft().trigger().transfer_leader(to.0).await;
                asked.map_err(|error| MemberError::Failed(error.to_string()))
            }
        }
    }

    /// Gives leadership to the voter that lacks least, in another region if there is one: what makes this node slow is often
    /// near it. Until then it is silent, so that
    /// another comes even when the order is lost on the way.
    pub(super) async fn hand_over(&self, why: &str) {
        let standing = self.standing();
        let here = standing.members.iter().find(|member| member.id == standing.id);
        let here = here.map(|member| &member.node.region);
        let others = standing.members.iter().filter(|member| member.votes && member.id != standing.id);
        let far = |member: &Member| Some(&member.node.region) != here;
        let Some(best) = others.max_by_key(|member| (far(member), member.matched, member.id)) else { return };
        let NodeId(to) = best.id;
        tracing::warn!(to, why, "handing leadership over");
        // Whoever saw the need sees it again when this fails.
        drop(self.raft().trigger().transfer_leader(to).await);
    }

    async fn change(&self, change: ChangeMembers<u64, Place>, retain: bool) -> Result<(), MemberError> {
        let changed = self.raft().change_membership(change, retain).await;
        changed.map(drop).map_err(unmade)
    }

    /// Voters, and all nodes by number.
    fn membership(&self) -> (BTreeSet<NodeId>, BTreeMap<NodeId, NodeAddr>) {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let voters = membership.voter_ids().map(NodeId).collect();
        let nodes = membership.nodes().map(|(id, place)| (NodeId(*id), place.0.clone())).collect();
        (voters, nodes)
    }

    fn check_caught_up(&self, id: NodeId) -> Result<(), MemberError> {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let replication = metrics.replication.as_ref().ok_or(MemberError::NoLeader)?;
        let matched = replication.get(&id.0).ok_or(MemberError::Unknown(id))?;
        let reached = matched.map_or(0, |matched| matched.index);
        let lag = metrics.last_log_index.unwrap_or(0).saturating_sub(reached);
        if lag > MAX_LAG { Err(MemberError::Lagging { id, lag }) } else { Ok(()) }
    }
}

fn unmade(error: RaftError<Types, ClientWriteError<Types>>) -> MemberError {
    match error {
        RaftError::APIError(
            ClientWriteError::ForwardToLeader(_) | ClientWriteError::LogEntryDiscarded(_),
        ) => MemberError::Moved,
        RaftError::APIError(ClientWriteError::ChangeMembershipError(ChangeMembershipError::InProgress(
            _,
        ))) => MemberError::Busy,
        other => MemberError::Failed(other.to_string()),
    }
}
