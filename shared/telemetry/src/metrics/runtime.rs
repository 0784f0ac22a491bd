//! What the runtime holds, read when a scraper asks.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;

use crate::names;

/// The tasks of the runtime that the scraper's request runs on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tasks;

impl Collector for Tasks {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return Ok(()) };
        let gauge = ConstGauge::new(i64::try_from(runtime.metrics().num_alive_tasks()).unwrap_or(i64::MAX));
        let help = format!("{}.", names::TASKS.help);
        let metric = encoder.encode_descriptor(names::TASKS.name, &help, None, gauge.metric_type())?;
        gauge.encode(metric)
    }
}
