//! Frames on a stream: kind (u16, big-endian), payload length (u32, big-endian), payload.
//!
//! The top bit of a kind means "must understand": a receiver that does not know such a kind closes the session; other
//! unknown kinds are skipped. A length is checked against its kind's limit before anything is allocated.

use bytes::{BufMut, Bytes, BytesMut};

use crate::codec::{self, CodecError, MAX_MESSAGE};

/// Length of a frame's header in bytes.
pub const HEADER: usize = 6;

/// Largest payload of a data frame, in bytes.
pub const MAX_DATA: usize = 256 * 1024;

const MUST_UNDERSTAND: u16 = 0x8000;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u16);

impl Kind {
    /// First frame of a stream that either side opens: a [`crate::control::Opening`].
    pub const OPENING: Self = Self(0x8001);
    /// A [`crate::control::ToCentral`].
    pub const TO_CENTRAL: Self = Self(0x8010);
    /// A [`crate::control::ToEdge`].
    pub const TO_EDGE: Self = Self(0x8011);
    /// A list of [`crate::control::MissingTokenizer`], all that an edge lacks; nodes that do not know it skip it.
    pub const MISSING_TOKENIZERS: Self = Self(0x0012);
    /// A [`crate::call::CallHead`].
    pub const CALL_HEAD: Self = Self(0x8020);
    /// Bytes of a body, at most [`MAX_DATA`].
    pub const DATA: Self = Self(0x8021);
    /// End of one direction's body; no payload.
    pub const MESSAGE_END: Self = Self(0x8022);
    /// A [`crate::call::ReplyHead`].
    pub const REPLY_HEAD: Self = Self(0x8023);
    /// A [`crate::call::Failure`], instead of a reply.
    pub const FAILURE: Self = Self(0x8024);
    /// A [`crate::call::Tail`]; last frame of a call.
    pub const TAIL: Self = Self(0x8025);
    /// A list of [`crate::call::Note`], before a reply or a failure; nodes that do not know it skip it.
    pub const NOTES: Self = Self(0x0026);
    /// A request between central nodes; its payload is central's own.
    pub const RPC_REQUEST: Self = Self(0x8030);
    /// The answer to [`Kind::RPC_REQUEST`].
    pub const RPC_REPLY: Self = Self(0x8031);

    /// Whether this build knows the kind.
    #[must_use]
    pub const fn is_known(self) -> bool {
        matches!(
            self,
            Self::OPENING
                | Self::TO_CENTRAL
                | Self::TO_EDGE
                | Self::MISSING_TOKENIZERS
                | Self::CALL_HEAD
                | Self::DATA
                | Self::MESSAGE_END
                | Self::REPLY_HEAD
                | Self::FAILURE
                | Self::TAIL
                | Self::NOTES
                | Self::RPC_REQUEST
                | Self::RPC_REPLY
        )
    }

    /// Whether a receiver that does not know this kind must close the session.
    #[must_use]
    pub const fn must_understand(self) -> bool {
        self.0 & MUST_UNDERSTAND != 0
    }

    /// Largest payload of a frame of this kind, in bytes.
    #[must_use]
    pub const fn limit(self) -> usize {
        match self {
            Self::DATA => MAX_DATA,
            Self::MESSAGE_END => 0,
            _other => MAX_MESSAGE,
        }
    }
}

/// A frame's header, its length already checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame holds.
    pub kind: Kind,
    /// Length of its payload in bytes.
    pub len: usize,
}

/// A frame claims more than its kind may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of kind {:#06x} claims {len} bytes, at most {} are allowed", kind.0, kind.limit())]
pub struct TooLong {
    /// The frame's kind.
    pub kind: Kind,
    /// The length it claims.
    pub len: usize,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// [`TooLong`] when the length exceeds the kind's limit.
    pub const fn parse(bytes: [u8; HEADER]) -> Result<Self, TooLong> {
        let [k0, k1, l0, l1, l2, l3] = bytes;
        let kind = Kind(u16::from_be_bytes([k0, k1]));
        let len = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        if len > kind.limit() { Err(TooLong { kind, len }) } else { Ok(Self { kind, len }) }
    }

    /// The header's bytes. A payload never exceeds [`MAX_MESSAGE`], so that its length fits.
    #[must_use]
    pub fn bytes(self) -> [u8; HEADER] {
        let [k0, k1] = self.kind.0.to_be_bytes();
        let [l0, l1, l2, l3] = u32::try_from(self.len).unwrap_or(u32::MAX).to_be_bytes();
        [k0, k1, l0, l1, l2, l3]
    }
}

/// A whole frame that holds `message`.
///
/// # Errors
/// [`CodecError::Encode`] when the message cannot be encoded or is too large.
pub fn message<T: serde::Serialize + ?Sized>(kind: Kind, message: &T) -> Result<Bytes, CodecError> {
    let payload = codec::encode(message)?;
    let mut frame = BytesMut::with_capacity(HEADER + payload.len());
    frame.put_slice(&Header { kind, len: payload.len() }.bytes());
    frame.put_slice(&payload);
    Ok(frame.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_a_lie_is_refused() {
        let header = Header { kind: Kind::DATA, len: 17 };
        assert_eq!(Header::parse(header.bytes()), Ok(header));
        let lie = Header { kind: Kind::DATA, len: MAX_DATA + 1 };
        assert_eq!(Header::parse(lie.bytes()), Err(TooLong { kind: Kind::DATA, len: MAX_DATA + 1 }));
    }
}
