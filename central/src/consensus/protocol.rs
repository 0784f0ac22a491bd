//! What members ask each other. Each question is one stream: the question, then its answer. All questions carry the
//! number of the member they are for: an address may since belong to another member, whose disk is another one, and an
//! answer in the first one's name would count a disk that holds nothing.

use base::{NodeId, Revision, WallMs};
use openraft::raft::{TransferLeaderRequest, VoteRequest};
use serde::{Deserialize, Serialize};

use central_core::{Command, Reply};

use super::types::{SnapshotMeta, Types, Vote};
use super::{MemberChange, MemberError, ProposeError, ReadError};

/// A question of Raft, and for whom.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RaftAsked {
    pub(crate) to: NodeId,
    /// Whether the member was ever seen to hold a log. One that was and has none lost its disk.
    pub(crate) joined: bool,
    pub(crate) question: RaftQuestion,
}

/// A question of Raft; on connections for consensus.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum RaftQuestion {
    /// Would the member vote so?
    PreVote(VoteRequest<Types>),
    /// Does it?
    Vote(VoteRequest<Types>),
    /// Followed by requests to append, each its own frame, each answered by a frame, in order.
    Appends,
    /// Followed by `length` bytes of a snapshot.
    Snapshot { vote: Vote, meta: Box<SnapshotMeta>, length: u64 },
    /// The leader hands over.
    Transfer(TransferLeaderRequest<Types>),
}

/// The answer to a question of Raft; in words when the member has stopped or is another.
pub(crate) type Answer<T> = Result<T, String>;

/// A question between central nodes, and for whom.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) to: NodeId,
    pub(crate) question: LeaderQuestion,
}

/// A question to the leader, or to any member; on connections for calls.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LeaderQuestion {
    /// Put this into the log.
    Propose(Box<Command>),
    /// How far must a state be, so that reading it misses nothing that was acknowledged?
    ReadIndex,
    /// Change who is a member.
    Members(MemberChange),
    /// What does the group know of a member that has no log? Any member may answer.
    Known(NodeId),
    /// What does your wall clock show? Any member may answer.
    Wall,
}

/// What a member knows of the group and of one without a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Known {
    /// There is no group yet.
    NoGroup,
    /// There is one, and the member never held a log of it.
    Newcomer,
    /// The member held a log. When it says that it has none, its disk was lost.
    Lost,
    /// It was a member and was removed.
    Left,
}

/// The answer of a leader, or of one that is none.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LeaderAnswer {
    Proposed(Result<Reply, ProposeError>),
    ReadIndex(Result<Revision, ReadError>),
    Members(Result<(), MemberError>),
    Known(Known),
    Wall(WallMs),
}
