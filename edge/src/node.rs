//! An edge: built in the order its parts need one another, its addresses bound before anything else, run until it is
//! told to stop, and drained: nothing new is taken, every call in progress ends, what was granted goes back.

mod upstreams;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::Role;
use edge_core::limits::Gate;
use egress::{Egress, Options, Room};
use mesh::{Credentials, CredentialsError, Endpoint, Identity, MeshError};
use seam::{Gone, Host, Lock, Stop, Stopper, Task};
use telemetry::metrics::EdgeMetrics;
use telemetry::record::Recorder;
use telemetry::trace::{self, TraceError, Tracer};
use wal::WalError;

use crate::call::{self, Edge};
use crate::config::Config;
use crate::counting::Counting;
use crate::dice::Dice;
use crate::dispatch::Dispatcher;
use crate::hall::Hall;
pub use crate::ingress::{BindError, TlsError};
use crate::ingress::{Flows, Handler, Listeners};
use crate::link::{self, Link, LinkError};
use crate::metrics::Counters;
use crate::peers::{self, Calls, Serving};
use crate::purse::{Purse, StorageError};
use crate::refusals::Refusals;
use crate::routing::View;
use crate::scenarios::Scenarios;
use crate::snapshot::Snapshots;

/// How long links and pools may take to stand before the node calls itself ready without them.
const WARM: Duration = Duration::from_secs(2);

/// How often a node that starts looks whether they stand.
const LOOK: Duration = Duration::from_millis(20);

