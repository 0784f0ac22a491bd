//! A caller's byte stream: bytes read ahead are given back first, and a caller that takes nothing for too long is gone.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use seam::{ByteStream, Host};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// What every HTTP/2 connection begins with (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A byte stream with bytes read ahead and a limit on how long a write may stand still.
pub(crate) struct Wire<S = ByteStream> {
    io: S,
    ahead: Bytes,
    host: Host,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> std::fmt::Debug for Wire<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").field("stalled", &self.stalled.is_some()).finish_non_exhaustive()
    }
}

/// Which HTTP a cleartext connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    Http1,
    Http2,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn new(io: S, host: &Host, patience: Duration) -> Self {
        Self { io, ahead: Bytes::new(), host: host.clone(), patience, stalled: None }
    }

    /// Reads just enough to tell HTTP/2 by prior knowledge from HTTP/1.1; the bytes are given back by later reads.
    pub(crate) async fn sniff(&mut self) -> io::Result<Spoken> {
        let mut read = BytesMut::with_capacity(4 * 1024);
        let spoken = loop {
            if self.io.read_buf(&mut read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if !read.starts_with(PREFACE.get(..read.len().min(PREFACE.len())).unwrap_or(PREFACE)) {
                break Spoken::Http1;
            }
            if read.len() >= PREFACE.len() {
                break Spoken::Http2;
            }
        };
        self.ahead = read.freeze();
        Ok(spoken)
    }

    /// Times how long a write stands still.
    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let (host, patience) = (&self.host, self.patience);
        let timer = self.stalled.get_or_insert_with(|| Box::pin(host.sleep(patience)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let len = self.ahead.len().min(buf.remaining());
        buf.put_slice(self.ahead.get(..len).unwrap_or_default());
        self.ahead.advance(len);
        if self.ahead.is_empty() {
            // What was read ahead is not kept as long as the connection.
            self.ahead = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.watch(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.io).poll_shutdown(cx);
        self.watch(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_writer_that_nobody_reads_from_times_out() {
        let (near, _far) = tokio::io::duplex(16);
        let mut wire = Wire::new(near, &Host::real(), Duration::from_secs(60));
        let error = wire.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn prior_knowledge_is_told_from_http1_and_no_byte_is_lost() {
        for (sent, expected) in [(PREFACE, Spoken::Http2), (&b"POST / HTTP/1.1\r\n"[..], Spoken::Http1)] {
            let (near, mut far) = tokio::io::duplex(256);
            let mut wire = Wire::new(near, &Host::real(), Duration::from_secs(60));
            let (first, rest) = sent.split_at(3);
            far.write_all(first).await.unwrap();
            let write = async {
                far.write_all(rest).await.unwrap();
                far.shutdown().await.unwrap();
            };
            let (spoken, ()) = tokio::join!(wire.sniff(), write);
            assert_eq!(spoken.unwrap(), expected);
            let mut read = Vec::new();
            wire.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, sent);
        }
    }
}
