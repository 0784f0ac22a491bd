//! An answer's bytes as they come, under the call's limits of time.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base::Mono;
use bytes::Bytes;
use hyper::body::Incoming;
use seam::Host;
use tokio::time::Sleep;
use upstream::Fault;
use wire::catalog::Timeouts;

use crate::connection::Connection;
use crate::instance::{Keeping, Lease};

/// The limits of an attempt, as instants where they are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// End of the whole call.
    pub(crate) deadline: Mono,
    pub(crate) connect: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
}

impl Limits {
    pub(crate) fn new(timeouts: &Timeouts, begun: Mono) -> Self {
        let ms = |ms: u32| Duration::from_millis(ms.into());
        Self {
            deadline: begun + ms(timeouts.total_ms),
            connect: ms(timeouts.connect_ms),
            first_byte: ms(timeouts.first_byte_ms),
            idle: ms(timeouts.idle_ms),
        }
    }
}

/// One timer for all phases of a call. It is set anew only when it must ring earlier: a stream that moves costs a look
/// at the clock per piece, not a timer.
pub(crate) struct Timer {
    host: Host,
    sleep: Option<Pin<Box<Sleep>>>,
    rings: Mono,
}

impl Timer {
    pub(crate) const fn new(host: Host) -> Self {
        Self { host, sleep: None, rings: Mono::FAR }
    }

    pub(crate) const fn host(&self) -> &Host {
        &self.host
    }

    /// Ready when `due` is past.
    pub(crate) fn poll_past(&mut self, due: Mono, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let host = &self.host;
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(host.sleep_until(due)));
            if self.rings == Mono::FAR || due < self.rings {
                if self.rings != Mono::FAR {
                    sleep.set(host.sleep_until(due));
                }
                self.rings = due;
            }
            ready!(sleep.as_mut().poll(cx));
            if self.host.now() >= due {
                return Poll::Ready(());
            }
            // It rang for an earlier limit that has moved on since; a clock a little behind the timer's waits on too.
            let left = due.since(self.host.now()).max(Duration::from_millis(1));
            sleep.set(self.host.sleep(left));
            self.rings = due;
        }
    }
}

/// An answer's body on its connection.
pub(crate) struct Source {
    connection: Connection,
    incoming: Incoming,
    pub(crate) lease: Lease,
    timer: Timer,
    limits: Limits,
    keeping: Keeping,
    sent: Mono,
    /// When the first bytes came.
    first: Option<Mono>,
    /// When the last did.
    last: Option<Mono>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.lease.instance().spec.name)
    }
}

/// What a source is made of.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) incoming: Incoming,
    pub(crate) lease: Lease,
    pub(crate) timer: Timer,
    pub(crate) limits: Limits,
    pub(crate) keeping: Keeping,
    pub(crate) sent: Mono,
}

impl Source {
    pub(crate) fn new(opened: Opened) -> Self {
        let Opened { connection, incoming, lease, timer, limits, keeping, sent } = opened;
        Self { connection, incoming, lease, timer, limits, keeping, sent, first: None, last: None }
    }

    /// The host's time.
    pub(crate) fn now(&self) -> Mono {
        self.timer.host.now()
    }

    /// When the body's first bytes came.
    pub(crate) const fn first_byte(&self) -> Option<Mono> {
        self.first
    }

    /// More bytes; `None` at the end in good order.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        loop {
            match self.connection.poll_frame(&mut self.incoming, cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data()
                        && !data.is_empty()
                    {
                        let now = self.now();
                        self.first = self.first.or(Some(now));
                        self.last = Some(now);
                        return Poll::Ready(Ok(Some(data)));
                    }
                }
                Poll::Ready(Some(Err(_broken))) => return Poll::Ready(Err(Fault::Cut)),
                Poll::Ready(None) => return Poll::Ready(Ok(None)),
                Poll::Pending => break,
            }
        }
        let (limit, fault) = match self.last {
            Some(last) => (last + self.limits.idle, Fault::Idle),
            None => (self.sent + self.limits.first_byte, Fault::FirstByte),
        };
        ready!(self.timer.poll_past(limit.min(self.limits.deadline), cx));
        Poll::Ready(Err(if limit < self.limits.deadline { fault } else { Fault::Deadline }))
    }

    /// From now on the end is awaited this long only.
    pub(crate) const fn hurry(&mut self, within: Duration) {
        self.limits.idle = within;
    }

    /// Keeps the connection of an answer that was read to its end, and gives the place back.
    pub(crate) fn finish(self) {
        self.lease.instance().keep(self.connection, self.timer.host.now(), self.keeping);
    }
}
