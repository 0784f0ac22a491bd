//! Totals of what was used, from receipts that were applied for the first time. There are at most as many as keys times
//! models, and one more per key for crash charges.

use std::collections::BTreeMap;

use base::{ModelName, Name, NanoUsd, TenantName, Tokens};
use serde::{Deserialize, Serialize};
use wire::ledger::{Receipt, ReceiptKind};

/// Who used what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UsageKey {
    /// The tenant.
    pub tenant: TenantName,
    /// The application.
    pub app: Name,
    /// The key.
    pub key: Name,
    /// What was asked for; `None` on crash charges.
    pub model: Option<ModelName>,
}

/// How much. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageTotal {
    /// Calls settled.
    pub calls: u64,
    /// Input tokens.
    pub input: Tokens,
    /// Input tokens that came from upstreams' caches.
    pub cached_input: Tokens,
    /// Output tokens.
    pub output: Tokens,
    /// What it cost.
    pub cost: NanoUsd,
}

/// Totals by who used what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    totals: BTreeMap<UsageKey, UsageTotal>,
}

impl Usage {
    /// The totals, in the order of their keys.
    pub fn totals(&self) -> impl Iterator<Item = (&UsageKey, &UsageTotal)> {
        self.totals.iter()
    }

    pub(crate) fn add(&mut self, receipt: &Receipt) {
        let key = UsageKey {
            tenant: receipt.tenant.clone(),
            app: receipt.app.clone(),
            key: receipt.key.clone(),
            model: receipt.model.clone(),
        };
        let total = self.totals.entry(key).or_default();
        total.calls = total.calls.saturating_add(u64::from(receipt.kind == ReceiptKind::Call));
        total.input = total.input.saturating_add(receipt.usage.input);
        total.cached_input = total.cached_input.saturating_add(receipt.usage.cached_input);
        total.output = total.output.saturating_add(receipt.usage.output);
        total.cost = total.cost.saturating_add(receipt.cost);
    }
}
