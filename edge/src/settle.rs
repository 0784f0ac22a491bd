//! The account of one call: opened when it was admitted, closed exactly once, when its answer ended, when it failed, or
//! when its caller left. Closing makes the receipt, gives back what was taken, counts and records the call.
//!
//! The charge follows what the upstream reported. Where it reported nothing and may have worked: what was partly sent
//! is charged its input's bound and as much output as the bytes sent can hold; anything else what was held. A call that
//! failed before its first byte costs its caller nothing, nor does one that its caller left before an upstream can have
//! seen it.

mod bill;
mod leaving;
mod metered;
mod trying;

use std::sync::Arc;
use std::time::Duration;

use base::{Code, ModelName, Mono, Name, Usage};
use bytes::Bytes;
use dialect::Api;
use dialect::canon::Losses;
use edge_core::bound::Bound;
use edge_core::plan::{Attempt, Candidate};
use egress::{Failed, Left};
use http::HeaderMap;
use telemetry::record::Attempt as Told;
use wire::call::{Hop, Note, Tail};
use wire::ledger::{Outcome, Receipt};

use crate::admission::{self, Permit};
use crate::call::Edge;
use crate::convert::Call;
use crate::identity::Caller;
use crate::ingress::Arrival;
use crate::passes::Limited;
use crate::payers::Payer;
use crate::record;
use crate::routing::Route;
use crate::spans;
use crate::thresholds;
use bill::Bill;
use metered::Metered;
pub(crate) use metered::Stopped;
use trying::Trying;

/// Everything a call owes and is owed until it is closed. Dropped open, its caller is gone.
#[derive(Debug)]
pub(crate) struct Account(Option<Box<Open>>);

/// An account that is open.
#[derive(Debug)]
pub(crate) struct Open {
    edge: Arc<Edge>,
    pub(crate) arrival: Arrival,
    pub(crate) caller: Caller,
    permit: Permit,
    pub(crate) asked: Option<ModelName>,
    pub(crate) stream: bool,
    pub(crate) bytes_in: u64,
    /// Features that it went without.
    pub(crate) off: Vec<&'static str>,
    pub(crate) times: Times,
    /// The last attempt and its bound.
    pub(crate) attempt: Option<(Attempt, Bound)>,
    /// While it is in progress.
    trying: Option<Trying>,
    /// How far it came, should the caller leave now.
    left: Left,
    pub(crate) attempts: u16,
    /// What the last attempt's API could not carry of the call.
    pub(crate) losses: Losses,
    /// The provider's key that the last attempt was made with, as far as it was told.
    provider_key: Option<Name>,
    pub(crate) hops: Vec<Hop>,
    /// What upstreams said, each with its place among all hops.
    notes: Vec<(usize, Note)>,
    pub(crate) status: u16,
    pub(crate) sent: Sent,
    /// What its answer has cost so far, where that is watched.
    metered: Option<Metered>,
    /// Its answer was ended because a budget holds no more.
    pub(crate) stopped: Option<Stopped>,
}

/// When what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) identified: Option<Mono>,
    pub(crate) admitted: Option<Mono>,
    pub(crate) head: Option<Mono>,
    pub(crate) first_byte: Option<Mono>,
    pub(crate) last_piece: Option<Mono>,
    pub(crate) longest_gap: Option<Duration>,
    pub(crate) waited_for_credit: bool,
}

/// What was sent of the answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) pieces: u32,
    pub(crate) bytes: u64,
}

/// How a call ended, as its record and its receipt need it.
#[derive(Debug)]
pub(crate) struct Closed<'a> {
    pub(crate) open: &'a Open,
    pub(crate) receipt: &'a Receipt,
    pub(crate) ended: Mono,
}

impl Account {
    /// Opens the account of an admitted call.
    pub(crate) fn open(
        edge: &Arc<Edge>,
        arrival: Arrival,
        caller: Caller,
        call: &Call,
        permit: Permit,
        times: Times,
    ) -> Self {
        Self(Some(Box::new(Open {
            edge: Arc::clone(edge),
            asked: call.model().parse().ok(),
            stream: call.stream(),
            bytes_in: call.len() as u64,
            off: thresholds::names(call.off()),
            arrival,
            caller,
            permit,
            times,
            attempt: None,
            trying: None,
            left: Left::untouched(),
            attempts: 0,
            losses: Api::Openai.losses(),
            provider_key: None,
            hops: Vec::new(),
            notes: Vec::new(),
            status: 0,
            sent: Sent::default(),
            metered: None,
            stopped: None,
        })))
    }

