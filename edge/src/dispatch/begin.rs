//! How an answer begins: whole, when it is no stream and of ordinary size, else with its first bytes still to come.

use base::Code;
use bytes::Bytes;
use dialect::Translator;
use egress::{Failed, Reply, ReplyBody, Room};
use http::HeaderMap;
use wire::call::{Failure, Tail};
use wire::ledger::Outcome;

use crate::translate::{MAX_WHOLE, Telling};

/// An answer that is no stream is read to this size before a byte of it is sent on: until then another target may
/// still answer, and its length is known.
const GATHERED: usize = 1024 * 1024;

/// An answer of which nothing has reached the caller.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// What is at hand, in the caller's API.
    pub(crate) start: Bytes,
    pub(crate) rest: Rest,
    /// Makes what follows into the caller's API, where the target speaks another.
    pub(crate) translator: Option<Box<Translator>>,
}

/// What follows what is at hand.
#[derive(Debug)]
pub(crate) enum Rest {
    /// Nothing: the call ended.
    Ended(Tail),
    /// More.
    Flowing(ReplyBody),
}

/// Reads as much of an answer as may be read before it is sent on, and as there is room for; all of it where it is whole
/// and has to be told in another API.
///
/// # Errors
/// [`Failed`] when it broke off within that, or cannot be told.
pub(super) async fn begin(
    reply: Reply,
    stream: bool,
    telling: Option<&Telling>,
    room: &Room,
) -> Result<Begun, Box<Failed>> {
    let Reply { status, headers, mut body, provider_key: _told, notes: _noted } = reply;
    let begun = |start, rest| Begun { status, headers, start, rest, translator: None };
    if let Some(start) = body.take_whole() {
        return ended(start, stream, telling, body.tail()).map(|(start, rest)| begun(start, rest));
    }
    if stream {
        let translator = telling.map(|telling| Box::new(telling.stream()));
        return Ok(Begun { translator, ..begun(Bytes::new(), Rest::Flowing(body)) });
    }
    let most = telling.map_or(GATHERED, |_told| MAX_WHOLE);
    let mut start = room.gather();
    while start.len() <= most {
        match body.next().await {
            Some(piece) => {
                if start.push(piece.clone()).is_err() {
                    if telling.is_some() {
                        return Err(untold(Code::Overloaded, body.tail()));
                    }
                    let start = [start.finish(), piece].concat().into();
                    return Ok(begun(start, Rest::Flowing(body)));
                }
            }
            None => {
                let tail = body.tail();
                return match tail.outcome {
                    Outcome::Complete => {
                        ended(start.finish(), stream, telling, tail).map(|(start, rest)| begun(start, rest))
                    }
                    Outcome::CallerGone | Outcome::Cut | Outcome::Failed | Outcome::Lost => Err(broke(tail)),
                };
            }
        }
    }
    match telling {
        Some(_told) => Err(untold(Code::UpstreamInvalid, body.tail())),
        None => Ok(begun(start.finish(), Rest::Flowing(body))),
    }
}

/// An answer that is all at hand, as its caller reads it.
fn ended(
    body: Bytes,
    stream: bool,
    telling: Option<&Telling>,
    tail: Tail,
) -> Result<(Bytes, Rest), Box<Failed>> {
    let told = match telling {
        None => Some(body),
        Some(telling) if stream => telling.at_once(&body).ok(),
        Some(telling) => telling.whole(&body).ok(),
    };
    match told {
        Some(told) => Ok((told, Rest::Ended(tail))),
        None => Err(untold(Code::UpstreamInvalid, tail)),
    }
}

/// An answer that its caller's API cannot be made of. The upstream did its work.
fn untold(code: Code, tail: Tail) -> Box<Failed> {
    let failure = Failure {
        code,
        message: "The model's answer could not be converted to the API that it was asked for in.".to_owned(),
        upstream_status: None,
        body: None,
        retry_after_ms: None,
    };
    let tail = Tail { outcome: Outcome::Failed, code: Some(code), ..tail };
    Box::new(Failed { failure, tail, notes: Vec::new() })
}

/// An answer that broke off is a link that did: nothing of it was used, so that it may be asked for elsewhere.
fn broke(tail: Tail) -> Box<Failed> {
    let code = match tail.code {
        Some(Code::UpstreamCut) | None => Code::UpstreamInvalid,
        Some(other) => other,
    };
    let failure = Failure {
        code,
        message: "The model's answer broke off.".to_owned(),
        upstream_status: None,
        body: None,
        retry_after_ms: None,
    };
    let tail = Tail { outcome: Outcome::Failed, code: Some(code), ..tail };
    Box::new(Failed { failure, tail, notes: Vec::new() })
}
