//! What operators configure, as every node holds it: tenants, apps, keys, providers, models, groups, routes, budgets.
//!
//! Central checks a whole change before it becomes an epoch, so that a [`Catalog`] is always consistent: every name
//! that an object mentions exists. Credentials are not here; they never leave central.

use std::collections::BTreeMap;
use std::fmt;

use base::{
    Amount, BudgetId, Epoch, KeyHash, ModelName, Name, Price, Priority, RegionName, TenantName, Tokens, Unit,
    WallMs, WindowId,
};
use serde::{Deserialize, Serialize};

use crate::calendar::Zone;

mod dialect;
mod thresholds;

pub use dialect::Dialect;
pub use thresholds::{Action, Feature, Threshold};

/// Limits at one level; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Calls admitted per second, with a burst of one second's worth.
    pub requests_per_s: Option<u32>,
    /// Calls in progress.
    pub concurrency: Option<u32>,
    /// Streamed calls in progress.
    pub streams: Option<u32>,
    /// Calls admitted per minute, with a burst of one minute's worth.
    pub requests_per_min: Option<u32>,
    /// Input and output tokens per minute, with a burst of one minute's worth.
    pub tokens_per_min: Option<u64>,
    /// Input and output tokens per 24 hours, with a burst of that many.
    pub tokens_per_day: Option<u64>,
}

/// A paying customer of the mesh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its name and identifier.
    pub name: TenantName,
    /// Limits of all its calls at one edge.
    pub limits: Limits,
    /// Longest time an edge may serve it from configuration it could not refresh, in seconds.
    pub max_stale_s: u32,
    /// Its share of what comes free where calls wait, against other tenants'.
    pub weight: u32,
    /// How pressing its calls are at most.
    pub priority: Priority,
}

/// One of a tenant's applications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// Whose it is.
    pub tenant: TenantName,
    /// Its name, unique in its tenant.
    pub name: Name,
    /// Limits of its calls at one edge.
    pub limits: Limits,
}

/// An API key, by its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Its name, unique in the mesh; safe to log.
    pub name: Name,
    /// Whose it is.
    pub tenant: TenantName,
    /// The application that holds it.
    pub app: Name,
    /// SHA-256 of the secret.
    pub hash: KeyHash,
    /// Limits of its calls at one edge.
    pub limits: Limits,
    /// Names it may ask for; `None`: all.
    pub models: Option<Vec<ModelName>>,
    /// Whether it may ask for debugging headers.
    pub debug: bool,
    /// Whether it was revoked.
    pub revoked: bool,
    /// How pressing its calls are at most.
    pub priority: Priority,
}

/// A company whose models central calls with its own credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// Its name.
    pub name: Name,
    /// The API it speaks.
    pub dialect: Dialect,
    /// Root of its API, without `/v1` or `/v1beta`.
    pub base_url: String,
    /// Its keys; none: it has the one that is called [`DEFAULT_KEY`], or is called without a credential.
    pub keys: Vec<ProviderKey>,
}

impl Provider {
    /// Whether it has a key of this name.
    #[must_use]
    pub fn has_key(&self, name: &Name) -> bool {
        let named = self.keys.iter().any(|key| key.name == *name);
        named || (self.keys.is_empty() && name.as_str() == DEFAULT_KEY)
    }
}

/// The name of a provider's key where only one is given, and no name for it.
pub const DEFAULT_KEY: &str = "default";

/// A key of a provider, without its credential. Its limits are of all models together, at one central node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderKey {
    /// Its name, unique in its provider; safe to log.
    pub name: Name,
    /// Its share of calls against the provider's other keys, from 1.
    pub weight: u32,
    /// Calls at once.
    pub concurrency: Option<u32>,
    /// Calls per minute, with a burst of one minute's worth.
    pub requests_per_min: Option<u32>,
    /// Input and output tokens per minute, with a burst of one minute's worth.
    pub tokens_per_min: Option<u64>,
}

/// What a model can be asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/embeddings`.
    Embeddings,
}

impl Operation {
    /// The path at an OpenAI-compatible upstream.
    #[must_use]
    pub const fn openai_path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Embeddings => "/v1/embeddings",
        }
    }

    /// The operation's name in metrics and records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Embeddings => "embeddings",
        }
    }
}

