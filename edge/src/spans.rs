//! The spans of a call at the edge that took it: one of the call and one of each attempt, from the times its account holds
//! anyway. What an attempt does beyond, here or at another node, is told by `egress` there, below the attempt's span.

use base::{Code, Mono};
use edge_core::plan::Path;
use telemetry::trace::{Side, Span};

use crate::call::Edge;
use crate::ingress::Arrival;
use crate::record::Known;
use crate::settle::{Closed, Open};

/// A call is over.
pub(crate) fn call(edge: &Edge, closed: &Closed<'_>) {
    let (open, receipt) = (closed.open, closed.receipt);
    let arrival = &open.arrival;
    if !edge.tracer.traces(arrival.trace) {
        return;
    }
    let mut attributes = vec![
        ("gen_ai.operation.name", arrival.operation.as_str().into()),
        ("gen_ai.usage.input_tokens", signed(receipt.usage.input.0).into()),
        ("gen_ai.usage.output_tokens", signed(receipt.usage.output.0).into()),
        ("http.response.status_code", i64::from(open.status).into()),
        ("portolan.request_id", receipt.request.to_string().into()),
    ];
    attributes.extend(open.asked.as_ref().map(|name| ("gen_ai.request.model", name.to_string().into())));
    attributes.extend(receipt.served_by.clone().map(|path| ("portolan.served_by", path.into())));
    edge.tracer.finish(Span {
        context: arrival.trace,
        parent: arrival.parent,
        name: arrival.operation.as_str(),
        side: Side::Server,
        begun: arrival.started,
        ended: closed.ended,
        attributes,
        error: receipt.code.map(Code::as_str),
    });
}

/// A call is over that was not admitted.
pub(crate) fn refused(edge: &Edge, arrival: &Arrival, known: &Known, (code, status): (Code, u16)) {
    if !edge.tracer.traces(arrival.trace) {
        return;
    }
    let mut attributes = vec![
        ("gen_ai.operation.name", arrival.operation.as_str().into()),
        ("http.response.status_code", i64::from(status).into()),
        ("portolan.request_id", arrival.request.to_string().into()),
    ];
    attributes.extend(known.asked.as_ref().map(|name| ("gen_ai.request.model", name.to_string().into())));
    edge.tracer.finish(Span {
        context: arrival.trace,
        parent: arrival.parent,
        name: arrival.operation.as_str(),
        side: Side::Server,
        begun: arrival.started,
        ended: edge.host.now(),
        attributes,
        error: Some(code.as_str()),
    });
}

/// The last attempt of a call is over.
pub(crate) fn attempt(edge: &Edge, open: &Open, begun: Mono, code: Option<Code>, ended: Mono) {
    let call = open.arrival.trace;
    let traced = open.attempt.as_ref().filter(|_| edge.tracer.traces(call));
    let Some((attempt, _)) = traced else { return };
    let (path, side) = match attempt.path {
        Path::Local => ("local", Side::Inner),
        Path::Peer(_) => ("peer", Side::Client),
        Path::Central(_) => ("relay", Side::Client),
    };
    edge.tracer.finish(Span {
        context: open.span_of(open.attempts),
        parent: Some(call.span),
        name: "attempt",
        side,
        begun,
        ended,
        attributes: vec![
            ("gen_ai.request.model", attempt.candidate.model.name.to_string().into()),
            ("portolan.attempt", i64::from(open.attempts).into()),
            ("portolan.node", open.asked_node(&attempt.path).to_string().into()),
            ("portolan.path", path.into()),
        ],
        error: code.map(Code::as_str),
    });
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
