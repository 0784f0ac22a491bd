//! A request's body, read whole within a size and a time.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use seam::Host;

use super::quic::Reader;

/// Space reserved ahead for a body that said how long it is; more comes as it arrives, so that a lie costs little.
const RESERVED: usize = 1024 * 1024;

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
    /// asked for, so that a caller that waits for `100 Continue` sends nothing.
    ///
    /// # Errors
    /// [`BodyError`]; what arrives later is not read.
    pub(crate) async fn read(
        mut self,
        host: &Host,
        announced: Option<u64>,
        limit: usize,
        within: Duration,
    ) -> Result<Bytes, BodyError> {
        if announced.is_some_and(|len| usize::try_from(len).map_or(true, |len| len > limit)) {
            return Err(BodyError::TooLarge { limit });
        }
        match host.timeout(within, self.collect(announced, limit)).await {
            Ok(read) => read,
            Err(_late) => Err(BodyError::Slow(within)),
        }
    }

    async fn collect(&mut self, announced: Option<u64>, limit: usize) -> Result<Bytes, BodyError> {
        let Some(first) = self.next().await? else { return Ok(Bytes::new()) };
        if first.len() > limit {
            return Err(BodyError::TooLarge { limit });
        }
        // Most bodies are one piece: it is taken as it is.
        if announced.is_some_and(|len| len == first.len() as u64) || self.ended() {
            return Ok(first);
        }
        let expected = announced.and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
        let mut whole = BytesMut::with_capacity(expected.min(RESERVED).max(first.len() * 2));
        whole.extend_from_slice(&first);
        while let Some(more) = self.next().await? {
            if whole.len() + more.len() > limit {
                return Err(BodyError::TooLarge { limit });
            }
            whole.extend_from_slice(&more);
        }
        Ok(whole.freeze())
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