/// A model server in a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// Its name, unique in its model.
    pub name: Name,
    /// The region whose edges may call it.
    pub region: RegionName,
    /// Root of its API, without `/v1` or `/v1beta`.
    pub url: String,
    /// Calls it takes at once; `None`: as many as come.
    pub concurrency: Option<u32>,
    /// Calls that one edge gives it per second, with a burst of one second's worth.
    pub requests_per_s: Option<u32>,
    /// Calls that one edge gives it per minute, with a burst of one minute's worth.
    pub requests_per_min: Option<u32>,
    /// Input and output tokens that one edge gives it per minute, with a burst of one minute's worth.
    pub tokens_per_min: Option<u64>,
}

/// How long a call may take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// Until a connection stands.
    pub connect_ms: u32,
    /// From sending until the first byte of the answer's body.
    pub first_byte_ms: u32,
    /// Between two chunks of the answer.
    pub idle_ms: u32,
    /// For the whole call.
    pub total_ms: u32,
}

impl Default for Timeouts {
    /// 2 s, 60 s, 60 s and 10 min: a slow first token is common, a silent minute is not.
    fn default() -> Self {
        Self { connect_ms: 2_000, first_byte_ms: 60_000, idle_ms: 60_000, total_ms: 600_000 }
    }
}

/// A physical model: replicas in regions, a provider, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// What callers may ask for.
    pub name: ModelName,
    /// What its upstreams call it; `None`: as `name`.
    pub upstream_model: Option<String>,
    /// The API its upstreams speak.
    pub dialect: Dialect,
    /// What it can do.
    pub operations: Vec<Operation>,
    /// What it costs; `None` is unknown, and no strict budget pays for it.
    pub price: Option<Price>,
    /// Input and output tokens that fit together; `None` is unknown.
    pub context: Option<Tokens>,
    /// Most output tokens of a call; put on the wire when the caller gave no cap.
    pub output_cap: Option<Tokens>,
    /// The tokenizer's name and version; `None`, or one that a build does not have: bytes bound tokens.
    pub tokenizer: Option<String>,
    /// Most input tokens of one image; `None`: nothing but `context` bounds calls with images.
    pub image_tokens: Option<Tokens>,
    /// What bounds the input tokens of sound; `None`: nothing but `context` does.
    pub audio: Option<Audio>,
    /// Most input tokens of one file; `None`: nothing but `context` bounds calls with files.
    pub file_tokens: Option<Tokens>,
    /// Model servers.
    pub replicas: Vec<Replica>,
    /// The provider that serves it through central.
    pub provider: Option<Name>,
    /// How long a call may take.
    pub timeouts: Timeouts,
    /// Limits of its calls at one edge, whoever calls and wherever it is served.
    pub limits: Limits,
}

impl Model {
    /// What its upstreams call it.
    #[must_use]
    pub fn upstream_name(&self) -> &str {
        self.upstream_model.as_deref().unwrap_or_else(|| self.name.as_str())
    }
}

/// What bounds the input tokens of sound in a call: its length, a most for each piece, or the smaller of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audio {
    /// Input tokens of a second of it.
    pub tokens_per_s: Option<u32>,
    /// The lowest bit rate, in 1000 bits a second, of sound that tells none, which is all but uncompressed WAV; `None`: the
    /// length of such sound is not known.
    pub least_kbps: Option<u32>,
    /// Most input tokens of one piece.
    pub most_tokens: Option<Tokens>,
}

/// A capability that several models have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// What callers may ask for.
    pub name: ModelName,
    /// Models, best first.
    pub models: Vec<ModelName>,
}

/// How a route picks among its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The first that can serve.
    Ordered,
    /// Drawn by weight, the others after it by weight.
    Weighted,
}

/// One of a route's targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// A model or a group.
    pub model: ModelName,
    /// Its share under [`Strategy::Weighted`].
    pub weight: u32,
}

/// A name that callers may ask for, and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// What callers may ask for.
    pub name: ModelName,
    /// Other names for the same.
    pub aliases: Vec<ModelName>,
    /// How to pick.
    pub strategy: Strategy,
    /// From what to pick; never empty.
    pub targets: Vec<Target>,
}

