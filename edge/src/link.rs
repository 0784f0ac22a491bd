//! The edge's session with central: one control stream to the nearest central node that can serve it.
//!
//! Decided here: which central node to attach to, when to leave it for another, and what an edge without central does
//! (it serves on from its last snapshot and from what its journal proves). What is said in a session is
//! [`session`]'s; how a snapshot is kept on disk is [`saved`]'s. A process whose identity was taken by a newer one ends
//! with [`LinkError::Superseded`].

mod pump;
mod saved;
mod session;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{Mono, Name, Role};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mesh::{Connection, Expect, Links, MeshError, Purpose};
use seam::{Host, Stop};
use settings::HostPort;
use wire::control::NodeAddr;

use crate::counting::Counting;
use crate::purse::Purse;
use crate::snapshot::Snapshots;
use session::Session;

/// A central node that does not answer a dial within this time is tried again after others.
const DIAL: Duration = Duration::from_millis(800);
/// After the first central node answered, others may still answer within this time and be nearer.
const RACE: Duration = Duration::from_millis(30);
/// Pause between rounds over all central nodes: the first, doubled with each round in vain up to the last.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(800));
/// How often the distance to the attached central node is compared with the others'.
const COMPARE: Duration = Duration::from_secs(10);
/// A central node must be nearer by this much, and by half, to be worth a new session.
const NEARER: Duration = Duration::from_millis(10);
/// Without central for this long after the start, the journal's newest incarnation is taken up again.
const ALONE: Duration = Duration::from_secs(1);
/// No central node for this long is worth a warning: nodes that start together and elections take less.
const ABSENT: Duration = Duration::from_secs(3);
/// Leaving in good order takes at most this long.
const LEAVE: Duration = Duration::from_secs(5);

/// Most addresses of one seed that are dialled.
const ADDRESSES: usize = 8;

/// What a link is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Mesh endpoints of central nodes to begin with. Names are looked up at each dial.
    pub seeds: Vec<HostPort>,
    /// Where other nodes reach this one's mesh endpoint.
    pub advertise: SocketAddr,
    /// The directory that keeps the last snapshot.
    pub data: PathBuf,
    /// From here on the node takes no new calls; central hears of it.
    pub draining: Stop,
}

/// Why a link ended for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Another process registered with this node's identity; this one must stop admitting calls and exit.
    #[error(
        "another process registered with this node's certificate and took over; give every node a certificate of its own \
         (`portolan pki issue`), and stop a node before it is started elsewhere"
    )]
    Superseded,
}

/// The link to central.
#[derive(Debug)]
pub struct Link {
    host: Host,
    links: Links,
    options: Options,
    session: Session,
}

/// How one session ended.
#[derive(Debug)]
enum Ended {
    /// Asked to stop, and left in good order or in time.
    Left,
    /// The identity was taken.
    Superseded,
    /// A nearer central node answers.
    Moved,
    /// Anything else; another session is tried.
    Lost(String),
}

/// How one round over the central nodes ended.
#[derive(Debug)]
enum Round {
    /// The link ends.
    End(Result<(), LinkError>),
    /// A session with this node stood for a while.
    Attached(Name),
    /// No central node took this edge.
    InVain,
}

impl Link {
    /// A link that has not yet begun. Reads the snapshot kept on disk and puts it in force.
    pub(crate) async fn open(
        host: &Host,
        links: Links,
        options: Options,
        (snapshots, purse, counting): (&Snapshots, &Purse, &Counting),
    ) -> Self {
        let path = snapshot_path(&options.data);
        saved::restore(host, &path, snapshots, purse).await;
        let told = (snapshots.clone(), purse.clone(), counting.clone());
        let session = Session::new(host, options.advertise, options.draining.clone(), told);
        Self { host: host.clone(), links, options, session }
    }

