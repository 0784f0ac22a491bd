//! A node's socket in the mesh: dials peers and takes their connections, both only after each has proved itself.
//!
//! A refusal is logged once on either side, with the check that failed: the refusing side's words travel in the closing
//! reason.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{Name, Role};
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, ConnectionError, ServerConfig};
use rustls::pki_types::CertificateDer;
use seam::{Bound, Host, Lock, QuicRuntime};
use tokio::sync::{Mutex, Semaphore, mpsc};

use crate::connection::WeakConnection;
use crate::expect::check_roles;
use crate::pulse::Pulse;
use crate::transport::{CLOSED, REFUSED, TokenTime, endpoint_config, identifier, transport};
use crate::{Check, Connection, Credentials, Expect, Identity, MeshError, Purpose, tls};

/// Handshakes at once; more are turned away. Above half, addresses must prove themselves first.
const HANDSHAKES: usize = 128;
/// Connections accepted and not yet taken up.
const BACKLOG: usize = 64;
/// A handshake takes at most this long.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(3);
/// The acceptor's first words: its newest level. Room for more in later versions.
const WELCOME_LIMIT: usize = 64;

/// Roles that may connect to a node. Operators use the admin interface.
const NODES: &[Role] = &[Role::Central, Role::Edge];

/// The newest connection with each node that either side may open streams on.
type Standing = Arc<Lock<BTreeMap<(Purpose, Name), WeakConnection>>>;

/// A node's end of the mesh. Cheap to clone; closes when the last clone is gone.
#[derive(Clone, Debug)]
pub struct Endpoint {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    host: Host,
    quinn: quinn::Endpoint,
    credentials: Credentials,
    /// Where connections that nobody serves yet go; ends with the endpoint.
    unserved: mpsc::WeakSender<Connection>,
    accepted: Mutex<mpsc::Receiver<Connection>>,
    standing: Standing,
    pulse: Pulse,
    _acceptor: Bound<()>,
    _beat: Bound<()>,
}