    /// The account while it is open.
    pub(crate) fn view(&self) -> Option<&Open> {
        self.0.as_deref()
    }

    /// The call goes to `model`, whose limits must let it pass.
    ///
    /// # Errors
    /// [`Limited`] says when.
    pub(crate) fn enter(&mut self, route: &Route, model: &Candidate) -> Result<(), Box<Limited>> {
        let Some(open) = &mut self.0 else { return Ok(()) };
        let Some(wish) = admission::of_model(&open.caller, route, model) else { return Ok(()) };
        open.permit.enter(wish, open.edge.host.now())
    }

    /// An attempt begins.
    pub(crate) fn attempt(&mut self, attempt: &Attempt, bound: Bound, losses: Losses) {
        if let Some(open) = &mut self.0 {
            if open.attempt.is_none() || !base::mutant!(FirstModelBilled) {
                open.attempt = Some((attempt.clone(), bound));
            }
            open.attempts += 1;
            open.losses = losses;
            open.provider_key = None;
            open.left = Left::untouched();
            open.trying = Some(Trying::begin(open.edge.host.now(), open.hops.len()));
        }
    }

    /// The attempt in progress has a connection to the node that it asks.
    pub(crate) fn linked(&mut self, now: Mono) {
        if let Some(trying) = self.0.as_mut().and_then(|open| open.trying.as_mut()) {
            trying.linked(now);
        }
    }

    /// Where the attempt in progress leaves word of how far it came, while the account is open.
    pub(crate) fn left(&mut self) -> Option<&mut Left> {
        self.0.as_mut().map(|open| &mut open.left)
    }

    /// What upstreams said to the attempt in progress, whose hops are told later.
    pub(crate) fn note(&mut self, notes: Vec<Note>) {
        if let Some(open) = &mut self.0 {
            let before = open.hops.len();
            open.notes.extend(notes.into_iter().map(|note| (before + usize::from(note.hop), note)));
        }
    }

    /// The attempt in progress is answered by its provider with this key.
    pub(crate) fn keyed(&mut self, provider_key: Option<Name>) {
        if let Some(open) = &mut self.0 {
            open.provider_key = provider_key;
        }
    }

    /// The attempt in progress failed before its first byte.
    pub(crate) fn failed(&mut self, failed: &Failed) {
        self.note(failed.notes.clone());
        if let Some(open) = &mut self.0 {
            open.tried(&failed.tail, open.edge.host.now());
            if let Some((attempt, _)) = &open.attempt {
                open.edge.metrics.failed(&attempt.path, failed);
            }
        }
    }

    /// An answer began.
    pub(crate) fn answered(&mut self, status: u16, now: Mono) {
        if let Some(open) = &mut self.0 {
            open.status = status;
            open.times.head = Some(now);
            // No attempt follows, and the headers pin what the connection had read with them.
            open.arrival.headers = HeaderMap::new();
            open.metered = Metered::of(open);
            if let Some((attempt, _)) = &open.attempt {
                open.edge.metrics.answered(&attempt.path);
            }
        }
    }

    /// A piece of the answer goes to the caller.
    pub(crate) fn piece(&mut self, len: usize, now: Mono) {
        let Some(open) = &mut self.0 else { return };
        open.sent.pieces = open.sent.pieces.saturating_add(1);
        open.sent.bytes = open.sent.bytes.saturating_add(len as u64);
        let times = &mut open.times;
        match times.last_piece {
            Some(last) => times.longest_gap = times.longest_gap.max(Some(now.since(last))),
            None => times.first_byte = Some(now),
        }
        times.last_piece = Some(now);
    }

    /// These events of the answer were written. The call is over when a strict budget holds no more for it.
    pub(crate) fn writes(&mut self, events: &Bytes, now: Mono) -> Option<&Stopped> {
        let open = self.0.as_deref_mut()?;
        let metered = open.metered.as_mut()?;
        if !metered.take(events) {
            return None;
        }
        let written = metered.written();
        let likely = open.attempt.as_ref().map(|(_, bound)| bound.likely).unwrap_or_default();
        let usage = open.with_pieces(Usage::of_text(likely, written), now);
        let passed = open.metered.as_ref()?.passed(&usage)?;
        let payer = open.permit.payers.iter().find(|payer| payer.id() == passed)?;
        open.stopped = Some(Stopped { budget: payer.budget.name.clone(), written });
        open.stopped.as_ref()
    }

