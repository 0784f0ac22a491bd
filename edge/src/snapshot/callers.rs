//! Who holds which key, with everything that a call of theirs is held against, so that a call looks up once.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

use base::{KeyHash, ModelName, Mono, Name, Priority, TenantName};
use edge_core::limits::Gate;
use seam::Lock;
use wire::catalog::{Budget, Catalog, Key, Limits, Scope};

/// A gate that calls of many connections pass. Locked for a few instructions, never across an await.
pub type SharedGate = Arc<Lock<Gate>>;

/// The holder of a key.
#[derive(Debug)]
pub struct Principal {
    /// Whose key it is.
    pub tenant: TenantName,
    /// The application that holds it.
    pub app: Name,
    /// The key's name.
    pub key: Name,
    /// Whether it was revoked.
    pub revoked: bool,
    /// Whether it may ask for debugging headers.
    pub debug: bool,
    /// The longest time its calls may be served from configuration that could not be refreshed.
    pub max_stale: Duration,
    /// The tenant's share where calls wait.
    pub weight: u32,
    /// How pressing its calls are at most.
    pub priority: Priority,
    /// Limits of the tenant's calls.
    pub tenant_gate: SharedGate,
    /// Limits of the application's calls.
    pub app_gate: SharedGate,
    /// Limits of the key's calls.
    pub key_gate: SharedGate,
    /// Budgets that pay for all of its calls: the tenant's, the application's, the key's, each end user's.
    pub budgets: Vec<Arc<Budget>>,
    /// Those that pay, too, for calls of one of the tenant's scenarios.
    pub scenarios: Arc<Scenarios>,
    models: Option<BTreeSet<ModelName>>,
}

impl Principal {
    /// Whether it may ask for this name.
    #[must_use]
    pub fn may_ask(&self, name: &str) -> bool {
        self.models.as_ref().is_none_or(|models| models.contains(name) || base::mutant!(ListIgnored))
    }
}

/// Budgets of a tenant's scenarios.
pub(crate) type Scenarios = BTreeMap<Name, Vec<Arc<Budget>>>;

#[expect(clippy::disallowed_types, reason = "looked up by a key's hash, and never iterated")]
type ByHash = std::collections::HashMap<KeyHash, Arc<Principal>, BuildHasherDefault<FirstBytes>>;

/// All holders, by the hash of their keys, and the gates that outlive a snapshot.
#[derive(Debug, Default)]
pub(super) struct Callers {
    by_hash: ByHash,
    tenant_gates: BTreeMap<TenantName, SharedGate>,
    app_gates: BTreeMap<(TenantName, Name), SharedGate>,
    key_gates: BTreeMap<Name, SharedGate>,
}

impl Callers {
    /// Compiles a consistent catalog; gates of tenants and keys that stay are taken over with what is in progress.
    pub(super) fn compile(catalog: &Catalog, before: &Self, now: Mono) -> Self {
        let tenants = catalog.tenants.values().map(|tenant| (tenant.name.clone(), tenant.limits));
        let apps = catalog.apps.iter().map(|(id, app)| (id.clone(), app.limits));
        let keys = catalog.keys.values().map(|key| (key.name.clone(), key.limits));
        let tenant_gates = carry_over(tenants, &before.tenant_gates, now);
        let app_gates = carry_over(apps, &before.app_gates, now);
        let key_gates = carry_over(keys, &before.key_gates, now);
        let mut by_scope: BTreeMap<&Scope, Vec<Arc<Budget>>> = BTreeMap::new();
        let mut scenarios: BTreeMap<&TenantName, Scenarios> = BTreeMap::new();
        for budget in catalog.budgets.values() {
            let shared = Arc::new(budget.clone());
            if let Scope::Scenario(tenant, scenario) = &budget.scope {
                let of_tenant = scenarios.entry(tenant).or_default();
                of_tenant.entry(scenario.clone()).or_default().push(shared);
            } else {
                by_scope.entry(&budget.scope).or_default().push(shared);
            }
        }
        let scenarios: BTreeMap<_, _> =
            scenarios.into_iter().map(|(tenant, of_tenant)| (tenant, Arc::new(of_tenant))).collect();
        let by_hash = catalog
            .keys
            .values()
            .filter_map(|key| {
                let tenant = catalog.tenants.get(&key.tenant)?;
                let max_stale = u64::from(tenant.max_stale_s);
                let principal = Principal {
                    tenant: key.tenant.clone(),
                    app: key.app.clone(),
                    key: key.name.clone(),
                    revoked: key.revoked,
                    debug: key.debug,
                    max_stale: Duration::from_secs(max_stale),
                    weight: tenant.weight,
                    priority: tenant.priority.max(key.priority),
                    tenant_gate: Arc::clone(tenant_gates.get(&key.tenant)?),
                    app_gate: Arc::clone(app_gates.get(&(key.tenant.clone(), key.app.clone()))?),
                    key_gate: Arc::clone(key_gates.get(&key.name)?),
                    budgets: paying(&by_scope, key),
                    scenarios: scenarios.get(&key.tenant).cloned().unwrap_or_default(),
                    models: key.models.as_ref().map(|models| models.iter().cloned().collect()),
                };
                Some((key.hash, Arc::new(principal)))
            })
            .collect();
        Self { by_hash, tenant_gates, app_gates, key_gates }
    }

    pub(super) fn find(&self, hash: &KeyHash) -> Option<&Arc<Principal>> {
        self.by_hash.get(hash)
    }
}

fn paying(by_scope: &BTreeMap<&Scope, Vec<Arc<Budget>>>, key: &Key) -> Vec<Arc<Budget>> {
    [
        Scope::Tenant(key.tenant.clone()),
        Scope::App(key.tenant.clone(), key.app.clone()),
        Scope::Key(key.name.clone()),
        Scope::EachUser(key.tenant.clone(), None),
        Scope::EachUser(key.tenant.clone(), Some(key.app.clone())),
    ]
    .iter()
    .filter_map(|scope| by_scope.get(scope))
    .flatten()
    .map(Arc::clone)
    .collect()
}

/// The gates of what has limits now: those that were there before, with what is in progress, and new ones.
pub(super) fn carry_over<N: Ord>(
    limits: impl Iterator<Item = (N, Limits)>,
    before: &BTreeMap<N, SharedGate>,
    now: Mono,
) -> BTreeMap<N, SharedGate> {
    limits
        .map(|(name, limits)| {
            let gate = match before.get(&name) {
                Some(gate) => {
                    gate.lock().set_limits(limits, now);
                    Arc::clone(gate)
                }
                None => Arc::new(Lock::new(Gate::new(limits))),
            };
            (name, gate)
        })
        .collect()
}

/// Hashes a hash: SHA-256 spreads well, so that its first eight bytes do. Nobody can steer where a stored key lands
/// without knowing it. Comparing hashes early-out tells a guesser about the hash of the guess, never about a key.
#[derive(Debug, Default)]
struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk::<8>() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    fn write_usize(&mut self, _length_of_the_array: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}
