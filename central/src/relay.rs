//! Calls to providers: the credentials of the state, opened here and given to `egress`, which serves the calls.

use std::sync::Arc;

use central_core::{KeyOf, Sealed, State};
use egress::{Credential, Egress, Key, KeyTerms, Origin, Terms, Upstream};
use wire::call::ServeAt;
use wire::catalog::{Catalog, DEFAULT_KEY, Provider, ProviderKey};

use crate::consensus::Consensus;
use crate::seal::SealKeys;

/// Serves calls at providers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Relay {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    consensus: Consensus,
    egress: Egress,
    keys: Option<Arc<SealKeys>>,
}

impl Relay {
    /// Serves what the state has, with the credentials that `keys` open.
    #[must_use]
    pub(crate) fn new(consensus: &Consensus, egress: &Egress, keys: Option<Arc<SealKeys>>) -> Self {
        Self { shared: Arc::new(Shared { consensus: consensus.clone(), egress: egress.clone(), keys }) }
    }

    /// Takes up the state's providers, models and credentials.
    pub(crate) fn refresh(&self) {
        let (catalog, credentials) =
            self.shared.consensus.read(|state: &State| (state.shared_catalog(), state.credentials().clone()));
        let open = |of: &KeyOf| self.open(of, credentials.get(of)?);
        self.shared.egress.install(upstreams(&catalog, open));
    }

    /// What serves.
    #[must_use]
    pub(crate) fn egress(&self) -> &Egress {
        &self.shared.egress
    }

    fn open(&self, of: &KeyOf, sealed: &Sealed) -> Option<Credential> {
        let Some(keys) = &self.shared.keys else {
            tracing::warn!(%of, "this node has no sealing keys; it calls the provider without this credential");
            return None;
        };
        match keys.open(of, sealed) {
            Ok(secret) => Credential::of(&secret),
            Err(error) => {
                tracing::error!(%error, "a provider is called without one of its credentials");
                None
            }
        }
    }
}

/// One upstream per model that a provider serves.
fn upstreams(catalog: &Catalog, open: impl Fn(&KeyOf) -> Option<Credential>) -> Vec<Upstream> {
    let mut upstreams = Vec::new();
    for provider in catalog.providers.values() {
        let served = catalog.models.values().filter(|model| model.provider.as_ref() == Some(&provider.name));
        let origin: Origin = match provider.base_url.parse() {
            Ok(origin) => origin,
            Err(error) => {
                tracing::error!(provider = %provider.name, %error, "a provider cannot be called");
                continue;
            }
        };
        let keys = keys(provider, &open);
        upstreams.extend(served.map(|model| Upstream {
            at: ServeAt::Provider,
            model: model.name.clone(),
            name: provider.name.clone(),
            dialect: model.dialect,
            upstream_model: model.upstream_name().to_owned(),
            origin: origin.clone(),
            keys: keys.clone(),
            terms: Terms::default(),
        }));
    }
    upstreams
}

/// A provider's keys, as far as their credentials open. One credential without a name is one key without limits.
fn keys(provider: &Provider, open: impl Fn(&KeyOf) -> Option<Credential>) -> Vec<Key> {
    let key = |terms: KeyTerms| {
        let of = KeyOf { provider: provider.name.clone(), key: terms.name.clone() };
        Some(Key { terms, credential: open(&of)? })
    };
    if provider.keys.is_empty() {
        let name = DEFAULT_KEY.parse().ok();
        return name
            .and_then(|name| key(KeyTerms { name, weight: 1, terms: Terms::default() }))
            .into_iter()
            .collect();
    }
    let terms = |of: &ProviderKey| KeyTerms {
        name: of.name.clone(),
        weight: of.weight,
        terms: Terms {
            concurrency: of.concurrency,
            requests_per_s: None,
            requests_per_min: of.requests_per_min,
            tokens_per_min: of.tokens_per_min,
        },
    };
    provider.keys.iter().filter_map(|of| key(terms(of))).collect()
}
