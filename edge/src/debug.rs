//! What a key that may debug is told of its call: hops, attempts and timings, as JSON in a header; at the end of an
//! event stream, when everything is known, in a comment too. A call that fails is told of as one that succeeds.

use base::Mono;
use bytes::Bytes;
use dialect::Api;
use http::{HeaderName, HeaderValue};
use serde::Serialize;
use telemetry::record::Attempt;
use wire::call::Tail;

use crate::call::Edge;
use crate::identity::Caller;
use crate::ingress::Arrival;
use crate::record;
use crate::settle::{Account, Times};

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
    hops: Vec<Attempt>,
}

/// The header's value, when it is asked for and the account is open.
pub(crate) fn header(edge: &Edge, account: &Account, tail: Option<&Tail>) -> Option<HeaderValue> {
    HeaderValue::try_from(of_call(edge, account, tail)?).ok()
}

/// The comment's text, when it is asked for and the account is open. JSON has no line breaks of its own.
/// The streams of Gemini's API have no comments.
pub(crate) fn comment(edge: &Edge, account: &Account, tail: Option<&Tail>) -> Option<Bytes> {
    account.view().filter(|open| open.arrival.asks.form.api != Api::Gemini)?;
    let told = of_call(edge, account, tail)?;
    Some([b": portolan ", told.as_slice(), b"\n\n"].concat().into())
}

/// The header's value for a call that was not admitted, when it is asked for.
pub(crate) fn refused(edge: &Edge, arrival: &Arrival, caller: &Caller, times: &Times) -> Option<HeaderValue> {
    is_asked(edge, arrival, caller).then_some(())?;
    HeaderValue::try_from(serde_json::to_vec(&Told::new(edge, arrival, times)).ok()?).ok()
}

/// Whether the call's key may debug and its caller asked for it.
fn is_asked(edge: &Edge, arrival: &Arrival, caller: &Caller) -> bool {
    edge.debug && arrival.debug && caller.principal().debug
}

fn of_call(edge: &Edge, account: &Account, tail: Option<&Tail>) -> Option<Vec<u8>> {
    let open = account.view().filter(|open| is_asked(edge, &open.arrival, &open.caller))?;
    let untold = tail.and_then(|tail| open.untold(tail, edge.host.now()));
    let hops = open.hops.iter().chain(tail.into_iter().flat_map(|tail| &tail.hops)).chain(&untold);
    let attempt = open.attempt.as_ref().map(|(attempt, _)| attempt);
    let told = Told {
        model: attempt.map(|attempt| attempt.candidate.model.name.as_str()),
        served_by: attempt.map(|attempt| record::served_by(&attempt.path)),
        attempts: open.attempts,
        hops: open.told(hops).into_iter().map(Attempt::without_words).collect(),
        ..Told::new(edge, &open.arrival, &open.times)
    };
    serde_json::to_vec(&told).ok()
}

impl<'a> Told<'a> {
    /// What is known of a call before its first attempt.
    fn new(edge: &'a Edge, arrival: &Arrival, times: &Times) -> Self {
        let since = |at: Option<Mono>| {
            at.map(|at| u64::try_from(at.since(arrival.started).as_micros()).unwrap_or(u64::MAX))
        };
        Self {
            node: edge.node.as_str(),
            region: edge.region.as_str(),
            model: None,
            served_by: None,
            attempts: 0,
            identified_us: since(times.identified),
            admitted_us: since(times.admitted),
            head_us: since(times.head),
            hops: Vec::new(),
        }
    }
}
