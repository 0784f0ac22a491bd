//! Tenants of their own with a weight, limits and callers, who wait for one another.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Chance, Counts, HangUps, Load, Times};

/// A tenant, with one application and one key, and its callers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crowd {
    /// The tenant's name.
    pub tenant: String,
    /// Its share where calls wait.
    #[serde(default = "one")]
    pub weight: u32,
    /// The share of its calls that say that they are batch.
    #[serde(default)]
    pub batch: Chance,
    /// Its limits at one edge.
    #[serde(default)]
    pub limits: Limits,
    /// Its application's.
    #[serde(default)]
    pub app_limits: Limits,
    /// Its key's.
    #[serde(default)]
    pub key_limits: Limits,
    /// Callers per region with edges.
    #[serde(default = "single")]
    pub callers: Counts,
    /// Calls that each makes at once.
    pub burst: Counts,
    /// From the end of all of them to the next burst.
    #[serde(default = "often")]
    pub burst_every: Times,
    /// The share of calls streamed.
    #[serde(default = "all")]
    pub streamed: Chance,
    /// Callers who hang up.
    #[serde(default)]
    pub hang_up: HangUps,
}

/// Limits as configurations have them; absent: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Calls in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_s: Option<u32>,
    /// Calls in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_min: Option<u32>,
    /// Tokens in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_min: Option<u64>,
    /// Calls in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Streamed calls in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
}

const fn one() -> u32 {
    1
}

const fn single() -> Counts {
    Counts::exactly(1)
}

const fn often() -> Times {
    Times { least: Duration::from_secs(1), most: Duration::from_secs(5) }
}

const fn all() -> Chance {
    Chance(1_000_000)
}

impl Crowd {
    /// The secret that its callers show.
    #[must_use]
    pub fn secret(&self) -> String {
        format!("sk-of-the-crowd-{}-0123456789abcdef0123456789abcdef", self.tenant)
    }

    /// Its objects in the form that `apply` reads.
    #[must_use]
    pub fn catalog(&self) -> String {
        let Self { tenant, weight, .. } = self;
        let [limits, app, key] = [self.limits, self.app_limits, self.key_limits].map(Limits::text);
        let secret = self.secret();
        format!(
            "tenants: [{{name: {tenant}, weight: {weight}, limits: {limits}}}]\n\
             apps: [{{tenant: {tenant}, name: web, limits: {app}}}]\n\
             keys: [{{name: {tenant}-key, tenant: {tenant}, app: web, secret: {secret}, limits: {key}}}]\n"
        )
    }

    /// What its callers do, where other callers do as `load` says.
    #[must_use]
    pub fn load(&self, load: &Load) -> Load {
        Load {
            streamed: self.streamed,
            hang_up: self.hang_up,
            burst_every: self.burst_every,
            retries: 0,
            ..load.clone()
        }
    }

    /// Whether it has limits of its own.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        [self.limits, self.app_limits, self.key_limits].iter().any(|limits| *limits != Limits::default())
    }
}

impl Limits {
    /// In the form that `apply` reads.
    #[must_use]
    pub fn text(self) -> String {
        // Five numbers are always JSON, which YAML reads.
        serde_json::to_string(&self).unwrap_or_default()
    }

    /// Whether some rate limits calls, which no queue waits for.
    #[must_use]
    pub const fn has_rate(&self) -> bool {
        self.requests_per_s.is_some() || self.requests_per_min.is_some() || self.tokens_per_min.is_some()
    }
}