    /// The answer ended as `tail` says.
    pub(crate) fn close(&mut self, tail: Tail) {
        if let Some(open) = self.0.take() {
            let ended = open.edge.host.now();
            open.close(tail, ended);
        }
    }

    /// There is no answer: the caller is told `code` with `status`.
    pub(crate) fn fail(&mut self, code: Code, status: u16) {
        if let Some(mut open) = self.0.take() {
            open.status = status;
            let now = open.edge.host.now();
            open.close(ended(Outcome::Failed, code, false), now);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            open.leave();
        }
    }
}

const fn ended(outcome: Outcome, code: Code, reached_upstream: bool) -> Tail {
    Tail { outcome, code: Some(code), usage: None, reached_upstream, hops: Vec::new() }
}

impl Open {
    /// The call ended at `ended` as `tail` says.
    fn close(mut self: Box<Self>, tail: Tail, ended: Mono) {
        let bill = Bill::of(&self, &tail, ended);
        self.tried(&tail, ended);
        let receipt = self.receipt(&bill, tail.outcome, tail.code);
        let Self { permit, .. } = &mut *self;
        permit.settle(bill.usage.input.saturating_add(bill.usage.output));
        let Some(hold) = permit.hold.take() else { return };
        let receipt = hold.settle(receipt, &bill.actual);
        let closed = Closed { open: &self, receipt: &receipt, ended };
        self.edge.metrics.closed(&closed);
        record::keep(&self.edge, &closed);
        spans::call(&self.edge, &closed);
    }

    /// Hops as operators read them, with what upstreams said.
    pub(crate) fn told<'a>(&self, hops: impl Iterator<Item = &'a Hop>) -> Vec<Told> {
        let note = |at: usize| self.notes.iter().find(|(hop, _note)| *hop == at).map(|(_hop, note)| note);
        hops.enumerate().map(|(at, hop)| Told::new(hop, note(at))).collect()
    }

    fn receipt(&self, bill: &Bill, outcome: Outcome, code: Option<Code>) -> Receipt {
        let principal = self.caller.principal();
        let model = self.attempt.as_ref().map(|(attempt, _)| &attempt.candidate.model);
        Receipt {
            request: self.arrival.request,
            kind: wire::ledger::ReceiptKind::Call,
            at: self.edge.host.wall(),
            tenant: principal.tenant.clone(),
            app: principal.app.clone(),
            key: principal.key.clone(),
            scenario: self.scenario(),
            user: self.arrival.behalf.named_user(),
            model: model.map(|model| model.name.clone()).or_else(|| self.asked.clone()),
            operation: Some(self.arrival.operation),
            region: self.edge.region.clone(),
            served_by: self.attempt.as_ref().map(|(attempt, _)| record::served_by(&attempt.path)),
            provider: self.provider(),
            provider_key: self.provider_key.clone(),
            attempts: self.attempts,
            usage: bill.usage,
            estimated: bill.estimated,
            price_from: bill.price_from,
            cost: bill.cost,
            outcome,
            code,
            charges: Vec::new(),
        }
    }

    /// The scenario, as receipts tell it.
    fn scenario(&self) -> Option<Name> {
        let (edge, said) = (&self.edge, self.arrival.behalf.scenario.as_ref());
        edge.scenarios.told(&self.caller.principal().tenant, said, edge.host.now())
    }

    /// The provider, when the last attempt went through central.
    pub(crate) fn provider(&self) -> Option<Name> {
        let (attempt, _) = self.attempt.as_ref()?;
        match attempt.path {
            edge_core::plan::Path::Central(_) => attempt.candidate.model.provider.clone(),
            edge_core::plan::Path::Local | edge_core::plan::Path::Peer(_) => None,
        }
    }

    pub(super) fn asks(&self) -> &[(base::BudgetId, base::Amount)] {
        &self.permit.asks
    }

    /// The budgets that pay for what the last attempt came to.
    pub(super) fn payers(&self) -> impl Iterator<Item = &Payer> {
        let attempt = self.attempt.as_ref().map(|(attempt, _)| attempt);
        self.permit.payers.iter().filter(move |payer| attempt.is_none_or(|attempt| payer.pays(attempt)))
    }
}
