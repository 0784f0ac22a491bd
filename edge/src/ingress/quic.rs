//! quinn's streams as HTTP/3 needs them, with one thing more: word of a caller that no longer reads, at once and not
//! only at the next write, so that a call which waits for its first byte is cancelled too.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::stream::{self, Stream};
use h3::error::Code;
use h3::quic::{
    self, ConnectionErrorIncoming as ConnectionFailed, StreamErrorIncoming as StreamFailed, StreamId,
    WriteBuf,
};
use quinn::{ConnectionError, ReadError, VarInt, WriteError};
use seam::Lock;
use tokio::io::ReadBuf;

/// Bytes of a request's body read at once.
const READ: usize = 16 * 1024;

type Streams<T> = Pin<Box<dyn Stream<Item = Result<T, ConnectionError>> + Send + Sync>>;
type Pair = (quinn::SendStream, quinn::RecvStream);

/// Completes when a caller no longer reads its answer.
pub(crate) type Stopped = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A stream's signal, kept by the stream until its request is taken up.
type Signal = Arc<Lock<Option<Stopped>>>;

/// Signals of a connection's streams.
#[derive(Clone, Default)]
pub(crate) struct Signals(Arc<Lock<Vec<Waiting>>>);

/// A signal that nobody took yet.
type Waiting = (StreamId, Weak<Lock<Option<Stopped>>>);

impl Signals {
    /// Takes the signal of one stream.
    pub(crate) fn take(&self, id: StreamId) -> Option<Stopped> {
        let mut waiting = self.0.lock();
        let at = waiting.iter().position(|(waiting, _)| *waiting == id)?;
        let (_, signal) = waiting.swap_remove(at);
        signal.upgrade()?.lock().take()
    }

    /// Keeps the signal as long as its stream stands, and forgets those of streams that are gone.
    fn put(&self, id: StreamId, stopped: Stopped) -> Signal {
        let signal = Arc::new(Lock::new(Some(stopped)));
        let mut waiting = self.0.lock();
        waiting.retain(|(_, signal)| signal.strong_count() > 0);
        waiting.push((id, Arc::downgrade(&signal)));
        signal
    }
}

/// A connection.
pub(crate) struct Connection {
    opener: Opener,
    pairs: Streams<Pair>,
    singles: Streams<quinn::RecvStream>,
    signals: Signals,
}

impl Connection {
    pub(crate) fn new(quinn: quinn::Connection, signals: Signals) -> Self {
        let pairs = stream::unfold(quinn.clone(), |quinn| async { Some((quinn.accept_bi().await, quinn)) });
        let singles =
            stream::unfold(quinn.clone(), |quinn| async { Some((quinn.accept_uni().await, quinn)) });
        Self { opener: Opener::new(quinn), pairs: Box::pin(pairs), singles: Box::pin(singles), signals }
    }
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = Reader;
    type OpenStreams = Opener;

    fn poll_accept_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reader, ConnectionFailed>> {
        match ready!(self.singles.as_mut().poll_next(cx)) {
            Some(accepted) => Poll::Ready(accepted.map(Reader::new).map_err(connection_failed)),
            None => Poll::Ready(Err(ended())),
        }
    }

    fn poll_accept_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Duplex<B>, ConnectionFailed>> {
        match ready!(self.pairs.as_mut().poll_next(cx)) {
            Some(Ok((send, recv))) => {
                let stopped = send.stopped();
                let mut writer = Writer::new(send);
                let stopped = Box::pin(async move { drop(stopped.await) });
                writer.signal = Some(self.signals.put(writer.id, stopped));
                Poll::Ready(Ok(Duplex { writer, reader: Reader::new(recv) }))
            }
            Some(Err(error)) => Poll::Ready(Err(connection_failed(error))),
            None => Poll::Ready(Err(ended())),
        }
    }

    fn opener(&self) -> Opener {
        Opener::new(self.opener.quinn.clone())
    }
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = Duplex<B>;
    type SendStream = Writer<B>;

    fn poll_open_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Duplex<B>, StreamFailed>> {
        quic::OpenStreams::<B>::poll_open_bidi(&mut self.opener, cx)
    }

    fn poll_open_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<Writer<B>, StreamFailed>> {
        quic::OpenStreams::<B>::poll_open_send(&mut self.opener, cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        quic::OpenStreams::<B>::close(&mut self.opener, code, reason);
    }
}

/// Opens streams; a server opens only its three unidirectional ones.
pub(crate) struct Opener {
    quinn: quinn::Connection,
    pairs: Option<Streams<Pair>>,
    singles: Option<Streams<quinn::SendStream>>,
}

impl Opener {
    const fn new(quinn: quinn::Connection) -> Self {
        Self { quinn, pairs: None, singles: None }
    }
}

impl<B: Buf> quic::OpenStreams<B> for Opener {
    type BidiStream = Duplex<B>;
    type SendStream = Writer<B>;

    fn poll_open_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Duplex<B>, StreamFailed>> {
        let quinn = &self.quinn;
        let opening = self.pairs.get_or_insert_with(|| {
            Box::pin(stream::unfold(quinn.clone(), |quinn| async { Some((quinn.open_bi().await, quinn)) }))
        });
        match ready!(opening.as_mut().poll_next(cx)) {
            Some(Ok((send, recv))) => {
                Poll::Ready(Ok(Duplex { writer: Writer::new(send), reader: Reader::new(recv) }))
            }
            Some(Err(error)) => Poll::Ready(Err(through(connection_failed(error)))),
            None => Poll::Ready(Err(through(ended()))),
        }
    }

