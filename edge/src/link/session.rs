//! What is said in a session with central: messages in, messages out, told the time, no stream in sight.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{Epoch, Incarnation, Mono, Stamp};
use seam::{Host, Lock, Stop};
use wire::catalog::{Catalog, Change, Object};
use wire::control::{Health, Hello, MissingTokenizer, NodeAddr, ToCentral, ToEdge};

use super::Distances;
use crate::counting::Counting;
use crate::purse::Purse;
use crate::snapshot::Snapshots;

/// Receipts in one message.
const BATCH: usize = 256;
/// Receipts under way at once, per incarnation; central lets eight messages wait.
const WINDOW: u64 = 1_536;
/// Receipts and last words that were not answered are sent again after this long: the leader may have failed.
const AGAIN: Duration = Duration::from_secs(2);
const HEALTH_EACH: Duration = Duration::from_secs(1);

/// One edge's side of its sessions.
#[derive(Debug)]
pub(super) struct Session {
    host: Host,
    boot: u64,
    advertise: SocketAddr,
    draining: Stop,
    snapshots: Snapshots,
    purse: Purse,
    counting: Counting,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    welcomed: bool,
    /// The session's.
    #[cfg(feature = "next-level")]
    level: u16,
    /// A session was welcomed once in this process's life.
    met: bool,
    leaving: bool,
    bye: bool,
    nodes: Stamp,
    applied: Option<(Stamp, Epoch)>,
    sent: BTreeMap<Incarnation, Sent>,
    last_words: BTreeMap<Incarnation, Mono>,
    health_due: Mono,
    /// The tokenizers that central knows to be missing here.
    missing: Arc<Vec<MissingTokenizer>>,
    heard: Distances,
}

/// How far receipts were sent in this session.
#[derive(Clone, Copy, Debug)]
struct Sent {
    next: u64,
    acked: u64,
    moved: Mono,
}

/// What a message from central comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The session goes on.
    On,
    /// The identity was taken by another process.
    Superseded,
}

impl Session {
    pub(super) fn new(
        host: &Host,
        advertise: SocketAddr,
        draining: Stop,
        (snapshots, purse, counting): (Snapshots, Purse, Counting),
    ) -> Self {
        let boot = host.random_u64();
        let state = Lock::default();
        Self { host: host.clone(), boot, advertise, draining, snapshots, purse, counting, state }
    }

    pub(super) const fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// The first message of a session.
    pub(super) fn hello(&self) -> Hello {
        let (resume, last) = self.purse.incarnations();
        let snapshot = self.snapshots.load();
        let have = (snapshot.epoch() > Epoch(0)).then(|| (snapshot.stamp(), snapshot.epoch()));
        Hello {
            level: mesh::level(&self.host),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            boot: self.boot,
            resume,
            last,
            mesh: self.advertise,
            have,
        }
    }

    pub(super) fn is_welcomed(&self) -> bool {
        self.state.lock().welcomed
    }

    /// The session is over; the next begins anew.
    pub(super) fn ended(&self) {
        let mut state = self.state.lock();
        state.welcomed = false;
        state.missing = Arc::default();
        state.sent.clear();
        state.last_words.clear();
        drop(state);
        self.purse.detached();
    }

    /// Begins to leave: nothing is taken any more, everything is settled and given back.
    pub(super) fn leave(&self) {
        self.state.lock().leaving = true;
        self.purse.retire();
    }

    /// Whether the last message was [`ToCentral::Bye`].
    pub(super) fn has_left(&self) -> bool {
        self.state.lock().bye
    }

    /// Without any session since the start: takes up the journal's newest incarnation. Whether there was one.
    pub(super) fn take_up_journal(&self) -> bool {
        !self.state.lock().met && self.purse.adopt()
    }

    /// Waits until central should hear something.
    pub(super) async fn news(&self) {
        self.purse.news().await;
    }

    /// Round trips, for the next health message.
    pub(super) fn heard(&self, distances: Distances) {
        self.state.lock().heard = distances;
    }

    /// Takes a message from central.
    ///
    /// # Errors
    /// Why the session must end, in words.
    pub(super) fn incoming(&self, message: ToEdge) -> Result<Step, String> {
        match message {
            ToEdge::Welcome(welcome) => {
                self.purse.welcome(&welcome);
                let mut state = self.state.lock();
                (state.welcomed, state.met, state.health_due) = (true, true, self.host.now());
                #[cfg(feature = "next-level")]
                {
                    state.level = welcome.level;
                }
                drop(state);
                tracing::info!(incarnation = %welcome.incarnation, level = welcome.level, "attached to central");
            }
            ToEdge::Snapshot { stamp, epoch, objects } => self.snapshot(stamp, epoch, objects),
            ToEdge::Delta { stamp, from, epoch, changes } => self.delta(stamp, from, epoch, changes)?,
            ToEdge::Nodes { stamp, nodes } => self.nodes(stamp, nodes),
            ToEdge::Grants(grants) => self.purse.granted(&grants),
            ToEdge::ReceiptsApplied { incarnation, next } => self.purse.applied(incarnation, next),
            ToEdge::Closed { incarnation } => {
                tracing::info!(%incarnation, "an earlier incarnation is closed");
                self.purse.closed(incarnation);
            }
            ToEdge::Current { .. } => self.snapshots.refreshed(self.host.now()),
            ToEdge::Superseded if base::mutant!(SupersededGoesOn) => {}
            ToEdge::Superseded => return Ok(Step::Superseded),
            ToEdge::Unavailable { why } => return Err(why),
            #[cfg(feature = "next-level")]
            ToEdge::GreetingNext { level } => {
                if mesh::level(&self.host) < wire::NEXT_LEVEL {
                    return Err("a message of a level that this edge does not know".to_owned());
                }
                tracing::info!(level, "greeted at the next level");
            }
        }
        Ok(Step::On)
    }

