//! One connection to an upstream. HTTP/1.1 is driven by whoever holds it, in the same task; HTTP/2, which several calls
//! share, by a task of its own.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base::Mono;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body as _, Frame};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use seam::{ByteStream, Host};
use upstream::Fault;

/// Bound of an answer's headers, and of what is read ahead, in bytes. Real providers send 2 to 4 KiB.
const MAX_BUFFER: usize = 64 * 1024;

/// Flow-control window of an HTTP/2 stream in bytes: what a slow caller lets an upstream send ahead.
const WINDOW: u32 = 256 * 1024;

/// Kept back from a peer's idle timeout, for the way there and its clock.
const MARGIN: Duration = Duration::from_secs(1);

type Sending = Full<Bytes>;
type Driver = http1::Connection<TokioIo<ByteStream>, Sending>;

/// A connection.
pub(crate) enum Connection {
    /// HTTP/1.1, held by one call at a time.
    One(Box<One>),
    /// HTTP/2; a handle that other calls have clones of.
    Two(http2::SendRequest<Sending>),
}

/// An HTTP/1.1 connection.
pub(crate) struct One {
    sender: http1::SendRequest<Sending>,
    /// Gone when the connection has ended.
    driver: Option<Driver>,
    calls: u32,
    keep: Keep,
    idle_since: Mono,
}

/// What the peer said about keeping the connection.
#[derive(Clone, Copy)]
struct Keep {
    idle: Option<Duration>,
    calls: Option<u32>,
}

/// A request that got no answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unanswered {
    /// What happened.
    pub(crate) fault: Fault,
    /// Whether the connection just turned out to be closed, as a kept one may.
    pub(crate) closed: bool,
}

impl Connection {
    /// Speaks HTTP on `stream`.
    pub(crate) async fn open(host: &Host, stream: ByteStream, h2: bool) -> Result<Self, Fault> {
        let io = TokioIo::new(stream);
        if h2 {
            let (sender, driver) = http2::Builder::new(Spawner(host.clone()))
                .initial_stream_window_size(WINDOW)
                .max_header_list_size(u32::try_from(MAX_BUFFER).unwrap_or(u32::MAX))
                .handshake(io)
                .await
                .map_err(|_error| Fault::Connect)?;
            // The driver ends by itself when the last handle is gone.
            drop(host.spawn("egress-h2", async move { drop(driver.await) }));
            return Ok(Self::Two(sender));
        }
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(MAX_BUFFER)
            .handshake(io)
            .await
            .map_err(|_error| Fault::Connect)?;
        let keep = Keep { idle: None, calls: None };
        Ok(Self::One(Box::new(One { sender, driver: Some(driver), calls: 0, keep, idle_since: Mono::ZERO })))
    }

    /// Whether several calls may use it at once.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self, Self::Two(_))
    }

    /// Another handle, where several calls may have one.
    pub(crate) fn share(&self) -> Option<Self> {
        match self {
            Self::One(_) => None,
            Self::Two(sender) => Some(Self::Two(sender.clone())),
        }
    }

    /// Sends a request and waits for the head of its answer. Limits of time are the caller's.
    pub(crate) async fn send(&mut self, request: Request<Sending>) -> Result<Response<Incoming>, Unanswered> {
        match self {
            Self::Two(sender) => sender.send_request(request).await.map_err(|error| unanswered(&error)),
            Self::One(one) => {
                one.calls = one.calls.saturating_add(1);
                let response = one.send(request).await?;
                one.keep.learn(response.headers());
                Ok(response)
            }
        }
    }

    /// The next frame of an answer's body.
    pub(crate) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // Asked first, so that the driver knows that more is wanted; and again for what the driver then read.
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        match self {
            Self::Two(_) => Poll::Pending,
            Self::One(one) => {
                one.drive(cx);
                Pin::new(body).poll_frame(cx)
            }
        }
    }

    /// Puts it to rest after an answer that was read to its end; false when it cannot serve again.
    pub(crate) fn rest(&mut self, now: Mono) -> bool {
        match self {
            Self::Two(_) => true,
            Self::One(one) => {
                one.idle_since = now;
                one.is_alive() && one.keep.calls.is_none_or(|most| one.calls < most)
            }
        }
    }

    /// Whether it can serve a call now: the peer has not closed it, and did not announce to by now. `idle` is the
    /// patience with peers that announce nothing.
    pub(crate) fn is_usable(&mut self, now: Mono, idle: Duration) -> bool {
        match self {
            Self::Two(sender) => sender.is_ready(),
            Self::One(one) => {
                let patience = one.keep.idle.map_or(idle, |peer| peer.saturating_sub(MARGIN).max(peer / 2));
                now.since(one.idle_since) < patience && one.is_alive()
            }
        }
    }

    /// Begins to count its rest.
    pub(crate) fn begin_rest(&mut self, now: Mono) {
        if let Self::One(one) = self {
            one.idle_since = now;
        }
    }
}

impl One {
    async fn send(&mut self, request: Request<Sending>) -> Result<Response<Incoming>, Unanswered> {
        let Self { sender, driver, .. } = self;
        let mut answer = pin!(sender.try_send_request(request));
        let sent = poll_fn(|cx| {
            poll_driver(driver, cx);
            answer.as_mut().poll(cx)
        });
        sent.await.map_err(|error| unanswered(error.error()))
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        poll_driver(&mut self.driver, cx);
    }

    /// Looks at the socket: an idle connection has nothing to read unless the peer closed it.
    fn is_alive(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }
}

fn poll_driver(driver: &mut Option<Driver>, cx: &mut Context<'_>) {
    if let Some(running) = driver
        && Pin::new(running).poll(cx).is_ready()
    {
        *driver = None;
    }
}

impl Keep {
    /// Reads `Keep-Alive: timeout=5, max=100`.
    fn learn(&mut self, headers: &HeaderMap) {
        let Some(value) = headers.get("keep-alive").and_then(|value| value.to_str().ok()) else { return };
        for (name, value) in value.split(',').filter_map(|part| part.split_once('=')) {
            match (name.trim().to_ascii_lowercase().as_str(), value.trim().parse::<u32>()) {
                ("timeout", Ok(seconds)) => self.idle = Some(Duration::from_secs(seconds.into())),
                ("max", Ok(calls)) => self.calls = Some(calls),
                _other => {}
            }
        }
    }
}

fn unanswered(error: &hyper::Error) -> Unanswered {
    let malformed = error.is_parse() || error.is_parse_status() || error.is_parse_too_large();
    let fault = if malformed { Fault::Malformed } else { Fault::Closed };
    Unanswered { fault, closed: !malformed }
}

/// Runs HTTP/2's tasks on the host.
#[derive(Clone)]
struct Spawner(Host);

impl<F: Future<Output: Send + 'static> + Send + 'static> hyper::rt::Executor<F> for Spawner {
    fn execute(&self, work: F) {
        drop(self.0.spawn("egress-h2", work));
    }
}
