//! The spans of a call at the edge that took it: one of the call and one of each attempt, from the times its account holds
//! anyway. What an attempt does beyond, here or at another node, is told by `egress` there, below the attempt's span.

use base::{Code, ModelName, Mono};
use edge_core::plan::Path;
use telemetry::trace::{Side, Span};

use crate::call::Edge;
use crate::ingress::Arrival;
use crate::record::Known;
use crate::settle::{Closed, Open};

/// A call is over.
pub(crate) fn call(edge: &Edge, closed: &Closed<'_>) {
    let (open, receipt) = (closed.open, closed.receipt);
    if !edge.tracer.traces(open.arrival.trace) {
        return;
    }
    let mut span = served(&open.arrival, open.asked.as_ref(), open.status, receipt.code);
    span.ended = closed.ended;
    span.attributes.extend([
        ("gen_ai.usage.input_tokens", signed(receipt.usage.input.0).into()),
        ("gen_ai.usage.output_tokens", signed(receipt.usage.output.0).into()),
    ]);
    span.attributes.extend(receipt.served_by.clone().map(|path| ("portolan.served_by", path.into())));
    edge.tracer.finish(span);
}

/// A call is over that was not admitted.
pub(crate) fn refused(edge: &Edge, arrival: &Arrival, known: &Known, (code, status): (Code, u16)) {
    if edge.tracer.traces(arrival.trace) {
        let span = served(arrival, known.asked.as_ref(), status, Some(code));
        edge.tracer.finish(Span { ended: edge.host.now(), ..span });
    }
}

/// What the spans of all calls have in common; it ends when the caller says.
fn served(arrival: &Arrival, asked: Option<&ModelName>, status: u16, code: Option<Code>) -> Span {
    let mut attributes = vec![
        ("gen_ai.operation.name", arrival.operation.as_str().into()),
        ("http.response.status_code", i64::from(status).into()),
        ("portolan.request_id", arrival.request.to_string().into()),
    ];
    attributes.extend(asked.map(|name| ("gen_ai.request.model", name.to_string().into())));
    Span {
        context: arrival.trace,
        parent: arrival.parent,
        name: arrival.operation.as_str(),
        side: Side::Server,
        begun: arrival.started,
        ended: arrival.started,
        attributes,
        error: code.map(Code::as_str),
    }
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
