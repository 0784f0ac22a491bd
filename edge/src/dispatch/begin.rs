//! How an answer begins: whole, when it is no stream and of ordinary size, else with its first bytes still to come.

use base::Code;
use bytes::Bytes;
use egress::{Failed, Reply, ReplyBody, Room};
use http::HeaderMap;
use wire::call::{Failure, Tail};
use wire::ledger::Outcome;

/// An answer that is no stream is read to this size before a byte of it is sent on: until then another target may
/// still answer, and its length is known.
const GATHERED: usize = 1024 * 1024;

/// An answer of which nothing has reached the caller.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// What is at hand.
    pub(crate) start: Bytes,
    pub(crate) rest: Rest,
}

/// What follows what is at hand.
#[derive(Debug)]
pub(crate) enum Rest {
    /// Nothing: the call ended.
    Ended(Tail),
    /// More.
    Flowing(ReplyBody),
}

/// Reads as much of an answer as may be read before it is sent on, and as there is room for.
///
/// # Errors
/// [`Failed`] when it broke off within that.
pub(super) async fn begin(reply: Reply, stream: bool, room: &Room) -> Result<Begun, Box<Failed>> {
    let Reply { status, headers, mut body, provider_key: _told, notes: _noted } = reply;
    if let Some(start) = body.take_whole() {
        return Ok(Begun { status, headers, start, rest: Rest::Ended(body.tail()) });
    }
    if stream {
        return Ok(Begun { status, headers, start: Bytes::new(), rest: Rest::Flowing(body) });
    }
    let mut start = room.gather();
    while start.len() <= GATHERED {
        match body.next().await {
            Some(piece) => {
                if start.push(piece.clone()).is_err() {
                    let start = [start.finish(), piece].concat().into();
                    return Ok(Begun { status, headers, start, rest: Rest::Flowing(body) });
                }
            }
            None => {
                let tail = body.tail();
                return match tail.outcome {
                    Outcome::Complete => {
                        Ok(Begun { status, headers, start: start.finish(), rest: Rest::Ended(tail) })
                    }
                    Outcome::CallerGone | Outcome::Cut | Outcome::Failed | Outcome::Lost => Err(broke(tail)),
                };
            }
        }
    }
    Ok(Begun { status, headers, start: start.finish(), rest: Rest::Flowing(body) })
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
