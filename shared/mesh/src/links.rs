//! One kept connection per node: dialled once however many ask, dropped when dead, tried again with growing patience.
//!
//! Two nodes of one role need one connection between them: what one of them dialled, the other uses, too, and both answer
//! what comes on it. So that they do not both dial, the one whose name comes later waits a moment ([`Links::prepare`])
//! unless it needs the connection at once ([`Links::connect`]).
//!
//! A failed dial is remembered for a while ([`MeshError::BackingOff`]), so that callers go elsewhere at once and a
//! returning node meets no storm. Nobody who gives up waiting ends the dial that others wait for, and nobody waits long
//! for a node that has just failed: the dial goes on behind them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{Mono, Name};
use seam::Lock;
use tokio::sync::watch;
use wire::control::NodeAddr;

use crate::{Connection, Endpoint, Expect, MeshError, Purpose};

/// Patience after the first failure; doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest patience with a node for calls; there are others to go to.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Longest patience with a member of the consensus; nobody stands in for it.
const LONGEST_CONSENSUS_PAUSE: Duration = Duration::from_millis(500);

/// How long a caller waits for a node whose last dial failed, or whose dial has taken this long already.
const DOUBT: Duration = Duration::from_millis(300);

/// How long the node whose name comes later leaves it to the other to dial.
const COURTESY: Duration = Duration::from_millis(1_500);

/// Connections to nodes, for one purpose. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Links {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    endpoint: Endpoint,
    purpose: Purpose,
    links: Lock<BTreeMap<Name, Arc<Link>>>,
}

#[derive(Debug)]
struct Link {
    to: NodeAddr,
    live: Lock<Option<Connection>>,
    failures: Lock<Failures>,
    /// What the dial under way will come to.
    dial: Lock<Option<Dial>>,
    /// Since when somebody looks for a connection and finds none.
    missed: Lock<Option<Mono>>,
}

/// A dial under way.
#[derive(Clone, Debug)]
struct Dial {
    since: Mono,
    /// What it came to, once it is over.
    done: watch::Receiver<Option<Result<Connection, MeshError>>>,
}

#[derive(Debug, Default)]
struct Failures {
    count: u32,
    next_try: Mono,
    last: String,
}

