//! Calls to providers: the credentials of the state, opened here and given to `egress`, which serves the calls.

use std::sync::Arc;

use base::Name;
use central_core::{Sealed, State};
use egress::{Credential, Egress, Origin, Terms, Upstream};
use wire::call::ServeAt;
use wire::catalog::{Catalog, Provider};

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
        let open = |provider: &Provider| self.open(&provider.name, credentials.get(&provider.name)?);
        self.shared.egress.install(upstreams(&catalog, open));
    }

    /// What serves.
    #[must_use]
    pub(crate) fn egress(&self) -> &Egress {
        &self.shared.egress
    }

    fn open(&self, provider: &Name, sealed: &Sealed) -> Option<Credential> {
        let Some(keys) = &self.shared.keys else {
            tracing::warn!(%provider, "this node has no sealing keys; it calls the provider without a credential");
            return None;
        };
        match keys.open(provider, sealed) {
            Ok(secret) => Credential::bearer(&secret),
            Err(error) => {
                tracing::error!(%error, "a provider is called without its credential");
                None
            }
        }
    }
}

/// One upstream per model that a provider serves.
fn upstreams(catalog: &Catalog, open: impl Fn(&Provider) -> Option<Credential>) -> Vec<Upstream> {
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
        let credential = open(provider);
        upstreams.extend(served.map(|model| Upstream {
            at: ServeAt::Provider,
            model: model.name.clone(),
            name: provider.name.clone(),
            origin: origin.clone(),
            credential: credential.clone(),
            terms: Terms::default(),
        }));
    }
    upstreams
}
