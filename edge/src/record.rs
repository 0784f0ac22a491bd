//! The record of one call, from the times its account holds anyway.

use std::time::Duration;

use base::{Code, ModelName, Mono, Name, NanoUsd};
use edge_core::plan::Path;
use telemetry::record::{CallRecord, Principal};
use wire::ledger::{Outcome, Usage};
use wire::refusal::Stood;

use crate::call::Edge;
use crate::identity::Caller;
use crate::ingress::Arrival;
use crate::losses;
use crate::settle::Closed;

/// Where a call was served, as receipts and records say it.
pub(crate) fn served_by(path: &Path) -> String {
    match path {
        Path::Local => "local".to_owned(),
        Path::Peer(link) => format!("peer:{}", link.region),
        Path::Central(link) => format!("relay:{}", link.node),
    }
}

/// Keeps the record of a call whose account was closed.
pub(crate) fn keep(edge: &Edge, closed: &Closed<'_>) {
    let (open, receipt) = (closed.open, closed.receipt);
    let total = closed.ended.since(open.arrival.started);
    if !edge.recorder.is_on() || !edge.sampling.keeps(receipt.request, receipt.outcome, total) {
        return;
    }
    let since = |at: Option<Mono>| at.map(|at| micros(at.since(open.arrival.started)));
    edge.recorder.keep(CallRecord {
        asked: open.asked.clone(),
        model: open.attempt.as_ref().map(|(attempt, _)| attempt.candidate.model.name.clone()),
        stream: open.stream,
        served_by: receipt.served_by.clone(),
        provider: receipt.provider.clone(),
        provider_key: receipt.provider_key.clone(),
        scenario: receipt.scenario.clone(),
        user: receipt.user.map(|user| user.to_string()),
        status: open.status,
        outcome: receipt.outcome,
        code: receipt.code,
        features_off: open.off.clone(),
        lost: losses::words(&open.losses),
        budget: open.stopped.as_ref().map(|stopped| stopped.budget.clone()),
        identified_us: since(open.times.identified),
        admitted_us: since(open.times.admitted),
        head_us: since(open.times.head),
        first_byte_us: since(open.times.first_byte),
        longest_gap_us: open.times.longest_gap.map(micros),
        total_us: micros(total),
        chunks: open.sent.pieces,
        bytes_in: open.bytes_in,
        bytes_out: open.sent.bytes,
        usage: receipt.usage,
        estimated: receipt.estimated,
        cost: receipt.cost,
        waited_for_credit: open.times.waited_for_credit,
        hops: open.told(open.hops.iter()),
        ..blank(edge, &open.arrival, Some(&open.caller))
    });
}

/// What is known of a call that was not admitted.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// When its caller was.
    pub(crate) identified: Option<Mono>,
    pub(crate) asked: Option<ModelName>,
    pub(crate) stream: bool,
    pub(crate) bytes_in: u64,
    /// The budget that refused it.
    pub(crate) budget: Option<Name>,
    /// The limit that did.
    pub(crate) limit: Option<String>,
    /// How its budgets stood when it was refused.
    pub(crate) stood: Vec<Stood>,
}

/// Keeps the record of a call that was never admitted.
pub(crate) fn refused(
    edge: &Edge,
    arrival: &Arrival,
    caller: Option<&Caller>,
    known: &Known,
    (code, status): (Code, u16),
) {
    if !edge.recorder.is_on() {
        return;
    }
    edge.recorder.keep(CallRecord {
        asked: known.asked.clone(),
        stream: known.stream,
        status,
        outcome: outcome(code),
        code: Some(code),
        budget: known.budget.clone(),
        limit: known.limit.clone(),
        identified_us: known.identified.map(|at| micros(at.since(arrival.started))),
        total_us: micros(edge.host.now().since(arrival.started)),
        bytes_in: known.bytes_in,
        ..blank(edge, arrival, caller)
    });
}

/// How a call that was not admitted ended.
pub(crate) fn outcome(code: Code) -> Outcome {
    if code == Code::CallerGone { Outcome::CallerGone } else { Outcome::Failed }
}

fn blank(edge: &Edge, arrival: &Arrival, caller: Option<&Caller>) -> CallRecord {
    let caller = caller.map(|caller| {
        let principal = caller.principal();
        Principal { tenant: principal.tenant.clone(), app: principal.app.clone(), key: principal.key.clone() }
    });
    CallRecord {
        request: arrival.request.to_string(),
        at: arrival.at,
        node: edge.node.clone(),
        region: edge.region.clone(),
        trace: Some(format!("{:032x}", arrival.trace.trace)),
        caller,
        http: arrival.via.http,
        operation: Some(arrival.operation),
        asked: None,
        model: None,
        stream: false,
        served_by: None,
        provider: None,
        provider_key: None,
        scenario: arrival.behalf.scenario.clone(),
        user: arrival.behalf.named_user().map(|user| user.to_string()),
        status: 0,
        outcome: Outcome::Failed,
        code: None,
        features_off: Vec::new(),
        lost: Vec::new(),
        budget: None,
        limit: None,
        identified_us: None,
        admitted_us: None,
        head_us: None,
        first_byte_us: None,
        longest_gap_us: None,
        total_us: 0,
        chunks: 0,
        bytes_in: 0,
        bytes_out: 0,
        usage: Usage::default(),
        estimated: false,
        cost: NanoUsd(0),
        waited_for_credit: false,
        hops: Vec::new(),
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
