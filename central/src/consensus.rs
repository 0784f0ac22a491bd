//! Central's agreement: one replicated log over openraft, behind an API of our own.
//!
//! Decided here: how a command gets into the log from any node ([`Consensus::propose`]), when a read misses nothing
//! ([`Consensus::read_index`]), who is a member ([`Consensus::change_members`]), and what a node does when its disk is
//! full (it says so, takes no proposals, acknowledges nothing, and recovers) or fails (it stops). What commands mean is
//! `central-core`'s. openraft's types end at this module.

mod candidacy;
mod clock;
mod contact;
mod elect;
mod first;
mod leader;
mod links;
mod machine;
mod network;
mod propose;
mod protocol;
mod round_trips;
mod runtime;
mod serve;
mod snapshot;
mod standing;
mod store;
#[cfg(test)]
mod tests;
mod timing;
mod types;
mod walls;
mod watch;

pub use leader::{MemberChange, MemberError, ReadError};
pub use machine::Event;
pub use propose::ProposeError;
pub use standing::{Member, Standing};
pub use store::{StorageState, StoreError};
pub use timing::{Timing, Verdict};

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{NodeId, Revision};
use mesh::{Connection, Endpoint, Links, Purpose};
use openraft::Config;
use seam::{Host, Lock};
use tokio::sync::{Notify, mpsc, watch as channel};
use wire::control::NodeAddr;

use central_core::State;

use crate::usage::Feed;

use candidacy::Candidacy;
use contact::Contact;
use first::Part;
use leader::Leader;
use machine::{Current, Machine, Outlets};
use network::Network;
use propose::{Batcher, MAX_WAITING, Waiting};
use store::LogStore;
use types::Raft;
use walls::Walls;

/// Between two looks for a leader.
const PAUSE: Duration = Duration::from_millis(50);
/// Events that may wait for their reader; then applying waits too.
const MAX_EVENTS: usize = 65_536;

/// How a member starts.
#[derive(Clone, Debug)]
pub struct Options {
    /// This member's number, given once and never reused.
    pub id: NodeId,
    /// Where its log and snapshot are.
    pub dir: PathBuf,
    /// The longest round trip between two members, until this member has measured it.
    pub round_trip: Duration,
    /// The first members of a new group, the same at each of them; a member that has a log ignores them. A member that
    /// joins later has none: it waits to be added.
    pub first_members: BTreeMap<NodeId, NodeAddr>,
    /// How long a proposal or read looks for a leader and waits for its answer.
    pub patience: Duration,
    /// Where receipts go that were applied.
    pub feed: Feed,
}

/// Why a member cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its log.
    #[error(transparent)]
    Log(#[from] StoreError),
    /// Its snapshot.
    #[error("cannot read the snapshot of central's state in {}", dir.display())]
    Snapshot {
        /// The data directory.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its settings.
    #[error("the timing does not work: {0}")]
    Timing(String),
    /// openraft.
    #[error("cannot start the consensus: {0}")]
    Raft(String),
}

/// A running member. Cheap to clone.
#[derive(Clone)]
pub struct Consensus {
    shared: Arc<Shared>,
}

struct Shared {
    host: Host,
    options: Options,
    timing: Timing,
    /// The longest round trip, as an earlier life of this member measured it.
    measured: Option<Duration>,
    raft: Raft,
    log: LogStore,
    calls: Links,
    consensus: Links,
    current: Arc<Lock<Current>>,
    applied: channel::Receiver<Revision>,
    storage: channel::Receiver<StorageState>,
    part: channel::Sender<Part>,
    /// Why this member stopped, once it did.
    end: channel::Sender<Option<String>>,
    candidacy: Lock<Candidacy>,
    contact: Lock<Contact>,
    /// The candidacy is due earlier than it was.
    hurry: Notify,
    proposals: mpsc::Sender<Waiting>,
    /// What the members' wall clocks show together.
    walls: Arc<Lock<Walls>>,
}

impl std::fmt::Debug for Consensus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Consensus(member {})", self.shared.options.id)
    }
}

impl Consensus {
    /// Starts a member; `state` is where a new group begins, equal at all its first members. Events come in the order
    /// of the log and must be read without pause: applying waits for their reader, and a proposal waits for applying.
    ///
    /// # Errors
    /// [`StartError`]; a damaged or foreign log or snapshot is never started from.
    pub async fn start(
        host: &Host,
        options: Options,
        endpoint: &Endpoint,
        state: State,
    ) -> Result<(Self, mpsc::Receiver<Event>), StartError> {
        let starting = Self::start_on_host(host.clone(), options, endpoint.clone(), state);
        host.scope(starting).await
    }

