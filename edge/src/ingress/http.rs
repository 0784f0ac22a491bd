//! One TCP connection: TLS or cleartext, then HTTP/1.1 or HTTP/2.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::gauge::Gauge;
use seam::{ByteStream, Host, Late, Stop};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsAcceptor;

use super::listener::Door;
use super::paths::HEADROOM;
use super::wire::{Spoken, Wire};
use super::{Upload, Via};

/// How often a silent HTTP/2 connection is asked whether it lives, and how long it may take to answer.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(20));

/// A connection of HTTP/2 or HTTP/3 without a call for so long is closed in good order.
pub(super) const REST: Duration = Duration::from_secs(300);

/// What an HTTP/2 caller may send ahead on one stream: a body of ordinary size in one go.
const STREAM_WINDOW: u32 = 256 * 1024;

/// What an HTTP/2 caller may send ahead on a connection.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// What waits to be sent on one HTTP/2 stream before its source must wait.
const SEND_BUFFER: usize = 64 * 1024;

/// What an HTTP/1.1 connection buffers; hyper keeps to it for reading and writing.
const BUFFER: usize = 64 * 1024;

/// Runs tasks of HTTP/2 streams on the host, and knows whether there are any.
#[derive(Clone, Debug)]
struct Executor {
    host: Host,
    streams: Arc<Streams>,
}

/// Every task of a stream holds it.
#[derive(Debug, Default)]
struct Streams {
    begun: AtomicU64,
}

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, work: F) {
        self.streams.begun.fetch_add(1, Ordering::Relaxed);
        let streams = Arc::clone(&self.streams);
        let holding = async move {
            drop(work.await);
            drop(streams);
        };
        drop(self.host.spawn("http2-stream", holding));
    }
}

/// Serves a connection until it ends; asked to stop, it ends what is in progress and takes nothing new.
///
/// What a connection needs for a while only, or in one protocol only, is boxed: its task stays small, and there are as
/// many as callers.
pub(super) async fn serve(
    stream: ByteStream,
    tls: Option<TlsAcceptor>,
    door: Arc<Door>,
    stop: Stop,
    _place: OwnedSemaphorePermit,
) {
    let mut wire = Wire::new(stream, &door.host, door.guard.stall_time);
    match tls {
        Some(tls) => {
            if let Some(stream) = begun(&door, &stop, Box::pin(tls.accept(wire))).await {
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let spoken = if is_http2 { Spoken::Http2 } else { Spoken::Http1 };
                speak(Box::new(stream), spoken, &door, &stop).await;
            }
        }
        None => {
            if let Some(spoken) = begun(&door, &stop, Box::pin(wire.sniff())).await {
                speak(Box::new(wire), spoken, &door, &stop).await;
            }
        }
    }
}

/// What comes before a connection's first request, within its time and only while the node takes anything new. How it
/// fails is the caller's business, and frequent on a public port.
pub(super) async fn begun<T>(
    door: &Door,
    stop: &Stop,
    begin: impl Future<Output = io::Result<T>>,
) -> Option<T> {
    let begun = tokio::select! {
        biased;
        begun = door.host.timeout(door.guard.header_time, begin) => begun,
        () = stop.wanted() => return None,
    };
    match begun {
        Ok(Ok(begun)) => Some(begun),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a connection broke before its first request");
            None
        }
        Err(Late) => {
            tracing::debug!("a connection took too long to begin");
            None
        }
    }
}

async fn speak<S>(stream: Box<S>, spoken: Spoken, door: &Arc<Door>, stop: &Stop)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let via = match spoken {
        Spoken::Http1 => &door.http1,
        Spoken::Http2 => &door.http2,
    };
    let _open = Open::new(&via.connections);
    let ended = match spoken {
        Spoken::Http1 => http1(stream, door, via, stop).await,
        Spoken::Http2 => http2(stream, door, via, stop).await,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

async fn http1<S>(stream: Box<S>, door: &Arc<Door>, via: &Arc<Via>, stop: &Stop) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let guard = &door.guard;
    let (handler, via) = (Arc::clone(&door.handler), Arc::clone(via));
    let service = service_fn(move |request: Request<Incoming>| {
        let handling = handler(request.map(Upload::Hyper), &via);
        async move { Ok::<_, Infallible>(handling.await) }
    });
    let headers = guard.header_bytes.saturating_mul(HEADROOM) as usize;
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(guard.header_time)
        .max_buf_size(BUFFER.max(headers))
        .max_header_size(headers);
    let mut connection = Box::pin(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = stop.wanted() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

async fn http2<S>(stream: Box<S>, door: &Arc<Door>, via: &Arc<Via>, stop: &Stop) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let guard = &door.guard;
    let (handler, via) = (Arc::clone(&door.handler), Arc::clone(via));
    let service = service_fn(move |request: Request<Incoming>| {
        let handling = handler(request.map(Upload::Hyper), &via);
        async move { Ok::<_, Infallible>(handling.await) }
    });
    let streams = Arc::new(Streams::default());
    let executor = Executor { host: door.host.clone(), streams: Arc::clone(&streams) };
    let mut builder = http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .max_concurrent_streams(guard.streams_per_connection)
        .max_header_list_size(guard.header_bytes.saturating_mul(HEADROOM))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER);
    let mut connection = Box::pin(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = stop.wanted() => connection.as_mut().graceful_shutdown(),
        () = rested(&door.host, &streams) => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

/// Waits until a connection has had no stream for [`REST`].
async fn rested(host: &Host, streams: &Arc<Streams>) {
    let idle = Arc::strong_count(streams);
    loop {
        let begun = streams.begun.load(Ordering::Relaxed);
        host.sleep(REST).await;
        if Arc::strong_count(streams) == idle && streams.begun.load(Ordering::Relaxed) == begun {
            return;
        }
    }
}

/// Counts a connection while it is open.
pub(super) struct Open<'a>(&'a Gauge);

impl<'a> Open<'a> {
    pub(super) fn new(gauge: &'a Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}
