//! Raft's messages over the mesh: one connection for consensus to each member, on it one ordered stream for the log and
//! a stream of its own for every heartbeat, vote and snapshot, so that none waits behind bulk. Every question has a
//! deadline.

mod appends;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use base::NodeId;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::select_ok;
use futures_util::stream::BoxStream;
use mesh::{Connection, Links, MeshError, Receiver, Sender};
use openraft::error::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use seam::{Host, Late, Lock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::control::{NodeAddr, Opening};
use wire::frame::Kind;

use super::machine::Current;
use super::protocol::{Answer, RaftAsked, RaftQuestion};
use super::types::{Place, Snapshot, Types, Vote};

type Failed = RPCError<Types>;

/// How often a leader says who shall lead, and how long after one another. Who hands over is often slow, and its packets get
/// lost; a member that lacks entries waits for them as long as an election, and needs telling again.
const ORDERS: u32 = 4;
const BETWEEN_ORDERS: Duration = Duration::from_millis(250);
/// How long an order may be on its way.
const ORDER_TIME: Duration = Duration::from_secs(4);

/// Makes clients of members.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    host: Host,
    me: NodeId,
    links: Links,
    current: Arc<Lock<Current>>,
    append_deadline: Duration,
}

impl Network {
    pub(crate) const fn new(
        host: Host,
        me: NodeId,
        links: Links,
        current: Arc<Lock<Current>>,
        append_deadline: Duration,
    ) -> Self {
        Self { host, me, links, current, append_deadline }
    }

    fn peer(&self, target: u64, place: &Place, lane: Lane) -> Peer {
        Peer { network: self.clone(), target, node: place.0.clone(), lane }
    }
}

/// What a client's streams carry; each has its place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Log,
    Heartbeat,
    Snapshot,
}

impl Lane {
    const fn priority(self) -> i32 {
        match self {
            Self::Heartbeat => 10,
            Self::Log => 0,
            Self::Snapshot => -10,
        }
    }
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &Place) -> Peer {
        self.peer(target, node, Lane::Log)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Place) -> Peer {
        self.peer(target, node, Lane::Heartbeat)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &Place) -> Peer {
        self.peer(target, node, Lane::Snapshot)
    }
}

/// A client of one member.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    network: Network,
    target: u64,
    node: NodeAddr,
    lane: Lane,
}

impl Peer {
    /// Opens a stream and sends the question on it.
    async fn open(&self, question: RaftQuestion) -> Result<(Sender, Receiver), MeshError> {
        let connection: Connection = self.network.links.connect(&self.node).await?;
        let (mut sender, receiver) = connection.open(Opening::Rpc).await?;
        let priority = match question {
            RaftQuestion::PreVote(_) | RaftQuestion::Vote(_) | RaftQuestion::Transfer(_) => {
                Lane::Heartbeat.priority()
            }
            RaftQuestion::Appends | RaftQuestion::Snapshot { .. } => self.lane.priority(),
        };
        sender.set_priority(priority);
        let to = NodeId(self.target);
        let joined = self.network.current.lock().state.registry().joined.contains(&to);
        let asked = RaftAsked { to, joined, question };
        sender.send(Kind::RPC_REQUEST, &asked).await?;
        Ok((sender, receiver))
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        question: RaftQuestion,
        action: RPCTypes,
        time: Duration,
    ) -> Result<T, Failed> {
        let asking = async {
            let (mut sender, mut receiver) = self.open(question).await?;
            sender.finish()?;
            receiver.expect::<Answer<T>>(Kind::RPC_REPLY).await
        };
        self.within(time, action, asking).await?.map_err(remote)
    }

    async fn within<T>(
        &self,
        time: Duration,
        action: RPCTypes,
        work: impl Future<Output = Result<T, MeshError>>,
    ) -> Result<T, Failed> {
        match self.network.host.timeout(time, work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(unreachable(&error)),
            Err(Late) => Err(self.late(action, time)),
        }
    }

    const fn late(&self, action: RPCTypes, timeout: Duration) -> Failed {
        RPCError::Timeout(Timeout { action, id: self.network.me.0, target: self.target, timeout })
    }

    /// Says who shall lead until the member agrees, whatever becomes of single orders; it takes the first alone.
    async fn order(self, request: TransferLeaderRequest<Types>) -> Result<(), Failed> {
        let order = |nth: u32| {
            let (peer, request) = (&self, request.clone());
            Box::pin(async move {
                peer.network.host.sleep(BETWEEN_ORDERS * nth).await;
                let question = RaftQuestion::Transfer(request);
                let agreed: TransferLeaderResponse<Types> =
                    peer.ask(question, RPCTypes::TransferLeader, ORDER_TIME).await?;
                agreed.map_err(|refused| remote(refused.to_string()))
            })
        };
        select_ok((0..ORDERS).map(order)).await.map(|(agreed, _others)| agreed)
    }

    async fn send_snapshot(
        &self,
        vote: Vote,
        snapshot: Snapshot,
    ) -> Result<Answer<SnapshotResponse<Types>>, MeshError> {
        let length = snapshot.snapshot.len() as u64;
        let question = RaftQuestion::Snapshot { vote, meta: Box::new(snapshot.meta), length };
        let (mut sender, mut receiver) = self.open(question).await?;
        sender.send_data(snapshot.snapshot).await?;
        sender.finish()?;
        receiver.expect(Kind::RPC_REPLY).await
    }
}

/// Tried again after a pause.
fn unreachable(error: &MeshError) -> Failed {
    RPCError::Unreachable(Unreachable::new(error))
}

/// The member answered that it cannot.
fn remote(why: String) -> Failed {
    RPCError::Unreachable(Unreachable::from_string(why))
}

impl RaftNetworkV2<Types> for Peer {
    type SnapshotData = Bytes;

    /// Never called: all appends, heartbeats too, go through [`Self::stream_append`].
    async fn append_entries(
        &mut self,
        _rpc: AppendEntriesRequest<Types>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, Failed> {
        Err(RPCError::Network(NetworkError::from_string("appends go through streams")))
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> futures_util::future::BoxFuture<
        's,
        Result<BoxStream<'s, Result<StreamAppendResult<Types>, Failed>>, Failed>,
    >
    where
        S: Stream<Item = AppendEntriesRequest<Types>> + OptionalSend + Unpin + 'static,
    {
        Box::pin(async move { Ok(appends::stream(self, option.hard_ttl(), input)) })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, Failed> {
        self.ask(RaftQuestion::Vote(rpc), RPCTypes::Vote, option.hard_ttl()).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, Failed> {
        self.ask(RaftQuestion::PreVote(rpc), RPCTypes::Vote, option.hard_ttl()).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let sending =
            self.within(option.hard_ttl(), RPCTypes::InstallSnapshot, self.send_snapshot(vote, snapshot));
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = sending => Ok(sent?.map_err(remote)?),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        _option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, Failed> {
        // Orders go on when nobody waits for their answers any more.
        let ordering = self.network.host.spawn("raft-order", self.clone().order(request));
        let agreed = ordering.await.unwrap_or_else(|_gone| Err(remote("the node is closing".to_owned())));
        agreed.map(Ok)
    }
}

/// Answers a question; whoever asked may be gone.
pub(super) async fn answer<T: Serialize>(sender: &mut Sender, answer: &T) {
    let sent = async {
        sender.send(Kind::RPC_REPLY, answer).await?;
        sender.finish()
    };
    if let Err(error) = sent.await {
        tracing::debug!(%error, "an answer was not wanted any more");
    }
}

#[cfg(test)]
mod tests;
