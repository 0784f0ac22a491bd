//! As much of HTTP/1.1 as the faulty upstream, the mock upstream and the load tool need: heads, and bodies by length,
//! by chunks or until the end. It costs little, and it trusts its peer to be a test's.

use std::io;

use bytes::{Buf as _, BytesMut};
use memchr::memmem;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Most bytes of a head.
const MAX_HEAD: usize = 64 * 1024;

/// How a body's end is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// After so many bytes.
    Length(usize),
    /// By chunks.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

/// What the first lines of a message say.
#[derive(Clone, Debug)]
pub struct Head {
    /// The request line or status line.
    pub line: String,
    /// How the body ends; a request without a length has none.
    pub framing: Framing,
    /// Whether the connection closes after this message.
    pub close: bool,
    /// The credential of `Authorization: Bearer`.
    pub bearer: Option<String>,
    /// The credential of `x-api-key` or `x-goog-api-key`.
    pub key: Option<String>,
}

impl Head {
    /// The status of a reply.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }
}

/// Reads one head; `None` when the peer closed before its first byte.
///
/// # Errors
/// What the stream said, an end within the head, or a head that is no head.
pub async fn read_head(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> io::Result<Option<Head>> {
    loop {
        if let Some(end) = memmem::find(buffer, b"\r\n\r\n") {
            let head = parse(&buffer[..end + 2])?;
            buffer.advance(end + 4);
            return Ok(Some(head));
        }
        if buffer.len() > MAX_HEAD {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the head does not end"));
        }
        if stream.read_buf(buffer).await? == 0 {
            return if buffer.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
    }
}

fn parse(head: &[u8]) -> io::Result<Head> {
    let text =
        std::str::from_utf8(head).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default().to_owned();
    let mut found = Head { line, framing: Framing::UntilClose, close: false, bearer: None, key: None };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let length = value.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            found.framing = Framing::Length(length);
        } else if name.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
            found.framing = Framing::Chunked;
        } else if name.eq_ignore_ascii_case("connection") {
            found.close = value.eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("authorization") {
            found.bearer = value.strip_prefix("Bearer ").map(str::to_owned);
        } else if ["x-api-key", "x-goog-api-key"].iter().any(|known| name.eq_ignore_ascii_case(known)) {
            found.key = Some(value.to_owned());
        }
    }
    Ok(found)
}

/// A body being read.
#[derive(Debug)]
pub struct Body {
    framing: Framing,
    /// Bytes left of the body, or of the chunk.
    left: usize,
    ended: bool,
}

impl Body {
    /// The body that follows a head.
    #[must_use]
    pub const fn new(framing: Framing) -> Self {
        let left = match framing {
            Framing::Length(length) => length,
            Framing::Chunked => 0,
            Framing::UntilClose => usize::MAX,
        };
        Self { framing, left, ended: false }
    }

    /// Appends what has come of the body to `out`; `false` at its end. Cancel safe.
    ///
    /// # Errors
    /// What the stream said, or an end within the body.
    pub async fn read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        buffer: &mut BytesMut,
        out: &mut BytesMut,
    ) -> io::Result<bool> {
        loop {
            if self.take(buffer, out)? {
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            if stream.read_buf(buffer).await? == 0 {
                if self.framing != Framing::UntilClose {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.ended = true;
            }
        }
    }

    /// Moves all decoded bytes of `buffer` to `out`; whether there were any.
    fn take(&mut self, buffer: &mut BytesMut, out: &mut BytesMut) -> io::Result<bool> {
        let before = out.len();
        while !self.ended {
            let some = self.left.min(buffer.len());
            out.extend_from_slice(&buffer[..some]);
            buffer.advance(some);
            self.left -= some;
            let goes_on = match self.framing {
                Framing::Length(_) => {
                    self.ended = self.left == 0;
                    false
                }
                Framing::Chunked => self.left == 0 && self.next_chunk(buffer)?,
                Framing::UntilClose => false,
            };
            if !goes_on {
                break;
            }
        }
        Ok(out.len() > before)
    }

    /// Reads a size line, after the line end that closes the chunk before it. `false`: more bytes are needed.
    fn next_chunk(&mut self, buffer: &mut BytesMut) -> io::Result<bool> {
        let start = if buffer.starts_with(b"\r\n") { 2 } else { 0 };
        let Some(length) = memmem::find(&buffer[start..], b"\r\n") else { return Ok(false) };
        let line = std::str::from_utf8(&buffer[start..start + length]).unwrap_or_default();
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if size > 0 {
            buffer.advance(start + length + 2);
            self.left = size;
            return Ok(true);
        }
        // The size line's end and an empty line, with trailers between them or not.
        let Some(end) = memmem::find(&buffer[start + length..], b"\r\n\r\n") else { return Ok(false) };
        buffer.advance(start + length + end + 4);
        self.ended = true;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(wire: &[u8], step: usize) -> io::Result<(Head, Vec<u8>)> {
        let (mut near, far) = tokio::io::duplex(step);
        let wire = wire.to_vec();
        let writer = tokio::spawn(async move {
            let mut far = far;
            tokio::io::AsyncWriteExt::write_all(&mut far, &wire).await
        });
        let (mut buffer, mut out) = (BytesMut::new(), BytesMut::new());
        let head = read_head(&mut near, &mut buffer).await?.unwrap();
        let mut body = Body::new(head.framing);
        while body.read(&mut near, &mut buffer, &mut out).await? {}
        writer.await.unwrap().unwrap();
        Ok((head, out.to_vec()))
    }

    #[tokio::test]
    async fn bodies_are_the_same_however_the_bytes_arrive() {
        for framed in [
            &b"Content-Length: 5\r\n\r\nhello"[..],
            b"transfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
            b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nafter: all\r\n\r\n",
            b"connection: close\r\n\r\nhello",
        ] {
            let wire = [b"HTTP/1.1 200 OK\r\n", framed].concat();
            for step in [1, 3, wire.len()] {
                let (head, body) = read_all(&wire, step).await.unwrap();
                assert_eq!((head.status(), body.as_slice()), (200, &b"hello"[..]));
            }
        }
    }

    #[tokio::test]
    async fn a_cut_body_is_an_error() {
        for wire in [
            &b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello"[..],
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
        ] {
            assert_eq!(read_all(wire, 64).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
