//! The replicas of this region, as the configuration in force names them, for whatever talks to them.

use base::RegionName;
use egress::{Origin, Terms, Upstream};
use wire::call::ServeAt;
use wire::catalog::Catalog;

/// Every replica of `home`. One whose URL cannot be used is left out and told.
pub(super) fn of(catalog: &Catalog, home: &RegionName) -> Vec<Upstream> {
    let models = catalog.models.values();
    let replicas = models.flat_map(|model| model.replicas.iter().map(move |replica| (model, replica)));
    replicas
        .filter(|(_, replica)| replica.region == *home)
        .filter_map(|(model, replica)| {
            let origin: Origin = match replica.url.parse() {
                Ok(origin) => origin,
                Err(error) => {
                    tracing::warn!(model = %model.name, replica = %replica.name, %error, "a replica's URL cannot be used");
                    return None;
                }
            };
            Some(Upstream {
                at: ServeAt::Replicas,
                model: model.name.clone(),
                name: replica.name.clone(),
                dialect: model.dialect,
                upstream_model: model.upstream_name().to_owned(),
                origin,
                keys: Vec::new(),
                terms: Terms {
                    concurrency: replica.concurrency,
                    requests_per_s: replica.requests_per_s,
                    requests_per_min: replica.requests_per_min,
                    tokens_per_min: replica.tokens_per_min,
                },
            })
        })
        .collect()
}
