//! Prometheus metrics. Handles are resolved when configuration changes, so that a call only adds to atomics.
//!
//! Label values come from configuration alone (models, tenants, budgets, nodes) or from closed enums; what callers
//! invent is counted under no label, so that cardinality is bounded by the configuration.

mod central;
mod edge;

pub use central::CentralMetrics;
pub use edge::{BudgetGauges, EdgeMetrics, ModelMetrics, Path, TenantMetrics};

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::text;
use prometheus_client::registry::{Metric as Registrable, Registry};

use crate::names::Metric;

/// Content type of [`Exposition::render`] (`OpenMetrics` 1.0).
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A node's metrics, ready to be scraped.
#[derive(Clone, Debug)]
pub struct Exposition(Arc<Registry>);

impl Exposition {
    /// The text a scraper reads.
    ///
    /// # Errors
    /// [`fmt::Error`] when a metric cannot be written, which only a fault in the encoder causes.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.0)?;
        Ok(text)
    }
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
