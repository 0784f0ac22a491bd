//! What stands where: central nodes, edges, model servers, links, and what calls cost.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::{AccountKey, Chance, Counts, Level, Limits, Times};
use crate::deployment::Spot;

/// What stands where.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Regions with a central node, called `central-REGION`.
    pub central: Vec<String>,
    /// Edges per region, called `edge-REGION`, `edge-REGION-2` and so on.
    pub edges: BTreeMap<String, u64>,
    /// Model servers.
    #[serde(default)]
    pub server: Vec<ServerSpec>,
    /// Names that callers may ask for, each with the models that serve it, the first that can.
    #[serde(default)]
    pub routes: BTreeMap<String, Vec<String>>,
    /// Regions of a cloud, for tables of measured round trips, such as `eu = "aws:eu-central-1"`.
    #[serde(default)]
    pub cloud: BTreeMap<String, String>,
    /// Edges that a smaller run leaves out.
    #[serde(skip)]
    pub without: Vec<String>,
    /// The limit of the strict tenant's budget, in nano-dollars.
    #[serde(default = "plenty")]
    pub budget: u64,
    /// How often it begins anew.
    #[serde(default)]
    pub window: BudgetWindow,
    /// Budgets beside it.
    #[serde(default)]
    pub level: Vec<Level>,
    /// The longest that an edge's credit lasts, in milliseconds.
    #[serde(default)]
    pub horizon_ms: Option<u64>,
    /// What a call costs beside its tokens, in nano-dollars.
    #[serde(default)]
    pub call_price: u64,
    /// Models that cost so many times what the others do.
    #[serde(default)]
    pub dear: BTreeMap<String, u64>,
    /// Limits of models at one edge.
    #[serde(default)]
    pub limits: BTreeMap<String, Limits>,
    /// How old the configuration may be that tenants' calls are served from, in seconds; absent: a day.
    #[serde(default)]
    pub max_stale_s: Option<u64>,
    /// The longest round trip between central nodes, which elections follow from; absent: measured from the links.
    #[serde(default)]
    pub round_trip: Option<Times>,
    /// How long a sync of a central node's or an edge's disk takes.
    #[serde(default = "usual_sync")]
    pub sync: Times,
}

/// How often a budget begins anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetWindow {
    /// Never.
    #[default]
    Total,
    /// Each hour; runs begin with one.
    Hour,
}

impl BudgetWindow {
    /// As configurations call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Hour => "hour",
        }
    }
}

const fn plenty() -> u64 {
    1_000_000_000_000
}

const fn usual_sync() -> Times {
    Times { least: Duration::from_millis(1), most: Duration::from_millis(4) }
}

/// A model server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// Its machine's name.
    pub name: String,
    /// Its region.
    pub region: String,
    /// Whether it is a provider, which central alone may reach.
    #[serde(default)]
    pub provider: bool,
    /// The models it serves.
    pub serves: Vec<String>,
    /// Keys of a provider's account; absent: it has one credential.
    #[serde(default)]
    pub keys: Vec<AccountKey>,
    /// Calls a minute that a provider's account may make, over all nodes; absent: unlimited.
    #[serde(default)]
    pub requests_per_min: Option<u64>,
    /// Calls that each edge of its region gives it at once; absent: unlimited. No provider has it.
    #[serde(default)]
    pub concurrency: Option<u32>,
    /// What it does.
    #[serde(default)]
    pub does: Behaviour,
}

/// What a model server does; each request draws its own. Chances are of one.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Behaviour {
    /// From the request to the first token.
    pub first_token: Times,
    /// Tokens of an answer, unless the caller's cap is lower.
    pub tokens: Counts,
    /// Tokens per second after the first.
    pub tokens_per_s: Counts,
    /// It answers 429, half of them with Retry-After.
    pub too_many: Chance,
    /// It answers 500 or 503.
    pub error: Chance,
    /// It stops after some tokens and keeps the connection.
    pub hang: Chance,
    /// It breaks the connection off after some tokens, or before the first.
    pub reset: Chance,
    /// It tells no usage.
    pub no_usage: Chance,
    /// It tells a usage that is not true, but below any bound.
    pub lying_usage: Chance,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            first_token: Times::ms(30, 150),
            tokens: Counts { least: 3, most: 12 },
            tokens_per_s: Counts { least: 40, most: 120 },
            too_many: Chance(0),
            error: Chance(0),
            hang: Chance(0),
            reset: Chance(0),
            no_usage: Chance(0),
            lying_usage: Chance(0),
        }
    }
}

/// A link between two regions, in each direction.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// One way.
    pub delay: Times,
    /// At most this much is added, drawn for each packet.
    #[serde(default)]
    pub jitter_ms: u64,
    /// The chance that a packet is lost.
    #[serde(default)]
    pub loss: Chance,
}

impl Topology {
    /// The central nodes.
    #[must_use]
    pub fn centrals(&self) -> Vec<Spot> {
        let spot = |region: &String| Spot { name: format!("central-{region}"), region: region.clone() };
        self.central.iter().map(spot).collect()
    }

    /// The edges.
    #[must_use]
    pub fn edge_spots(&self) -> Vec<Spot> {
        let named = |region: &String, number: u64| match number {
            1 => format!("edge-{region}"),
            _ => format!("edge-{region}-{number}"),
        };
        let of = |(region, count): (&String, &u64)| {
            let spot = |number| Spot { name: named(region, number), region: region.clone() };
            (1..=*count).map(spot).collect::<Vec<_>>()
        };
        self.edges.iter().flat_map(of).filter(|spot| !self.without.contains(&spot.name)).collect()
    }

    /// The models that some server serves, in order of name.
    #[must_use]
    pub fn models(&self) -> Vec<String> {
        let mut models: Vec<String> = self.server.iter().flat_map(|server| server.serves.clone()).collect();
        models.sort();
        models.dedup();
        models
    }

    /// All budgets beside the strict tenant's own, limits of accounts with them.
    #[must_use]
    pub fn levels(&self) -> Vec<Level> {
        let limit = |server: &ServerSpec| Some(Level::account(&server.name, server.requests_per_min?));
        self.level.iter().cloned().chain(self.server.iter().filter_map(limit)).collect()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        for level in &self.level {
            level.check()?;
        }
        if self.central.is_empty() || self.edges.values().sum::<u64>() == 0 {
            return Err("topology: a mesh has at least one central node and one edge".to_owned());
        }
        let models = self.models();
        for (route, targets) in &self.routes {
            if targets.is_empty() || targets.iter().any(|target| !models.contains(target)) {
                return Err(format!(
                    "topology.routes.{route}: name models that are served: {}",
                    models.join(", ")
                ));
            }
        }
        if let Some(model) = self.dear.keys().find(|model| !models.contains(model)) {
            return Err(format!("topology.dear.{model}: name models that are served: {}", models.join(", ")));
        }
        if let Some(model) = self.limits.keys().find(|model| !models.contains(model)) {
            return Err(format!(
                "topology.limits.{model}: name models that are served: {}",
                models.join(", ")
            ));
        }
        for server in &self.server {
            if server.provider && server.concurrency.is_some() {
                return Err(format!(
                    "topology.server {:?} is a provider: leave concurrency out",
                    server.name
                ));
            }
            if server.serves.is_empty() {
                return Err(format!("topology.server {:?} serves nothing; name its models", server.name));
            }
        }
        Ok(())
    }
}