impl Endpoint {
    /// Opens the endpoint at `at`; port 0 takes a free one.
    ///
    /// # Errors
    /// [`MeshError::Bind`] when the address is taken or cannot be used.
    pub fn bind(host: &Host, at: SocketAddr, credentials: Credentials) -> Result<Self, MeshError> {
        let failed = |why: String| MeshError::Bind { at, why };
        let socket = host.datagram(at).map_err(|error| failed(error.to_string()))?;
        let server = server_config(host, &credentials).map_err(|error| failed(error.to_string()))?;
        let config = endpoint_config(host, credentials.keyring().secret());
        let runtime = Arc::new(QuicRuntime(host.clone()));
        let quinn = quinn::Endpoint::new_with_abstract_socket(config, Some(server), socket, runtime)
            .map_err(|error| failed(error.to_string()))?;
        let (sender, accepted) = mpsc::channel(BACKLOG);
        let (pulse, beat) = Pulse::start(host);
        let standing = Standing::default();
        let unserved = sender.downgrade();
        let taking = Taking {
            host: host.clone(),
            role: credentials.identity().role,
            pulse: pulse.clone(),
            standing: Arc::clone(&standing),
            accepted: sender,
        };
        let accepting = accept_all(quinn.clone(), taking);
        let acceptor = host.spawn("mesh-accept", accepting).bound();
        let shared = Shared {
            host: host.clone(),
            quinn,
            credentials,
            unserved,
            accepted: Mutex::new(accepted),
            standing,
            pulse,
            _acceptor: acceptor,
            _beat: beat,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The address bound.
    ///
    /// # Errors
    /// [`MeshError::Closed`] when the socket is gone.
    pub fn local_addr(&self) -> Result<SocketAddr, MeshError> {
        self.shared.quinn.local_addr().map_err(|error| MeshError::Closed(error.to_string()))
    }

    /// Who this node is.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.shared.credentials.identity()
    }

    /// Dials a node. Returns once both sides have let the other in.
    ///
    /// # Errors
    /// [`MeshError`]: one side refused, or nobody answered.
    pub async fn connect(
        &self,
        at: SocketAddr,
        expect: &Expect,
        purpose: Purpose,
    ) -> Result<Connection, MeshError> {
        let dialled = self.shared.host.timeout(HANDSHAKE_WITHIN, self.dial(at, expect, purpose)).await;
        dialled.unwrap_or(Err(MeshError::Unreachable { remote: at }))
    }

    /// The next verified connection, one that [`crate::Links`] dialled and shares with its peer included; `None` once the endpoint is closed. Cancel safe.
    pub async fn accept(&self) -> Option<Connection> {
        self.shared.accepted.lock().await.recv().await
    }

    /// Ends all connections and takes no more; `reason` reaches the peers. Waits until they are told, at most a second.
    pub async fn close(&self, reason: &str) {
        self.shared.quinn.close(CLOSED, reason.as_bytes());
        // Peers that do not acknowledge notice by themselves.
        let _told = self.shared.host.timeout(Duration::from_secs(1), self.shared.quinn.wait_idle()).await;
    }

    pub(crate) fn host(&self) -> &Host {
        &self.shared.host
    }

    /// Whether one connection with a node of `role` does for both: each may open streams on it, whoever dialled. Nodes of
    /// unlike roles ask in one direction only.
    pub(crate) fn shares_with(&self, role: Role) -> bool {
        self.identity().role == role
    }

    /// A connection with `node` that either side may open streams on, if one stands.
    pub(crate) fn standing(&self, purpose: Purpose, node: &Name) -> Option<Connection> {
        self.shared.standing.lock().get(&(purpose, node.clone()))?.upgrade().filter(Connection::is_open)
    }

    /// Lets this node's acceptor answer what the peer opens on a connection that was dialled, and others find it.
    pub(crate) async fn share(&self, connection: &Connection) {
        note(&self.shared.standing, connection);
        // A node that accepts nothing more is closing.
        if let Some(unserved) = self.shared.unserved.upgrade() {
            drop(unserved.send(connection.clone()).await);
        }
    }

    async fn dial(
        &self,
        remote: SocketAddr,
        expect: &Expect,
        purpose: Purpose,
    ) -> Result<Connection, MeshError> {
        let failed = |why: String| MeshError::Closed(why);
        let config = client_config(&self.shared.host, &self.shared.credentials, expect, purpose)
            .map_err(|error| failed(error.to_string()))?;
        let connecting = self
            .shared
            .quinn
            .connect_with(config, remote, tls::SERVER_NAME)
            .map_err(|error| failed(error.to_string()))?;
        let quinn = connecting.await.map_err(|lost| report(remote, lost))?;
        // The acceptor has checked this node only when it says so.
        let mut welcome = quinn.accept_uni().await.map_err(|lost| report(remote, lost))?;
        welcome.read_to_end(WELCOME_LIMIT).await.map_err(|error| failed(error.to_string()))?;
        let peer = peer_of(&quinn).ok_or_else(|| failed("the peer showed no certificate".to_owned()))?;
        let (host, pulse) = (self.shared.host.clone(), self.shared.pulse.clone());
        Ok(Connection::new(host, quinn, peer, purpose, pulse))
    }
}

fn client_config(
    host: &Host,
    credentials: &Credentials,
    expect: &Expect,
    purpose: Purpose,
) -> Result<ClientConfig, rustls::Error> {
    let crypto = tls::client_config(credentials, expect, &[purpose.alpn()])?;
    let crypto =
        QuicClientConfig::try_from(crypto).map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    let drawn_from = host.clone();
    config
        .transport_config(transport(purpose))
        .initial_dst_cid_provider(Arc::new(move || identifier(&drawn_from)));
    Ok(config)
}

fn server_config(host: &Host, credentials: &Credentials) -> Result<ServerConfig, rustls::Error> {
    let crypto = tls::server_config(credentials, NODES, &Purpose::ALL.map(Purpose::alpn))?;
    let crypto =
        QuicServerConfig::try_from(crypto).map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut config = ServerConfig::new(Arc::new(crypto), Arc::new(tls::token_key(host)));
    config
        .transport_config(transport(Purpose::Calls))
        .max_incoming(2 * HANDSHAKES)
        .time_source(Arc::new(TokenTime(host.clone())));
    Ok(config)
}

/// Takes connections.
#[derive(Clone, Debug)]
struct Taking {
    host: Host,
    role: Role,
    pulse: Pulse,
    standing: Standing,
    accepted: mpsc::Sender<Connection>,
}

async fn accept_all(endpoint: quinn::Endpoint, taking: Taking) {
    let room = Arc::new(Semaphore::new(HANDSHAKES));
    while let Some(incoming) = endpoint.accept().await {
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            incoming.refuse();
            continue;
        };
        if room.available_permits() < HANDSHAKES / 2 && incoming.may_retry() {
            // An address that was not asked to prove itself may be asked.
            drop(incoming.retry());
            continue;
        }
        let of = taking.clone();
        drop(taking.host.spawn("mesh-handshake", async move {
            of.take(incoming).await;
            drop(permit);
        }));
    }
}

