//! Configured objects in the form that files have, so that what was read back can be applied again. Secrets do not
//! come out: keys show their hash, providers and their keys no credential.

use std::fmt::Write as _;

use base::{Amount, KeyHash, Unit};
use serde_json::{Map, Value, json};
use settings::decimal;
use wire::catalog::{
    Action, Budget, Catalog, Key, Limits, Mode, Model, Object, Operation, Provider, ProviderKey, Replica,
    Route, Scope, Strategy, Tenant, Threshold, Window,
};

use super::{accounts, prices};

/// The whole configuration, as one file.
#[must_use]
pub fn export(catalog: &Catalog) -> Value {
    let mut file = Map::new();
    for one in catalog.objects().filter(|one| !accounts::is_limit(one)) {
        let list = file.entry(list_of(&one)).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(items) = list {
            items.push(match &one {
                Object::Provider(provider) => with_limits(catalog, provider, object(&one)),
                _other => object(&one),
            });
        }
    }
    Value::Object(file)
}

/// One object, as an item of its list.
#[must_use]
pub fn object(object: &Object) -> Value {
    without_nulls(match object {
        Object::Tenant(tenant) => tenant_form(tenant),
        Object::App(app) => {
            json!({ "tenant": app.tenant, "name": app.name, "limits": limits_form(&app.limits) })
        }
        Object::Key(key) => key_form(key),
        Object::Provider(provider) => provider_form(provider),
        Object::Model(model) => model_form(model),
        Object::Group(group) => json!({ "name": group.name, "models": group.models }),
        Object::Route(route) => route_form(route),
        Object::Budget(budget) => budget_form(budget),
    })
}

const fn list_of(object: &Object) -> &'static str {
    match object {
        Object::Tenant(_) => "tenants",
        Object::App(_) => "apps",
        Object::Key(_) => "keys",
        Object::Provider(_) => "providers",
        Object::Model(_) => "models",
        Object::Group(_) => "groups",
        Object::Route(_) => "routes",
        Object::Budget(_) => "budgets",
    }
}

fn tenant_form(tenant: &Tenant) -> Value {
    json!({
        "name": tenant.name,
        "limits": limits_form(&tenant.limits),
        "max_stale_s": tenant.max_stale_s,
        "weight": tenant.weight,
        "priority": tenant.priority.as_str(),
    })
}

fn limits_form(limits: &Limits) -> Value {
    if *limits == Limits::default() {
        return Value::Null;
    }
    json!({
        "requests_per_s": limits.requests_per_s,
        "concurrency": limits.concurrency,
        "streams": limits.streams,
        "requests_per_min": limits.requests_per_min,
        "tokens_per_min": limits.tokens_per_min,
        "tokens_per_day": limits.tokens_per_day,
    })
}

fn key_form(key: &Key) -> Value {
    json!({
        "name": key.name,
        "tenant": key.tenant,
        "app": key.app,
        "hash": hash_form(key.hash),
        "limits": limits_form(&key.limits),
        "models": key.models,
        "debug": key.debug,
        "revoked": key.revoked,
        "priority": key.priority.as_str(),
    })
}

fn hash_form(hash: KeyHash) -> String {
    let mut text = "sha256:".to_owned();
    for byte in hash.0 {
        // Writing to a string does not fail.
        let _written = write!(text, "{byte:02x}");
    }
    text
}

fn provider_form(provider: &Provider) -> Value {
    json!({
        "name": provider.name,
        "dialect": provider.dialect.as_str(),
        "base_url": provider.base_url,
        "keys": (!provider.keys.is_empty()).then(|| provider.keys.iter().map(provider_key_form).collect::<Vec<_>>()),
    })
}

fn with_limits(catalog: &Catalog, provider: &Provider, mut form: Value) -> Value {
    if let (Value::Object(fields), limits @ Value::Object(_)) = (&mut form, accounts::form(catalog, provider))
    {
        fields.insert("limits".to_owned(), limits);
    }
    form
}

fn provider_key_form(key: &ProviderKey) -> Value {
    json!({
        "name": key.name,
        "weight": key.weight,
        "concurrency": key.concurrency,
        "requests_per_min": key.requests_per_min,
        "tokens_per_min": key.tokens_per_min,
    })
}