    /// Health as the session's level has it.
    #[cfg(feature = "next-level")]
    fn health_message(&self, state: &State) -> ToCentral {
        let health = self.health(state);
        if state.level < wire::NEXT_LEVEL {
            return ToCentral::Health(health);
        }
        let running_ms = self.host.now().as_nanos() / 1_000_000;
        ToCentral::HealthNext { health, running_ms }
    }

    #[cfg(not(feature = "next-level"))]
    fn health_message(&self, state: &State) -> ToCentral {
        ToCentral::Health(self.health(state))
    }

    /// The tokenizers that are missing, when central knows of others.
    pub(super) fn missing_tokenizers(&self) -> Option<Arc<Vec<MissingTokenizer>>> {
        let missing = self.counting.missing();
        let known = std::mem::replace(&mut self.state.lock().missing, Arc::clone(&missing));
        (known != missing).then_some(missing)
    }

    /// What to tell central now.
    pub(super) fn outgoing(&self) -> Vec<ToCentral> {
        let now = self.host.now();
        let mut state = self.state.lock();
        let mut messages: Vec<ToCentral> = Vec::new();
        if let Some((stamp, epoch)) = state.applied.take() {
            messages.push(ToCentral::Applied { stamp, epoch });
        }
        messages.extend(self.purse.report().map(ToCentral::Report));
        self.receipts(&mut state, now, &mut messages);
        self.last_words(&mut state, now, &mut messages);
        if now >= state.health_due {
            state.health_due = now + HEALTH_EACH;
            messages.push(self.health_message(&state));
        }
        if state.leaving && self.purse.is_settled() {
            state.bye = true;
            messages.push(ToCentral::Bye);
        }
        messages
    }

    fn receipts(&self, state: &mut State, now: Mono, messages: &mut Vec<ToCentral>) {
        for (incarnation, acked) in self.purse.unsent() {
            let fresh = Sent { next: acked, acked, moved: now };
            let sent = state.sent.entry(incarnation).or_insert(fresh);
            if acked > sent.acked || sent.next <= acked {
                (sent.acked, sent.moved, sent.next) = (acked, now, sent.next.max(acked));
            } else if now.since(sent.moved) >= AGAIN {
                *sent = fresh;
            }
            while sent.next < acked.saturating_add(WINDOW) {
                let Some(batch) = self.purse.batch(incarnation, sent.next, BATCH) else { break };
                sent.next = batch.first.saturating_add(batch.receipts.len() as u64);
                if base::mutant!(ReceiptsForgotten) {
                    self.purse.applied(incarnation, sent.next);
                }
                messages.push(ToCentral::Receipts(batch));
            }
        }
    }

    fn last_words(&self, state: &mut State, now: Mono, messages: &mut Vec<ToCentral>) {
        for last_word in self.purse.finals() {
            let said = state.last_words.get(&last_word.incarnation);
            if said.is_none_or(|at| now.since(*at) >= AGAIN) {
                state.last_words.insert(last_word.incarnation, now);
                messages.push(ToCentral::Final(last_word));
            }
        }
    }

    fn health(&self, state: &State) -> Health {
        let micros = |time: &Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let links = state.heard.iter().map(|(node, time)| (node.clone(), micros(time))).collect();
        Health { in_flight: self.purse.open_calls(), draining: self.draining.is_wanted(), links }
    }

    fn snapshot(&self, stamp: Stamp, epoch: Epoch, objects: Vec<Object>) {
        let mut catalog = Catalog { epoch, ..Catalog::default() };
        for object in objects {
            catalog.apply(Change::Put(object));
        }
        self.install(stamp, catalog);
    }

    fn delta(&self, stamp: Stamp, from: Epoch, epoch: Epoch, changes: Vec<Change>) -> Result<(), String> {
        let current = self.snapshots.load();
        if current.stamp() >= stamp {
            return Ok(());
        }
        if current.epoch() != from {
            return Err(format!("a change builds on epoch {from}, but this edge is at {}", current.epoch()));
        }
        let mut catalog = current.catalog().clone();
        for change in changes {
            catalog.apply(change);
        }
        catalog.epoch = epoch;
        self.install(stamp, catalog);
        Ok(())
    }

    fn install(&self, stamp: Stamp, catalog: Catalog) {
        let epoch = catalog.epoch;
        if self.snapshots.install(stamp, catalog, self.host.now()) {
            self.purse.install(self.snapshots.load().budgets());
            self.state.lock().applied = Some((stamp, epoch));
            tracing::info!(%epoch, "configuration in force");
        }
    }

    fn nodes(&self, stamp: Stamp, nodes: Vec<NodeAddr>) {
        let mut state = self.state.lock();
        if stamp >= state.nodes {
            state.nodes = stamp;
            drop(state);
            self.snapshots.install_nodes(nodes);
        }
    }
}