    async fn start_on_host(
        host: Host,
        options: Options,
        endpoint: Endpoint,
        state: State,
    ) -> Result<(Self, mpsc::Receiver<Event>), StartError> {
        let measured = round_trips::read(&host, &options.dir).await;
        let timing = Timing::for_round_trip(measured.unwrap_or(options.round_trip));
        tracing::info!(
            round_trip_ms = measured.unwrap_or(options.round_trip).as_millis(),
            is_measured = measured.is_some(),
            heartbeat_ms = timing.heartbeat.as_millis(),
            lease_ms = timing.lease().as_millis(),
            "the members' clockwork"
        );
        let config = timing.config("central").map_err(|error| StartError::Timing(error.to_string()))?;
        let store = LogStore::open(&host, &options.dir.join("log"), options.id).await?;
        let (pristine, storage) = (store.is_pristine(), store.watch());
        let (events, read_events) = mpsc::channel(MAX_EVENTS);
        let (applied, read_applied) = channel::channel(Revision(0));
        let outlets = Outlets { events, applied, feed: options.feed.clone() };
        let machine = Machine::open(host.clone(), &options.dir, state, outlets);
        let machine =
            machine.await.map_err(|source| StartError::Snapshot { dir: options.dir.clone(), source })?;
        let (current, clock) = (machine.current(), machine.clock());
        let consensus = Links::for_purpose(endpoint.clone(), Purpose::Consensus);
        let deadline = timing.append_deadline();
        let network =
            Network::new(host.clone(), options.id, consensus.clone(), Arc::clone(&current), deadline);
        let log = store.clone();
        let raft = start_raft(options.id, config, network, store, machine).await?;
        let undecided = pristine && options.first_members.contains_key(&options.id);
        let part = channel::Sender::new(if undecided { Part::Asks } else { Part::Takes });
        let (proposals, queue) = mpsc::channel(MAX_WAITING);
        let walls = Arc::<Lock<Walls>>::default();
        let batcher = Batcher {
            host: host.clone(),
            raft: raft.clone(),
            clock,
            walls: Arc::clone(&walls),
            storage: storage.clone(),
        };
        drop(host.spawn("raft-batch", batcher.run(queue)));
        let calls = Links::new(endpoint);
        let candidacy = Lock::new(Candidacy::new(timing, host.now()));
        let member = Self {
            shared: Arc::new(Shared {
                host,
                options,
                timing,
                measured,
                raft,
                log,
                calls,
                consensus,
                current,
                applied: read_applied,
                storage,
                part,
                end: channel::Sender::new(None),
                candidacy,
                contact: Lock::default(),
                hurry: Notify::new(),
                proposals,
                walls,
            }),
        };
        watch::start(&member);
        if undecided {
            drop(member.host().spawn("raft-first", member.clone().decide_part()));
        }
        Ok((member, read_events))
    }

    /// Answers the other members' questions of Raft on a connection for consensus, until it ends.
    pub async fn serve(&self, connection: Connection) {
        self.shared.host.scope(serve::raft(self.clone(), connection)).await;
    }

    /// Reads the state as this node has it; call [`Consensus::read_index`] first when it must miss nothing. `read` runs
    /// under the state's lock and must be short.
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.shared.current.lock().state)
    }

    /// How far this node's state is.
    #[must_use]
    pub fn applied(&self) -> channel::Receiver<Revision> {
        self.shared.applied.clone()
    }

    /// What the disk under this node's log does.
    #[must_use]
    pub fn storage(&self) -> channel::Receiver<StorageState> {
        self.shared.storage.clone()
    }

    /// Ends this member in good order.
    pub async fn shutdown(&self) {
        let ending = async { drop(self.shared.raft.shutdown().await) };
        self.shared.host.scope(ending).await;
    }

    fn host(&self) -> &Host {
        &self.shared.host
    }

    fn raft(&self) -> &Raft {
        &self.shared.raft
    }

    fn calls(&self) -> &Links {
        &self.shared.calls
    }

    fn patience(&self) -> Duration {
        self.shared.options.patience
    }

    fn proposals(&self) -> &mpsc::Sender<Waiting> {
        &self.shared.proposals
    }
}

async fn start_raft(
    id: NodeId,
    config: Config,
    network: Network,
    store: LogStore,
    machine: Machine,
) -> Result<Raft, StartError> {
    let raft = Raft::new(id.0, Arc::new(config), network, store, machine).await;
    raft.map_err(|fatal| StartError::Raft(fatal.to_string()))
}
