//! What is counted of providers' keys. Names of providers and keys come from the configuration, the rest from closed lists.

use base::Name;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::register;
use crate::names;

type Labels<const N: usize> = [(&'static str, String); N];

/// Handles of all keys. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct KeyMetrics {
    calls: Family<Labels<3>, Counter>,
    away: Family<Labels<3>, Counter>,
    serving: Family<Labels<2>, Gauge>,
    left: Family<Labels<3>, Gauge>,
}

/// How a call ended that was made with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyResult {
    /// It was served.
    Served,
    /// The key was limited.
    Limited,
    /// The key was refused.
    Refused,
    /// The model was refused to the key.
    ModelRefused,
    /// The provider failed.
    Failed,
    /// Its caller left or was at fault.
    Other,
}

/// Why a key is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAway {
    /// It was limited.
    Paced,
    /// Nothing is left of a limit.
    Spent,
    /// It was refused.
    Suspended,
    /// A model was refused to it.
    SuspendedForModel,
}

/// How a key is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyLevels {
    /// Whether it serves any model.
    pub serving: bool,
    /// Calls left, of the model with the fewest.
    pub requests: Option<u64>,
    /// Tokens left, of the model with the fewest.
    pub tokens: Option<u64>,
}

impl KeyMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        register(registry, names::KEY_CALLS, &self.calls);
        register(registry, names::KEY_AWAY, &self.away);
        register(registry, names::KEY_SERVING, &self.serving);
        register(registry, names::KEY_LEFT, &self.left);
    }

    /// A call ended.
    pub fn ended(&self, provider: &Name, key: &Name, result: KeyResult) {
        let result = match result {
            KeyResult::Served => "served",
            KeyResult::Limited => "limited",
            KeyResult::Refused => "refused",
            KeyResult::ModelRefused => "model",
            KeyResult::Failed => "failed",
            KeyResult::Other => "other",
        };
        self.calls.get_or_create(&with(provider, key, "result", result)).inc();
    }

    /// A key is left alone from now on.
    pub fn away(&self, provider: &Name, key: &Name, why: KeyAway) {
        let why = match why {
            KeyAway::Paced => "paced",
            KeyAway::Spent => "spent",
            KeyAway::Suspended => "suspended",
            KeyAway::SuspendedForModel => "model",
        };
        self.away.get_or_create(&with(provider, key, "why", why)).inc();
    }

    /// A key as it stands. What is left of a limit shows while that is known.
    pub fn set(&self, provider: &Name, key: &Name, now: KeyLevels) {
        self.serving.get_or_create(&of(provider, key)).set(i64::from(now.serving));
        for (unit, left) in [("requests", now.requests), ("tokens", now.tokens)] {
            let labels = with(provider, key, "unit", unit);
            if let Some(left) = left {
                self.left.get_or_create(&labels).set(i64::try_from(left).unwrap_or(i64::MAX));
            } else {
                self.left.remove(&labels);
            }
        }
    }

    /// A key is gone.
    pub fn forget(&self, provider: &Name, key: &Name) {
        self.serving.remove(&of(provider, key));
        for unit in ["requests", "tokens"] {
            self.left.remove(&with(provider, key, "unit", unit));
        }
    }
}

fn of(provider: &Name, key: &Name) -> Labels<2> {
    [("provider", provider.as_str().to_owned()), ("key", key.as_str().to_owned())]
}

fn with(provider: &Name, key: &Name, label: &'static str, value: &str) -> Labels<3> {
    let [provider, key] = of(provider, key);
    [provider, key, (label, value.to_owned())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::CentralMetrics;

    #[test]
    fn keys_show_in_the_exposition_while_they_are_there() {
        let metrics = CentralMetrics::new();
        let (provider, key) = ("vendor".parse().unwrap(), "team-a".parse().unwrap());
        metrics.keys.ended(&provider, &key, KeyResult::Limited);
        metrics.keys.away(&provider, &key, KeyAway::Spent);
        let shown = || metrics.exposition().render(None).unwrap().text;
        let now = KeyLevels { serving: true, requests: Some(7), tokens: None };
        metrics.keys.set(&provider, &key, now);
        let text = shown();
        for line in [
            r#"portolan_provider_key_calls_total{provider="vendor",key="team-a",result="limited"} 1"#,
            r#"portolan_provider_key_away_total{provider="vendor",key="team-a",why="spent"} 1"#,
            r#"portolan_provider_key_serving{provider="vendor",key="team-a"} 1"#,
            r#"portolan_provider_key_left{provider="vendor",key="team-a",unit="requests"} 7"#,
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        metrics.keys.set(&provider, &key, KeyLevels { requests: None, ..now });
        assert!(!shown().contains("portolan_provider_key_left{"));
        metrics.keys.forget(&provider, &key);
        assert!(!shown().contains("portolan_provider_key_serving{"));
    }
}
