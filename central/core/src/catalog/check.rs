//! Whether a whole configuration is consistent. Every fault is reported, not only the first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base::{ModelName, Name};
use wire::catalog::{
    Budget, Catalog, Dialect, Group, Key, Limits, Mode, Model, ObjectId, Operation, Provider, Replica, Route,
    Scope, Strategy, Tenant, Timeouts,
};

use super::url;
use crate::KeyOf;

/// Largest weight of a tenant: shares finer than a thousandth make no difference in lines of some hundreds.
const HEAVIEST: u32 = 1_000;

/// Longest call that may be configured: a day.
const LONGEST_MS: u32 = 86_400_000;

/// Longest horizon of a budget: an hour. More would strand most of a budget at edges.
const LONGEST_HORIZON_MS: u32 = 3_600_000;

/// A fault of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The object at fault.
    pub object: ObjectId,
    /// Its field, as files spell it, with the position in a list when it is one.
    pub field: String,
    /// What is wrong and how to mend it.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.object, self.field, self.what)
    }
}

/// Every fault of `catalog`, in the order of its objects.
#[must_use]
pub fn check(catalog: &Catalog) -> Vec<Problem> {
    let mut report = Report { catalog, problems: Vec::new() };
    catalog.tenants.values().for_each(|tenant| report.tenant(tenant));
    for app in catalog.apps.values() {
        let id = ObjectId::App(app.tenant.clone(), app.name.clone());
        report.tenant_exists(&id, app.tenant.as_str());
        report.limits(&id, &app.limits);
    }
    catalog.keys.values().for_each(|key| report.key(key));
    report.hashes();
    catalog.providers.values().for_each(|provider| report.provider(provider));
    report.names();
    catalog.models.values().for_each(|model| report.model(model));
    catalog.groups.values().for_each(|group| report.group(group));
    catalog.routes.values().for_each(|route| report.route(route));
    catalog.budgets.values().for_each(|budget| report.budget(budget));
    report.problems
}

/// Providers' keys that have no credential, of which `sealed` knows. A key without one would be refused.
pub fn unsealed(catalog: &Catalog, sealed: impl Fn(&KeyOf) -> bool) -> Vec<Problem> {
    let keys = catalog.providers.values().flat_map(|provider| {
        provider.keys.iter().enumerate().map(move |(at, key)| (&provider.name, at, &key.name))
    });
    let lacks = |(provider, at, key): (&Name, usize, &Name)| {
        let of = KeyOf { provider: provider.clone(), key: key.clone() };
        (!sealed(&of)).then(|| Problem {
            object: ObjectId::Provider(provider.clone()),
            field: format!("keys[{at}].credential"),
            what: format!("key {key} has no credential yet; give it one"),
        })
    };
    keys.filter_map(lacks).collect()
}

struct Report<'a> {
    catalog: &'a Catalog,
    problems: Vec<Problem>,
}