    /// Keeps a session with central until asked to stop, then leaves in good order. All calls should have settled by
    /// then.
    ///
    /// # Errors
    /// [`LinkError::Superseded`]: the node must stop admitting calls and exit.
    pub async fn run(self, stop: Stop) -> Result<(), LinkError> {
        let saver = saved::keep(&self.host, &snapshot_path(&self.options.data), self.session.snapshots());
        let attach = async {
            let mut pause = PAUSE.0;
            let mut lost = None;
            let mut absence = Absence::default();
            loop {
                match self.attach(&stop, lost.take()).await {
                    Round::End(result) => return result,
                    Round::Attached(node) => {
                        (pause, lost, absence) = (PAUSE.0, Some(node), Absence::default());
                    }
                    Round::InVain => {
                        absence.lasts(self.host.now());
                        tokio::select! {
                            biased;
                            () = stop.wanted() => return Ok(()),
                            () = self.host.sleep(pause) => pause = (pause * 2).min(PAUSE.1),
                        }
                    }
                }
            }
        };
        tokio::select! {
            biased;
            result = attach => result,
            never = saver => match never {},
            never = self.watch_loneliness() => match never {},
            never = self.keep_neighbours() => match never {},
        }
    }

    /// One round: dials central nodes and attaches to the nearest that takes this edge, for as long as that lasts. The
    /// node whose session was `lost` is asked last: its connection may look alive long after it went silent.
    async fn attach(&self, stop: &Stop, lost: Option<Name>) -> Round {
        let mut found = tokio::select! {
            biased;
            () = stop.wanted() => return Round::End(Ok(())),
            found = self.nearest() => found,
        };
        found.sort_by_key(|connection| lost.as_ref() == Some(&connection.peer().node));
        for connection in found {
            let node = connection.peer().node.clone();
            let ended = self.serve(&connection, stop).await;
            let attached = self.session.is_welcomed();
            self.session.ended();
            match ended {
                Ended::Left => return Round::End(Ok(())),
                Ended::Superseded => return Round::End(Err(LinkError::Superseded)),
                Ended::Moved => tracing::info!(central = %node, "leaving for a nearer central node"),
                Ended::Lost(why) if attached => {
                    tracing::warn!(central = %node, %why, "the session with central ended");
                }
                Ended::Lost(why) => tracing::debug!(central = %node, %why, "a central node takes no session"),
            }
            if stop.is_wanted() {
                return Round::End(Ok(()));
            }
            if attached {
                return Round::Attached(node);
            }
        }
        Round::InVain
    }

    async fn serve(&self, connection: &Connection, stop: &Stop) -> Ended {
        let session = pump::run(&self.host, &self.session, connection);
        tokio::pin!(session);
        tokio::select! {
            biased;
            ended = &mut session => return ended,
            () = self.nearer_than(connection) => return Ended::Moved,
            () = stop.wanted() => {}
        }
        self.session.leave();
        match self.host.timeout(LEAVE, session).await {
            Ok(ended) => ended,
            Err(seam::Late) => {
                tracing::warn!("left central before everything was acknowledged; the next start reports it");
                Ended::Left
            }
        }
    }

    /// Waits until another central node is much nearer.
    async fn nearer_than(&self, attached: &Connection) {
        loop {
            self.host.sleep(COMPARE).await;
            let far = attached.rtt();
            let nodes = self.session.snapshots().nodes();
            let centrals = nodes.iter().filter(|node| node.role == Role::Central);
            let mut others = centrals.filter_map(|node| self.links.live(&node.name));
            if others.any(|other| other.rtt() + NEARER < far && other.rtt() * 2 < far) {
                return;
            }
        }
    }

    /// Connections to central nodes, the nearest first. Empty when none answered.
    async fn nearest(&self) -> Vec<Connection> {
        let mut dials: FuturesUnordered<_> = self.targets().into_iter().map(|to| self.dial(to)).collect();
        let mut found: Vec<Connection> = Vec::new();
        let mut until = self.host.now() + DIAL;
        while let Ok(Some(dialled)) = self.host.timeout(until.since(self.host.now()), dials.next()).await {
            match dialled {
                Ok(connection) => {
                    until = until.min(self.host.now() + RACE);
                    found.push(connection);
                }
                Err(error) => tracing::debug!(%error, "a central node does not answer"),
            }
        }
        found.sort_by_key(|connection| (connection.rtt(), connection.peer().node.clone()));
        found.dedup_by_key(|connection| connection.peer().node.clone());
        found
    }

