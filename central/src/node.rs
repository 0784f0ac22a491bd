//! A central node, whole: built in dependency order, bound early, stopped without breaking what is under way.

mod accept;
mod parts;
mod probes;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::{NodeId, Role};
use egress::{Egress, Tls};
use mesh::{Credentials, CredentialsError, Endpoint, Identity, MeshError};
use seam::{Bound, Host, Listener, Stop, Stopper};
use telemetry::trace::{self, TraceError, Tracer};
use tokio::sync::mpsc;
use wal::WalError;
use wire::control::NodeAddr;

use crate::config::Config;
use crate::consensus::{Consensus, Event, MemberChange, Options, StartError, StoreError};
use crate::metrics::Metrics;
use crate::relay::Relay;
use crate::seal::{SealError, SealKeys};
use crate::usage::{ClickHouse, Usage};
use parts::Parts;
pub(crate) use probes::exposition;

/// How long a proposal or a read looks for a leader: an election at the longest round trips, and some more.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long handing leadership over may take before the node stops anyway.
const HAND_OVER: Duration = Duration::from_secs(2);

/// Why a node cannot start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Its credentials.
    #[error("cannot use the credentials")]
    Credentials(#[from] CredentialsError),
    /// Its certificate names another role.
    #[error(
        "the certificate is of {0}, whose role is not central; issue one with `portolan pki issue --role central`"
    )]
    Role(Identity),
    /// Its certificate does not fit the file.
    #[error("the certificate is of {found}, but member {id} of the configuration is {expected}")]
    Member {
        /// The node's number.
        id: NodeId,
        /// Whom the certificate names.
        found: Box<Identity>,
        /// Whom the configuration names.
        expected: String,
    },
    /// The configuration lists members, but not this one.
    #[error(
        "the configuration lists members, but none with this node's id {0}; add it, or leave the list empty"
    )]
    NotListed(NodeId),
    /// Its sealing keys.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// Its data directory.
    #[error("cannot make the data directory {path}")]
    Data {
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// An address.
    #[error("cannot listen at {at} for {what}")]
    Listen {
        /// Where.
        at: SocketAddr,
        /// For what.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Its end of the mesh.
    #[error(transparent)]
    Mesh(#[from] MeshError),
    /// Its log.
    #[error("cannot start the replicated log")]
    Log(#[from] StartError),
    /// Traces cannot be sent.
    #[error("traces cannot be sent")]
    Traces(#[from] TraceError),
    /// TLS.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// It stopped by itself.
    #[error("the node had to stop: {0}")]
    Stopped(String),
}

impl NodeError {
    /// What to do about it, where that does not follow from its words.
    #[must_use]
    pub const fn mend(&self) -> Option<&'static str> {
        match self {
            Self::Log(
                StartError::Log(StoreError::Wal(WalError::Corrupt { .. })) | StartError::Snapshot { .. },
            ) => Some(
                "once the disk is good, replace this member with a new one: `portolan members add … --replaces ID`",
            ),
            _other => None,
        }
    }
}

/// Runs a node until `stop` or until it cannot go on.
///
/// # Errors
/// [`NodeError`].
pub async fn run(host: Host, config: Config, stop: Stop) -> Result<(), NodeError> {
    let running = async {
        let node = Node::start(&host, config).await?;
        node.until(stop).await
    };
    Box::pin(host.scope(running)).await
}

/// A node that listens.
#[derive(Debug)]
pub struct Node {
    host: Host,
    config: Config,
    endpoint: Endpoint,
    credentials: Credentials,
    consensus: Consensus,
    events: mpsc::Receiver<Event>,
    relay: Relay,
    keys: Option<Arc<SealKeys>>,
    admin: Box<dyn Listener>,
    probes: Option<Box<dyn Listener>>,
    metrics: Arc<Metrics>,
    usage: Usage,
    /// Who takes receipts besides.
    sink: Option<(ClickHouse, Option<Tls>)>,
    /// Writes the usage store.
    writing: Bound<()>,
    /// Ends the sending of traces.
    sending: Stopper,
}

impl Node {
    /// Binds every address, then starts the log.
    ///
    /// # Errors
    /// [`NodeError`].
    pub async fn start(host: &Host, config: Config) -> Result<Self, NodeError> {
        let credentials = Credentials::load(host, &config.mesh.credentials).await?;
        check_identity(&credentials.identity(), &config)?;
        let keys = match &config.seal_keys {
            Some(path) => Some(Arc::new(SealKeys::load(host, path).await?)),
            None => None,
        };
        let made = host.disk().create_dir_all(&config.data).await;
        made.map_err(|source| NodeError::Data { path: config.data.display().to_string(), source })?;
        let endpoint = Endpoint::bind(host, config.mesh.listen, credentials.clone())?;
        let admin = listen(host, config.admin, "operators").await?;
        let probes = match config.metrics {
            Some(at) => Some(listen(host, at, "metrics").await?),
            None => None,
        };
        let (usage, feed, writing) = Usage::start(host, &config.data, config.keep);
        let options = Options {
            id: config.id,
            dir: config.data.clone(),
            round_trip: config.round_trip,
            first_members: first_members(&config),
            patience: PATIENCE,
            feed,
        };
        let (consensus, events) =
            Consensus::start(host, options, &endpoint, central_core::State::default()).await?;
        let metrics = Arc::<Metrics>::default();
        let (sending, until) = Stopper::new();
        let tracer = tracer(host, &config, &credentials.identity(), &metrics, until)?;
        let serving = egress_options(&credentials, &config, host).await?;
        let egress = Egress::new(host, egress::Options { tracer, keys: metrics.keys(), ..serving });
        let relay = Relay::new(&consensus, &egress, keys.clone());
        let sink = sink(host, config.clickhouse.as_ref()).await?;
        let host = host.clone();
        Ok(Self {
            host,
            config,
            endpoint,
            credentials,
            consensus,
            events,
            relay,
            keys,
            admin,
            probes,
            metrics,
            usage,
            sink,
            writing,
            sending,
        })
    }

    /// Where the mesh endpoint listens.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn mesh_addr(&self) -> Result<SocketAddr, NodeError> {
        Ok(self.endpoint.local_addr()?)
    }

    /// Where operators reach it.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn admin_addr(&self) -> Result<SocketAddr, NodeError> {
        let gone = |source| NodeError::Listen { at: self.config.admin, what: "operators", source };
        self.admin.local_addr().map_err(gone)
    }

    /// Serves until `stop` or until the node cannot go on.
    ///
    /// # Errors
    /// [`NodeError::Stopped`] with the reason, when it did not end by `stop`.
    pub async fn until(self, stop: Stop) -> Result<(), NodeError> {
        let (host, consensus, endpoint) = (self.host.clone(), self.consensus.clone(), self.endpoint.clone());
        let drain = self.config.drain;
        let admin = self.admin_addr()?;
        tracing::info!(
            identity = %self.credentials.identity(), id = %self.config.id, %admin,
            "central node started"
        );
        let (stopper, parts_stop) = Stopper::new();
        let parts = Parts::start(self, &parts_stop);
        let ended = tokio::select! {
            biased;
            () = stop.wanted() => Ok(()),
            why = consensus.stopped() => Err(NodeError::Stopped(why)),
            why = parts.outgrown(mesh::level(&host)) => Err(NodeError::Stopped(why)),
        };
        if let Err(error) = &ended {
            tracing::error!(%error, "the node stops");
        } else {
            tracing::info!("the node is stopping");
            hand_over(&host, &consensus).await;
        }
        stopper.stop();
        parts.drain(&host, drain).await;
        consensus.shutdown().await;
        endpoint.close("the node stopped").await;
        ended
    }
}

async fn listen(host: &Host, at: SocketAddr, what: &'static str) -> Result<Box<dyn Listener>, NodeError> {
    host.listen(at).await.map_err(|source| NodeError::Listen { at, what, source })
}

fn check_identity(identity: &Identity, config: &Config) -> Result<(), NodeError> {
    if identity.role != Role::Central {
        return Err(NodeError::Role(identity.clone()));
    }
    if config.members.is_empty() {
        return Ok(());
    }
    let mine = config.members.iter().find(|member| member.id == config.id);
    let NodeAddr { name, region, .. } = &mine.ok_or(NodeError::NotListed(config.id))?.addr;
    if *name == identity.node && *region == identity.region {
        return Ok(());
    }
    Err(NodeError::Member {
        id: config.id,
        found: Box::new(identity.clone()),
        expected: format!("{name} in region {region}"),
    })
}

fn first_members(config: &Config) -> BTreeMap<NodeId, NodeAddr> {
    config.members.iter().map(|member| (member.id, member.addr.clone())).collect()
}

fn tracer(
    host: &Host,
    config: &Config,
    identity: &Identity,
    metrics: &Metrics,
    stop: Stop,
) -> Result<Tracer, NodeError> {
    let Some(endpoint) = &config.traces else { return Ok(Tracer::default()) };
    let node = trace::Node {
        service: "portolan-central",
        name: identity.node.to_string(),
        region: identity.region.to_string(),
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(Tracer::otlp(host, endpoint, &node, metrics.spans_dropped(), stop)?)
}

async fn egress_options(
    credentials: &Credentials,
    config: &Config,
    host: &Host,
) -> Result<egress::Options, NodeError> {
    let tls = trusting(host, config.upstream_authorities.as_deref()).await?;
    Ok(egress::Options { tls: Some(tls), ..egress::Options::new(credentials.identity().node) })
}

/// Trusts the public authorities and those in a file.
async fn trusting(host: &Host, authorities: Option<&Path>) -> Result<Tls, NodeError> {
    let extra = match authorities {
        Some(path) => {
            let failed = |error| NodeError::Tls(format!("{}: {error}", path.display()));
            host.disk().read(path).await.map_err(failed)?
        }
        None => bytes::Bytes::new(),
    };
    Tls::with_authorities(&extra).map_err(|error| NodeError::Tls(error.to_string()))
}

/// Where receipts go, and whom to trust there.
pub(crate) async fn sink(
    host: &Host,
    clickhouse: Option<&ClickHouse>,
) -> Result<Option<(ClickHouse, Option<Tls>)>, NodeError> {
    let Some(sink) = clickhouse else { return Ok(None) };
    let tls = match sink.url.is_tls() {
        true => Some(trusting(host, sink.authorities.as_deref()).await?),
        false => None,
    };
    Ok(Some((sink.clone(), tls)))
}

/// A leader that stops gives the others no reason to wait for an election.
async fn hand_over(host: &Host, consensus: &Consensus) {
    let standing = consensus.standing();
    if standing.leader != Some(standing.id) {
        return;
    }
    let others = standing.members.iter().filter(|member| member.votes && member.id != standing.id);
    let Some(next) = others.max_by_key(|member| (member.matched, member.id)) else { return };
    let handing = async {
        if let Err(error) = consensus.change_members(MemberChange::Transfer(next.id)).await {
            return tracing::debug!(%error, "leadership was not handed over");
        }
        while consensus.leads() {
            host.sleep(Duration::from_millis(20)).await;
        }
    };
    if host.timeout(HAND_OVER, handing).await.is_err() {
        tracing::debug!(to = %next.id, "leadership was not handed over in time");
    }
}
