//! Carries what the log decides to those it concerns: edges attached here, the relay, metrics; and tells edges, several
//! times a second, that they are up to date.
//!
//! A node may say "up to date" only while a majority confirmed a moment ago that nothing newer was acknowledged; a node
//! cut off from the majority sends its edges elsewhere.

use std::sync::Arc;
use std::time::Duration;

use base::{Mono, Stamp};
use bytes::Bytes;
use central_core::Effect;
use seam::{Host, Lock, Stop};
use tokio::sync::{mpsc, watch};
use wire::catalog::Catalog;
use wire::control::ToEdge;

use crate::consensus::{Consensus, Event};
use crate::metrics::Metrics;
use crate::relay::Relay;
use crate::sessions::{Sessions, encoded};

/// Between two proofs of life; an edge that misses three looks for another node, and shall have it within a second.
const PULSE: Duration = Duration::from_millis(250);

/// Between two questions whether this node is up to date.
const CONFIRM: Duration = Duration::from_secs(1);

/// How long a majority's word counts, from when it was asked for. Edges are bound to configuration for a minute or more.
const TRUSTED: Duration = Duration::from_millis(2_500);

/// The last whole configuration as a message, made once for all edges.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    last: Lock<Option<(Stamp, Bytes)>>,
}

impl Snapshots {
    /// `catalog` as a message; `None` when it is too large for one.
    pub(crate) fn get(&self, catalog: &Arc<Catalog>, stamp: Stamp) -> Option<Bytes> {
        if let Some((_stamp, made)) = self.last.lock().as_ref().filter(|(made, _bytes)| *made == stamp) {
            return Some(made.clone());
        }
        let objects = catalog.objects().collect();
        let made = encoded(&ToEdge::Snapshot { stamp, epoch: catalog.epoch, objects })?;
        *self.last.lock() = Some((stamp, made.clone()));
        Some(made)
    }
}

/// Carries effects.
#[derive(Debug)]
pub(crate) struct Publisher {
    /// The log's state.
    pub(crate) consensus: Consensus,
    /// The edges attached here.
    pub(crate) sessions: Sessions,
    /// What relays to providers.
    pub(crate) relay: Relay,
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
    /// The level of messages and entries in force.
    pub(crate) level: watch::Sender<u16>,
}

impl Publisher {
    /// Carries effects until the log ends; `published` tells how far.
    pub(crate) async fn run(self, mut events: mpsc::Receiver<Event>, published: watch::Sender<Stamp>) {
        self.relay.refresh();
        published.send_replace(self.consensus.read(central_core::State::newest_stamp));
        while let Some(event) = events.recv().await {
            match event {
                Event::Applied { revision: _, effects } => {
                    for effect in effects {
                        if let Some(stamp) = self.carry(effect) {
                            published.send_replace(stamp);
                        }
                    }
                }
                Event::Replaced { revision } => {
                    self.level.send_replace(self.consensus.read(central_core::State::level));
                    tracing::info!(%revision, "this node's state was replaced by a snapshot");
                    self.sessions.resync();
                    self.relay.refresh();
                    published.send_replace(self.consensus.read(central_core::State::newest_stamp));
                }
            }
        }
    }

    /// Acts on one effect; gives back the stamp that is published by it.
    fn carry(&self, effect: Effect) -> Option<Stamp> {
        match effect {
            Effect::Welcome { edge, boot, welcome } => {
                self.metrics.attached(&edge);
                self.sessions.welcome(&edge, boot, welcome);
            }
            Effect::Superseded { edge, boot } => self.sessions.supersede(&edge, boot),
            Effect::Grants { edge, grants } => {
                if self.sessions.is_here(&edge) {
                    self.metrics.granted(&edge, &grants, &self.consensus);
                    self.sessions.send(&edge, &ToEdge::Grants(grants));
                }
            }
            Effect::ReceiptsApplied { edge, incarnation, next } => {
                self.sessions.send(&edge, &ToEdge::ReceiptsApplied { incarnation, next });
            }
            Effect::Receipts(receipts) => self.metrics.receipts(receipts.len()),
            Effect::Closed { edge, incarnation, crash } => {
                if !crash.is_empty() {
                    tracing::warn!(%edge, %incarnation, charges = crash.len(), "a crashed edge is charged what it may have spent");
                }
                self.sessions.send(&edge, &ToEdge::Closed { incarnation });
            }
            Effect::Published { stamp, from, epoch, changes } => {
                self.relay.refresh();
                self.sessions.published(stamp, from, epoch, changes);
                self.metrics.epoch(epoch);
                return Some(stamp);
            }
            Effect::NodesChanged(stamp) => {
                self.sessions.nodes_changed();
                return Some(stamp);
            }
            Effect::CredentialsChanged => self.relay.refresh(),
            Effect::Lost { edge, boot } => self.sessions.unseat(&edge, boot),
            Effect::LevelRaised(level) => {
                tracing::info!(level, "the mesh uses a new level");
                self.level.send_replace(level);
            }
        }
        None
    }
}

/// When a majority last confirmed the state, and what was newest in it.
type Confirmed = Arc<Lock<Option<(Mono, Stamp)>>>;

/// Tells edges that they are up to date, while that is so.
pub(crate) async fn pulse(
    host: Host,
    consensus: Consensus,
    sessions: Sessions,
    published: watch::Receiver<Stamp>,
    stop: Stop,
) {
    let confirmed = Confirmed::default();
    let confirming = keep_confirming(host.clone(), consensus.clone(), published, Arc::clone(&confirmed));
    let _confirming = host.spawn("confirm", confirming).bound();
    let mut serves = false;
    while !stop.is_wanted() {
        let trusted = |at| host.now().since(at) <= TRUSTED || base::mutant!(CutOffKeepsEdges);
        let last = confirmed.lock().filter(|(at, _stamp)| trusted(*at));
        let why = match last {
            // What it heard last may be current still, but it can get no edge anything new.
            Some(_) | None if consensus.is_leaving() => "this node is removed from central",
            None => "this central node has no contact with a majority",
            Some((_at, stamp)) => {
                serves = true;
                sessions.pulse(stamp);
                wait(&host, &stop).await;
                continue;
            }
        };
        if std::mem::take(&mut serves) {
            tracing::warn!(why, "edges are sent to other central nodes");
        }
        sessions.turn_away(why);
        wait(&host, &stop).await;
    }
}

async fn wait(host: &Host, stop: &Stop) {
    tokio::select! {
        biased;
        () = stop.wanted() => {}
        () = host.sleep(PULSE) => {}
    }
}

async fn keep_confirming(
    host: Host,
    consensus: Consensus,
    mut published: watch::Receiver<Stamp>,
    confirmed: Confirmed,
) {
    loop {
        let asked = host.now();
        if let Ok(Some(stamp)) = host.timeout(TRUSTED, confirm(&consensus, &mut published)).await {
            *confirmed.lock() = Some((asked, stamp));
            host.sleep_until(asked + CONFIRM).await;
        } else {
            host.sleep(PULSE).await;
        }
    }
}

/// The newest stamp, once a majority confirmed the state and everything in it was handed on.
async fn confirm(consensus: &Consensus, published: &mut watch::Receiver<Stamp>) -> Option<Stamp> {
    consensus.read_index().await.ok()?;
    let newest = consensus.read(central_core::State::newest_stamp);
    published.wait_for(|published| *published >= newest).await.ok()?;
    Some(newest)
}
