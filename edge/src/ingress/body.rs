//! A request's body, read whole within a size and a time.

use std::time::Duration;

use bytes::{Buf, Bytes};
use egress::{Full, Room};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use seam::Host;

use super::quic::Reader;

/// A body that cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    /// It is longer than allowed.
    #[error("the body exceeds {limit} bytes")]
    TooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// It did not arrive in time.
    #[error("the body took longer than {0:?}")]
    Slow(Duration),
    /// It broke off.
    #[error("the body broke off")]
    Truncated,
    /// The node holds as many bodies as it can.
    #[error(transparent)]
    NoRoom(#[from] Full),
}

/// What a node takes of one body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed<'a> {
    /// Its length in bytes.
    pub(crate) limit: usize,
    /// How long it may take to arrive.
    pub(crate) within: Duration,
    /// Where it is held, as long as the call keeps it.
    pub(crate) room: &'a Room,
}

/// A request's body as it arrives.
pub(crate) enum Upload {
    /// Over HTTP/1.1 or HTTP/2.
    Hyper(Incoming),
    /// Over HTTP/3.
    Quic(Box<h3::server::RequestStream<Reader, Bytes>>),
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hyper(_) => f.write_str("Hyper"),
            Self::Quic(_) => f.write_str("Quic"),
        }
    }
}

impl Upload {
    /// Reads the whole body. `announced` is its `Content-Length`: one that is too long is refused before a byte is
    /// asked for, so that a caller that waits for `100 Continue` sends nothing; so is one that finds no room.
    ///
    /// # Errors
    /// [`BodyError`]; what arrives later is not read.
    pub(crate) async fn read(
        mut self,
        host: &Host,
        announced: Option<u64>,
        allowed: Allowed<'_>,
    ) -> Result<Bytes, BodyError> {
        let Allowed { limit, within, room } = allowed;
        let expected = announced.map(usize::try_from).transpose();
        let expected = expected.map_err(|_beyond| BodyError::TooLarge { limit })?;
        if expected.is_some_and(|len| len > limit) {
            return Err(BodyError::TooLarge { limit });
        }
        match host.timeout(within, self.collect(expected, limit, room)).await {
            Ok(read) => read,
            Err(_late) => Err(BodyError::Slow(within)),
        }
    }

    async fn collect(
        &mut self,
        expected: Option<usize>,
        limit: usize,
        room: &Room,
    ) -> Result<Bytes, BodyError> {
        let mut body = room.gather();
        body.expect(expected.unwrap_or(0))?;
        while let Some(more) = self.next().await? {
            if body.len().saturating_add(more.len()) > limit {
                return Err(BodyError::TooLarge { limit });
            }
            body.push(more)?;
            if expected == Some(body.len()) || self.ended() {
                break;
            }
        }
        Ok(body.finish())
    }

    fn ended(&self) -> bool {
        match self {
            Self::Hyper(body) => body.is_end_stream(),
            Self::Quic(_) => false,
        }
    }

    /// The next piece of data; trailers are dropped.
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        match self {
            Self::Hyper(body) => loop {
                match body.frame().await {
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            return Ok(Some(data));
                        }
                    }
                    Some(Err(_broken)) => return Err(BodyError::Truncated),
                    None => return Ok(None),
                }
            },
            Self::Quic(stream) => match stream.recv_data().await {
                Ok(data) => Ok(data.map(|mut data| data.copy_to_bytes(data.remaining()))),
                Err(_broken) => Err(BodyError::Truncated),
            },
        }
    }
}