/// Whose calls a budget pays for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All of a tenant's.
    Tenant(TenantName),
    /// One application's.
    App(TenantName, Name),
    /// One key's.
    Key(Name),
    /// A tenant's that name this scenario.
    Scenario(TenantName, Name),
    /// Those that this model, or a model of this group, answers; of one tenant or of all.
    Model(Option<TenantName>, ModelName),
    /// Those that this provider answers, whoever calls.
    Provider(Name),
    /// A tenant's, or one of its applications', each end user's from an account of their own.
    EachUser(TenantName, Option<Name>),
}

impl Scope {
    /// Its level, as metrics and records spell it.
    #[must_use]
    pub const fn level(&self) -> &'static str {
        match self {
            Self::Tenant(_) => "tenant",
            Self::App(..) => "app",
            Self::Key(_) => "key",
            Self::Scenario(..) => "scenario",
            Self::Model(..) => "model",
            Self::Provider(_) => "provider",
            Self::EachUser(..) => "user",
        }
    }
}

/// The span after which a budget starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// Each hour.
    Hour,
    /// Each day.
    Day,
    /// Each calendar month.
    Month,
    /// Never.
    Total,
    /// Each minute.
    Minute,
    /// Never: what was spent comes free again as time passes, so that no span of this length spends more than the limit.
    Rolling {
        /// How long the span is.
        seconds: u32,
    },
}

/// What becomes of calls that a budget's credit does not cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// They wait a moment, and are refused: never overspent.
    #[default]
    Strict,
    /// They are made and counted beside the credit; what is spent decides by [`Threshold`]s.
    Soft {
        /// The most that calls of one edge may need together without credit while it hears nothing of central.
        overdraft: Amount,
    },
}

/// A budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Given by central, never reused.
    pub id: BudgetId,
    /// Its name.
    pub name: Name,
    /// Whose calls it pays for.
    pub scope: Scope,
    /// What it counts.
    pub unit: Unit,
    /// When it starts anew.
    pub window: Window,
    /// Where its days and months begin at midnight.
    pub zone: Zone,
    /// What may be spent in one window.
    pub limit: Amount,
    /// What becomes of calls that its credit does not cover.
    pub mode: Mode,
    /// What happens before the limit is reached, and at it, in ascending order.
    pub thresholds: Vec<Threshold>,
    /// How long an edge should be able to spend without central, in milliseconds; longer strands more.
    pub horizon_ms: u32,
}

impl Budget {
    /// Whether each end user has an account, with the whole limit.
    #[must_use]
    pub const fn is_each_users(&self) -> bool {
        matches!(self.scope, Scope::EachUser(..))
    }

    /// The window that contains `at`.
    #[must_use]
    pub fn window_at(&self, at: WallMs) -> WindowId {
        self.window.at(at, &self.zone)
    }

    /// The first instant behind `window`; `None` when it never ends.
    #[must_use]
    pub fn window_end(&self, window: WindowId) -> Option<WallMs> {
        self.window.end(window, &self.zone)
    }
}

/// Any configured object. A new form of an object is a new variant at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Object {
    /// A tenant.
    Tenant(Tenant),
    /// An application.
    App(App),
    /// An API key.
    Key(Key),
    /// A provider.
    Provider(Provider),
    /// A model.
    Model(Model),
    /// A group.
    Group(Group),
    /// A route.
    Route(Route),
    /// A budget.
    Budget(Budget),
}

/// Names any configured object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ObjectId {
    /// A tenant.
    Tenant(TenantName),
    /// An application.
    App(TenantName, Name),
    /// An API key.
    Key(Name),
    /// A provider.
    Provider(Name),
    /// A model.
    Model(ModelName),
    /// A group.
    Group(ModelName),
    /// A route.
    Route(ModelName),
    /// A budget, by name.
    Budget(Name),
}

