//! Prometheus metrics. Handles are resolved when configuration changes, so that a call only adds to atomics.
//!
//! Label values come from configuration alone (models, tenants, budgets, nodes) or from closed enums; what callers
//! invent is counted under no label, so that cardinality is bounded by the configuration.

mod central;
mod edge;
mod keys;
mod queue;
mod recalls;
mod runtime;

pub use central::{BudgetLevels, CentralMetrics};
pub use edge::{BudgetGauges, EdgeMetrics, ModelMetrics, Path, TenantMetrics};
pub use keys::{KeyAway, KeyLevels, KeyMetrics, KeyResult};
pub use queue::{QueueMetrics, Waits};
pub use recalls::RecallMetrics;

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::text;
use prometheus_client::registry::{Metric as Registrable, Registry};

use crate::names::Metric;

/// A node's metrics, ready to be scraped.
#[derive(Clone, Debug)]
pub struct Exposition(Arc<Registry>);

/// What a scraper reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its `content-type`.
    pub content_type: &'static str,
    /// The metrics.
    pub text: String,
}

impl Exposition {
    /// The text a scraper reads, by its `accept` header: `OpenMetrics` 1.0 for those who ask for it, as Prometheus does,
    /// else Prometheus' own format 0.0.4.
    ///
    /// # Errors
    /// [`fmt::Error`] when a metric cannot be written, which only a fault in the encoder causes.
    pub fn render(&self, accept: Option<&str>) -> Result<Page, fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.0)?;
        if accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
            let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            return Ok(Page { content_type, text });
        }
        Ok(Page { content_type: "text/plain; version=0.0.4; charset=utf-8", text: plain(&text) })
    }
}

/// `OpenMetrics` in Prometheus' own format: there a counter's family is named as its samples are, with `_total`.
fn plain(open: &str) -> String {
    let mut plain = String::with_capacity(open.len());
    // The help stands before the type that tells a counter.
    let mut help: Option<(&str, &str)> = None;
    for line in open.lines() {
        if let Some(told) = line.strip_prefix("# HELP ") {
            help = told.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|told| told.split_once(' '))
        {
            let total = if kind == "counter" { "_total" } else { "" };
            if let Some((_, text)) = help.take() {
                plain.extend(["# HELP ", name, total, " ", text, "\n"]);
            }
            let kind = if kind == "unknown" { "untyped" } else { kind };
            plain.extend(["# TYPE ", name, total, " ", kind, "\n"]);
        } else if !line.starts_with("# EOF") && !line.starts_with("# UNIT") {
            plain.extend([line, "\n"]);
        }
    }
    plain
}

fn register<M: Registrable + Clone>(registry: &mut Registry, metric: Metric, value: &M) {
    registry.register(metric.name, metric.help, value.clone());
}

/// Seconds from 100 µs to 200 s, doubling: 22 buckets.
const SECONDS: fn() -> prometheus_client::metrics::histogram::Histogram = || {
    prometheus_client::metrics::histogram::Histogram::new(
        prometheus_client::metrics::histogram::exponential_buckets(0.0001, 2.0, 22),
    )
};

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    #[test]
    fn a_scraper_gets_the_format_it_asks_for() {
        let mut registry = Registry::default();
        registry.register("calls", "Calls made", Counter::<u64>::default());
        registry.register("open", "Calls open", Gauge::<i64>::default());
        let exposition = Exposition(Arc::new(registry));
        let open =
            exposition.render(Some("application/openmetrics-text;version=1.0.0;q=0.6,*/*;q=0.1")).unwrap();
        assert!(open.text.ends_with("# EOF\n") && open.content_type.contains("openmetrics"), "{open:?}");
        let plain = exposition.render(Some("*/*")).unwrap();
        assert_eq!(
            plain.text,
            "# HELP calls_total Calls made.\n# TYPE calls_total counter\ncalls_total 0\n\
             # HELP open Calls open.\n# TYPE open gauge\nopen 0\n"
        );
        assert!(plain.content_type.contains("0.0.4"));
    }
}
