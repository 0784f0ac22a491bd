//! One TCP connection: TLS or cleartext, then HTTP/1.1 or HTTP/2.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::gauge::Gauge;
use seam::{ByteStream, Host, Stop};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use super::listener::Door;
use super::wire::{Spoken, Wire};
use super::{Upload, Via};

/// How often a silent HTTP/2 connection is asked whether it lives, and how long it may take to answer.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(20));

/// What an HTTP/2 caller may send ahead on one stream: a body of ordinary size in one go.
const STREAM_WINDOW: u32 = 256 * 1024;

/// What an HTTP/2 caller may send ahead on a connection.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// What waits to be sent on one HTTP/2 stream before its source must wait.
const SEND_BUFFER: usize = 64 * 1024;

/// What an HTTP/1.1 connection buffers; hyper keeps to it for reading and writing.
const BUFFER: usize = 64 * 1024;

/// Runs tasks of HTTP/2 streams on the host.
#[derive(Clone, Debug)]
struct Executor(Host);

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, work: F) {
        drop(self.0.spawn("http2-stream", work));
    }
}

/// Serves a connection until it ends; asked to stop, it ends what is in progress and takes nothing new.
pub(super) async fn serve(stream: ByteStream, tls: Option<TlsAcceptor>, door: Arc<Door>, stop: Stop) {
    let wire = Wire::new(stream, &door.host, door.guard.stall_time);
    // How a handshake or a connection fails is the caller's business and frequent on a public port.
    match tls {
        Some(tls) => match door.host.timeout(door.guard.header_time, tls.accept(wire)).await {
            Ok(Ok(stream)) => {
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let spoken = if is_http2 { Spoken::Http2 } else { Spoken::Http1 };
                speak(stream, spoken, &door, &stop).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_late) => tracing::debug!("a TLS handshake took too long"),
        },
        None => plain(wire, &door, &stop).await,
    }
}

async fn plain(mut wire: Wire, door: &Arc<Door>, stop: &Stop) {
    match door.host.timeout(door.guard.header_time, wire.sniff()).await {
        Ok(Ok(spoken)) => speak(wire, spoken, door, stop).await,
        Ok(Err(error)) => tracing::trace!(%error, "a connection ended before its first request"),
        Err(_late) => tracing::debug!("a connection sent no request"),
    }
}

async fn speak<S>(stream: S, spoken: Spoken, door: &Arc<Door>, stop: &Stop)
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

async fn http1<S>(stream: S, door: &Arc<Door>, via: &Arc<Via>, stop: &Stop) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let guard = &door.guard;
    let (handler, via) = (Arc::clone(&door.handler), Arc::clone(via));
    let service = service_fn(move |request: Request<Incoming>| {
        let handling = handler(request.map(Upload::Hyper), &via);
        async move { Ok::<_, Infallible>(handling.await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(guard.header_time)
        .max_buf_size(BUFFER.max(guard.header_bytes as usize))
        .max_header_size(guard.header_bytes as usize);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = stop.wanted() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

async fn http2<S>(stream: S, door: &Arc<Door>, via: &Arc<Via>, stop: &Stop) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let guard = &door.guard;
    let (handler, via) = (Arc::clone(&door.handler), Arc::clone(via));
    let service = service_fn(move |request: Request<Incoming>| {
        let handling = handler(request.map(Upload::Hyper), &via);
        async move { Ok::<_, Infallible>(handling.await) }
    });
    let mut builder = http2::Builder::new(Executor(door.host.clone()));
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .max_concurrent_streams(guard.streams_per_connection)
        .max_header_list_size(guard.header_bytes)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = stop.wanted() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
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
