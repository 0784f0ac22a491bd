//! The parts of a running node, each its own task. Later ones use earlier ones; dropping the whole ends all of them.

use std::sync::Arc;
use std::time::Duration;

use base::Stamp;
use mesh::Links;
use seam::{Bound, Host, Stop, Stopper, Task};
use tokio::sync::watch;

use super::accept::{Acceptor, Calls};
use super::{Node, probes};
use crate::admin::{self, Door};
use crate::metrics::Watched;
use crate::publish::{self, Publisher};
use crate::sessions::Sessions;
use crate::status::Overview;
use crate::usage::clickhouse::Shipper;

/// Between two looks whether the links to the other members stand.
const LINKS: Duration = Duration::from_secs(2);

/// The tasks of a running node.
pub(super) struct Parts {
    admin: Task<Result<(), rustls::Error>>,
    calls: Calls,
    level: watch::Receiver<u16>,
    /// Traces are sent until the last relayed call has ended.
    sending: Stopper,
    _others: Vec<Bound<()>>,
}

impl Parts {
    /// Starts them all; most end at `stop`, the rest when this is dropped.
    pub(super) fn start(node: Node, stop: &Stop) -> Self {
        let Node {
            host,
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
            ..
        } = node;
        let links = Links::new(endpoint.clone());
        let egress = relay.egress().clone();
        let sessions = Sessions::new(&host, &consensus, stop.clone());
        let overview = Overview {
            host: host.clone(),
            consensus: consensus.clone(),
            sessions: sessions.clone(),
            links: links.clone(),
            relay: relay.clone(),
        };
        let (publisher, published) = watch::channel(Stamp::default());
        let (raised, level) = watch::channel(consensus.read(central_core::State::level));
        let carrying = Publisher {
            consensus: consensus.clone(),
            sessions: sessions.clone(),
            relay: relay.clone(),
            metrics: Arc::clone(&metrics),
            level: raised,
        };
        let calls = Calls::default();
        let acceptor = Acceptor {
            host: host.clone(),
            endpoint,
            consensus: consensus.clone(),
            sessions: sessions.clone(),
            relay,
            overview: overview.clone(),
            usage: usage.clone(),
            calls: calls.clone(),
            draining: stop.clone(),
        };
        let pulse =
            publish::pulse(host.clone(), consensus.clone(), sessions.clone(), published, stop.clone());
        let door = Door {
            host: host.clone(),
            consensus: consensus.clone(),
            overview: overview.clone(),
            keys,
            metrics: Arc::clone(&metrics),
            usage: usage.clone(),
        };
        let mut others = vec![
            host.spawn("publish", carrying.run(events, publisher)).bound(),
            host.spawn("mesh-accept", acceptor.run()).bound(),
            host.spawn("pulse", pulse).bound(),
            host.spawn("links", keep_links(overview, stop.clone())).bound(),
            writing,
        ];
        others.extend(usage.tasks(&consensus, &links));
        if let Some(listener) = probes {
            let probing =
                probes::serve(host.clone(), listener, sessions.clone(), Arc::clone(&metrics), stop.clone());
            others.push(host.spawn("probes", probing).bound());
        }
        let shipping = sink.map(|sink| Shipper::start(&host, (&consensus, &usage), sink, stop));
        let (shipping, shipped) = shipping.unzip();
        others.extend(shipping);
        let watched = Watched { consensus, sessions, links, usage, egress, shipped };
        others.push(host.spawn("metrics", metrics.watch(host.clone(), watched, stop.clone())).bound());
        let (rotating, until, closed) = (credentials.clone(), stop.clone(), stop.clone());
        others.push(host.spawn("credentials", async move { rotating.watch(until).await }).bound());
        let serving = async move { admin::serve(Arc::new(door), admin, &credentials, closed).await };
        Self { admin: host.spawn("admin", serving), calls, level, sending, _others: others }
    }

    /// Waits until the mesh uses a level that this build, which knows up to `newest`, does not know.
    pub(super) async fn outgrown(&self, newest: u16) -> String {
        let mut level = self.level.clone();
        let known = level.wait_for(|level| *level > newest).await.map(|level| *level);
        let Ok(level) = known else {
            // Whoever told levels has ended with the node's log, which says why.
            return std::future::pending().await;
        };
        format!("the mesh uses level {level}, this build knows up to {newest}; upgrade it")
    }

    /// Waits for operators' requests and relayed calls under way, at most `longest`.
    pub(super) async fn drain(self, host: &Host, longest: Duration) {
        let Self { admin, calls, level: _, sending, _others: others } = self;
        let drained = async {
            if let Ok(Err(error)) = admin.await {
                tracing::error!(%error, "operators could not be served");
            }
            calls.ended().await;
        };
        if host.timeout(longest, drained).await.is_err() {
            tracing::warn!(calls = calls.count(), "calls were still in progress when the node stopped");
        }
        drop((others, sending));
    }
}

async fn keep_links(overview: Overview, stop: Stop) {
    while !stop.is_wanted() {
        overview.keep_links().await;
        tokio::select! {
            biased;
            () = stop.wanted() => {}
            () = overview.host.sleep(LINKS) => {}
        }
    }
}
