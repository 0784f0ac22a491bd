//! The two directions of a stream, in frames. Dropping an unfinished direction resets it, which cancels its call.

use std::fmt;
use std::future::Future;

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::codec;
use wire::frame::{self, HEADER, Header, Kind, MAX_DATA};

use crate::MeshError;
use crate::assembler::{Assembler, BadFrame};
use crate::transport::{CANCELLED, PROTOCOL};

/// Below this size a data frame is copied behind its header: one chunk costs less than two.
const COPY_BELOW: usize = 2048;

/// One frame.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it holds.
    pub kind: Kind,
    /// Its payload.
    pub payload: Bytes,
}

impl Frame {
    /// Decodes the payload.
    ///
    /// # Errors
    /// [`MeshError::Codec`] when it is not exactly one such message.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, MeshError> {
        Ok(codec::decode(&self.payload)?)
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({:#06x}, {} bytes)", self.kind.0, self.payload.len())
    }
}

/// The sending direction. Sends wait while the receiver does not read (at most a window is under way).
///
/// Not cancel safe: a send that is dropped half-way makes all later sends fail with [`MeshError::HalfSent`].
#[derive(Debug)]
pub struct Sender {
    stream: quinn::SendStream,
    /// A send has begun and not ended.
    sending: bool,
    finished: bool,
}

impl Sender {
    pub(crate) const fn new(stream: quinn::SendStream) -> Self {
        Self { stream, sending: false, finished: false }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`MeshError`] when it cannot be encoded or the stream or connection ended.
    pub async fn send<T: Serialize + ?Sized>(&mut self, kind: Kind, message: &T) -> Result<(), MeshError> {
        self.write(&mut [frame::message(kind, message)?]).await
    }

    /// Sends bytes of a body, in frames of at most [`MAX_DATA`] each; no bytes send nothing.
    ///
    /// # Errors
    /// [`MeshError`] when the stream or connection ended.
    pub async fn send_data(&mut self, mut data: Bytes) -> Result<(), MeshError> {
        while !data.is_empty() {
            let part = data.split_to(data.len().min(MAX_DATA));
            self.send_frame(Kind::DATA, part).await?;
        }
        Ok(())
    }

    /// Sends a frame with a payload that is already encoded.
    ///
    /// # Errors
    /// [`MeshError`] when the payload is too long or the stream or connection ended.
    pub async fn send_frame(&mut self, kind: Kind, payload: Bytes) -> Result<(), MeshError> {
        let header = Header { kind, len: payload.len() };
        if payload.len() > kind.limit() {
            return Err(frame::TooLong { kind, len: payload.len() }.into());
        }
        let mut head = BytesMut::with_capacity(HEADER + payload.len().min(COPY_BELOW));
        head.put_slice(&header.bytes());
        if payload.len() < COPY_BELOW {
            head.put_slice(&payload);
            self.write(&mut [head.freeze()]).await
        } else {
            self.write(&mut [head.freeze(), payload]).await
        }
    }

    /// Sends a frame without payload.
    ///
    /// # Errors
    /// [`MeshError`] when the stream or connection ended.
    pub async fn end(&mut self, kind: Kind) -> Result<(), MeshError> {
        self.send_frame(kind, Bytes::new()).await
    }

    /// Ends the direction in good order: the peer reads all that was sent, then the end.
    ///
    /// # Errors
    /// [`MeshError`] when the peer stopped it or it is closed.
    pub fn finish(&mut self) -> Result<(), MeshError> {
        if self.sending {
            return Err(MeshError::HalfSent);
        }
        self.finished = true;
        self.stream.finish().map_err(|_closed| MeshError::Closed("the stream is closed".to_owned()))
    }

    /// Gives the direction up: what is under way is thrown away and the peer is told.
    pub fn reset(&mut self) {
        self.finished = true;
        // One that is closed already needs no reset.
        drop(self.stream.reset(CANCELLED));
    }

    /// Completes when the peer reads no further: it stopped the stream, has received all of a finished one, or is gone.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + Sync + 'static {
        let stopped = self.stream.stopped();
        async move { drop(stopped.await) }
    }

    /// Sets the order among the connection's streams: higher goes first, 0 is usual.
    pub fn set_priority(&self, priority: i32) {
        // A closed stream sends nothing that could be ordered.
        drop(self.stream.set_priority(priority));
    }

    /// Puts bytes on the stream as they are.
    #[cfg(test)]
    pub(crate) async fn write_raw(&mut self, bytes: Bytes) -> Result<(), MeshError> {
        self.write(&mut [bytes]).await
    }

    async fn write(&mut self, chunks: &mut [Bytes]) -> Result<(), MeshError> {
        if self.sending {
            return Err(MeshError::HalfSent);
        }
        self.sending = true;
        let written = self.stream.write_all_chunks(chunks).await;
        self.sending = false;
        Ok(written?)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.finished {
            self.reset();
        }
    }
}

/// The receiving direction. Dropping it tells the peer to stop.
#[derive(Debug)]
pub struct Receiver {
    stream: quinn::RecvStream,
    assembler: Assembler,
    connection: quinn::Connection,
}

impl Receiver {
    pub(crate) fn new(stream: quinn::RecvStream, connection: quinn::Connection) -> Self {
        Self { stream, assembler: Assembler::default(), connection }
    }

    /// The next frame; `None` at the end in good order. Cancel safe.
    ///
    /// # Errors
    /// [`MeshError`] when the peer reset the stream, broke the protocol (which ends the connection), or is gone.
    pub async fn recv(&mut self) -> Result<Option<Frame>, MeshError> {
        loop {
            match self.assembler.next() {
                Ok(Some(frame)) => return Ok(Some(frame)),
                Ok(None) => {}
                Err(bad) => return Err(self.close_session(bad)),
            }
            match self.stream.read_chunk(MAX_DATA, true).await? {
                Some(chunk) => self.assembler.push(chunk.bytes),
                None if self.assembler.is_at_boundary() => return Ok(None),
                None => return Err(MeshError::Truncated),
            }
        }
    }

    /// The next frame, which must be of `kind`, decoded.
    ///
    /// # Errors
    /// [`MeshError`] as [`Self::recv`], or when the frame is of another kind or malformed.
    pub async fn expect<T: DeserializeOwned>(&mut self, kind: Kind) -> Result<T, MeshError> {
        match self.recv().await? {
            Some(frame) if frame.kind == kind => frame.decode(),
            other => Err(MeshError::Unexpected { expected: kind, found: other.map(|frame| frame.kind) }),
        }
    }

    /// Tells the peer to stop sending; what arrives is thrown away.
    pub fn stop(&mut self) {
        // One that has ended needs no stop.
        drop(self.stream.stop(CANCELLED));
    }

    fn close_session(&self, bad: BadFrame) -> MeshError {
        let error = match bad {
            BadFrame::TooLong(lie) => MeshError::TooLong(lie),
            BadFrame::Unknown(kind) => MeshError::UnknownKind(kind),
        };
        tracing::warn!(remote = %self.connection.remote_address(), %error, "closing a mesh session");
        self.connection.close(PROTOCOL, error.to_string().as_bytes());
        error
    }
}