impl Taking {
    async fn take(self, incoming: quinn::Incoming) {
        let remote = incoming.remote_address();
        let handshake = handshake(&self.host, self.pulse, incoming);
        match self.host.timeout(HANDSHAKE_WITHIN, handshake).await {
            Ok(Ok(connection)) => {
                if connection.peer().role == self.role {
                    note(&self.standing, &connection);
                }
                // A closed endpoint wants no connections.
                drop(self.accepted.send(connection).await);
            }
            Ok(Err(error)) => tracing::debug!(%remote, %error, "mesh handshake failed"),
            Err(seam::Late) => tracing::debug!(%remote, "mesh handshake took too long"),
        }
    }
}

/// Notes a connection that either side may open streams on, and forgets those that ended.
fn note(standing: &Standing, connection: &Connection) {
    let mut standing = standing.lock();
    standing.retain(|_node, known| known.upgrade().is_some_and(|known| known.is_open()));
    let key = (connection.purpose(), connection.peer().node.clone());
    standing.insert(key, connection.downgrade());
}

async fn handshake(host: &Host, pulse: Pulse, incoming: quinn::Incoming) -> Result<Connection, MeshError> {
    let remote = incoming.remote_address();
    let quinn = incoming.await.map_err(|lost| report(remote, lost))?;
    let (Some(peer), Some(purpose)) = (peer_of(&quinn), purpose_of(&quinn)) else {
        return Err(MeshError::Closed("the handshake left no identity or protocol".to_owned()));
    };
    let allowed: &[Role] = match purpose {
        Purpose::Calls => NODES,
        Purpose::Consensus => &[Role::Central],
    };
    if let Err(refusal) = check_roles(allowed, &peer) {
        let reason = refusal.to_string();
        tracing::warn!(%remote, check = %refusal.check, reason, "refused a mesh peer");
        quinn.close(REFUSED, reason.as_bytes());
        return Err(MeshError::Refused { remote, check: refusal.check, reason });
    }
    welcome(host, &quinn).await?;
    Ok(Connection::new(host.clone(), quinn, peer, purpose, pulse))
}

async fn welcome(host: &Host, quinn: &quinn::Connection) -> Result<(), MeshError> {
    let mut stream = quinn.open_uni().await.map_err(|lost| MeshError::closed(&lost))?;
    stream.write_all(&crate::level(host).to_be_bytes()).await?;
    stream.finish().map_err(|_closed| MeshError::Closed("the welcome stream closed".to_owned()))
}

fn peer_of(quinn: &quinn::Connection) -> Option<Identity> {
    let chain = quinn.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    Identity::of_certificate(chain.first()?).ok()
}

fn purpose_of(quinn: &quinn::Connection) -> Option<Purpose> {
    let data = quinn.handshake_data()?.downcast::<HandshakeData>().ok()?;
    Purpose::of_alpn(data.protocol.as_deref()?)
}

/// What a failed handshake means; a refusal is logged here, on either side.
fn report(remote: SocketAddr, lost: ConnectionError) -> MeshError {
    match lost {
        ConnectionError::TransportError(ours) => match Check::named_in(&ours.reason) {
            Some((check, reason)) => {
                tracing::warn!(%remote, %check, reason, "refused a mesh peer");
                MeshError::Refused { remote, check, reason: reason.to_owned() }
            }
            None => MeshError::Closed(ours.to_string()),
        },
        ConnectionError::ConnectionClosed(theirs) => {
            refused_by_peer(remote, &String::from_utf8_lossy(&theirs.reason))
                .unwrap_or_else(|| MeshError::Closed(theirs.to_string()))
        }
        ConnectionError::ApplicationClosed(theirs) => {
            refused_by_peer(remote, &String::from_utf8_lossy(&theirs.reason))
                .unwrap_or_else(|| MeshError::Closed(theirs.to_string()))
        }
        ConnectionError::TimedOut => MeshError::Unreachable { remote },
        other => MeshError::closed(&other),
    }
}

fn refused_by_peer(remote: SocketAddr, reason: &str) -> Option<MeshError> {
    let (check, reason) = Check::named_in(reason)?;
    tracing::warn!(%remote, %check, reason, "a mesh peer refused this node");
    Some(MeshError::RefusedByPeer { remote, check: Some(check), reason: reason.to_owned() })
}