/// A node cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Its credentials cannot be used.
    #[error("the node's credentials cannot be used")]
    Credentials(#[from] CredentialsError),
    /// Its certificate is of another kind of node.
    #[error("the certificate in {} is of a node of role {role}, an edge needs one of role edge", dir.display())]
    Role {
        /// Directory of the credentials.
        dir: PathBuf,
        /// The role it names.
        role: Role,
    },
    /// An address for callers cannot be served.
    #[error("callers cannot be served")]
    Bind(#[from] BindError),
    /// The mesh endpoint cannot be opened.
    #[error("the mesh cannot be joined")]
    Mesh(#[from] MeshError),
    /// The journal or the receipt spool cannot be used.
    #[error("the data directory cannot be used")]
    Storage(#[from] StorageError),
    /// Another process runs with its identity.
    #[error("the node's identity was taken")]
    Link(#[from] LinkError),
    /// Authorities for model servers cannot be used.
    #[error("the authorities for model servers cannot be used: {0}")]
    Authorities(String),
    /// Traces cannot be sent.
    #[error("traces cannot be sent")]
    Traces(#[from] TraceError),
}

impl NodeError {
    /// What to do about it, where that does not follow from its words.
    #[must_use]
    pub const fn mend(&self) -> Option<&'static str> {
        match self {
            Self::Storage(StorageError::Wal(WalError::Corrupt { .. })) => Some(
                "once the disk is good, move the data directory away and start with an empty one: central charges what this edge may have spent beyond its receipts",
            ),
            _other => None,
        }
    }
}

/// Runs an edge until `stop`, then drains it.
///
/// # Errors
/// [`NodeError`] when it cannot start, or when another process took over its identity.
pub async fn run(host: Host, config: Config, stop: Stop) -> Result<(), NodeError> {
    Node::bind(host, config).await?.run(stop).await
}

/// An edge whose addresses are bound and not yet served.
#[derive(Debug)]
pub struct Node {
    host: Host,
    config: Config,
    credentials: Credentials,
    identity: Identity,
    listeners: Listeners,
    endpoint: Endpoint,
}

impl Node {
    /// Reads the node's credentials and binds its addresses.
    ///
    /// # Errors
    /// [`NodeError`] names what is wrong.
    pub async fn bind(host: Host, config: Config) -> Result<Self, NodeError> {
        let credentials = Credentials::load(&host, &config.mesh.credentials).await?;
        let identity = credentials.identity();
        if identity.role != Role::Edge {
            let dir = config.mesh.credentials.clone();
            return Err(NodeError::Role { dir, role: identity.role });
        }
        let listeners = Listeners::bind(&host, &config.ingress, config.guard).await?;
        let endpoint = Endpoint::bind(&host, config.mesh.listen, credentials.clone())?;
        Ok(Self { host, config, credentials, identity, listeners, endpoint })
    }

    /// Where callers reach it, in the configuration's order.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.addresses()
    }

    /// Where other nodes reach it.
    ///
    /// # Errors
    /// [`NodeError::Mesh`] when the endpoint is gone.
    pub fn mesh_address(&self) -> Result<SocketAddr, NodeError> {
        match self.config.mesh.advertise {
            Some(address) => Ok(address),
            None => Ok(self.endpoint.local_addr()?),
        }
    }

    /// Serves until `stop`, then drains.
    ///
    /// # Errors
    /// [`NodeError`] when a part cannot start, or when another process took over the node's identity.
    pub async fn run(self, stop: Stop) -> Result<(), NodeError> {
        let (draining, drain) = Stopper::new();
        // What outlives the last call ends when this goes.
        let (rest, until_rest) = Stopper::new();
        let (host, lame_duck) = (self.host.clone(), self.config.lame_duck);
        let mut running = self.start(&drain, &until_rest).await?;
        tracing::info!(node = %running.edge.node, region = %running.edge.region, "the edge serves");
        let ended = running.until(&stop).await;
        if ended.is_ok() && !lame_duck.is_zero() {
            tracing::info!(
                for_ms = lame_duck.as_millis(),
                "the edge leaves: it says so to who asks whether it is ready"
            );
            running.edge.leaving.store(true, Ordering::Relaxed);
            host.sleep(lame_duck).await;
        }
        tracing::info!("the edge drains: it takes nothing new and ends what is in progress");
        draining.stop();
        running.drain().await;
        rest.stop();
        running.rest().await;
        ended
    }

    /// Starts every part, in the order they need one another.
    pub(crate) async fn start(self, drain: &Stop, rest: &Stop) -> Result<Running, NodeError> {
        let Self { host, config, credentials, identity, listeners, endpoint } = self;
        let metrics = EdgeMetrics::new();
        let tracer = tracer(&host, &config, &identity, &metrics, rest)?;
        let sink = config.record.sink.clone();
        let recorder = Recorder::start(&host, sink, metrics.records_dropped.clone(), rest.clone());
        let snapshots = Snapshots::new(identity.region.clone());
        let (purse, keeper) = Purse::open(&host, &config.data).await?;
        let advertise = match config.mesh.advertise {
            Some(address) => address,
            None => endpoint.local_addr()?,
        };
        let options = link::Options {
            seeds: config.central.clone(),
            advertise,
            data: config.data.clone(),
            draining: drain.clone(),
        };
        let serving = egress_options(&host, &config, &identity, &metrics).await?;
        let bodies = serving.bodies.clone();
        let egress = Egress::new(&host, Options { tracer: tracer.clone(), ..serving });
        let (links, counting) = (mesh::Links::new(endpoint.clone()), Counting::new());
        let link = Link::open(&host, links.clone(), options, (&snapshots, &purse, &counting)).await;
        let (view, flows, refusals) = (View::default(), Flows::default(), Refusals::default());
        let edge = Arc::new(Edge {
            host: host.clone(),
            node: identity.node.clone(),
            region: identity.region.clone(),
            guard: config.guard,
            debug: config.debug,
            snapshots: snapshots.clone(),
            gate: Arc::new(Lock::new(Gate::new(config.guard.limits))),
            hall: Hall::new(&host, &metrics),
            bodies,
            counting,
            purse,
            dispatcher: Dispatcher::new(&host, egress.clone(), links.clone(), view.clone()),
            metrics: Counters::new(metrics),
            recorder,
            refusals: refusals.clone(),
            scenarios: Scenarios::default(),
            sampling: config.record.sampling,
            tracer,
            traced_per_mille: config.traces.as_ref().map_or(0, |traces| traces.sample_per_mille),
            dice: Dice::new(&host),
            flows: flows.clone(),
            left: Calls::new(),
            warm: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            draining: drain.clone(),
        });
        keep_tokenizers(&edge, config.tokenizers.clone(), rest.clone());
        let calls = Calls::new();
        drop(host.spawn("flows", flows.watch(host.clone(), config.guard.stall_time, rest.clone())));
        let follow = view.clone().follow(host.clone(), identity.node, snapshots, links, rest.clone());
        let serving =
            Serving { egress: egress.clone(), draining: drain.clone(), calls: calls.clone(), refusals };
        watch(&host, credentials, rest.clone());
        drop(host.spawn("links", follow));
        drop(host.spawn("peers", peers::serve(host.clone(), endpoint.clone(), serving)));
        drop(host.spawn("apply", apply(Arc::clone(&edge), egress.clone(), rest.clone())));
        drop(host.spawn("warm", warm(Arc::clone(&edge), egress, view, rest.clone())));
        let (leaving, leave) = Stopper::new();
        let linking = host.spawn("link", link.run(leave));
        let (closing, close) = Stopper::new();
        let keeping = host.spawn("purse", keeper.run(close));
        let listening = host.spawn("listeners", listen(listeners, Arc::clone(&edge), drain.clone()));
        Ok(Running {
            host,
            edge,
            endpoint,
            calls,
            patience: config.drain,
            listening: Some(listening),
            linking: Some(linking),
            leaving,
            keeping: Some(keeping),
            closing,
        })
    }
}

/// Follows the node's certificates.
fn watch(host: &Host, credentials: Credentials, until: Stop) {
    drop(host.spawn("credentials", async move { credentials.watch(until).await }));
}

/// Reads the tokenizers that models name, from files in `dir`.
fn keep_tokenizers(edge: &Edge, dir: PathBuf, stop: Stop) {
    let (host, snapshots, metrics) = (edge.host.clone(), edge.snapshots.clone(), edge.metrics.edge().clone());
    let following = edge.counting.clone().follow(host, dir, snapshots, metrics, stop);
    drop(edge.host.spawn("tokenizers", following));
}

fn tracer(
    host: &Host,
    config: &Config,
    identity: &Identity,
    metrics: &EdgeMetrics,
    stop: &Stop,
) -> Result<Tracer, NodeError> {
    let Some(traces) = &config.traces else { return Ok(Tracer::default()) };
    let node = trace::Node {
        service: "portolan-edge",
        name: identity.node.to_string(),
        region: identity.region.to_string(),
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(Tracer::otlp(host, &traces.endpoint, &node, metrics.spans_dropped.clone(), stop.clone())?)
}

async fn egress_options(
    host: &Host,
    config: &Config,
    identity: &Identity,
    metrics: &EdgeMetrics,
) -> Result<Options, NodeError> {
    let refused = |error: &dyn std::fmt::Display| NodeError::Authorities(error.to_string());
    let tls = match &config.upstream_authorities {
        Some(file) => {
            let pem = host.disk().read(file).await.map_err(|error| refused(&error))?;
            egress::Tls::with_authorities(&pem).map_err(|error| refused(&error))?
        }
        None => egress::Tls::public().map_err(|error| refused(&error))?,
    };
    let room = || Room::new(config.guard.held_bytes);
    let queue = metrics.queue("server");
    let usual = Options::new(identity.node.clone());
    Ok(Options { tls: Some(tls), bodies: room(), answers: room(), queue, ..usual })
}

/// Serves callers until `drain`.
async fn listen(listeners: Listeners, edge: Arc<Edge>, drain: Stop) {
    let metrics = edge.metrics.edge().clone();
    let handler: Handler =
        Arc::new(move |request, via| Box::pin(call::handle(Arc::clone(&edge), request, Arc::clone(via))));
    listeners.run(&handler, &metrics, drain).await;
}

/// Puts each configuration in force in the parts that hold something of it.
async fn apply(edge: Arc<Edge>, egress: Egress, stop: Stop) {
    let mut changes = edge.snapshots.watch();
    let mut last = None;
    while !stop.is_wanted() {
        let snapshot = edge.snapshots.load();
        if last != Some(snapshot.stamp()) {
            last = Some(snapshot.stamp());
            edge.metrics.resolve(snapshot.catalog());
            egress.install(upstreams::of(snapshot.catalog(), &edge.region));
            edge.hall.serve();
        }
        tokio::select! {
            biased;
            () = stop.wanted() => return,
            () = changes.next() => {}
        }
    }
}

/// Calls the node warm once it has a configuration and its links and pools stand, or had their time.
async fn warm(edge: Arc<Edge>, egress: Egress, view: View, stop: Stop) {
    let host = &edge.host;
    while edge.snapshots.age(host.now()) == Duration::MAX && !stop.is_wanted() {
        host.sleep(LOOK).await;
    }
    let until = host.now() + WARM;
    let stands = || {
        let links = view.load();
        let linked = links.edges().iter().chain(links.central()).all(|link| link.rtt.is_some());
        linked && egress.instances().iter().all(|instance| instance.idle > 0 || !instance.serving)
    };
    while !stands() && host.now() < until && !stop.is_wanted() {
        host.sleep(LOOK).await;
    }
    edge.warm.store(true, Ordering::Relaxed);
}

/// An edge that serves. Its parts end in the order in which they need one another.
#[derive(Debug)]
pub(crate) struct Running {
    host: Host,
    pub(crate) edge: Arc<Edge>,
    endpoint: Endpoint,
    calls: Calls,
    patience: Duration,
    listening: Option<Task<()>>,
    linking: Option<Task<Result<(), LinkError>>>,
    leaving: Stopper,
    keeping: Option<Task<Result<(), StorageError>>>,
    closing: Stopper,
}

impl Running {
    /// Waits until the node is told to stop or cannot go on.
    async fn until(&mut self, stop: &Stop) -> Result<(), NodeError> {
        tokio::select! {
            biased;
            () = stop.wanted() => Ok(()),
            ended = ended(&mut self.linking) => ended.map_err(NodeError::from),
            ended = ended(&mut self.keeping) => ended.map_err(NodeError::from),
        }
    }

    /// Waits until every call in progress has ended, of callers and of other nodes, or the patience is over.
    pub(crate) async fn drain(&mut self) {
        let (listening, calls, left) = (&mut self.listening, &self.calls, &self.edge.left);
        let every_call = async {
            if let Some(listening) = listening.take() {
                let _ended: Result<(), Gone> = listening.await;
            }
            calls.ended().await;
            left.ended().await;
        };
        if self.host.timeout(self.patience, every_call).await.is_err() {
            let left = self.edge.gate.lock().in_progress().0;
            tracing::warn!(calls = left, "calls are cut off: they took longer than a drain may");
        }
    }

    /// Goes away as a process that dies, but for a word to the mesh.
    #[cfg(test)]
    pub(crate) async fn abandon(self) {
        self.endpoint.close("dies").await;
    }

    /// Tells central what was spent and gives back the rest, then closes the books and the mesh.
    async fn rest(mut self) {
        self.leaving.stop();
        if let Err(error) = ended(&mut self.linking).await {
            tracing::warn!(%error, "central was not told");
        }
        self.closing.stop();
        if let Err(error) = ended(&mut self.keeping).await {
            tracing::error!(error = &error as &dyn std::error::Error, "the books could not be closed");
        }
        self.endpoint.close("the node leaves").await;
    }
}

/// How a part ended; one that ended before ends well and at once.
async fn ended<E>(part: &mut Option<Task<Result<(), E>>>) -> Result<(), E> {
    let Some(task) = part else { return Ok(()) };
    let ended = task.await;
    *part = None;
    ended.unwrap_or(Ok(()))
}
