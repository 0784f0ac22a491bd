//! A call to another node's upstreams, over the mesh: this end.

use std::pin::pin;
use std::task::{Context, Poll, ready};

use base::Code;
use bytes::{Bytes, BytesMut};
use dialect::{Target, sse};
use http::{HeaderMap, HeaderName, HeaderValue};
use mesh::{Connection, Frame, MeshError, Receiver, Sender};
use seam::Host;
use wire::call::{CallHead, Failure, Note, ReplyHead, Tail};
use wire::control::Opening;
use wire::frame::{Kind, MAX_DATA};
use wire::ledger::Outcome;

use crate::left::{Asked, Left};
use crate::source::{Limits, Timer};
use crate::{Egress, Exchange, Failed, Reply, ReplyBody, target_of};

/// The answer of a forwarded call. The serving end keeps the limits of time between its pieces; here counts the whole
/// call's, and the connection's own liveness.
#[derive(Debug)]
pub(crate) struct Forwarded {
    /// Kept open until the end: dropping it resets the stream, which cancels the call.
    sender: Option<Sender>,
    receiver: Receiver,
    limit: Limit,
    /// An item that may go on in the next frame.
    part: BytesMut,
    /// The item handed on last; it tells whether the answer said why it ended.
    last: Bytes,
    stream: bool,
    target: Target,
    end: Option<Result<Tail, Code>>,
}

struct Limit {
    timer: Timer,
    limits: Limits,
}

impl std::fmt::Debug for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.limits.deadline)
    }
}

impl Egress {
    /// Has the node at the other end of `connection` serve `call`. Dropping the exchange, or this future, resets the
    /// stream, which cancels the call there. The future dropped puts into `left` how far it came; of a call that may wait
    /// for a place there, the other node is asked.
    ///
    /// # Errors
    /// [`Failed`] when no answer began: what the other node said, or that it could not be reached.
    pub async fn forward(
        &self,
        connection: &Connection,
        call: CallHead,
        body: Bytes,
        left: Option<&mut Left>,
    ) -> Exchange {
        let host = &self.shared.host;
        let mut ongoing = Ongoing { host, waits: call.place_ms > 0, sent: false, streams: None, left };
        let limits = Limits::new(&call.timeouts, host.now());
        let (stream, target) = (call.stream, target_of(call.dialect));
        let opened = host.timeout(limits.connect, connection.open(Opening::Call)).await;
        let Ok(Ok(streams)) = opened else {
            ongoing.decided();
            return Err(unreachable(false));
        };
        let rest = limits.deadline.since(host.now());
        let streams = ongoing.streams.insert(streams);
        let begun = host.timeout(rest, begin(streams, &call, body, &mut ongoing.sent)).await;
        let Some((sender, receiver)) = ongoing.decided() else {
            return Err(unreachable(true));
        };
        match begun {
            Err(seam::Late) => Err(failed(Code::DeadlineExceeded, "the call's time limit passed", true)),
            Ok(Err(error)) => {
                tracing::debug!(peer = %connection.peer(), %error, "a forwarded call failed");
                Err(unreachable(true))
            }
            Ok(Ok(Begun::Failed(failed))) => Err(failed),
            Ok(Ok(Begun::Reply(head, notes))) => {
                let limit = Limit { timer: Timer::new(host.clone()), limits };
                let (part, last) = (BytesMut::new(), Bytes::new());
                let sender = Some(sender);
                let body = Forwarded { sender, receiver, limit, part, last, stream, target, end: None };
                let headers = headers(&head);
                let (status, provider_key) = (head.status, head.provider_key);
                Ok(Reply { status, headers, body: ReplyBody::forwarded(body), provider_key, notes })
            }
        }
    }
}

enum Begun {
    Reply(ReplyHead, Vec<Note>),
    Failed(Box<Failed>),
}

/// A call at another node until its exchange is decided. Dropped before that, its caller left.
struct Ongoing<'a> {
    host: &'a Host,
    /// Whether it may wait for a place there.
    waits: bool,
    /// Whether all of it was handed over; no upstream is asked before.
    sent: bool,
    streams: Option<(Sender, Receiver)>,
    /// Who hears of it when the caller leaves.
    left: Option<&'a mut Left>,
}

impl Ongoing<'_> {
    /// Whoever leaves from now on leaves an exchange.
    fn decided(&mut self) -> Option<(Sender, Receiver)> {
        if let Some(left) = self.left.take() {
            *left = Left::Untold;
        }
        self.streams.take()
    }
}

impl Drop for Ongoing<'_> {
    fn drop(&mut self) {
        let Some(left) = self.left.take() else { return };
        *left = match self.streams.take() {
            // Only the direction to the other node is given up.
            Some((_reset, receiver)) if self.sent && self.waits => {
                Left::Asked(Box::new(Asked::new(self.host.clone(), receiver)))
            }
            Some(_) if self.sent => Left::Untold,
            Some(_) | None => Left::untouched(),
        };
    }
}

