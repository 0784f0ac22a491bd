//! Control sessions with edges: who is attached to this node, and what has been handed to each.
//!
//! Decided here: which session speaks for an edge (the newest), in which order an edge hears things (as the log has
//! them, and never twice), and when a session is given up (its edge does not read, or another session took its place).
//! An edge's name and region are those of its certificate, never what it claims. Whatever changes the ledger is
//! proposed to the log; this node tells an edge only what was committed.

mod reports;
mod serve;
mod table;

use std::sync::Arc;
use std::time::Duration;

use base::{Epoch, Name, Stamp};
use central_core::State;
use seam::{Host, Lock, Stop};
use tokio::sync::watch;
use wire::catalog::Change;
use wire::control::{ToEdge, Welcome};

use crate::consensus::Consensus;
use crate::publish::Snapshots;
use reports::Reports;
pub(crate) use table::Attached;
use table::Table;

/// How long an edge may take to say hello, and its registration to commit.
const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// Messages that may wait for an edge. One that reads slower than this is given up; it attaches anew and gets the whole.
const QUEUE: usize = 1_024;

/// The edges attached to this node. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    host: Host,
    consensus: Consensus,
    snapshots: Snapshots,
    table: Lock<Table>,
    reports: Reports,
    /// Whether this node is in contact with a majority: only then may it serve sessions.
    current: watch::Sender<bool>,
    stop: Stop,
}

impl Sessions {
    /// No sessions yet; `stop` ends all of them.
    #[must_use]
    pub(crate) fn new(host: &Host, consensus: &Consensus, stop: Stop) -> Self {
        let reports = Reports::start(host, consensus);
        let (current, _seen) = watch::channel(false);
        Self {
            shared: Arc::new(Shared {
                host: host.clone(),
                consensus: consensus.clone(),
                snapshots: Snapshots::default(),
                table: Lock::default(),
                reports,
                current,
                stop,
            }),
        }
    }

    /// Begins a session whose registration committed: terms, configuration, nodes.
    pub(crate) fn welcome(&self, edge: &Name, boot: u64, welcome: Welcome) {
        let Some(have) = self.shared.table.lock().waiting(edge, boot) else { return };
        let (start, given) = self.shared.consensus.read(|state| {
            let given = table::Given {
                catalog: state.catalog_stamp(),
                epoch: state.epoch(),
                nodes: state.nodes_stamp(),
            };
            (Start::of(state, have), given)
        });
        let configuration = match start {
            Start::Nothing => Some(None),
            Start::Step(delta) => encoded(&delta).map(Some),
            Start::Whole(catalog, stamp) => self.shared.snapshots.get(&catalog, stamp).map(Some),
        };
        let Some(configuration) = configuration else {
            let last = encoded(&unavailable("the configuration cannot be sent")).unwrap_or_default();
            return self.shared.table.lock().end(edge, boot, last);
        };
        let nodes = self.shared.consensus.read(nodes_message);
        #[cfg(feature = "next-level")]
        let level = welcome.level;
        let messages = [encoded(&ToEdge::Welcome(welcome)), configuration, encoded(&nodes)];
        #[cfg(feature = "next-level")]
        let messages = messages.into_iter().chain([Self::greeting(level)]);
        self.shared.table.lock().begin(edge, boot, given, messages.into_iter().flatten());
    }

    /// What follows at the next level.
    #[cfg(feature = "next-level")]
    fn greeting(level: u16) -> Option<bytes::Bytes> {
        if level < wire::NEXT_LEVEL { None } else { encoded(&ToEdge::GreetingNext { level }) }
    }

    /// Tells a process that another took its identity; its session ends.
    pub(crate) fn supersede(&self, edge: &Name, boot: u64) {
        if let Some(last) = encoded(&ToEdge::Superseded) {
            self.shared.table.lock().end(edge, boot, last);
        }
    }

    /// Ends the session of a process whose life is lost: it registers anew, and gets another.
    pub(crate) fn unseat(&self, edge: &Name, boot: u64) {
        if let Some(last) = encoded(&unavailable("an operator said that this edge is lost; attach again")) {
            self.shared.table.lock().end(edge, boot, last);
        }
    }

    /// Whether an edge is attached to this node.
    pub(crate) fn is_here(&self, edge: &Name) -> bool {
        self.shared.table.lock().is_live(edge)
    }

    /// Hands a message to an edge, if it is attached here.
    pub(crate) fn send(&self, edge: &Name, message: &ToEdge) {
        if self.shared.table.lock().is_live(edge)
            && let Some(payload) = encoded(message)
        {
            self.shared.table.lock().send(edge, &payload);
        }
    }

    /// Hands a change of configuration to every edge attached here.
    pub(crate) fn published(&self, stamp: Stamp, from: Epoch, epoch: Epoch, changes: Vec<Change>) {
        let Some(delta) = encoded(&ToEdge::Delta { stamp, from, epoch, changes }) else { return };
        let (catalog, whole_stamp) =
            self.shared.consensus.read(|state| (state.shared_catalog(), state.catalog_stamp()));
        let whole = || Some((self.shared.snapshots.get(&catalog, whole_stamp)?, whole_stamp, catalog.epoch));
        self.shared.table.lock().published((stamp, from, epoch), &delta, &whole);
    }