impl Report<'_> {
    fn add(&mut self, object: &ObjectId, field: impl Into<String>, what: impl Into<String>) {
        self.problems.push(Problem { object: object.clone(), field: field.into(), what: what.into() });
    }

    fn tenant(&mut self, tenant: &Tenant) {
        let id = ObjectId::Tenant(tenant.name.clone());
        self.limits(&id, &tenant.limits);
        if !(60..=86_400).contains(&tenant.max_stale_s) {
            self.add(&id, "max_stale_s", "must lie between 60 (a minute) and 86400 (a day)");
        }
        if !(1..=HEAVIEST).contains(&tenant.weight) {
            self.add(&id, "weight", format!("must lie between 1 and {HEAVIEST}"));
        }
    }

    fn limits(&mut self, id: &ObjectId, limits: &Limits) {
        let fields = [
            ("limits.requests_per_s", limits.requests_per_s.map(u64::from)),
            ("limits.requests_per_min", limits.requests_per_min.map(u64::from)),
            ("limits.tokens_per_min", limits.tokens_per_min),
            ("limits.tokens_per_day", limits.tokens_per_day),
            ("limits.concurrency", limits.concurrency.map(u64::from)),
            ("limits.streams", limits.streams.map(u64::from)),
        ];
        for (field, _zero) in fields.into_iter().filter(|(_field, value)| *value == Some(0)) {
            self.add(id, field, "0 would refuse every call; leave it out for no limit");
        }
    }

    fn tenant_exists(&mut self, id: &ObjectId, tenant: &str) {
        if !self.catalog.tenants.contains_key(tenant) {
            self.add(id, "tenant", format!("no tenant {tenant:?}; add it under `tenants`"));
        }
    }

    fn key(&mut self, key: &Key) {
        let id = ObjectId::Key(key.name.clone());
        self.tenant_exists(&id, key.tenant.as_str());
        if !self.catalog.apps.contains_key(&(key.tenant.clone(), key.app.clone())) {
            let what =
                format!("tenant {} has no app {:?}; add it under `apps`", key.tenant, key.app.as_str());
            self.add(&id, "app", what);
        }
        self.limits(&id, &key.limits);
        for (at, name) in key.models.iter().flatten().enumerate() {
            if !self.is_name(name) {
                self.add(&id, format!("models[{at}]"), nothing_called(name));
            }
        }
        if key.models.as_ref().is_some_and(Vec::is_empty) {
            self.add(&id, "models", "an empty list lets the key use nothing; leave it out to allow all");
        }
    }

    fn hashes(&mut self) {
        let mut seen = BTreeMap::new();
        for key in self.catalog.keys.values() {
            if let Some(other) = seen.insert(key.hash, &key.name) {
                let what = format!("key {other} has the same secret; give each key its own");
                self.add(&ObjectId::Key(key.name.clone()), "secret", what);
            }
        }
    }

    fn provider(&mut self, provider: &Provider) {
        let id = ObjectId::Provider(provider.name.clone());
        if let Err(fault) = url::check(&provider.base_url) {
            self.add(&id, "base_url", fault.to_string());
        }
        let mut seen = BTreeSet::new();
        for (at, key) in provider.keys.iter().enumerate() {
            if !seen.insert(&key.name) {
                let what = format!("another key is called {} already; give each its own name", key.name);
                self.add(&id, format!("keys[{at}].name"), what);
            }
            let limits = [
                ("concurrency", key.concurrency.map(u64::from)),
                ("requests_per_min", key.requests_per_min.map(u64::from)),
                ("tokens_per_min", key.tokens_per_min),
            ];
            for (field, _zero) in limits.into_iter().filter(|(_field, limit)| *limit == Some(0)) {
                let what = "0 would let the key serve nothing; leave it out for no limit";
                self.add(&id, format!("keys[{at}].{field}"), what);
            }
            if key.weight == 0 {
                self.add(
                    &id,
                    format!("keys[{at}].weight"),
                    "must be at least 1; leave a key out that shall not serve",
                );
            }
        }
    }

    /// No two things that callers may ask for share a name.
    fn names(&mut self) {
        let catalog = self.catalog;
        let models =
            catalog.models.keys().map(|name| (name, ObjectId::Model(name.clone()), "name".to_owned()));
        let groups =
            catalog.groups.keys().map(|name| (name, ObjectId::Group(name.clone()), "name".to_owned()));
        let routes =
            catalog.routes.keys().map(|name| (name, ObjectId::Route(name.clone()), "name".to_owned()));
        let aliases = catalog.routes.values().flat_map(|route| {
            let id = ObjectId::Route(route.name.clone());
            route
                .aliases
                .iter()
                .enumerate()
                .map(move |(at, name)| (name, id.clone(), format!("aliases[{at}]")))
        });
        let mut seen: BTreeMap<&ModelName, ObjectId> = BTreeMap::new();
        for (name, id, field) in models.chain(groups).chain(routes).chain(aliases) {
            if let Some(first) = seen.get(name) {
                let what = format!("{name:?} already names {first}; callers could not tell them apart");
                self.add(&id, field, what);
            } else {
                seen.insert(name, id);
            }
        }
    }

    fn is_name(&self, name: &ModelName) -> bool {
        let catalog = self.catalog;
        catalog.models.contains_key(name)
            || catalog.groups.contains_key(name)
            || catalog.routes.contains_key(name)
            || catalog.routes.values().any(|route| route.aliases.contains(name))
    }

    fn model(&mut self, model: &Model) {
        let id = ObjectId::Model(model.name.clone());
        if model.replicas.is_empty() && model.provider.is_none() {
            self.add(&id, "replicas", "nothing serves this model; give it replicas, a provider, or both");
        }
        if let Some(provider) = &model.provider {
            match self.catalog.providers.get(provider) {
                None => {
                    self.add(&id, "provider", format!("no provider {provider:?}; add it under `providers`"));
                }
                Some(found) if found.dialect != model.dialect => {
                    let (theirs, ours) = (found.dialect.as_str(), model.dialect.as_str());
                    let what = format!(
                        "provider {provider} speaks {theirs}, and the model's `dialect` is {ours}; give both the same"
                    );
                    self.add(&id, "provider", what);
                }
                Some(_same) => {}
            }
        }
        if model.operations.is_empty() {
            self.add(&id, "operations", "an empty list serves nothing; name `chat`, `embeddings` or both");
        }
        let zero = [("context", model.context), ("output_cap", model.output_cap)];
        for (field, _zero) in zero.into_iter().filter(|(_field, value)| value.is_some_and(|v| v.0 == 0)) {
            self.add(&id, field, "must be at least 1 token; leave it out when it is unknown");
        }
        if let (Some(context), Some(cap)) = (model.context, model.output_cap)
            && cap > context
        {
            self.add(&id, "output_cap", format!("exceeds the context of {} tokens", context.0));
        }
        self.speaks(&id, model);
        self.limits(&id, &model.limits);
        self.replicas(&id, &model.replicas);
        self.timeouts(&id, &model.timeouts);
    }

    /// What its API has no word for, and what it demands.
    fn speaks(&mut self, id: &ObjectId, model: &Model) {
        let has = |operation| model.operations.contains(&operation);
        if model.dialect != Dialect::Anthropic {
            return;
        }
        if has(Operation::Embeddings) {
            self.add(id, "operations", "Anthropic's API has no embeddings; leave `embeddings` out");
        }
        if has(Operation::Chat) && model.output_cap.is_none() {
            let what = "is required with `dialect: anthropic`, whose API demands a cap of each call; give the most \
                        tokens that the model answers with";
            self.add(id, "output_cap", what);
        }
    }

    fn replicas(&mut self, id: &ObjectId, replicas: &[Replica]) {
        let mut seen = BTreeMap::new();
        for (at, replica) in replicas.iter().enumerate() {
            if let Some(first) = seen.insert(&replica.name, at) {
                let what = format!("replicas[{first}] has this name already; names are unique in a model");
                self.add(id, format!("replicas[{at}].name"), what);
            }
            if let Err(fault) = url::check(&replica.url) {
                self.add(id, format!("replicas[{at}].url"), fault.to_string());
            }
            let fields = [
                ("concurrency", replica.concurrency.map(u64::from)),
                ("requests_per_s", replica.requests_per_s.map(u64::from)),
                ("requests_per_min", replica.requests_per_min.map(u64::from)),
                ("tokens_per_min", replica.tokens_per_min),
            ];
            for (field, _zero) in fields.into_iter().filter(|(_field, value)| *value == Some(0)) {
                let what = "0 would refuse every call; leave it out for no limit, or remove the replica";
                self.add(id, format!("replicas[{at}].{field}"), what);
            }
        }
    }

    fn timeouts(&mut self, id: &ObjectId, timeouts: &Timeouts) {
        let fields = [
            ("timeouts.connect_ms", timeouts.connect_ms),
            ("timeouts.first_byte_ms", timeouts.first_byte_ms),
            ("timeouts.idle_ms", timeouts.idle_ms),
            ("timeouts.total_ms", timeouts.total_ms),
        ];
        for (field, value) in fields {
            if value == 0 || value > LONGEST_MS {
                self.add(id, field, format!("must lie between 1 and {LONGEST_MS} (a day)"));
            } else if value > timeouts.total_ms {
                self.add(id, field, format!("exceeds `total_ms`, which is {}", timeouts.total_ms));
            }
        }
    }

    fn group(&mut self, group: &Group) {
        let id = ObjectId::Group(group.name.clone());
        if group.models.is_empty() {
            self.add(&id, "models", "a group needs at least one model");
        }
        for (at, name) in group.models.iter().enumerate() {
            let field = format!("models[{at}]");
            if !self.catalog.models.contains_key(name) {
                self.add(&id, field, format!("no model {name:?}; a group holds models only"));
            } else if group.models.iter().take(at).any(|earlier| earlier == name) {
                self.add(&id, field, format!("{name:?} is in the group already"));
            }
        }
    }

    fn route(&mut self, route: &Route) {
        let id = ObjectId::Route(route.name.clone());
        if route.targets.is_empty() {
            self.add(&id, "targets", "a route needs at least one target");
        }
        for (at, target) in route.targets.iter().enumerate() {
            let name = &target.model;
            if !self.catalog.models.contains_key(name) && !self.catalog.groups.contains_key(name) {
                let what = format!("no model or group {name:?}; a route leads to models and groups only");
                self.add(&id, format!("targets[{at}].model"), what);
            }
            if route.strategy == Strategy::Weighted && target.weight == 0 {
                let what = "must be at least 1; remove the target to send it nothing";
                self.add(&id, format!("targets[{at}].weight"), what);
            }
        }
    }

    /// An edge forgets users between their calls, and with them what central said is spent.
    fn each_users(&mut self, id: &ObjectId, budget: &Budget) {
        if budget.mode != Mode::Strict {
            self.add(id, "mode", "each user's account is strict".to_owned());
        }
        if !budget.thresholds.is_empty() {
            self.add(id, "thresholds", "each user's account has no thresholds".to_owned());
        }
    }

    fn budget(&mut self, budget: &Budget) {
        let id = ObjectId::Budget(budget.name.clone());
        let catalog = self.catalog;
        let (exists, field, what) = match &budget.scope {
            Scope::Tenant(tenant) | Scope::EachUser(tenant, None) => {
                (catalog.tenants.contains_key(tenant), "tenant", format!("no tenant {tenant:?}"))
            }
            Scope::App(tenant, app) | Scope::EachUser(tenant, Some(app)) => (
                catalog.apps.contains_key(&(tenant.clone(), app.clone())),
                "app",
                format!("tenant {tenant} has no app {app:?}"),
            ),
            Scope::Key(key) => (catalog.keys.contains_key(key), "key", format!("no key {key:?}")),
            Scope::Scenario(tenant, _scenario) => {
                (catalog.tenants.contains_key(tenant), "tenant", format!("no tenant {tenant:?}"))
            }
            Scope::Model(Some(tenant), _model) if !catalog.tenants.contains_key(tenant) => {
                (false, "tenant", format!("no tenant {tenant:?}"))
            }
            Scope::Model(_tenant, model) => (
                catalog.models.contains_key(model) || catalog.groups.contains_key(model),
                "model",
                format!("no model or group {model:?}"),
            ),
            Scope::Provider(provider) => {
                (catalog.providers.contains_key(provider), "provider", format!("no provider {provider:?}"))
            }
        };
        if !exists {
            self.add(&id, field, format!("{what}; a budget pays for calls of something that exists"));
        }
        if budget.is_each_users() {
            self.each_users(&id, budget);
        }
        for (at, threshold) in budget.thresholds.iter().enumerate() {
            for key in threshold.except_keys.iter().filter(|key| !catalog.keys.contains_key(*key)) {
                self.add(&id, format!("thresholds[{at}].except_keys"), format!("no key {key:?}"));
            }
            for tenant in threshold.except_tenants.iter().filter(|name| !catalog.tenants.contains_key(*name))
            {
                self.add(&id, format!("thresholds[{at}].except_tenants"), format!("no tenant {tenant:?}"));
            }
        }
        if !(1..=LONGEST_HORIZON_MS).contains(&budget.horizon_ms) {
            self.add(&id, "horizon_ms", format!("must lie between 1 and {LONGEST_HORIZON_MS} (an hour)"));
        }
    }
}

fn nothing_called(name: &ModelName) -> String {
    format!("no model, group, route or alias {name:?}")
}
