//! All addresses that callers reach a node at: bound early, served until told to stop, and never more connections at
//! once than the node can carry.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderValue;
use rustls::ServerConfig;
use seam::{Gone, Host, Listener, Stop};
use telemetry::metrics::EdgeMetrics;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

use super::certificate::{Certificate, TlsError};
use super::{Handler, Via, http, http3};
use crate::config::{Guard, Ingress, Tls};

/// Ports tried when a free one must be free for TCP and for UDP.
const PORT_TRIES: u32 = 16;

/// Pause after the network refused to accept, such as when no descriptor is left.
const PAUSE: Duration = Duration::from_millis(50);

/// An address cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address is taken or not of this machine.
    #[error("cannot listen on {at}")]
    Taken {
        /// Which address.
        at: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// QUIC cannot be served.
    #[error("cannot serve HTTP/3 on {at}: {why}")]
    Quic {
        /// Which address.
        at: SocketAddr,
        /// Why.
        why: String,
    },
    /// The certificate cannot be used.
    #[error("cannot serve TLS on {at}")]
    Tls {
        /// Which address.
        at: SocketAddr,
        /// Why.
        source: Box<TlsError>,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Setup(#[from] rustls::Error),
}

/// What every connection of one listener shares.
pub(super) struct Door {
    pub(super) host: Host,
    pub(super) guard: Guard,
    pub(super) handler: Handler,
    pub(super) http1: Arc<Via>,
    pub(super) http2: Arc<Via>,
    pub(super) http3: Arc<Via>,
}

/// Bound addresses, not yet served.
#[derive(Debug)]
pub(crate) struct Listeners {
    host: Host,
    guard: Guard,
    bound: Vec<Bound>,
    places: Arc<Semaphore>,
}

#[derive(Debug)]
struct Bound {
    tcp: Box<dyn Listener>,
    udp: Option<quinn::Endpoint>,
    at: SocketAddr,
    certificate: Option<Certificate>,
    tls: Option<Arc<ServerConfig>>,
    public_port: u16,
    metrics: bool,
}

impl Listeners {
    /// Binds every address.
    ///
    /// # Errors
    /// [`BindError`] names the address and what is wrong with it.
    pub(crate) async fn bind(host: &Host, wanted: &[Ingress], guard: Guard) -> Result<Self, BindError> {
        let mut bound = Vec::with_capacity(wanted.len());
        for ingress in wanted {
            bound.push(bind(host, ingress, &guard).await?);
        }
        let places = Arc::new(Semaphore::new(guard.connections as usize));
        Ok(Self { host: host.clone(), guard, bound, places })
    }

    /// The addresses bound, in the configuration's order.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.bound.iter().map(|bound| bound.at).collect()
    }

    /// Serves until `stop`, then waits until every connection has ended what it had in progress.
    pub(crate) async fn run(self, handler: &Handler, metrics: &EdgeMetrics, stop: Stop) {
        let mut tasks = Vec::new();
        for bound in self.bound {
            let door = Arc::new(bound.door(&self.host, self.guard, handler, metrics));
            if let Some(certificate) = bound.certificate.clone() {
                let (host, stop) = (self.host.clone(), stop.clone());
                let watch = async move { certificate.watch(&host, &stop).await };
                tasks.push(self.host.spawn("certificate", watch));
            }
            if let Some(udp) = bound.udp.clone() {
                let accept = accept_quic(udp, Arc::clone(&door), Arc::clone(&self.places), stop.clone());
                tasks.push(self.host.spawn("accept-quic", accept));
            }
            let accept = accept_tcp(bound, door, Arc::clone(&self.places), stop.clone());
            tasks.push(self.host.spawn("accept", accept));
        }
        for task in tasks {
            // A task that ended early ended because its listener did.
            let _ended: Result<(), Gone> = task.await;
        }
        drop(self.places.acquire_many(self.guard.connections).await);
    }
}

async fn bind(host: &Host, ingress: &Ingress, guard: &Guard) -> Result<Bound, BindError> {
    let at = ingress.listen;
    let certificate = match &ingress.tls {
        Some(files) => Some(load(host, files, at).await?),
        None => None,
    };
    let quic = certificate.as_ref().filter(|_| ingress.http3);
    let mut tries = if at.port() == 0 && quic.is_some() { PORT_TRIES } else { 1 };
    let (tcp, udp, at) = loop {
        tries -= 1;
        match bind_pair(host, at, quic, guard).await {
            Err(BindError::Taken { .. }) if tries > 0 => {}
            done => break done?,
        }
    };
    let tls = certificate.as_ref().map(Certificate::for_streams).transpose()?;
    let tls = tls.map(Arc::new);
    let public_port = ingress.public_port.unwrap_or_else(|| at.port());
    Ok(Bound { tcp, udp, at, certificate, tls, public_port, metrics: ingress.metrics })
}

async fn load(host: &Host, files: &Tls, at: SocketAddr) -> Result<Certificate, BindError> {
    let loaded = Certificate::load(host, files.clone()).await;
    loaded.map_err(|source| BindError::Tls { at, source: Box::new(source) })
}

type Pair = (Box<dyn Listener>, Option<quinn::Endpoint>, SocketAddr);

/// Binds one address for TCP and the same port for UDP.
async fn bind_pair(
    host: &Host,
    at: SocketAddr,
    quic: Option<&Certificate>,
    guard: &Guard,
) -> Result<Pair, BindError> {
    let taken = |source| BindError::Taken { at, source };
    let tcp = host.listen(at).await.map_err(taken)?;
    let at = tcp.local_addr().map_err(taken)?;
    let udp = match quic {
        Some(certificate) => Some(http3::endpoint(host, at, certificate, guard)?),
        None => None,
    };
    Ok((tcp, udp, at))
}

impl Bound {
    fn door(&self, host: &Host, guard: Guard, handler: &Handler, metrics: &EdgeMetrics) -> Door {
        let advertised = self.udp.as_ref().map(|_| format!("h3=\":{}\"; ma=86400", self.public_port));
        let alt_svc = advertised.and_then(|text| HeaderValue::try_from(text).ok());
        let via = |http, alt_svc| {
            Arc::new(Via { http, alt_svc, metrics: self.metrics, connections: metrics.connections(http) })
        };
        Door {
            host: host.clone(),
            guard,
            handler: Arc::clone(handler),
            http1: via("1.1", alt_svc.clone()),
            http2: via("2", alt_svc),
            http3: via("3", None),
        }
    }
}

async fn accept_tcp(bound: Bound, door: Arc<Door>, places: Arc<Semaphore>, stop: Stop) {
    let tls = bound.tls.clone().map(TlsAcceptor::from);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.wanted() => return,
            accepted = bound.tcp.accept() => accepted,
        };
        match accepted {
            Ok((stream, _peer)) => {
                let Some(place) = place(&places) else { continue };
                let serving = http::serve(stream, tls.clone(), Arc::clone(&door), stop.clone(), place);
                drop(door.host.spawn("connection", serving));
            }
            Err(error) => {
                tracing::warn!(%error, at = %bound.at, "cannot accept a connection");
                door.host.sleep(PAUSE).await;
            }
        }
    }
}

async fn accept_quic(udp: quinn::Endpoint, door: Arc<Door>, places: Arc<Semaphore>, stop: Stop) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.wanted() => return,
            accepted = udp.accept() => accepted,
        };
        let Some(incoming) = accepted else { return };
        // Under load an address must prove itself first: forged ones cost a packet each and no place.
        let crowded = places.available_permits() < door.guard.connections as usize / 2;
        if crowded && !incoming.remote_address_validated() {
            if let Err(error) = incoming.retry() {
                tracing::debug!(%error, "a QUIC address cannot be asked to prove itself");
            }
            continue;
        }
        match place(&places) {
            Some(place) => {
                let serving = http3::serve(incoming, Arc::clone(&door), stop.clone(), place);
                drop(door.host.spawn("connection", serving));
            }
            None => incoming.refuse(),
        }
    }
}

fn place(places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    let place = Arc::clone(places).try_acquire_owned().ok();
    if place.is_none() {
        tracing::warn!("a connection was turned away: as many are open as the node takes");
    }
    place
}
