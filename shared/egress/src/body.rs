//! An answer's body, wherever it comes from.

use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base::{Code, Mono};
use bytes::Bytes;
use wire::call::{Hop, Tail};
use wire::ledger::{Outcome, Usage};

use crate::call::{Content, Trial};
use crate::events::Events;
use crate::forward::Forwarded;
use crate::pool::Shared;

/// An answer's body. Of an event stream each item is one or more whole events. Dropping it before its end cancels the
/// upstream's work.
#[derive(Debug)]
pub struct ReplyBody {
    kind: Kind,
    bytes: u64,
}

#[derive(Debug)]
enum Kind {
    Local(Box<Local>),
    Forwarded(Box<Forwarded>),
}

/// A body from one of this node's upstreams.
#[derive(Debug)]
struct Local {
    shared: Arc<Shared>,
    status: u16,
    trial: Trial,
    hops: Vec<Hop>,
    /// When the last byte came.
    ended: Option<Mono>,
    content: Flow,
}

#[derive(Debug)]
enum Flow {
    Events(Box<Events>),
    Whole(Option<Bytes>, Option<Usage>),
}

impl ReplyBody {
    pub(crate) fn local(
        shared: &Arc<Shared>,
        status: u16,
        content: Content,
        trial: Trial,
        hops: Vec<Hop>,
    ) -> Self {
        let (content, ended) = match content {
            Content::Events(events) => (Flow::Events(events), None),
            Content::Whole(body, usage) => (Flow::Whole(Some(body), usage), Some(shared.host.now())),
        };
        let local = Local { shared: Arc::clone(shared), status, trial, hops, ended, content };
        Self { kind: Kind::Local(Box::new(local)), bytes: 0 }
    }

    pub(crate) fn forwarded(forwarded: Forwarded) -> Self {
        Self { kind: Kind::Forwarded(Box::new(forwarded)), bytes: 0 }
    }

    /// The next item; `None` at the end, after which [`Self::tail`] says whether it was a good one.
    pub async fn next(&mut self) -> Option<Bytes> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The same, to be polled.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let next = match &mut self.kind {
            Kind::Local(local) => local.poll_next(cx),
            Kind::Forwarded(forwarded) => forwarded.poll_next(cx),
        };
        if let Poll::Ready(Some(item)) = &next {
            self.bytes = self.bytes.saturating_add(u64::try_from(item.len()).unwrap_or(u64::MAX));
        }
        next
    }

    /// The whole body, when it is one piece at hand: an answer that is no stream.
    pub fn take_whole(&mut self) -> Option<Bytes> {
        match &mut self.kind {
            Kind::Local(local) => match &mut local.content {
                Flow::Whole(body, _usage) => body.take(),
                Flow::Events(_) => None,
            },
            Kind::Forwarded(_) => None,
        }
    }

    /// Bytes handed on so far; what a caller who left has got.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The caller left: ends the call and tells how it went. An answer that already said why it ended is complete; what
    /// it used may still come, and is awaited for `grace`. Any other is cancelled at once.
    pub async fn leave(mut self, grace: Duration) -> Tail {
        let (host, awaits) = match &self.kind {
            Kind::Local(local) => (local.shared.host.clone(), local.awaits_usage()),
            Kind::Forwarded(forwarded) => (forwarded.host().clone(), forwarded.awaits_usage()),
        };
        if awaits {
            let rest = async { while self.next().await.is_some() {} };
            // Late or not, what came by now counts.
            let _late = host.timeout(grace, rest).await;
        }
        self.tail()
    }

    /// How the call went. Before the body's end: as if its caller left now.
    #[must_use]
    pub fn tail(&self) -> Tail {
        match &self.kind {
            Kind::Local(local) => local.tail(),
            Kind::Forwarded(forwarded) => forwarded.tail(),
        }
    }
}

impl Local {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let next = match &mut self.content {
            Flow::Whole(body, _usage) => return Poll::Ready(body.take()),
            Flow::Events(events) => events.poll_next(cx),
        };
        if matches!(next, Poll::Ready(None)) && self.ended.is_none() {
            self.ended = Some(self.shared.host.now());
        }
        next
    }

    /// Whether the answer is whole but for what it used.
    fn awaits_usage(&self) -> bool {
        match &self.content {
            Flow::Whole(..) => false,
            Flow::Events(events) => events.complete() && events.ended().is_none() && events.usage().is_none(),
        }
    }

    fn came_to(&self) -> (Outcome, Option<Code>, Option<Usage>) {
        match &self.content {
            Flow::Whole(_body, usage) => (Outcome::Complete, None, *usage),
            Flow::Events(events) => {
                let (outcome, code) = match events.ended() {
                    Some(Ok(())) => (Outcome::Complete, None),
                    Some(Err(code)) => (Outcome::Cut, Some(code)),
                    // Many callers leave as soon as they saw the finish.
                    None if events.complete() => (Outcome::Complete, None),
                    None => (Outcome::CallerGone, Some(Code::CallerGone)),
                };
                (outcome, code, events.usage())
            }
        }
    }

    fn tail(&self) -> Tail {
        let (outcome, code, usage) = self.came_to();
        let result = match (outcome, code) {
            (Outcome::Cut, Some(code)) => Err(code),
            _answered => Ok(self.status),
        };
        let mut hops = self.hops.clone();
        hops.push(self.trial.hop(&self.shared.options.node, result, self.until()));
        Tail { outcome, code, usage, reached_upstream: true, hops }
    }

    fn until(&self) -> Mono {
        self.ended.unwrap_or_else(|| self.shared.host.now())
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let (_outcome, code, _usage) = self.came_to();
        self.trial.finish(&self.shared.options.tracer, Some(self.status), code, self.until());
        if base::mutant!(CancelNotForwarded)
            && let Flow::Events(mut events) = mem::replace(&mut self.content, Flow::Whole(None, None))
        {
            let rest = async move { while poll_fn(|cx| events.poll_next(cx)).await.is_some() {} };
            drop(self.shared.host.spawn("uncancelled", rest));
        }
    }
}