async fn begin(
    (sender, receiver): &mut (Sender, Receiver),
    call: &CallHead,
    body: Bytes,
    sent: &mut bool,
) -> Result<Begun, MeshError> {
    // A node that refuses may stop reading before all is sent; its answer says why.
    match send(sender, call, body).await {
        Ok(()) | Err(MeshError::Stopped) => {}
        Err(lost) => return Err(lost),
    }
    *sent = true;
    let mut frame = receiver.recv().await?;
    let mut notes: Vec<Note> = Vec::new();
    if let Some(noted) = frame.take_if(|frame| frame.kind == Kind::NOTES) {
        notes = noted.decode()?;
        frame = receiver.recv().await?;
    }
    match frame {
        Some(frame) if frame.kind == Kind::REPLY_HEAD => Ok(Begun::Reply(frame.decode()?, notes)),
        Some(frame) if frame.kind == Kind::FAILURE => {
            let failure: Failure = frame.decode()?;
            let tail: Tail = receiver.expect(Kind::TAIL).await?;
            finish(sender);
            Ok(Begun::Failed(Box::new(Failed { failure, tail, notes })))
        }
        other => {
            Err(MeshError::Unexpected { expected: Kind::REPLY_HEAD, found: other.map(|frame| frame.kind) })
        }
    }
}

async fn send(sender: &mut Sender, call: &CallHead, body: Bytes) -> Result<(), MeshError> {
    sender.send(Kind::CALL_HEAD, call).await?;
    sender.send_data(body).await?;
    sender.end(Kind::MESSAGE_END).await
}

impl Forwarded {
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while self.end.is_none() {
            let frame = {
                // Made anew for each poll: it keeps nothing between polls but what the receiver itself keeps.
                let mut receiving = pin!(self.receiver.recv());
                receiving.as_mut().poll(cx)
            };
            match frame {
                Poll::Ready(Ok(Some(frame))) => {
                    if let Some(item) = self.take(frame) {
                        self.last = item.clone();
                        return Poll::Ready(Some(item));
                    }
                }
                Poll::Ready(Ok(None) | Err(_)) => self.finish(Err(Code::MeshUnreachable)),
                Poll::Pending => {
                    ready!(self.limit.timer.poll_past(self.limit.limits.deadline, cx));
                    self.finish(Err(Code::DeadlineExceeded));
                }
            }
        }
        Poll::Ready(None)
    }

    fn take(&mut self, frame: Frame) -> Option<Bytes> {
        match frame.kind {
            Kind::DATA => self.whole(frame.payload),
            Kind::TAIL => {
                let tail = frame.decode().map_err(|_malformed| Code::MeshUnreachable);
                self.finish(tail);
                None
            }
            // The end of the body says nothing that the tail does not.
            _end_or_newer => None,
        }
    }

    /// Whole events: one that fills its frame may go on in the next.
    fn whole(&mut self, payload: Bytes) -> Option<Bytes> {
        let full = payload.len() == MAX_DATA;
        if self.part.is_empty() && (!self.stream || !full || sse::ends_event(&payload)) {
            return Some(payload);
        }
        self.part.extend_from_slice(&payload);
        let ended = !full || sse::ends_event(&self.part);
        ended.then(|| std::mem::take(&mut self.part).freeze())
    }

    fn finish(&mut self, end: Result<Tail, Code>) {
        if let Some(mut sender) = self.sender.take()
            && end.is_ok()
        {
            finish(&mut sender);
        }
        self.end = Some(end);
    }

    pub(crate) const fn host(&self) -> &Host {
        self.limit.timer.host()
    }

    /// Whether the answer is whole but for its tail.
    pub(crate) fn awaits_usage(&self) -> bool {
        self.end.is_none() && self.is_whole()
    }

    fn is_whole(&self) -> bool {
        self.stream && self.target.ends(&self.last)
    }

    pub(crate) fn tail(&self) -> Tail {
        let (outcome, code) = match &self.end {
            Some(Ok(tail)) => return tail.clone(),
            Some(Err(code)) => (Outcome::Cut, Some(*code)),
            None if self.is_whole() => (Outcome::Complete, None),
            None => (Outcome::CallerGone, Some(Code::CallerGone)),
        };
        Tail { outcome, code, usage: None, reached_upstream: true, hops: Vec::new() }
    }
}

/// Ends our direction in good order; a stream that the peer closed needs no end.
fn finish(sender: &mut Sender) {
    drop(sender.finish());
}

fn headers(head: &ReplyHead) -> HeaderMap {
    let pairs = head.headers.iter().filter_map(|(name, value)| {
        Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_bytes(value).ok()?))
    });
    let mut headers = HeaderMap::with_capacity(head.headers.len());
    pairs.for_each(|(name, value)| {
        headers.append(name, value);
    });
    headers
}

fn unreachable(reached: bool) -> Box<Failed> {
    failed(Code::MeshUnreachable, "the node that serves the model could not be reached", reached)
}

fn failed(code: Code, message: &str, reached: bool) -> Box<Failed> {
    let failure = Failure {
        code,
        message: message.to_owned(),
        upstream_status: None,
        body: None,
        retry_after_ms: None,
    };
    let tail = Tail {
        outcome: Outcome::Failed,
        code: Some(code),
        usage: None,
        reached_upstream: reached,
        hops: Vec::new(),
    };
    Box::new(Failed { failure, tail, notes: Vec::new() })
}