impl Object {
    /// The object's name among all.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        match self {
            Self::Tenant(tenant) => ObjectId::Tenant(tenant.name.clone()),
            Self::App(app) => ObjectId::App(app.tenant.clone(), app.name.clone()),
            Self::Key(key) => ObjectId::Key(key.name.clone()),
            Self::Provider(provider) => ObjectId::Provider(provider.name.clone()),
            Self::Model(model) => ObjectId::Model(model.name.clone()),
            Self::Group(group) => ObjectId::Group(group.name.clone()),
            Self::Route(route) => ObjectId::Route(route.name.clone()),
            Self::Budget(budget) => ObjectId::Budget(budget.name.clone()),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant(name) => write!(f, "tenant {name}"),
            Self::App(tenant, name) => write!(f, "app {tenant}/{name}"),
            Self::Key(name) => write!(f, "key {name}"),
            Self::Provider(name) => write!(f, "provider {name}"),
            Self::Model(name) => write!(f, "model {name}"),
            Self::Group(name) => write!(f, "group {name}"),
            Self::Route(name) => write!(f, "route {name}"),
            Self::Budget(name) => write!(f, "budget {name}"),
        }
    }
}

/// One object put or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::large_enum_variant,
    reason = "objects are moved when configuration changes, and never on a call's path"
)]
pub enum Change {
    /// The object is new or replaces the one of its name.
    Put(Object),
    /// The object is gone.
    Remove(ObjectId),
}

/// The whole configuration of one epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalog {
    /// Its version.
    pub epoch: Epoch,
    /// Tenants.
    pub tenants: BTreeMap<TenantName, Tenant>,
    /// Applications.
    pub apps: BTreeMap<(TenantName, Name), App>,
    /// API keys.
    pub keys: BTreeMap<Name, Key>,
    /// Providers.
    pub providers: BTreeMap<Name, Provider>,
    /// Models.
    pub models: BTreeMap<ModelName, Model>,
    /// Groups.
    pub groups: BTreeMap<ModelName, Group>,
    /// Routes.
    pub routes: BTreeMap<ModelName, Route>,
    /// Budgets, by name.
    pub budgets: BTreeMap<Name, Budget>,
}

impl Catalog {
    /// Makes one change. The caller keeps the whole consistent.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Put(object) => self.put(object),
            Change::Remove(id) => self.remove(&id),
        }
    }

    fn put(&mut self, object: Object) {
        match object {
            Object::Tenant(tenant) => drop(self.tenants.insert(tenant.name.clone(), tenant)),
            Object::App(app) => drop(self.apps.insert((app.tenant.clone(), app.name.clone()), app)),
            Object::Key(key) => drop(self.keys.insert(key.name.clone(), key)),
            Object::Provider(provider) => drop(self.providers.insert(provider.name.clone(), provider)),
            Object::Model(model) => drop(self.models.insert(model.name.clone(), model)),
            Object::Group(group) => drop(self.groups.insert(group.name.clone(), group)),
            Object::Route(route) => drop(self.routes.insert(route.name.clone(), route)),
            Object::Budget(budget) => drop(self.budgets.insert(budget.name.clone(), budget)),
        }
    }

    fn remove(&mut self, id: &ObjectId) {
        match id {
            ObjectId::Tenant(name) => drop(self.tenants.remove(name)),
            ObjectId::App(tenant, name) => drop(self.apps.remove(&(tenant.clone(), name.clone()))),
            ObjectId::Key(name) => drop(self.keys.remove(name)),
            ObjectId::Provider(name) => drop(self.providers.remove(name)),
            ObjectId::Model(name) => drop(self.models.remove(name)),
            ObjectId::Group(name) => drop(self.groups.remove(name)),
            ObjectId::Route(name) => drop(self.routes.remove(name)),
            ObjectId::Budget(name) => drop(self.budgets.remove(name)),
        }
    }

    /// Every object, in an order in which each follows what it mentions.
    pub fn objects(&self) -> impl Iterator<Item = Object> {
        let tenants = self.tenants.values().cloned().map(Object::Tenant);
        let apps = self.apps.values().cloned().map(Object::App);
        let keys = self.keys.values().cloned().map(Object::Key);
        let providers = self.providers.values().cloned().map(Object::Provider);
        let models = self.models.values().cloned().map(Object::Model);
        let groups = self.groups.values().cloned().map(Object::Group);
        let routes = self.routes.values().cloned().map(Object::Route);
        let budgets = self.budgets.values().cloned().map(Object::Budget);
        tenants
            .chain(apps)
            .chain(keys)
            .chain(providers)
            .chain(models)
            .chain(groups)
            .chain(routes)
            .chain(budgets)
    }
}
