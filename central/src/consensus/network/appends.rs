//! Pipelined appends: requests go out as they come, answers come back in the same order, and neither waits for the
//! other. Sending one, then waiting, would cost a round trip for each.

use std::time::Duration;

use base::Mono;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt as _};
use mesh::{MeshError, Receiver, Sender};
use openraft::RPCTypes;
use openraft::raft::{AppendEntriesRequest, StreamAppendResult};
use seam::Late;
use wire::frame::Kind;

use super::{Failed, Peer, remote, unreachable};
use crate::consensus::protocol::{Answer, RaftQuestion};
use crate::consensus::types::Types;

/// Requests that may be unanswered.
const WINDOW: usize = 64;

type Reply = StreamAppendResult<Types>;

struct Session<'s, S> {
    peer: &'s Peer,
    open_within: Duration,
    /// Opened for the first request: openraft pauses after a failure while it makes the next request, so that a stream
    /// which fails before it asks for one would be tried again without end.
    stream: Option<(Sender, Receiver)>,
    input: S,
    input_ended: bool,
    unanswered: usize,
    /// Since when the first unanswered request waits, or the last answer came.
    waiting_since: Mono,
}

enum Step {
    Send(Option<AppendEntriesRequest<Types>>),
    Answer(Result<Answer<Reply>, MeshError>),
}

/// Answers to the requests of `input`. Ends after the last answer, or with the first error.
pub(super) fn stream<'s, S>(
    peer: &'s Peer,
    open_within: Duration,
    input: S,
) -> BoxStream<'s, Result<Reply, Failed>>
where
    S: Stream<Item = AppendEntriesRequest<Types>> + Send + Unpin + 'static,
{
    let waiting_since = peer.network.host.now();
    let session =
        Session { peer, open_within, stream: None, input, input_ended: false, unanswered: 0, waiting_since };
    Box::pin(stream::unfold(Some(session), |session| async {
        let mut session = session?;
        match session.next().await {
            Ok(Some(reply)) => {
                // A refusal ends the session: what was sent behind it is void.
                let going_on = reply.is_ok().then_some(session);
                Some((Ok(reply), going_on))
            }
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    }))
}

impl<S> Session<'_, S>
where
    S: Stream<Item = AppendEntriesRequest<Types>> + Send + Unpin + 'static,
{
    async fn next(&mut self) -> Result<Option<Reply>, Failed> {
        loop {
            if self.input_ended && self.unanswered == 0 {
                return Ok(None);
            }
            match self.step().await? {
                Step::Send(Some(request)) => self.send(&request).await?,
                Step::Send(None) => {
                    self.input_ended = true;
                    if let Some((sender, _)) = &mut self.stream {
                        sender.finish().map_err(|error| unreachable(&error))?;
                    }
                }
                Step::Answer(answer) => {
                    self.unanswered = self.unanswered.saturating_sub(1);
                    self.waiting_since = self.peer.network.host.now();
                    let reply = answer.map_err(|error| unreachable(&error))?;
                    return reply.map(Some).map_err(remote);
                }
            }
        }
    }

    /// What happens next. An answer is also looked for while none is due: that is how a dead stream shows.
    async fn step(&mut self) -> Result<Step, Failed> {
        let deadline = self.deadline();
        let may_send = !self.input_ended && self.unanswered < WINDOW;
        let input = &mut self.input;
        let Some((_, receiver)) = &mut self.stream else {
            return Ok(Step::Send(input.next().await));
        };
        let either = async {
            tokio::select! {
                biased;
                answer = receiver.expect::<Answer<Reply>>(Kind::RPC_REPLY) => Step::Answer(answer),
                request = input.next(), if may_send => Step::Send(request),
            }
        };
        if self.unanswered == 0 {
            return Ok(either.await);
        }
        let left = (self.waiting_since + deadline).since(self.peer.network.host.now());
        let step = self.peer.network.host.timeout(left, either).await;
        step.map_err(|Late| self.peer.late(RPCTypes::AppendEntries, deadline))
    }

    async fn send(&mut self, request: &AppendEntriesRequest<Types>) -> Result<(), Failed> {
        if self.unanswered == 0 {
            self.waiting_since = self.peer.network.host.now();
        }
        self.unanswered += 1;
        let deadline = self.deadline();
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let opening = self.peer.open(RaftQuestion::Appends);
                let opened = self.peer.within(self.open_within, RPCTypes::AppendEntries, opening).await?;
                self.stream.insert(opened)
            }
        };
        let sending = stream.0.send(Kind::RPC_REQUEST, request);
        self.peer.within(deadline, RPCTypes::AppendEntries, sending).await
    }

    /// A follower syncs before it answers. A heartbeat waits for no disk, and openraft bounds it more tightly.
    const fn deadline(&self) -> Duration {
        self.peer.network.append_deadline
    }
}
