//! An authenticated connection to a peer, and the streams on it.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::Mono;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use seam::Host;
use tokio::sync::Mutex;
use wire::control::Opening;
use wire::frame::Kind;

use crate::pulse::Pulse;
use crate::transport::{CLOSED, IN_EARNEST};
use crate::{Identity, MeshError, Purpose, Receiver, Sender};

/// A stream whose first frame is not here after this long is given up.
const OPENING_WITHIN: Duration = Duration::from_secs(5);
/// Streams whose first frame may be awaited at once; a lost packet of one does not hold up the others.
const OPENINGS: usize = 64;

type Opened = Pin<Box<dyn Future<Output = Option<(Opening, Sender, Receiver)>> + Send>>;

/// A connection whose peer is verified. Cheap to clone; it ends when all clones and streams are gone, or by
/// [`Connection::close`].
#[derive(Clone, Debug)]
pub struct Connection {
    shared: Arc<Shared>,
}

/// A connection that this does not keep.
#[derive(Clone, Debug)]
pub(crate) struct WeakConnection(Weak<Shared>);

impl WeakConnection {
    pub(crate) fn upgrade(&self) -> Option<Connection> {
        self.0.upgrade().map(|shared| Connection { shared })
    }
}

#[derive(Debug)]
struct Shared {
    host: Host,
    quinn: quinn::Connection,
    peer: Identity,
    purpose: Purpose,
    /// When it was made.
    since: Mono,
    pulse: Pulse,
    openings: Mutex<FuturesUnordered<Opened>>,
    /// Streams that the peer opened.
    accepted: AtomicU32,
}

impl Connection {
    pub(crate) fn new(
        host: Host,
        quinn: quinn::Connection,
        peer: Identity,
        purpose: Purpose,
        pulse: Pulse,
    ) -> Self {
        let openings = Mutex::new(FuturesUnordered::new());
        let accepted = AtomicU32::new(0);
        let since = host.now();
        Self { shared: Arc::new(Shared { host, quinn, peer, purpose, since, pulse, openings, accepted }) }
    }

    pub(crate) fn downgrade(&self) -> WeakConnection {
        WeakConnection(Arc::downgrade(&self.shared))
    }

    /// Who the peer is.
    #[must_use]
    pub fn peer(&self) -> &Identity {
        &self.shared.peer
    }

    /// What the connection is for.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        self.shared.purpose
    }

    /// The peer's address.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.shared.quinn.remote_address()
    }

    /// The smoothed round trip.
    #[must_use]
    pub fn rtt(&self) -> Duration {
        self.shared.quinn.rtt()
    }

    /// Whether the connection has not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.shared.quinn.close_reason().is_none()
    }

    /// Whether the peer may still wait for what it asked. A connection that this node stood still on for longer than a
    /// silent link lives was given up by its peer, and ends here, too.
    ///
    /// # Errors
    /// [`MeshError::Closed`] when it has ended.
    pub fn check_stands(&self) -> Result<(), MeshError> {
        const STOOD_STILL: &str = "this node stood still for longer than a silent link lives";
        if self.shared.pulse.woke().is_some_and(|woke| woke > self.shared.since) {
            self.close(STOOD_STILL);
            return Err(MeshError::Closed(STOOD_STILL.to_owned()));
        }
        match self.shared.quinn.close_reason() {
            Some(reason) => Err(MeshError::closed(&reason)),
            None => Ok(()),
        }
    }

    /// Waits until the connection ends, and says why.
    pub async fn closed(&self) -> MeshError {
        MeshError::closed(&self.shared.quinn.closed().await)
    }

    /// Ends the connection and all its streams at once; `reason` reaches the peer.
    pub fn close(&self, reason: &str) {
        self.shared.quinn.close(CLOSED, reason.as_bytes());
    }

    /// Opens a stream. Waits while the peer's limit of streams is reached.
    ///
    /// # Errors
    /// [`MeshError`] when the connection ended.
    pub async fn open(&self, opening: Opening) -> Result<(Sender, Receiver), MeshError> {
        let (send, receive) = self.shared.quinn.open_bi().await.map_err(|lost| MeshError::closed(&lost))?;
        let mut sender = Sender::new(send);
        sender.send(Kind::OPENING, &opening).await?;
        Ok((sender, Receiver::new(receive, self.shared.quinn.clone())))
    }

    /// The next stream the peer opened. Cancel safe; calls at the same time take turns.
    ///
    /// # Errors
    /// [`MeshError`] when the connection ended.
    pub async fn accept_stream(&self) -> Result<(Opening, Sender, Receiver), MeshError> {
        let mut openings = self.shared.openings.lock().await;
        loop {
            let room = openings.len() < OPENINGS;
            tokio::select! {
                biased;
                Some(opened) = openings.next() => {
                    if let Some(opened) = opened {
                        return Ok(opened);
                    }
                }
                accepted = self.shared.quinn.accept_bi(), if room => {
                    let (send, receive) = accepted.map_err(|lost| MeshError::closed(&lost))?;
                    self.count_accepted();
                    openings.push(self.opening(send, receive));
                }
            }
        }
    }

    fn count_accepted(&self) {
        if self.shared.accepted.fetch_add(1, Ordering::Relaxed) + 1 == IN_EARNEST {
            self.shared.quinn.set_max_concurrent_bi_streams(self.shared.purpose.streams().into());
        }
    }

    fn opening(&self, send: quinn::SendStream, receive: quinn::RecvStream) -> Opened {
        let host = self.shared.host.clone();
        let sender = Sender::new(send);
        let mut receiver = Receiver::new(receive, self.shared.quinn.clone());
        Box::pin(async move {
            match host.timeout(OPENING_WITHIN, receiver.expect(Kind::OPENING)).await {
                Ok(Ok(opening)) => Some((opening, sender, receiver)),
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a stream without an opening");
                    None
                }
                Err(seam::Late) => None,
            }
        })
    }
}
