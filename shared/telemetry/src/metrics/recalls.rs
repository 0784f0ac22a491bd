//! What is counted of credit that central asks back, at the node that asks and at the edge that gives.

use base::{Amount, Unit};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::register;
use crate::names;

/// Recalls by the level of their budgets. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RecallMetrics {
    times: Family<[(&'static str, &'static str); 1], Counter>,
    credit: Family<[(&'static str, &'static str); 2], Counter>,
}

impl RecallMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        register(registry, names::LEASE_RECALLS, &self.times);
        register(registry, names::LEASE_RECALLED, &self.credit);
    }

    /// Of a budget of `level`, from a closed list, credit was asked back some `times`, and so much came.
    pub fn recalled(&self, (level, unit): (&'static str, Unit), times: u64, credit: Amount) {
        if times > 0 {
            self.times.get_or_create(&[("level", level)]).inc_by(times);
        }
        if credit > Amount::ZERO {
            self.credit.get_or_create(&[("level", level), ("unit", unit.as_str())]).inc_by(credit.0);
        }
    }
}
