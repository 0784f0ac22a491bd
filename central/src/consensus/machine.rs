//! Central's state machine under openraft: applies committed entries to the state in memory, writes it to a snapshot
//! file now and then, and takes the place of a lagging state by a leader's snapshot.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::Revision;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};
use seam::{Host, Lock};
use tokio::sync::{mpsc, watch};

use central_core::{Effect, Reply, State};

use crate::usage::Feed;

use super::clock::LogClock;
use super::snapshot;
use super::types::{LogId, Proposal, Snapshot, SnapshotMeta, StoredMembership, Types};

/// How often a full disk is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What applying the log causes on this node, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An entry was applied.
    Applied {
        /// Its index.
        revision: Revision,
        /// What it causes.
        effects: Vec<Effect>,
    },
    /// The state was replaced by a snapshot; the effects of the entries it stands for are not told.
    Replaced {
        /// The index of the last entry in it.
        revision: Revision,
    },
}

/// The state and how far it is.
#[derive(Debug, Default)]
pub(crate) struct Current {
    pub(crate) state: State,
    last: Option<LogId>,
    membership: StoredMembership,
}

/// The state machine as openraft drives it.
#[derive(Debug)]
pub(crate) struct Machine {
    host: Host,
    file: PathBuf,
    clock: LogClock,
    current: Arc<Lock<Current>>,
    /// What the file holds.
    saved: Option<SnapshotMeta>,
    outlets: Outlets,
}

/// Where the state machine tells what it does.
#[derive(Debug)]
pub(crate) struct Outlets {
    pub(crate) events: mpsc::Sender<Event>,
    /// How far it is; told behind the others.
    pub(crate) applied: watch::Sender<Revision>,
    pub(crate) feed: Feed,
}

impl Machine {
    /// Reads the snapshot in `dir`, if there is one.
    ///
    /// # Errors
    /// When the disk refuses or the snapshot is damaged.
    pub(crate) async fn open(host: Host, dir: &Path, state: State, outlets: Outlets) -> io::Result<Self> {
        let current = Arc::new(Lock::new(Current { state, ..Current::default() }));
        let file = dir.join("state.snapshot");
        let clock = LogClock::new(host.now());
        let mut machine = Self { host, file, clock, current, saved: None, outlets };
        if let Some(bytes) = machine.read().await? {
            machine.take(&bytes).await?;
        }
        Ok(machine)
    }

    /// The log's clock, as entries tell it.
    pub(crate) fn clock(&self) -> LogClock {
        self.clock.clone()
    }

    /// The state, for readers.
    pub(crate) fn current(&self) -> Arc<Lock<Current>> {
        Arc::clone(&self.current)
    }

    async fn read(&self) -> io::Result<Option<Bytes>> {
        match self.host.disk().read(&self.file).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(absent) if absent.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a snapshot's state the current one.
    async fn take(&mut self, bytes: &Bytes) -> io::Result<()> {
        let bytes = bytes.clone();
        let decoded = self.host.compute(move || snapshot::decode(&bytes)).await;
        let decoded = decoded.map_err(|_gone| io::Error::other("reading the snapshot was ended"))?;
        let (meta, state) = decoded.map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))?;
        let last = meta.last_log_id;
        self.clock.heard(state.clock(), self.host.now());
        *self.current.lock() = Current { state, last, membership: meta.last_membership.clone() };
        self.saved = Some(meta);
        let revision = revision(last);
        self.outlets.feed.jumped(revision);
        self.tell(Event::Replaced { revision }).await;
        self.outlets.applied.send_replace(revision);
        Ok(())
    }

    /// Nobody may listen, as in a node that only keeps the log.
    async fn tell(&self, event: Event) {
        drop(self.outlets.events.send(event).await);
    }

    async fn apply_one(&self, log_id: LogId, proposal: &Proposal) -> io::Result<Reply> {
        let entry = proposal.entry().map_err(|error| {
            tracing::error!(index = log_id.index, %error, "a log entry is unknown to this build; it stops");
            io::Error::new(io::ErrorKind::InvalidData, error)
        })?;
        self.clock.heard(entry.clock, self.host.now());
        let revision = Revision(log_id.index);
        let applied = {
            let mut current = self.current.lock();
            current.last = Some(log_id);
            current.state.apply(revision, &entry)
        };
        self.outlets.feed.effects(revision, entry.at, &applied.effects).await;
        if !applied.effects.is_empty() {
            self.tell(Event::Applied { revision, effects: applied.effects }).await;
        }
        Ok(applied.reply)
    }
}

pub(crate) fn revision(last: Option<LogId>) -> Revision {
    Revision(last.map_or(0, |last| last.index))
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = Bytes;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let current = self.current.lock();
        Ok((current.last, current.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some(entry) = entries.next().await {
            let (entry, responder) = entry?;
            let log_id = entry.log_id;
            let reply = match entry.payload {
                EntryPayload::Blank => {
                    self.current.lock().last = Some(log_id);
                    None
                }
                EntryPayload::Membership(membership) => {
                    let mut current = self.current.lock();
                    current.last = Some(log_id);
                    current.membership = StoredMembership::new(Some(log_id), membership);
                    None
                }
                EntryPayload::Normal(proposal) => Some(self.apply_one(log_id, &proposal).await?),
            };
            self.outlets.applied.send_replace(Revision(log_id.index));
            if let Some(responder) = responder {
                responder.send(reply);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        let current = self.current.lock();
        let meta = SnapshotMeta { last_log_id: current.last, last_membership: current.membership.clone() };
        Builder {
            host: self.host.clone(),
            file: self.file.clone(),
            meta,
            state: current.state.clone(),
            feed: self.outlets.feed.clone(),
        }
    }

    async fn install_snapshot(&mut self, _meta: &SnapshotMeta, snapshot: Bytes) -> Result<(), io::Error> {
        save(&self.host, &self.file, &snapshot).await?;
        self.take(&snapshot).await
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        let Some(bytes) = self.read().await? else { return Ok(None) };
        let meta = snapshot::meta(&bytes).map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))?;
        Ok(Some(Snapshot { meta, snapshot: bytes }))
    }
}

/// A view of the state at one moment, to be written to the snapshot file.
#[derive(Debug)]
pub(crate) struct Builder {
    host: Host,
    file: PathBuf,
    meta: SnapshotMeta,
    state: State,
    feed: Feed,
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let (meta, state) = (self.meta.clone(), std::mem::take(&mut self.state));
        let encoded = self.host.compute(move || snapshot::encode(&meta, &state)).await;
        let encoded = encoded.map_err(|_gone| io::Error::other("writing the snapshot was ended"))?;
        let bytes = encoded.map_err(io::Error::other)?;
        // What the snapshot stands for is not told again after a restart.
        self.feed.settled(revision(self.meta.last_log_id)).await;
        save(&self.host, &self.file, &bytes).await?;
        Ok(Snapshot { meta: self.meta.clone(), snapshot: bytes })
    }
}

/// Replaces the snapshot file. Without room it waits: the old snapshot stands, and the log is kept meanwhile.
async fn save(host: &Host, file: &Path, bytes: &Bytes) -> io::Result<()> {
    let mut told = false;
    loop {
        match seam::write_atomic(host.disk().as_ref(), file, bytes.clone()).await {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                if !told {
                    tracing::error!(file = %file.display(), "no space left for a snapshot; waiting for some");
                }
                told = true;
                host.sleep(RETRY).await;
            }
            done => return done,
        }
    }
}
