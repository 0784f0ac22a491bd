//! Budgets beside the strict tenant's own: of other levels, windows and units, strict or soft; and the keys and limits of a
//! provider's account, which are budgets too.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Deserialize;

/// A budget of some level.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// Which calls it pays for.
    pub of: Of,
    /// In what it counts.
    pub unit: Unit,
    /// As configurations say it: `total`, `minute`, `rolling 20s`.
    #[serde(default = "total")]
    pub window: String,
    /// The most, in its unit; money in nano-dollars.
    pub limit: u64,
    /// Calls go on without credit.
    #[serde(default)]
    pub soft: bool,
    /// The most that a soft one bears at an edge without central, in its unit.
    #[serde(default)]
    pub overdraft: u64,
    /// What it does to calls before it is exhausted.
    #[serde(default)]
    pub threshold: Vec<Step>,
}

/// Which calls a budget pays for. All but the last are the strict tenant's, whose calls all say the same scenario, and
/// the caller's name as the user's.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// The tenant's.
    Tenant,
    /// Its application's.
    App,
    /// Its key's.
    Key,
    /// Those that say [`SCENARIO`].
    Scenario,
    /// Each user's, who has the whole limit.
    User,
    /// Those that a model answers.
    Model(String),
    /// Those that a provider answers, whoever calls.
    Provider(String),
}

/// In what a budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nano-dollars.
    Usd,
    /// Input and output.
    Tokens,
    /// Calls.
    Requests,
}

/// A threshold.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// From so many thousandths of the limit on.
    pub at_per_mille: u64,
    /// `warn`, `downgrade` or `refuse`.
    #[serde(rename = "do")]
    pub does: String,
    /// Most output tokens of a call.
    pub output_cap: Option<u64>,
    /// What calls go without.
    #[serde(default)]
    pub features_off: Vec<String>,
    /// Whether the strict tenant's key is exempt.
    #[serde(default)]
    pub exempt: bool,
}

/// A key of a provider's account.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountKey {
    /// Its name.
    pub name: String,
    /// From so many seconds after the run's begin on it is refused with 401; absent: never.
    pub revoked_after_s: Option<u64>,
    /// Calls that it may make in [`AccountKey::per_s`]; absent: any number. One more gets 429 with `Retry-After`.
    pub requests: Option<u64>,
    /// A span of its calls, in seconds.
    #[serde(default = "some_seconds")]
    pub per_s: u64,
}

/// What callers of the strict tenant say that they work on.
pub const SCENARIO: &str = "trial";

fn total() -> String {
    "total".to_owned()
}

const fn some_seconds() -> u64 {
    6
}

impl Level {
    /// The budget that limits the calls a minute of `provider`'s account.
    #[must_use]
    pub fn account(provider: &str, limit: u64) -> Self {
        Self {
            name: format!("{provider}.requests_per_min"),
            of: Of::Provider(provider.to_owned()),
            unit: Unit::Requests,
            window: "rolling 60s".to_owned(),
            limit,
            soft: false,
            overdraft: 0,
            threshold: Vec::new(),
        }
    }

    /// No calls within so long cost more together than the limit: for ever, where it never begins anew. `None`: it begins anew
    /// at moments that callers do not see.
    #[must_use]
    pub fn span(&self) -> Option<Duration> {
        match self.window.strip_prefix("rolling ") {
            Some(span) => {
                let seconds = span.strip_suffix('s')?.parse().ok()?;
                Some(Duration::from_secs(seconds))
            }
            None => (self.window == "total").then_some(Duration::MAX),
        }
    }

    /// In the form that `apply` reads.
    #[must_use]
    pub fn text(&self, horizon: &str) -> String {
        let Self { name, window, .. } = self;
        let of = match &self.of {
            Of::Tenant => "tenant: strict".to_owned(),
            Of::App => "tenant: strict, app: web".to_owned(),
            Of::Key => "key: strict-key".to_owned(),
            Of::Scenario => format!("tenant: strict, scenario: {SCENARIO}"),
            Of::User => "tenant: strict, each: user".to_owned(),
            Of::Model(model) => format!("tenant: strict, model: {model}"),
            Of::Provider(provider) => format!("provider: {provider}"),
        };
        let (unit, limit, overdraft) = match self.unit {
            Unit::Usd => ("usd", dollars(self.limit), dollars(self.overdraft)),
            Unit::Tokens => ("tokens", self.limit.to_string(), self.overdraft.to_string()),
            Unit::Requests => ("requests", self.limit.to_string(), self.overdraft.to_string()),
        };
        let mut text =
            format!("{{name: {name}, {of}, unit: {unit}, window: {window}, limit: {limit}{horizon}");
        if self.soft {
            // Writing to a string cannot fail.
            let _infallible = write!(text, ", mode: soft, overdraft: {overdraft}");
        }
        if !self.threshold.is_empty() {
            let steps: Vec<_> = self.threshold.iter().map(Step::text).collect();
            let _infallible = write!(text, ", thresholds: [{}]", steps.join(", "));
        }
        text + "}"
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let is_rolling = self.window.starts_with("rolling ") && self.span().is_some();
        if is_rolling || ["total", "minute"].contains(&self.window.as_str()) {
            return Ok(());
        }
        let window = &self.window;
        Err(format!("topology.level.{}: no window {window:?}; say total, minute or rolling 20s", self.name))
    }
}

impl Step {
    fn text(&self) -> String {
        let (at, does) = (self.at_per_mille, &self.does);
        let mut text = format!("{{at: {}.{:03}, do: {does}", at / 1_000, at % 1_000);
        if let Some(cap) = self.output_cap {
            // Writing to a string cannot fail.
            let _infallible = write!(text, ", output_cap: {cap}");
        }
        if !self.features_off.is_empty() {
            let _infallible = write!(text, ", features_off: [{}]", self.features_off.join(", "));
        }
        if self.exempt {
            text += ", except_keys: [strict-key]";
        }
        text + "}"
    }
}

impl AccountKey {
    /// What the provider knows it by.
    #[must_use]
    pub fn credential(&self, provider: &str) -> String {
        format!("sk-{}-of-{provider}", self.name)
    }
}

/// Money as configurations say it.
pub(crate) fn dollars(nano: u64) -> String {
    format!("\"{}.{:09}\"", nano / 1_000_000_000, nano % 1_000_000_000)
}