    fn poll_open_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<Writer<B>, StreamFailed>> {
        let quinn = &self.quinn;
        let opening = self.singles.get_or_insert_with(|| {
            Box::pin(stream::unfold(quinn.clone(), |quinn| async { Some((quinn.open_uni().await, quinn)) }))
        });
        match ready!(opening.as_mut().poll_next(cx)) {
            Some(Ok(send)) => Poll::Ready(Ok(Writer::new(send))),
            Some(Err(error)) => Poll::Ready(Err(through(connection_failed(error)))),
            None => Poll::Ready(Err(through(ended()))),
        }
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.quinn.close(VarInt::from_u64(code.value()).unwrap_or(VarInt::MAX), reason);
    }
}

/// Both directions of a request.
pub(crate) struct Duplex<B> {
    writer: Writer<B>,
    reader: Reader,
}

impl<B: Buf> quic::BidiStream<B> for Duplex<B> {
    type SendStream = Writer<B>;
    type RecvStream = Reader;

    fn split(self) -> (Writer<B>, Reader) {
        (self.writer, self.reader)
    }
}

impl<B: Buf> quic::RecvStream for Duplex<B> {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamFailed>> {
        self.reader.poll_data(cx)
    }

    fn stop_sending(&mut self, code: u64) {
        self.reader.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.reader.id
    }
}

impl<B: Buf> quic::SendStream<B> for Duplex<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamFailed>> {
        self.writer.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamFailed> {
        self.writer.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamFailed>> {
        self.writer.poll_finish(cx)
    }

    fn reset(&mut self, code: u64) {
        self.writer.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.writer.id
    }
}

/// The caller's direction.
pub(crate) struct Reader {
    stream: quinn::RecvStream,
    id: StreamId,
}

impl Reader {
    fn new(stream: quinn::RecvStream) -> Self {
        let id = identifier(stream.id());
        Self { stream, id }
    }
}

impl quic::RecvStream for Reader {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamFailed>> {
        let mut space = BytesMut::zeroed(READ);
        let mut buf = ReadBuf::new(&mut space);
        let read = ready!(self.stream.poll_read_buf(cx, &mut buf));
        let len = buf.filled().len();
        match read {
            Ok(()) if len == 0 => Poll::Ready(Ok(None)),
            Ok(()) => {
                space.truncate(len);
                Poll::Ready(Ok(Some(space.freeze())))
            }
            Err(error) => Poll::Ready(Err(read_failed(error))),
        }
    }

    fn stop_sending(&mut self, code: u64) {
        // A stream that has ended has nothing left to stop.
        drop(self.stream.stop(VarInt::from_u64(code).unwrap_or(VarInt::MAX)));
    }

    fn recv_id(&self) -> StreamId {
        self.id
    }
}

/// Our direction.
pub(crate) struct Writer<B> {
    stream: quinn::SendStream,
    id: StreamId,
    writing: Option<WriteBuf<B>>,
    signal: Option<Signal>,
}

impl<B> Writer<B> {
    fn new(stream: quinn::SendStream) -> Self {
        let id = identifier(stream.id());
        Self { stream, id, writing: None, signal: None }
    }
}

impl<B: Buf> quic::SendStream<B> for Writer<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamFailed>> {
        while let Some(data) = self.writing.as_mut().filter(|data| data.has_remaining()) {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, data.chunk()));
            data.advance(written.map_err(write_failed)?);
        }
        self.writing = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamFailed> {
        if self.writing.is_some() {
            let reason = "data was sent before the last was written".to_owned();
            return Err(through(ConnectionFailed::InternalError(reason)));
        }
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), StreamFailed>> {
        Poll::Ready(self.stream.finish().map_err(|closed| StreamFailed::Unknown(Box::new(closed))))
    }

    fn reset(&mut self, code: u64) {
        // A stream that has ended has nothing left to reset.
        drop(self.stream.reset(VarInt::from_u64(code).unwrap_or(VarInt::MAX)));
    }

    fn send_id(&self) -> StreamId {
        self.id
    }
}

#[expect(clippy::expect_used, reason = "both number streams in 62 bits (RFC 9000 §2.1)")]
fn identifier(id: quinn::StreamId) -> StreamId {
    StreamId::try_from(u64::from(id)).expect("62 bits")
}

const fn through(connection_error: ConnectionFailed) -> StreamFailed {
    StreamFailed::ConnectionErrorIncoming { connection_error }
}

fn ended() -> ConnectionFailed {
    ConnectionFailed::InternalError("no more streams come".to_owned())
}

fn connection_failed(error: ConnectionError) -> ConnectionFailed {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            ConnectionFailed::ApplicationClose { error_code: close.error_code.into_inner() }
        }
        ConnectionError::TimedOut => ConnectionFailed::Timeout,
        other => ConnectionFailed::Undefined(Arc::new(other)),
    }
}

fn read_failed(error: ReadError) -> StreamFailed {
    match error {
        ReadError::Reset(code) => StreamFailed::StreamTerminated { error_code: code.into_inner() },
        ReadError::ConnectionLost(lost) => through(connection_failed(lost)),
        other => StreamFailed::Unknown(Box::new(other)),
    }
}

fn write_failed(error: WriteError) -> StreamFailed {
    match error {
        WriteError::Stopped(code) => StreamFailed::StreamTerminated { error_code: code.into_inner() },
        WriteError::ConnectionLost(lost) => through(connection_failed(lost)),
        other => StreamFailed::Unknown(Box::new(other)),
    }
}
