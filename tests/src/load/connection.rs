//! One caller's connection: it sends prepared bytes and reads replies whole or event by event.

use std::io;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use memchr::memmem;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::target::Target;
use crate::http1::{self, Body, Head};

/// Longest that a call may go without a byte.
const PATIENCE: Duration = Duration::from_secs(30);

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// An HTTP/1.1 connection, plain or TLS.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    buffer: BytesMut,
    body: BytesMut,
}

/// A reply whose body is still to be read.
pub(super) struct Reply {
    pub(super) status: u16,
    close: bool,
    body: Body,
}

impl Connection {
    pub(super) async fn open(target: &Target) -> io::Result<Self> {
        let stream = TcpStream::connect(target.addr).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match &target.tls {
            None => Box::new(stream),
            Some((config, name)) => {
                Box::new(TlsConnector::from(config.clone()).connect(name.clone(), stream).await?)
            }
        };
        Ok(Self { stream, buffer: BytesMut::with_capacity(8 * 1024), body: BytesMut::new() })
    }

    /// Sends a request and reads the head of its reply.
    pub(super) async fn send(&mut self, request: &[u8]) -> io::Result<Reply> {
        self.stream.write_all(request).await?;
        let head = patient(http1::read_head(&mut self.stream, &mut self.buffer)).await?;
        let Head { framing, close, .. } = head.as_ref().ok_or(io::ErrorKind::UnexpectedEof)?.clone();
        self.body.clear();
        Ok(Reply { status: head.map_or(0, |head| head.status()), close, body: Body::new(framing) })
    }

    /// Reads the whole body; whether the connection can be used again. [`Connection::body`] then has it.
    pub(super) async fn finish(&mut self, mut reply: Reply) -> io::Result<bool> {
        while patient(reply.body.read(&mut self.stream, &mut self.buffer, &mut self.body)).await? {}
        Ok(!reply.close)
    }

    /// The body read so far.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The data of the next event; `None` when the body ended. Comments are skipped.
    pub(super) async fn event(&mut self, reply: &mut Reply) -> io::Result<Option<BytesMut>> {
        loop {
            while let Some(end) = memmem::find(&self.body, b"\n\n") {
                let mut event = self.body.split_to(end);
                self.body.advance(2);
                if event.starts_with(b"data: ") {
                    event.advance(6);
                    return Ok(Some(event));
                }
            }
            if !patient(reply.body.read(&mut self.stream, &mut self.buffer, &mut self.body)).await? {
                return Ok(None);
            }
        }
    }
}

async fn patient<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()))
}
