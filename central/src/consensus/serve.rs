//! Answers what other members ask: Raft's own questions on connections for consensus, a follower's questions to its
//! leader on connections for calls.

use base::Role;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use mesh::{Connection, MeshError, Receiver, Sender};
use openraft::raft::AppendEntriesRequest;
use wire::codec::MAX_STATE;
use wire::frame::Kind;

use super::Consensus;
use super::first::Part;
use super::network::answer;
use super::protocol::{Answer, Asked, LeaderAnswer, LeaderQuestion, RaftAsked, RaftQuestion};
use super::types::{Raft, Snapshot, SnapshotMeta, Types, Vote};

/// Answers Raft's questions on a connection until it ends, from when this member knows that it may take part.
pub(super) async fn raft(member: Consensus, connection: Connection) {
    let mut part = member.shared.part.subscribe();
    let may = part.wait_for(|part| *part == Part::Takes);
    tokio::select! {
        biased;
        decided = may => drop(decided),
        _lost = connection.closed() => return,
    }
    while let Ok((_opening, sender, receiver)) = connection.accept_stream().await {
        let (answering, peer) = (member.clone(), connection.peer().node.clone());
        let gone = sender.stopped();
        drop(member.host().spawn("raft-answer", async move {
            tokio::select! {
                biased;
                answered = answer_raft(&answering, sender, receiver) => {
                    if let Err(error) = answered {
                        tracing::debug!(%peer, %error, "a question of Raft broke off");
                    }
                }
                // A member whose disk is full answers when it has room; nobody waits for that.
                () = gone => tracing::debug!(%peer, "a question of Raft was given up"),
            }
        }));
    }
}

async fn answer_raft(
    member: &Consensus,
    mut sender: Sender,
    mut receiver: Receiver,
) -> Result<(), MeshError> {
    let asked: RaftAsked = receiver.expect(Kind::RPC_REQUEST).await?;
    if let Err(why) = member.may_answer(&asked) {
        answer(&mut sender, &Answer::<()>::Err(why)).await;
        return Ok(());
    }
    let raft = member.raft();
    match asked.question {
        RaftQuestion::PreVote(request) => {
            let theirs = request.last_log_id;
            let vote = raft.pre_vote(request).await;
            if let Ok(vote) = &vote {
                member.vote_asked(vote.vote_granted, theirs, vote.last_log_id);
            }
            answer(&mut sender, &words(vote)).await;
        }
        RaftQuestion::Vote(request) => {
            let theirs = request.last_log_id;
            let vote = raft.vote(request).await;
            if let Ok(vote) = &vote {
                member.vote_asked(vote.vote_granted, theirs, vote.last_log_id);
            }
            answer(&mut sender, &words(vote)).await;
        }
        RaftQuestion::Transfer(request) => {
            answer(&mut sender, &words(raft.handle_transfer_leader(request).await)).await;
        }
        RaftQuestion::Appends => appends(member, &mut sender, receiver).await?,
        RaftQuestion::Snapshot { vote, meta, length } => {
            let bytes = receive(&mut receiver, length).await?;
            install(raft, &mut sender, vote, *meta, bytes).await;
        }
    }
    Ok(())
}

fn words<T, E: ToString>(result: Result<T, E>) -> Answer<T> {
    result.map_err(|error| error.to_string())
}

async fn appends(member: &Consensus, sender: &mut Sender, receiver: Receiver) -> Result<(), MeshError> {
    let requests = stream::unfold((receiver, member.clone()), |(mut receiver, member)| async {
        let request = receiver.expect::<AppendEntriesRequest<Types>>(Kind::RPC_REQUEST).await.ok()?;
        // Heard when it arrives: the answer waits for the disk.
        member.leader_spoke(&request.vote);
        Some((request, (receiver, member)))
    });
    let mut replies = Box::pin(member.raft().stream_append(Box::pin(requests)));
    while let Some(reply) = replies.next().await {
        sender.send(Kind::RPC_REPLY, &words(reply)).await?;
    }
    sender.finish()
}

/// Takes a snapshot's bytes; nothing is allocated ahead of what arrived.
async fn receive(receiver: &mut Receiver, length: u64) -> Result<Bytes, MeshError> {
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(MAX_STATE);
    let mut bytes = BytesMut::new();
    while bytes.len() < length {
        match receiver.recv().await? {
            Some(frame) if frame.kind == Kind::DATA => bytes.extend_from_slice(&frame.payload),
            other => {
                let found = other.map(|frame| frame.kind);
                return Err(MeshError::Unexpected { expected: Kind::DATA, found });
            }
        }
    }
    Ok(bytes.freeze())
}

/// Only a whole and undamaged snapshot reaches the state machine, which would stop the node over a bad one.
async fn install(raft: &Raft, sender: &mut Sender, vote: Vote, meta: SnapshotMeta, bytes: Bytes) {
    let checked = super::snapshot::checked_meta(&bytes);
    let installed = match checked {
        Ok(inside) if inside == meta => {
            words(raft.install_full_snapshot(vote, Snapshot { meta, snapshot: bytes }).await)
        }
        Ok(_other) => Err("the snapshot is not the one announced".to_owned()),
        Err(bad) => Err(bad.to_string()),
    };
    answer(sender, &installed).await;
}

impl Consensus {
    fn may_answer(&self, asked: &RaftAsked) -> Result<(), String> {
        let me = self.shared.options.id;
        if asked.to != me {
            return Err(format!("this is member {me}, not {}", asked.to));
        }
        if asked.joined && self.shared.log.is_pristine() {
            self.refuse_part();
        }
        match &*self.shared.part.borrow() {
            Part::Takes => Ok(()),
            Part::Asks => Err(format!("member {me} does not know yet whether it may take part")),
            Part::Refuses(why) => Err(why.clone()),
        }
    }

    /// Answers a question that another central node asked on a connection for calls (`Opening::Rpc`).
    ///
    /// # Errors
    /// When the peer broke the protocol or is gone.
    pub async fn answer(
        &self,
        connection: &Connection,
        mut sender: Sender,
        mut receiver: Receiver,
    ) -> Result<(), MeshError> {
        if connection.peer().role != Role::Central {
            tracing::warn!(peer = %connection.peer().node, "a node that is not central asked the consensus");
            return Ok(());
        }
        let asked: Asked = receiver.expect(Kind::RPC_REQUEST).await?;
        let reply = match asked.question {
            LeaderQuestion::Propose(command) => {
                LeaderAnswer::Proposed(self.propose_here(*command, self.patience()).await)
            }
            LeaderQuestion::ReadIndex => LeaderAnswer::ReadIndex(self.read_index_here().await),
            LeaderQuestion::Wall => LeaderAnswer::Wall(self.host().wall()),
            LeaderQuestion::Known(id) => LeaderAnswer::Known(self.known(id).await),
            LeaderQuestion::Members(change) => LeaderAnswer::Members(self.change_members_here(change).await),
        };
        answer(&mut sender, &reply).await;
        Ok(())
    }
}
