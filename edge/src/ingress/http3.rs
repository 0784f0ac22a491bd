//! One QUIC connection: HTTP/3, a task a request.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use ::http::Request;
use bytes::Bytes;
use h3::error::Code;
use h3::server::{RequestResolver, RequestStream};
use hyper::body::Body as _;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{EndpointConfig, ServerConfig, TransportConfig, VarInt};
use ring::{hkdf, hmac};
use seam::{Host, Late, QuicRuntime, Stop};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Upload;
use super::answer::Answer;
use super::certificate::Certificate;
use super::http::{Open, REST, begun};
use super::listener::{BindError, Door};
use super::paths::HEADROOM;
use super::quic::{self, Signals};
use crate::config::Guard;

/// A connection without a packet for so long is gone.
const IDLE: u32 = 30_000;

/// Packets flow at least this often while a call is open, so that silence of a model is not silence of the line.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What a caller may send ahead on one stream.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Streams of HTTP/3's own: control, QPACK's two, and room for unknown ones (RFC 9114 §6.2).
const OWN_STREAMS: u32 = 8;

/// More than QUIC lets a caller open; counts those in progress.
const STREAMS: usize = 65_536;
const ALL_STREAMS: u32 = 65_536;

type Incoming = RequestResolver<quic::Connection, Bytes>;
type Reply = RequestStream<quic::Writer<Bytes>, Bytes>;

/// Opens the UDP side of a listener.
pub(super) fn endpoint(
    host: &Host,
    at: std::net::SocketAddr,
    certificate: &Certificate,
    guard: &Guard,
) -> Result<quinn::Endpoint, BindError> {
    let failed = |why: String| BindError::Quic { at, why };
    let socket = host.datagram(at).map_err(|source| BindError::Taken { at, source })?;
    let tls = certificate.for_quic().map_err(|error| failed(error.to_string()))?;
    let crypto = QuicServerConfig::try_from(tls).map_err(|error| failed(error.to_string()))?;
    let mut secret = [0; 64];
    host.fill_random(&mut secret);
    let tokens = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&secret);
    let mut server = ServerConfig::new(Arc::new(crypto), Arc::new(tokens));
    server.transport_config(Arc::new(transport(guard)));
    host.fill_random(&mut secret);
    let mut config = EndpointConfig::new(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &secret)));
    let mut seed = [0; 32];
    host.fill_random(&mut seed);
    config.rng_seed(Some(seed));
    let runtime = Arc::new(QuicRuntime(host.clone()));
    quinn::Endpoint::new_with_abstract_socket(config, Some(server), socket, runtime)
        .map_err(|source| BindError::Taken { at, source })
}

fn transport(guard: &Guard) -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .max_idle_timeout(Some(VarInt::from_u32(IDLE).into()))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_concurrent_bidi_streams(VarInt::from_u32(guard.streams_per_connection))
        .max_concurrent_uni_streams(VarInt::from_u32(OWN_STREAMS))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW));
    config
}

/// Serves a connection until it ends; asked to stop, it ends what is in progress and takes nothing new.
pub(super) async fn serve(
    incoming: quinn::Incoming,
    door: Arc<Door>,
    stop: Stop,
    _place: OwnedSemaphorePermit,
) {
    let Ok(connecting) = incoming.accept() else { return };
    let Some(connection) = begun(&door, &stop, async { Ok(connecting.await?) }).await else { return };
    let _open = Open::new(&door.http3.connections);
    let signals = Signals::default();
    let quic = quic::Connection::new(connection.clone(), signals.clone());
    let mut builder = h3::server::builder();
    let headers = door.guard.header_bytes.saturating_mul(HEADROOM);
    builder.send_grease(false).max_field_section_size(u64::from(headers));
    let mut h3 = match builder.build(quic).await {
        Ok(h3) => h3,
        Err(error) => return tracing::debug!(%error, "an HTTP/3 connection broke"),
    };
    let streams = Arc::new(Semaphore::new(STREAMS));
    let mut draining = false;
    loop {
        tokio::select! {
            biased;
            accepted = h3.accept() => match (accepted, Arc::clone(&streams).try_acquire_owned()) {
                (Ok(Some(request)), Ok(place)) => {
                    let work = stream(request, Arc::clone(&door), signals.clone(), place);
                    drop(door.host.spawn("http3-stream", work));
                }
                (Ok(Some(_)), Err(_)) | (Ok(None), _) => return,
                (Err(error), _) => return tracing::trace!(%error, "an HTTP/3 connection ended"),
            },
            () = stop.wanted(), if !draining => {
                draining = true;
                if let Err(error) = h3.shutdown(0).await {
                    return tracing::debug!(%error, "an HTTP/3 connection broke");
                }
            }
            _all = streams.acquire_many(ALL_STREAMS), if draining => return,
            () = door.host.sleep(REST) => {
                if streams.available_permits() == STREAMS {
                    return;
                }
            }
        }
    }
}

/// One request. Whatever is in progress is dropped as soon as the caller no longer reads its answer.
async fn stream(incoming: Incoming, door: Arc<Door>, signals: Signals, _place: OwnedSemaphorePermit) {
    let (request, stream) = match door.host.timeout(door.guard.header_time, incoming.resolve_request()).await
    {
        Ok(Ok(resolved)) => resolved,
        Ok(Err(error)) => return tracing::debug!(%error, "an HTTP/3 request is malformed"),
        Err(_late) => return tracing::debug!("an HTTP/3 request's headers took too long"),
    };
    let Some(mut gone) = signals.take(stream.id()) else { return };
    let (reply, body) = stream.split();
    let request = request.map(|()| Upload::Quic(Box::new(body)));
    tokio::select! {
        biased;
        () = &mut gone => return,
        () = respond(request, reply, &door) => {}
    }
    // Until the caller has all of it: a connection that closes earlier would take the rest along.
    let _late: Result<(), Late> = door.host.timeout(door.guard.stall_time, gone).await;
}

async fn respond(request: Request<Upload>, mut reply: Reply, door: &Arc<Door>) {
    let (head, mut body) = (door.handler)(request, &door.http3).await.into_parts();
    let sent = send(&mut reply, ::http::Response::from_parts(head, ()), &mut body, door).await;
    if sent.is_none() {
        reply.stop_stream(Code::H3_INTERNAL_ERROR);
    }
}

/// `None` when the answer broke off, here or there.
async fn send(reply: &mut Reply, head: ::http::Response<()>, body: &mut Answer, door: &Door) -> Option<()> {
    let patience = door.guard.stall_time;
    door.host.timeout(patience, reply.send_response(head)).await.ok()?.ok()?;
    while !body.is_end_stream() {
        let Some(piece) = poll_fn(|cx| body.poll_piece(cx)).await else { break };
        door.host.timeout(patience, reply.send_data(piece.ok()?)).await.ok()?.ok()?;
    }
    reply.finish().await.ok()
}
