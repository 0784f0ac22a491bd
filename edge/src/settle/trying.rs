//! The attempt in progress, and the hop that it leaves when nobody else told of one: the node that was asked could not be
//! reached, went away or had no place for the call, or the caller left before it told.

use base::{Mono, Name};
use edge_core::plan::Path;
use telemetry::trace::Context;
use wire::call::{Hop, Tail};
use wire::ledger::Outcome;

use super::Open;
use crate::spans;

/// An attempt in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trying {
    begun: Mono,
    /// When a connection to another node was in hand.
    linked: Option<Mono>,
    /// Hops of the attempts before it.
    before: usize,
}

impl Trying {
    pub(super) const fn begin(now: Mono, before: usize) -> Self {
        Self { begun: now, linked: None, before }
    }

    /// How long it took until `now`, in milliseconds, a part of one counted as one.
    pub(super) fn busy_ms(&self, now: Mono) -> u32 {
        u32::try_from(now.since(self.begun).as_micros().div_ceil(1_000)).unwrap_or(u32::MAX)
    }

    pub(super) const fn linked(&mut self, now: Mono) {
        self.linked = Some(now);
    }
}

impl Open {
    /// The attempt in progress came to `tail`: its hops are the call's.
    pub(super) fn tried(&mut self, tail: &Tail, now: Mono) {
        let untold = self.untold(tail, now);
        let told = tail.hops.last().and_then(|hop| hop.key.clone());
        self.provider_key = told.or_else(|| self.provider_key.take());
        self.hops.extend_from_slice(&tail.hops);
        self.hops.extend(untold);
        if let Some(trying) = self.trying.take() {
            spans::attempt(&self.edge, self, trying.begun, tail.code, now);
        }
    }

    /// Where the call's attempt of a number stands in its trace.
    pub(crate) fn span_of(&self, attempt: u16) -> Context {
        let call = self.arrival.trace;
        if self.edge.tracer.traces(call) { call.nth(attempt) } else { call }
    }

    /// The attempt in progress as this node saw it, when neither `tail` nor this node's own upstreams told a hop of it.
    pub(crate) fn untold(&self, tail: &Tail, now: Mono) -> Option<Hop> {
        let trying = self.trying.filter(|trying| tail.hops.is_empty() && self.hops.len() == trying.before)?;
        let (attempt, _) = self.attempt.as_ref()?;
        let us = |at: Mono| u32::try_from(at.since(trying.begun).as_micros()).unwrap_or(u32::MAX);
        let node = &self.edge.node;
        Some(Hop {
            node: node.clone(),
            upstream: self.asked_node(&attempt.path).clone(),
            key: self.provider_key.clone(),
            result: match tail.code {
                // What was answered stays answered when its caller leaves.
                Some(code) if self.times.head.is_none() || tail.outcome != Outcome::CallerGone => Err(code),
                Some(_) | None => Ok(self.status),
            },
            connected_us: us(trying.linked.unwrap_or(now)),
            first_byte_us: self.times.first_byte.map(us),
            total_us: us(now),
        })
    }

    /// The node that an attempt asks.
    pub(crate) fn asked_node<'a>(&'a self, path: &'a Path) -> &'a Name {
        match path {
            Path::Local => &self.edge.node,
            Path::Peer(link) | Path::Central(link) => &link.node,
        }
    }
}