fn model_form(model: &Model) -> Value {
    json!({
        "name": model.name,
        "upstream_model": model.upstream_model,
        "dialect": model.dialect.as_str(),
        "operations": model.operations.iter().copied().map(Operation::as_str).collect::<Vec<_>>(),
        "price": model.price.as_ref().map(prices::form),
        "context": model.context,
        "output_cap": model.output_cap,
        "tokenizer": model.tokenizer,
        "image_tokens": model.image_tokens,
        "audio": model.audio.map(|audio| json!({
            "tokens_per_s": audio.tokens_per_s,
            "least_kbps": audio.least_kbps,
            "most_tokens": audio.most_tokens,
        })),
        "file_tokens": model.file_tokens,
        "replicas": model.replicas.iter().map(replica_form).collect::<Vec<_>>(),
        "provider": model.provider,
        "timeouts": {
            "connect_ms": model.timeouts.connect_ms,
            "first_byte_ms": model.timeouts.first_byte_ms,
            "idle_ms": model.timeouts.idle_ms,
            "total_ms": model.timeouts.total_ms,
        },
        "limits": limits_form(&model.limits),
    })
}

fn replica_form(replica: &Replica) -> Value {
    json!({
        "name": replica.name,
        "region": replica.region,
        "url": replica.url,
        "concurrency": replica.concurrency,
        "requests_per_s": replica.requests_per_s,
        "requests_per_min": replica.requests_per_min,
        "tokens_per_min": replica.tokens_per_min,
    })
}

fn route_form(route: &Route) -> Value {
    let strategy = match route.strategy {
        Strategy::Ordered => "ordered",
        Strategy::Weighted => "weighted",
    };
    let target = |target: &wire::catalog::Target| json!({ "model": target.model, "weight": target.weight });
    json!({
        "name": route.name,
        "aliases": route.aliases,
        "strategy": strategy,
        "targets": route.targets.iter().map(target).collect::<Vec<_>>(),
    })
}

fn budget_form(budget: &Budget) -> Value {
    let mut form = match &budget.scope {
        Scope::Tenant(tenant) => json!({ "tenant": tenant }),
        Scope::App(tenant, app) => json!({ "tenant": tenant, "app": app }),
        Scope::Key(key) => json!({ "key": key }),
        Scope::Scenario(tenant, scenario) => json!({ "tenant": tenant, "scenario": scenario }),
        Scope::Model(tenant, model) => json!({ "tenant": tenant, "model": model }),
        Scope::Provider(provider) => json!({ "provider": provider }),
        Scope::EachUser(tenant, None) => json!({ "tenant": tenant, "each": "user" }),
        Scope::EachUser(tenant, Some(app)) => json!({ "tenant": tenant, "app": app, "each": "user" }),
    };
    let window = match budget.window {
        Window::Minute => "minute".to_owned(),
        Window::Hour => "hour".to_owned(),
        Window::Day => "day".to_owned(),
        Window::Month => "month".to_owned(),
        Window::Total => "total".to_owned(),
        Window::Rolling { seconds } => format!("rolling {seconds}s"),
    };
    let zone = &budget.zone.name;
    let (mode, overdraft) = match budget.mode {
        Mode::Strict => (None, None),
        Mode::Soft { overdraft } => (Some("soft"), Some(amount(budget.unit, overdraft))),
    };
    let rest = json!({
        "name": budget.name,
        "unit": budget.unit.as_str(),
        "window": window,
        "time_zone": (!zone.is_empty()).then_some(zone),
        "limit": amount(budget.unit, budget.limit),
        "mode": mode,
        "overdraft": overdraft,
        "thresholds": budget.thresholds.iter().map(threshold_form).collect::<Vec<_>>(),
        "horizon_ms": budget.horizon_ms,
    });
    if let (Value::Object(form), Value::Object(rest)) = (&mut form, rest) {
        form.extend(rest);
    }
    form
}

fn amount(unit: Unit, amount: Amount) -> Value {
    match unit {
        Unit::NanoUsd => json!(decimal::text(base::NanoUsd(amount.0))),
        Unit::Tokens | Unit::InputTokens | Unit::OutputTokens | Unit::Requests => json!(amount),
    }
}

fn threshold_form(threshold: &Threshold) -> Value {
    let (action, output_cap, cheapest, off) = match &threshold.action {
        Action::Warn => ("warn", None, None, None),
        Action::Downgrade { output_cap, cheapest } => ("downgrade", *output_cap, Some(cheapest), None),
        Action::Restrict { output_cap, cheapest, off } => {
            let off: Vec<_> = off.iter().map(|feature| feature.as_str()).collect();
            ("downgrade", *output_cap, Some(cheapest), Some(off))
        }
        Action::Refuse => ("refuse", None, None, None),
    };
    json!({
        "at": decimal::text(base::NanoUsd(u64::from(threshold.at_per_mille) * 1_000_000)),
        "do": action,
        "output_cap": output_cap,
        "cheapest": cheapest,
        "features_off": off,
        "except_keys": threshold.except_keys,
        "except_tenants": threshold.except_tenants,
    })
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_name, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}