    async fn dial(&self, target: Target) -> Result<Connection, MeshError> {
        match target {
            Target::Node(node) => self.links.connect(&node).await,
            Target::Seed(at) => self.dial_seed(&at).await,
        }
    }

    /// All addresses of a seed at once; the first that answers wins.
    async fn dial_seed(&self, seed: &HostPort) -> Result<Connection, MeshError> {
        let failed = |why: &dyn std::fmt::Display| MeshError::Closed(format!("{seed}: {why}"));
        let addresses = match seed.address() {
            Some(address) => vec![address],
            None => self.host.lookup(&seed.host, seed.port).await.map_err(|error| failed(&error))?,
        };
        let nodes = self.session.snapshots().nodes();
        let unknown = addresses.into_iter().filter(|at| !is_known(&nodes, *at)).take(ADDRESSES);
        let expect = Expect::role(Role::Central);
        let mut dials: FuturesUnordered<_> =
            unknown.map(|at| self.links.endpoint().connect(at, &expect, Purpose::Calls)).collect();
        let mut last = failed(&"no address that is not known already");
        while let Some(dialled) = dials.next().await {
            match dialled {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Central nodes by name where known, else the seeds.
    fn targets(&self) -> Vec<Target> {
        let nodes = self.session.snapshots().nodes();
        let known: Vec<Target> =
            nodes.iter().filter(|node| node.role == Role::Central).cloned().map(Target::Node).collect();
        let seeds = self
            .options
            .seeds
            .iter()
            .filter(|seed| !seed.address().is_some_and(|at| is_known(&nodes, at)))
            .cloned();
        known.into_iter().chain(seeds.map(Target::Seed)).collect()
    }

    /// After a start without central, spends what the journal proves.
    async fn watch_loneliness(&self) -> std::convert::Infallible {
        self.host.sleep(ALONE).await;
        if self.session.take_up_journal() {
            tracing::warn!("central is away: spending what the journal proves to be left");
        }
        std::future::pending().await
    }

    /// Keeps a connection to every central node, so that its distance is known and changing over is quick.
    async fn keep_neighbours(&self) -> std::convert::Infallible {
        let mut next: Mono = self.host.now();
        loop {
            next = next + Duration::from_secs(1);
            self.host.sleep_until(next).await;
            let nodes = self.session.snapshots().nodes();
            for node in nodes.iter().filter(|node| node.role == Role::Central) {
                let (links, node) = (self.links.clone(), node.clone());
                drop(self.host.spawn("neighbour", async move { links.connect(&node).await.is_ok() }));
            }
            self.session.heard(self.links.rtts());
        }
    }
}

/// Whether a central node is known to be there.
fn is_known(nodes: &[NodeAddr], at: SocketAddr) -> bool {
    nodes.iter().any(|node| node.role == Role::Central && node.mesh == at)
}

/// How long no central node has taken this edge; said in the log when it is more than a start or an election.
#[derive(Debug, Default)]
struct Absence {
    since: Option<Mono>,
    told: bool,
}

impl Absence {
    fn lasts(&mut self, now: Mono) {
        let long = now.since(*self.since.get_or_insert(now)) >= ABSENT;
        if self.since == Some(now) {
            tracing::info!("no central node takes this edge yet; it goes on asking");
        } else if long && !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                seconds = ABSENT.as_secs(),
                "no central node has taken this edge for a while; it serves from what it has"
            );
        }
    }
}

/// A central node to dial.
#[derive(Clone, Debug)]
enum Target {
    Node(NodeAddr),
    Seed(HostPort),
}

fn snapshot_path(data: &Path) -> PathBuf {
    data.join("snapshot")
}

/// Round trips to nodes.
type Distances = Vec<(Name, Duration)>;

#[cfg(test)]
mod tests;