    /// Hands the list of nodes to every edge attached here.
    pub(crate) fn nodes_changed(&self) {
        let nodes = self.shared.consensus.read(nodes_message);
        let stamp = message_stamp(&nodes);
        if let Some(payload) = encoded(&nodes) {
            self.shared.table.lock().nodes_changed(stamp, &payload);
        }
    }

    /// After the state was replaced by a snapshot: its effects were not told, so that every edge gets what it stands for.
    pub(crate) fn resync(&self) {
        let (catalog, stamp, boots) = self.shared.consensus.read(|state| {
            let edges = state.registry().edges.iter().map(|(name, edge)| (name.clone(), edge.boot));
            (state.shared_catalog(), state.catalog_stamp(), edges.collect())
        });
        let superseded = encoded(&ToEdge::Superseded);
        let unavailable = encoded(&unavailable("this node caught up from a snapshot; attach again"));
        if let (Some(superseded), Some(unavailable)) = (superseded, unavailable) {
            self.shared.table.lock().end_outdated(&boots, &superseded, &unavailable);
        }
        let whole = || Some((self.shared.snapshots.get(&catalog, stamp)?, stamp, catalog.epoch));
        self.shared.table.lock().whole(&whole);
        self.nodes_changed();
    }

    /// Tells every edge attached here that it is up to date, as far as it is.
    pub(crate) fn pulse(&self, newest: Stamp) {
        self.shared.current.send_replace(true);
        if let Some(payload) = encoded(&ToEdge::Current { stamp: newest }) {
            self.shared.table.lock().pulse(newest, &payload);
        }
    }

    /// This node can serve edges no longer, and says `why`: its edges try another, and none may attach.
    pub(crate) fn turn_away(&self, why: &str) {
        if self.shared.current.send_replace(false)
            && let Some(last) = encoded(&unavailable(why))
        {
            self.shared.table.lock().end_all(&last);
        }
    }

    /// Whether this node is in contact with a majority.
    #[must_use]
    pub(crate) fn is_current(&self) -> bool {
        *self.shared.current.borrow()
    }

    /// The edges attached here and what they last told.
    #[must_use]
    pub(crate) fn attached(&self) -> Vec<Attached> {
        self.shared.table.lock().attached()
    }

    /// How many edges are attached here.
    #[must_use]
    pub(crate) fn count(&self) -> usize {
        self.shared.table.lock().count()
    }
}

/// What an edge's first configuration is.
enum Start {
    Nothing,
    Step(ToEdge),
    Whole(Arc<wire::catalog::Catalog>, Stamp),
}

impl Start {
    fn of(state: &State, have: Option<(Stamp, Epoch)>) -> Self {
        let (stamp, epoch) = (state.catalog_stamp(), state.epoch());
        let delta = have.and_then(|(stamp, epoch)| Some((epoch, state.delta(stamp, epoch)?)));
        match delta {
            Some((have, _none)) if have == epoch => Self::Nothing,
            Some((from, _missed)) if base::mutant!(RevocationLost) => {
                Self::Step(ToEdge::Delta { stamp, from, epoch, changes: Vec::new() })
            }
            Some((from, changes)) => Self::Step(ToEdge::Delta { stamp, from, epoch, changes }),
            None => Self::Whole(state.shared_catalog(), stamp),
        }
    }
}

fn nodes_message(state: &State) -> ToEdge {
    ToEdge::Nodes { stamp: state.nodes_stamp(), nodes: state.nodes() }
}

const fn message_stamp(message: &ToEdge) -> Stamp {
    match message {
        ToEdge::Nodes { stamp, .. } | ToEdge::Snapshot { stamp, .. } | ToEdge::Delta { stamp, .. } => *stamp,
        ToEdge::Welcome(_)
        | ToEdge::Grants(_)
        | ToEdge::ReceiptsApplied { .. }
        | ToEdge::Closed { .. }
        | ToEdge::Superseded
        | ToEdge::Unavailable { .. } => Stamp { era: base::Era(0), revision: base::Revision(0) },
        #[cfg(feature = "next-level")]
        ToEdge::GreetingNext { .. } => Stamp { era: base::Era(0), revision: base::Revision(0) },
        ToEdge::Current { stamp } => *stamp,
    }
}

fn unavailable(why: &str) -> ToEdge {
    ToEdge::Unavailable { why: why.to_owned() }
}

/// A message as bytes. Failing is a fault of ours, or a configuration beyond the largest message.
pub(crate) fn encoded(message: &ToEdge) -> Option<bytes::Bytes> {
    match wire::codec::encode(message) {
        Ok(bytes) => Some(bytes.into()),
        Err(error) => {
            tracing::error!(%error, "a message for an edge cannot be encoded");
            None
        }
    }
}
