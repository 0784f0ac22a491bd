//! What a call comes to: an answer that begins, or a failure before its first byte. Both tell their attempts.

use base::Name;
use http::HeaderMap;
use wire::call::{Failure, Note, Tail};

use crate::ReplyBody;

/// What a call comes to.
pub type Exchange = Result<Reply, Box<Failed>>;

/// An answer begins; it was found to be one.
#[derive(Debug)]
pub struct Reply {
    /// The upstream's status, a success.
    pub status: u16,
    /// The headers that the caller may see. Neither length nor encoding of the body is among them.
    pub headers: HeaderMap,
    /// The body.
    pub body: ReplyBody,
    /// The key of the provider that it was asked with.
    pub provider_key: Option<Name>,
    /// What upstreams said to the attempts before it.
    pub notes: Vec<Note>,
}

/// No answer; nothing of one was handed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What happened, for the caller.
    pub failure: Failure,
    /// How it went.
    pub tail: Tail,
    /// What upstreams said to its attempts.
    pub notes: Vec<Note>,
}
