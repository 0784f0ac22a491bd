//! Usage and receipts in the admin API.

use std::collections::BTreeMap;

use base::{Amount, BudgetId, ModelName, Name, NanoUsd, TenantName, Tokens, WallMs, WindowId};
use serde::{Deserialize, Serialize};
use usage_store::{Dimension, Total};

/// One of `GET /v1/usage` without parameters: totals since the mesh began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRow {
    /// The tenant.
    pub tenant: TenantName,
    /// The application.
    pub app: Name,
    /// The key.
    pub key: Name,
    /// The model; `None` on crash charges.
    pub model: Option<ModelName>,
    /// Calls settled.
    pub calls: u64,
    /// Input tokens.
    pub input: Tokens,
    /// Output tokens.
    pub output: Tokens,
    /// Their cost.
    pub cost: NanoUsd,
}

/// Answer to `GET /v1/usage` with parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageReport {
    /// By what the totals are taken apart.
    pub by: Vec<Dimension>,
    /// From when calls count by their end, a whole hour; `None`: from the beginning.
    pub since: Option<WallMs>,
    /// Until when they count, a whole hour; `None`: until now.
    pub until: Option<WallMs>,
    /// Log entries whose receipts are not counted because this node lacks them; not 0 only with `partial`.
    pub missing_entries: u64,
    /// The totals come from receipts, and those that central took before this time are forgotten.
    #[serde(default)]
    pub kept_from: Option<WallMs>,
    /// One per combination of values, in their order.
    pub rows: Vec<UsageGroup>,
    /// What to pass as `cursor` for the rows that follow; `None`: there are no more.
    pub next: Option<String>,
}

/// The total of one combination of values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageGroup {
    /// The value of each dimension asked for; `None` where calls have none, such as a provider. Hours and days are
    /// RFC 3339 instants of their start.
    pub values: BTreeMap<Dimension, Option<String>>,
    /// The total; `cost` is in nano-dollars.
    #[serde(flatten)]
    pub total: Total,
}

/// Answer to `GET /v1/receipts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipts {
    /// Log entries whose receipts are not looked at because this node lacks them; not 0 only with `partial`.
    pub missing_entries: u64,
    /// Newest first.
    pub receipts: Vec<ReceiptRow>,
    /// What to pass as `cursor` for those that follow; `None`: there are no more.
    pub next: Option<String>,
}

/// A receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRow {
    /// The call, as callers know it.
    pub request: String,
    /// When the call ended.
    pub at: WallMs,
    /// The edge that wrote it.
    pub edge: Name,
    /// The hash of the end user that the caller named.
    #[serde(default)]
    pub user: Option<String>,
    /// The value of each dimension but time; `None` where the call has none.
    pub values: BTreeMap<Dimension, Option<String>>,
    /// Attempts made.
    pub attempts: u16,
    /// Whether the tokens are our bound because the upstream reported none.
    pub estimated: bool,
    /// Input tokens, cached ones included.
    pub input: Tokens,
    /// Of them: read from the upstream's cache.
    pub cached_input: Tokens,
    /// Of them: written to the upstream's cache.
    pub cache_write: Tokens,
    /// Of them: sound.
    pub audio_input: Tokens,
    /// Output tokens, reasoning included.
    pub output: Tokens,
    /// Of them: reasoning.
    pub reasoning: Tokens,
    /// Of them: sound.
    pub audio_output: Tokens,
    /// Images in the call.
    pub images: u32,
    /// Milliseconds that the answering attempt took, where the price counts them; else 0.
    pub busy_ms: u32,
    /// From when on the version of the model's price is in force that `cost` was computed with; 0: from the beginning;
    /// `None`: the model had no price.
    pub price_from: Option<WallMs>,
    /// What the call cost.
    pub cost: NanoUsd,
    /// What each budget paid.
    pub charges: Vec<ChargeRow>,
}

/// What a budget paid for a call, in its unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChargeRow {
    /// The budget's number.
    pub budget: BudgetId,
    /// Its window's start.
    pub window: WindowId,
    /// What was charged.
    pub amount: Amount,
    /// What the call cost beyond its hold.
    pub overrun: Amount,
}
