//! The configuration in force, compiled so that a call needs lookups only, and swapped by pointer.
//!
//! Decided here: what a key's hash leads to, what a name stands for, and how old the configuration is. A snapshot
//! never changes; what must outlive one (limits in progress) is carried over to the next by name. Never here: where
//! a configuration comes from, or whether it is kept on disk.

mod callers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use base::{Epoch, KeyHash, ModelName, Mono, Name, RegionName, Stamp};
use edge_core::plan::{Offer, Offers};
use seam::Lock;
use tokio::sync::watch;
use wire::catalog::{Budget, Catalog};
use wire::control::NodeAddr;

use crate::payers::ModelBudgets;
use callers::{Callers, carry_over};
pub use callers::{Principal, SharedGate};

/// One configuration, compiled for one region.
#[derive(Debug, Default)]
pub struct Snapshot {
    stamp: Stamp,
    catalog: Catalog,
    callers: Callers,
    offers: Offers,
    model_budgets: ModelBudgets,
    model_gates: BTreeMap<ModelName, SharedGate>,
}

impl Snapshot {
    /// When central made it; the default before the first.
    #[must_use]
    pub const fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Its version; 0 before the first.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.catalog.epoch
    }

    /// What it was compiled from.
    #[must_use]
    pub const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// All budgets, by name.
    #[must_use]
    pub const fn budgets(&self) -> &BTreeMap<Name, Budget> {
        &self.catalog.budgets
    }

    /// Who holds the key of this hash.
    #[must_use]
    pub fn principal(&self, hash: &KeyHash) -> Option<&Arc<Principal>> {
        self.callers.find(hash)
    }

    /// What a name that a caller asks for stands for.
    #[must_use]
    pub fn offer(&self, name: &str) -> Option<&Arc<Offer>> {
        self.offers.find(name)
    }

    /// Budgets of models and of providers.
    pub(crate) const fn model_budgets(&self) -> &ModelBudgets {
        &self.model_budgets
    }

    /// Limits of a model's calls.
    #[must_use]
    pub fn model_gate(&self, model: &ModelName) -> Option<&SharedGate> {
        self.model_gates.get(model)
    }

    /// Every name that callers may ask for.
    #[must_use]
    pub const fn offers(&self) -> &Offers {
        &self.offers
    }
}

/// The configuration in force. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Snapshots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    home: RegionName,
    current: ArcSwap<Snapshot>,
    nodes: ArcSwap<Vec<NodeAddr>>,
    /// When central last proved it current, in nanoseconds of this host's clock; before its start when negative.
    proved: AtomicI64,
    changes: watch::Sender<u64>,
    installing: Lock<()>,
}

impl Snapshots {
    /// No configuration yet, for an edge of region `home`.
    #[must_use]
    pub fn new(home: RegionName) -> Self {
        Self(Arc::new(Shared {
            home,
            current: ArcSwap::default(),
            nodes: ArcSwap::default(),
            proved: AtomicI64::new(i64::MIN),
            changes: watch::channel(0).0,
            installing: Lock::default(),
        }))
    }

    /// The region it is compiled for.
    #[must_use]
    pub fn home(&self) -> &RegionName {
        &self.0.home
    }

    /// The configuration in force.
    #[must_use]
    pub fn load(&self) -> Arc<Snapshot> {
        self.0.current.load_full()
    }

    /// Where the nodes of the mesh are.
    #[must_use]
    pub fn nodes(&self) -> Arc<Vec<NodeAddr>> {
        self.0.nodes.load_full()
    }

    /// Puts a configuration in force that central proved current at `now`; returns false, and changes nothing, when
    /// it is older than the one in force. `catalog` is consistent: central checked it.
    pub fn install(&self, stamp: Stamp, catalog: Catalog, now: Mono) -> bool {
        self.replace(stamp, catalog, now, nanos(now))
    }

    /// As [`Snapshots::install`], for one kept on disk that central proved current `age` ago.
    pub fn restore(&self, stamp: Stamp, catalog: Catalog, now: Mono, age: Duration) -> bool {
        let age = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
        self.replace(stamp, catalog, now, nanos(now).saturating_sub(age))
    }

    /// Central proved the configuration in force current at `now`.
    pub fn refreshed(&self, now: Mono) {
        self.0.proved.fetch_max(nanos(now), Ordering::Relaxed);
    }

    /// How long ago central proved it current; [`Duration::MAX`] when there is none.
    #[must_use]
    pub fn age(&self, now: Mono) -> Duration {
        match self.0.proved.load(Ordering::Relaxed) {
            i64::MIN => Duration::MAX,
            proved => Duration::from_nanos(nanos(now).saturating_sub(proved).max(0).unsigned_abs()),
        }
    }

    /// Takes note of where the nodes are.
    pub fn install_nodes(&self, nodes: Vec<NodeAddr>) {
        self.0.nodes.store(Arc::new(nodes));
        self.0.changes.send_modify(|count| *count += 1);
    }

    /// Tells of changes of the configuration and of the nodes.
    #[must_use]
    pub fn watch(&self) -> Changes {
        Changes(self.0.changes.subscribe())
    }

    fn replace(&self, stamp: Stamp, catalog: Catalog, now: Mono, proved: i64) -> bool {
        // One at a time: the next snapshot takes over the gates of the one it replaces.
        let _turn = self.0.installing.lock();
        let before = self.load();
        if self.0.proved.load(Ordering::Relaxed) != i64::MIN && stamp < before.stamp {
            return false;
        }
        let callers = Callers::compile(&catalog, &before.callers, now);
        let offers = Offers::compile(&catalog, &self.0.home);
        let model_budgets = ModelBudgets::compile(&catalog);
        let models = catalog.models.values().map(|model| (model.name.clone(), model.limits));
        let model_gates = carry_over(models, &before.model_gates, now);
        let next = Snapshot { stamp, catalog, callers, offers, model_budgets, model_gates };
        self.0.current.store(Arc::new(next));
        self.0.proved.fetch_max(proved, Ordering::Relaxed);
        self.0.changes.send_modify(|count| *count += 1);
        true
    }
}

/// Waits for changes; see [`Snapshots::watch`].
#[derive(Debug)]
pub struct Changes(watch::Receiver<u64>);

impl Changes {
    /// Waits until something changed since the last time. Cancel safe. Never ends once the [`Snapshots`] are gone.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn nanos(at: Mono) -> i64 {
    i64::try_from(at.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
