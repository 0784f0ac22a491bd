//! Bytes of a stream in, frames out. Pure: it knows lengths and kinds, nothing of networks.
//!
//! A length is checked against its kind's limit before it counts; memory grows with what arrived, never with what was
//! claimed. A frame that lies whole in one chunk is a slice of it.

use bytes::{Buf as _, Bytes, BytesMut};
use wire::frame::{HEADER, Header, Kind, TooLong};

use crate::stream::Frame;

/// A frame that ends the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadFrame {
    TooLong(TooLong),
    Unknown(Kind),
}

/// Puts frames together from chunks.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    chunk: Bytes,
    /// Bytes of the current frame from earlier chunks.
    kept: BytesMut,
    header: Option<Header>,
}

impl Assembler {
    /// Adds what arrived. Call [`Self::next`] until it gives `None` before adding more.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "a chunk was left");
        self.chunk = chunk;
    }

    /// Whether nothing of a frame has arrived.
    pub(crate) fn is_at_boundary(&self) -> bool {
        self.chunk.is_empty() && self.kept.is_empty() && self.header.is_none()
    }

    /// The next whole frame of a known kind; others are skipped.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, BadFrame> {
        loop {
            let Some(header) = self.header()? else { return Ok(None) };
            if !header.kind.is_known() {
                if header.kind.must_understand() {
                    return Err(BadFrame::Unknown(header.kind));
                }
                if !self.skip(header) {
                    return Ok(None);
                }
                continue;
            }
            let Some(payload) = self.take(header.len) else { return Ok(None) };
            self.header = None;
            return Ok(Some(Frame { kind: header.kind, payload }));
        }
    }

    fn header(&mut self) -> Result<Option<Header>, BadFrame> {
        if self.header.is_none()
            && let Some(bytes) = self.take(HEADER)
            && let Ok(bytes) = <[u8; HEADER]>::try_from(&*bytes)
        {
            self.header = Some(Header::parse(bytes).map_err(BadFrame::TooLong)?);
        }
        Ok(self.header)
    }

    /// Exactly `len` bytes, or none while they are not all here.
    fn take(&mut self, len: usize) -> Option<Bytes> {
        if self.kept.is_empty() && self.chunk.len() >= len {
            return Some(self.chunk.split_to(len));
        }
        let more = len.saturating_sub(self.kept.len()).min(self.chunk.len());
        self.kept.extend_from_slice(&self.chunk.split_to(more));
        (self.kept.len() == len).then(|| self.kept.split().freeze())
    }

    /// Forgets bytes of an unknown frame; true when its end was reached.
    fn skip(&mut self, header: Header) -> bool {
        let more = header.len.min(self.chunk.len());
        self.chunk.advance(more);
        let left = header.len - more;
        self.header = (left > 0).then_some(Header { kind: header.kind, len: left });
        left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::frame::MAX_DATA;

    const SKIPPED: Kind = Kind(0x0123);

    #[test]
    fn frames_are_the_same_wherever_the_bytes_are_split() {
        let mut bytes = frame(Kind::DATA, b"hello");
        bytes.extend(frame(SKIPPED, b"from a newer minor version"));
        bytes.extend(frame(Kind::MESSAGE_END, b""));
        bytes.extend(frame(Kind::DATA, b"x"));
        for first in 0..bytes.len() {
            for second in first..bytes.len() {
                let mut assembler = Assembler::default();
                let mut found = Vec::new();
                for part in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                    assembler.push(Bytes::copy_from_slice(part));
                    while let Some(frame) = assembler.next().unwrap() {
                        found.push((frame.kind, frame.payload));
                    }
                }
                let expected = [
                    (Kind::DATA, Bytes::from_static(b"hello")),
                    (Kind::MESSAGE_END, Bytes::new()),
                    (Kind::DATA, Bytes::from_static(b"x")),
                ];
                assert_eq!(found, expected, "split at {first} and {second}");
                assert!(assembler.is_at_boundary());
            }
        }
    }

    #[test]
    fn a_lying_length_and_an_unknown_must_understand_kind_are_refused() {
        let mut assembler = Assembler::default();
        let lie = Header { kind: Kind::DATA, len: MAX_DATA + 1 };
        assembler.push(Bytes::copy_from_slice(&lie.bytes()));
        let refused = assembler.next().unwrap_err();
        assert_eq!(refused, BadFrame::TooLong(TooLong { kind: Kind::DATA, len: MAX_DATA + 1 }));

        let mut assembler = Assembler::default();
        assembler.push(frame(Kind(0x8fff), b"").into());
        assert_eq!(assembler.next().unwrap_err(), BadFrame::Unknown(Kind(0x8fff)));
    }

    #[test]
    fn memory_grows_with_what_arrived_not_with_what_was_claimed() {
        let mut assembler = Assembler::default();
        let header = Header { kind: Kind::TO_EDGE, len: 16 * 1024 * 1024 };
        assembler.push(Bytes::copy_from_slice(&header.bytes()));
        assert!(assembler.next().unwrap().is_none());
        assembler.push(Bytes::from_static(b"little"));
        assert!(assembler.next().unwrap().is_none());
        assert!(assembler.kept.capacity() < 1024);
    }

    fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Header { kind, len: payload.len() }.bytes().to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }
}
