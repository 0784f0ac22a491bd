//! Carries what the log decides to those it concerns: edges attached here, the relay, metrics; and tells edges each
//! second that they are up to date.
//!
//! A node may say "up to date" only when a majority confirmed, after it began to ask, that nothing newer was
//! acknowledged; a node cut off from the majority therefore falls silent, and soon sends its edges elsewhere.

use std::sync::Arc;
use std::time::Duration;

use base::Stamp;
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

/// Between two proofs of life; an edge that misses three looks for another node.
const PULSE: Duration = Duration::from_secs(1);

/// Pulses without a majority after which edges are sent elsewhere.
const MISSED: u32 = 2;

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
            Effect::Welcome { edge, boot, welcome } => self.sessions.welcome(&edge, boot, welcome),
            Effect::Superseded { edge, boot } => self.sessions.supersede(&edge, boot),
            Effect::Grants { edge, grants } => self.sessions.send(&edge, &ToEdge::Grants(grants)),
            Effect::ReceiptsApplied { edge, incarnation, next } => {
                self.sessions.send(&edge, &ToEdge::ReceiptsApplied { incarnation, next });
            }
            Effect::Receipts(receipts) => self.metrics.receipts(receipts.len()),
            Effect::Closed { edge, incarnation, crash } => {
                if !crash.is_empty() {
                    tracing::warn!(%edge, %incarnation, charges = ?crash, "a crashed edge is charged what it may have spent");
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
            Effect::LevelRaised(level) => {
                tracing::info!(level, "the mesh uses a new level");
                self.level.send_replace(level);
            }
        }
        None
    }
}

/// Tells edges each second that they are up to date, while that is so.
pub(crate) async fn pulse(
    host: Host,
    consensus: Consensus,
    sessions: Sessions,
    mut published: watch::Receiver<Stamp>,
    stop: Stop,
) {
    let (mut next, mut missed) = (host.now(), 0_u32);
    while !stop.is_wanted() {
        let confirmed = host.timeout(PULSE, confirm(&consensus, &mut published)).await;
        match confirmed {
            Ok(Some(stamp)) => {
                missed = 0;
                sessions.pulse(stamp);
            }
            Ok(None) | Err(seam::Late) => missed = missed.saturating_add(1),
        }
        if missed == MISSED {
            tracing::warn!(
                "this node has no contact with a majority of central; its edges are sent elsewhere"
            );
        }
        if missed >= MISSED {
            sessions.lost_contact();
        }
        next = (next + PULSE).max(host.now());
        tokio::select! {
            biased;
            () = stop.wanted() => {}
            () = host.sleep_until(next) => {}
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
