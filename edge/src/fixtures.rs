//! What unit tests share: a configuration with two keys and a model.

use base::{Amount, BudgetId, KeyHash, Name, Priority, TenantName, Tokens, Unit};
use wire::calendar::Zone;
use wire::catalog::{
    App, Budget, Catalog, Dialect, Key, Limits, Mode, Model, Operation, Replica, Scope, Tenant, Timeouts,
    Window,
};

/// The hash under which a key is known.
pub(crate) fn hash(secret: &str) -> KeyHash {
    crate::identity::hash(secret.as_bytes())
}

/// Tenant `acme` with the key `sk-test` (it may debug) and the revoked key `sk-revoked`; model `tiny` in region `here`.
pub(crate) fn catalog() -> Catalog {
    let mut catalog = Catalog::default();
    let tenant: TenantName = "acme".parse().unwrap();
    let limits = Limits::default();
    catalog.tenants.insert(
        tenant.clone(),
        Tenant {
            name: tenant.clone(),
            limits,
            max_stale_s: 3_600,
            weight: 1,
            priority: Priority::Interactive,
        },
    );
    let app = App { tenant: tenant.clone(), name: "web".parse().unwrap(), limits };
    catalog.apps.insert((tenant.clone(), app.name.clone()), app);
    for (name, secret, revoked) in [("k1", "sk-test", false), ("k2", "sk-revoked", true)] {
        let name: Name = name.parse().unwrap();
        let key = Key {
            name: name.clone(),
            tenant: tenant.clone(),
            app: "web".parse().unwrap(),
            hash: hash(secret),
            limits,
            models: None,
            debug: true,
            revoked,
            priority: Priority::Interactive,
        };
        catalog.keys.insert(name, key);
    }
    let tiny = model("tiny", "http://127.0.0.1:1");
    catalog.models.insert(tiny.name.clone(), tiny);
    catalog
}

/// A byte-level BPE of 295 tokens that composes characters first.
pub(crate) const TINY_TOKENIZER: &str = include_str!("../../shared/tokens/fixtures/tiny.json");

/// A model with one replica at `url` in region `here`.
pub(crate) fn model(name: &str, url: &str) -> Model {
    Model {
        name: name.parse().unwrap(),
        upstream_model: None,
        dialect: Dialect::Openai,
        operations: vec![Operation::Chat, Operation::Embeddings],
        price: None,
        context: None,
        output_cap: Some(Tokens(64)),
        tokenizer: None,
        image_tokens: None,
        audio: None,
        file_tokens: None,
        replicas: vec![Replica {
            name: format!("{name}-1").parse().unwrap(),
            region: "here".parse().unwrap(),
            url: url.to_owned(),
            concurrency: None,
            requests_per_s: None,
            requests_per_min: None,
            tokens_per_min: None,
        }],
        provider: None,
        timeouts: Timeouts::default(),
        limits: Limits::default(),
    }
}

/// A strict daily budget of tenant `acme`.
pub(crate) fn budget(name: &str, unit: Unit) -> Budget {
    Budget {
        id: BudgetId(1),
        name: name.parse().unwrap(),
        scope: Scope::Tenant("acme".parse().unwrap()),
        unit,
        window: Window::Day,
        zone: Zone::default(),
        limit: Amount(1_000),
        mode: Mode::Strict,
        thresholds: Vec::new(),
        horizon_ms: 60_000,
    }
}