impl Links {
    /// Links for calls and control.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self::for_purpose(endpoint, Purpose::Calls)
    }

    /// Links for `purpose`.
    #[must_use]
    pub fn for_purpose(endpoint: Endpoint, purpose: Purpose) -> Self {
        Self { shared: Arc::new(Shared { endpoint, purpose, links: Lock::default() }) }
    }

    /// The endpoint they go out from.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// A live connection to `node`.
    ///
    /// # Errors
    /// [`MeshError`] when it cannot be reached, refuses or is refused, or when the last try failed a moment ago.
    pub async fn connect(&self, node: &NodeAddr) -> Result<Connection, MeshError> {
        let link = self.link(node);
        if let Some(live) = self.standing(&link) {
            return Ok(live);
        }
        let host = self.shared.endpoint.host();
        let failed_before = link.failures.lock().check(host.now())?;
        let dial = self.dial_under_way(&link);
        let is_doubtful = failed_before || host.now().since(dial.since) >= DOUBT;
        let dialled = dialled(dial);
        if is_doubtful {
            let unreachable = Err(MeshError::Unreachable { remote: node.mesh });
            host.timeout(DOUBT, dialled).await.unwrap_or(unreachable)
        } else {
            dialled.await
        }
    }

    /// Dials `node` unless it is connected, is being dialled, failed a moment ago, or may be expected to dial this node;
    /// waits for nothing. For those who keep links up: asked again and again, it dials in the end.
    pub fn prepare(&self, node: &NodeAddr) {
        let link = self.link(node);
        if self.standing(&link).is_some() {
            return;
        }
        let now = self.shared.endpoint.host().now();
        let missed = *link.missed.lock().get_or_insert(now);
        let may_dial = link.failures.lock().check(now).is_ok();
        if may_dial && (now.since(missed) >= COURTESY || self.dials_first(&link.to)) {
            drop(self.dial_under_way(&link));
        }
    }

    fn dials_first(&self, to: &NodeAddr) -> bool {
        let endpoint = &self.shared.endpoint;
        !endpoint.shares_with(to.role) || endpoint.identity().node < to.name
    }

    /// The kept connection to `node` if it is live; never dials.
    #[must_use]
    pub fn live(&self, node: &Name) -> Option<Connection> {
        let link = self.shared.links.lock().get(node).cloned();
        link.and_then(|link| link.live())
    }

    /// Round trips of the live connections.
    #[must_use]
    pub fn rtts(&self) -> Vec<(Name, Duration)> {
        let links = self.shared.links.lock();
        links.iter().filter_map(|(name, link)| Some((name.clone(), link.live()?.rtt()))).collect()
    }

    /// Closes and forgets links to all nodes but those `wanted`.
    pub fn retain(&self, wanted: impl Fn(&Name) -> bool) {
        self.shared.links.lock().retain(|name, link| {
            let keep = wanted(name);
            if let Some(live) = link.live().filter(|_live| !keep) {
                live.close("the node left the mesh");
            }
            keep
        });
    }

    /// The connection to a link's node: the one kept, or one that the node dialled and both share.
    fn standing(&self, link: &Link) -> Option<Connection> {
        let live = link.live().or_else(|| self.shared_with(link));
        if live.is_some() {
            *link.missed.lock() = None;
        }
        live
    }

    fn shared_with(&self, link: &Link) -> Option<Connection> {
        let endpoint = &self.shared.endpoint;
        if !endpoint.shares_with(link.to.role) {
            return None;
        }
        let found = endpoint.standing(self.shared.purpose, &link.to.name)?;
        let is_there = canonical(found.remote()) == canonical(link.to.mesh);
        let is_the_node = is_there && Expect::node(&link.to).check(found.peer()).is_ok();
        let found = is_the_node.then_some(found)?;
        *link.failures.lock() = Failures::default();
        *link.live.lock() = Some(found.clone());
        Some(found)
    }

    fn longest_pause(&self) -> Duration {
        match self.shared.purpose {
            Purpose::Calls => LONGEST_PAUSE,
            Purpose::Consensus => LONGEST_CONSENSUS_PAUSE,
        }
    }

    /// The link to `node`; a new one when it moved.
    fn link(&self, node: &NodeAddr) -> Arc<Link> {
        let mut links = self.shared.links.lock();
        match links.get(&node.name).filter(|link| link.to == *node) {
            Some(link) => Arc::clone(link),
            None => {
                let link = Arc::new(Link::new(node.clone()));
                links.insert(node.name.clone(), Arc::clone(&link));
                link
            }
        }
    }

    /// The dial under way, or a new one. It runs as its own task: it is nobody's alone, and who leaves leaves nothing
    /// behind.
    fn dial_under_way(&self, link: &Arc<Link>) -> Dial {
        let mut dial = link.dial.lock();
        // One whose task is gone ended with the process.
        if let Some(under_way) = dial.as_ref().filter(|dial| dial.done.has_changed().is_ok()) {
            return under_way.clone();
        }
        let (done, coming) = watch::channel(None);
        let host = self.shared.endpoint.host();
        let under_way = Dial { since: host.now(), done: coming };
        *dial = Some(under_way.clone());
        let (links, link) = (self.clone(), Arc::clone(link));
        drop(host.spawn("mesh-dial", async move {
            let dialled = links.dial(&link).await;
            *link.dial.lock() = None;
            done.send_replace(Some(dialled));
        }));
        under_way
    }

    async fn dial(&self, link: &Link) -> Result<Connection, MeshError> {
        let host = self.shared.endpoint.host();
        // Another dial may have ended since somebody looked.
        if let Some(live) = self.standing(link) {
            return Ok(live);
        }
        link.failures.lock().check(host.now())?;
        let expect = Expect::node(&link.to);
        let dialled = self.shared.endpoint.connect(link.to.mesh, &expect, self.shared.purpose).await;
        if let Ok(connection) = &dialled
            && self.shared.endpoint.shares_with(link.to.role)
        {
            self.shared.endpoint.share(connection).await;
        }
        let mut failures = link.failures.lock();
        match &dialled {
            Ok(connection) => {
                *failures = Failures::default();
                *link.live.lock() = Some(connection.clone());
            }
            Err(error) => {
                tracing::debug!(node = %link.to.name, %error, "a link does not stand");
                failures.count = failures.count.saturating_add(1);
                failures.next_try =
                    host.now() + pause(failures.count, host.random_u64(), self.longest_pause());
                failures.last = error.to_string();
            }
        }
        dialled
    }
}

impl Failures {
    /// Whether the last dial failed.
    ///
    /// # Errors
    /// [`MeshError::BackingOff`] while it is too early for the next.
    fn check(&self, now: Mono) -> Result<bool, MeshError> {
        if now < self.next_try {
            let retry_in = self.next_try.since(now);
            return Err(MeshError::BackingOff { retry_in, last: self.last.clone() });
        }
        Ok(self.count > 0)
    }
}

impl Link {
    fn new(to: NodeAddr) -> Self {
        Self {
            to,
            live: Lock::default(),
            failures: Lock::default(),
            dial: Lock::default(),
            missed: Lock::default(),
        }
    }

    fn live(&self) -> Option<Connection> {
        let mut live = self.live.lock();
        if live.as_ref().is_some_and(|connection| !connection.is_open()) {
            *live = None;
        }
        live.clone()
    }
}

/// An address without the form that IPv6 sockets give to those of IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

async fn dialled(mut dial: Dial) -> Result<Connection, MeshError> {
    let stopping = || MeshError::Closed("the node is stopping".to_owned());
    let done = dial.done.wait_for(Option::is_some).await.map_err(|_gone| stopping())?;
    done.clone().ok_or_else(stopping)?
}

/// Time to wait after the `failures`th failure in a row, between half of it and all of it by `drawn`.
fn pause(failures: u32, drawn: u64, longest: Duration) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let half = FIRST_PAUSE.saturating_mul(1 << doublings).min(longest) / 2;
    half + half.mul_f64(f64::from(u32::try_from(drawn >> 32).unwrap_or(0)) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_grows_to_a_bound_and_is_never_the_same_for_all() {
        assert_eq!(pause(1, 0, LONGEST_PAUSE), Duration::from_millis(50));
        assert_eq!(pause(1, u64::MAX, LONGEST_PAUSE), Duration::from_millis(100));
        assert_eq!(pause(2, u64::MAX, LONGEST_PAUSE), Duration::from_millis(200));
        assert_eq!(pause(u32::MAX, u64::MAX, LONGEST_PAUSE), LONGEST_PAUSE);
    }
}
