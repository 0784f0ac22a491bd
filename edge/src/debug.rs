//! What a key that may debug is told of its call: hops, attempts and timings, as JSON in a header; at the end of an
//! event stream, when everything is known, in a comment too.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde::Serialize;
use wire::call::{Hop, Tail};

use crate::call::Edge;
use crate::record;
use crate::settle::{Account, Open};

/// The header that asks and answers.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-portolan-debug");

#[derive(Serialize)]
struct Told<'a> {
    node: &'a str,
    region: &'a str,
    model: Option<&'a str>,
    served_by: Option<String>,
    attempts: u16,
    identified_us: Option<u64>,
    admitted_us: Option<u64>,
    head_us: Option<u64>,
    hops: Vec<Step<'a>>,
}

#[derive(Serialize)]
struct Step<'a> {
    node: &'a str,
    upstream: &'a str,
    result: String,
    connected_us: u32,
    first_byte_us: Option<u32>,
    total_us: u32,
}

/// Whether the call's key may debug and its caller asked for it.
pub(crate) fn is_asked(edge: &Edge, account: &Account) -> bool {
    account.view().is_some_and(|open| edge.debug && open.arrival.debug && open.caller.principal().debug)
}

/// The header's value, when it is asked for.
pub(crate) fn header(edge: &Edge, account: &Account, tail: Option<&Tail>) -> Option<HeaderValue> {
    let open = account.view().filter(|_| is_asked(edge, account))?;
    HeaderValue::try_from(told(edge, open, tail)?).ok()
}

/// The comment's text. JSON has no line breaks of its own.
pub(crate) fn comment(edge: &Edge, account: &Account, tail: &Tail) -> Option<Bytes> {
    let told = told(edge, account.view()?, Some(tail))?;
    Some([b": portolan ", told.as_slice(), b"\n\n"].concat().into())
}

fn told(edge: &Edge, open: &Open, tail: Option<&Tail>) -> Option<Vec<u8>> {
    let since = |at: Option<base::Mono>| {
        at.map(|at| u64::try_from(at.since(open.arrival.started).as_micros()).unwrap_or(u64::MAX))
    };
    let attempt = open.attempt.as_ref().map(|(attempt, _)| attempt);
    let untold = tail.and_then(|tail| open.untold(tail, edge.host.now()));
    let hops = open.hops.iter().chain(tail.into_iter().flat_map(|tail| &tail.hops)).chain(&untold);
    let told = Told {
        node: edge.node.as_str(),
        region: edge.region.as_str(),
        model: attempt.map(|attempt| attempt.candidate.model.name.as_str()),
        served_by: attempt.map(|attempt| record::served_by(&attempt.path)),
        attempts: open.attempts,
        identified_us: since(open.times.identified),
        admitted_us: since(open.times.admitted),
        head_us: since(open.times.head),
        hops: hops.map(step).collect(),
    };
    serde_json::to_vec(&told).ok()
}

fn step(hop: &Hop) -> Step<'_> {
    Step {
        node: hop.node.as_str(),
        upstream: hop.upstream.as_str(),
        result: match hop.result {
            Ok(status) => status.to_string(),
            Err(code) => code.as_str().to_owned(),
        },
        connected_us: hop.connected_us,
        first_byte_us: hop.first_byte_us,
        total_us: hop.total_us,
    }
}
