//! What can go wrong between two nodes.

use std::net::SocketAddr;
use std::time::Duration;

use wire::codec::CodecError;
use wire::frame::{Kind, TooLong};

use crate::Check;

/// A connection, a stream or a frame failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeshError {
    /// The endpoint could not be made.
    #[error("cannot open the mesh endpoint at {at}: {why}")]
    Bind {
        /// Where.
        at: SocketAddr,
        /// What the network said.
        why: String,
    },
    /// This node did not let the peer in.
    #[error("refused the peer at {remote}: {reason}")]
    Refused {
        /// The peer's address.
        remote: SocketAddr,
        /// The check it failed.
        check: Check,
        /// In words.
        reason: String,
    },
    /// The peer did not let this node in.
    #[error("the peer at {remote} refused this node: {reason}")]
    RefusedByPeer {
        /// The peer's address.
        remote: SocketAddr,
        /// The check this node failed, when the peer named it.
        check: Option<Check>,
        /// The peer's words.
        reason: String,
    },
    /// The peer did not answer.
    #[error("the node at {remote} did not answer")]
    Unreachable {
        /// The peer's address.
        remote: SocketAddr,
    },
    /// The last try failed a moment ago; the next is not due yet.
    #[error("not trying again for {retry_in:?}: {last}")]
    BackingOff {
        /// Time until the next try.
        retry_in: Duration,
        /// What the last try said.
        last: String,
    },
    /// The connection is gone.
    #[error("the connection ended: {0}")]
    Closed(String),
    /// The peer gave this stream up.
    #[error("the peer reset the stream")]
    Reset,
    /// The peer does not want more of this stream.
    #[error("the peer stopped reading the stream")]
    Stopped,
    /// An earlier send was given up half-way, so that nothing more fits on the stream.
    #[error("an earlier send on the stream was given up half-way")]
    HalfSent,
    /// The stream ended within a frame.
    #[error("the stream ended within a frame")]
    Truncated,
    /// A frame claims more than its kind allows.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// A frame that must be understood and is not.
    #[error("frames of kind {:#06x} must be understood and are not", .0.0)]
    UnknownKind(Kind),
    /// A frame of another kind than the protocol has here.
    #[error("expected a frame of kind {:#06x}, found {}", expected.0, found.map_or_else(|| "the end".to_owned(), |kind| format!("{:#06x}", kind.0)))]
    Unexpected {
        /// The kind expected.
        expected: Kind,
        /// The kind found; `None` at the stream's end.
        found: Option<Kind>,
    },
    /// A message could not be encoded or decoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

impl MeshError {
    pub(crate) fn closed(error: &quinn::ConnectionError) -> Self {
        Self::Closed(error.to_string())
    }
}

impl From<quinn::WriteError> for MeshError {
    fn from(error: quinn::WriteError) -> Self {
        match error {
            quinn::WriteError::Stopped(_code) => Self::Stopped,
            quinn::WriteError::ConnectionLost(lost) => Self::closed(&lost),
            quinn::WriteError::ClosedStream | quinn::WriteError::ZeroRttRejected => {
                Self::Closed("the stream is closed".to_owned())
            }
        }
    }
}

impl From<quinn::ReadError> for MeshError {
    fn from(error: quinn::ReadError) -> Self {
        match error {
            quinn::ReadError::Reset(_code) => Self::Reset,
            quinn::ReadError::ConnectionLost(lost) => Self::closed(&lost),
            quinn::ReadError::ClosedStream
            | quinn::ReadError::IllegalOrderedRead
            | quinn::ReadError::ZeroRttRejected => Self::Closed("the stream is closed".to_owned()),
        }
    }
}
