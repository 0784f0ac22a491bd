//! A forwarded call: one full-duplex stream. Towards the server: head, data, message end. Back: reply head, data,
//! message end, tail; or a failure and a tail. Resetting the stream cancels the call; one that is reset before its answer began
//! is answered by a tail alone, which older nodes do not send.
//!
//! A call travels in the target's dialect. The serving side sends whole events in each data frame of an event stream,
//! so that the forwarding edge need not parse them.

use base::{Code, ModelName, Name, Priority, RequestId, TenantName};
use serde::{Deserialize, Serialize};

use crate::catalog::{Dialect, Operation, Timeouts};
use crate::ledger::{Outcome, Usage};

/// Who of the receiver's upstreams shall serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ServeAt {
    /// The receiving edge's own replicas.
    Replicas,
    /// The provider whose credentials central holds.
    Provider,
}

/// The call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallHead {
    /// Which call.
    pub request: RequestId,
    /// Which attempt of it, from 1.
    pub attempt: u16,
    /// Whose.
    pub tenant: TenantName,
    /// The key's name.
    pub key: Name,
    /// The physical model.
    pub model: ModelName,
    /// What to do.
    pub operation: Operation,
    /// Which upstreams.
    pub serve_at: ServeAt,
    /// Whether the caller wants an event stream.
    pub stream: bool,
    /// Whether we asked for usage on the caller's behalf, so that the usage event must not reach it.
    pub hide_usage: bool,
    /// Time left for the whole call in milliseconds, and the other limits.
    pub timeouts: Timeouts,
    /// How long the call may wait for a place when every instance is full, in milliseconds; 0: it is refused at once.
    pub place_ms: u32,
    /// Headers for the upstream, hop-by-hop ones and credentials removed.
    pub headers: Vec<(String, Vec<u8>)>,
    /// W3C `traceparent` of the caller's side.
    pub traceparent: Option<String>,
    /// The most input and output tokens that it can be, as far as that is known.
    pub tokens: u64,
    /// How pressing it is, where it has to wait.
    pub priority: Priority,
    /// Its tenant's share against others' there.
    pub weight: u32,
    /// The API that the body is in. Only upstreams that speak it are asked, so that a node whose configuration says
    /// another one asks none.
    pub dialect: Dialect,
}

/// The upstream's answer begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyHead {
    /// HTTP status.
    pub status: u16,
    /// Headers for the caller, hop-by-hop ones and cookies removed.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The key of the provider that it was asked with.
    pub provider_key: Option<Name>,
}

/// The call failed before the answer began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What happened.
    pub code: Code,
    /// For the caller: what happened and what to do; no secrets, no internals.
    pub message: String,
    /// The upstream's status, when it gave one.
    pub upstream_status: Option<u16>,
    /// The upstream's own error body, when the caller may see it (a fault of the caller), at most 64 KiB.
    pub body: Option<Vec<u8>>,
    /// When to come back, in milliseconds.
    pub retry_after_ms: Option<u32>,
}

/// How the call ended at the serving side; always the last frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    /// How it ended.
    pub outcome: Outcome,
    /// Why, when it did not end well.
    pub code: Option<Code>,
    /// What the upstream reported.
    pub usage: Option<Usage>,
    /// Whether the upstream may have started work: false only when it certainly did not.
    pub reached_upstream: bool,
    /// Attempts at the serving side, in order.
    pub hops: Vec<Hop>,
}

/// What an upstream said to an attempt that came to nothing, for operators; never for callers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The attempt's place among the hops of the exchange that it belongs to, from 0.
    pub hop: u16,
    /// The upstream's HTTP status, when it gave one.
    pub status: Option<u16>,
    /// Its words, shortened and without what looks like a secret; empty when it gave none.
    pub said: String,
}

/// One attempt at one upstream, or at a node of which nothing was heard about its upstreams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The node that tried.
    pub node: Name,
    /// The replica, the provider or the node that was asked.
    pub upstream: Name,
    /// The key of the provider that it was asked with.
    pub key: Option<Name>,
    /// How it went.
    pub result: Result<u16, Code>,
    /// Microseconds from the attempt's start until a connection was in hand.
    pub connected_us: u32,
    /// Until the first byte of the body; `None` when none came.
    pub first_byte_us: Option<u32>,
    /// Until the attempt ended.
    pub total_us: u32,
}
