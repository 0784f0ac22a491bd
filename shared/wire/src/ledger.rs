//! What edges and central tell each other about money.
//!
//! All counters are cumulative per (edge, incarnation, budget, window) and merged by maximum, so that loss,
//! duplication and reordering are harmless. Central owns `granted`; the edge owns `spent` and `returned`, and at every
//! instant `spent + returned + held ≤ granted`.

pub use base::Usage;
use base::{
    Amount, BudgetId, Code, Era, Incarnation, ModelName, Name, NanoUsd, RegionName, RequestId, TenantName,
    UserHash, WallMs, WindowId,
};
use serde::{Deserialize, Serialize};

use crate::catalog::Operation;

/// An edge's counters for one budget and window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRow {
    /// Which budget.
    pub budget: BudgetId,
    /// Which window; the edge reports a window until central closed it.
    pub window: WindowId,
    /// Sum of settled charges, holds not included.
    pub spent: Amount,
    /// Credit given back; durable at the edge before it is sent.
    pub returned: Amount,
    /// Credit the edge would like to have unspent (its target), holds included.
    pub want: Amount,
    /// What the waiting call that lacks least lacks, at the least one unit; zero when no call waits.
    pub waiting: Amount,
    /// Rises with each row of this budget that says something new; 0 while the edge does not know the
    /// window. The highest says what is wanted, whatever arrives after it, and is repeated until central heard it.
    pub number: u64,
    /// The edge knows nothing of this account any more; should it ask again, it begins where central says.
    pub forgotten: bool,
}

/// An edge's counters. Sent each 250 ms, or at once when a call waits or surplus goes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The era the edge knows.
    pub era: Era,
    /// Whose counters these are.
    pub incarnation: Incarnation,
    /// Rows that changed, and rows whose answer is overdue. A budget's first row asks for its first grant; the
    /// edge, not knowing the window, names it 0 and central answers with the window that is open.
    pub rows: Vec<UsageRow>,
}

/// What a window is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WindowState {
    /// Grants may come.
    Open,
    /// No more grants; the edge returns what it has not held.
    Closed,
    /// Closed, and all that was granted is spent or returned: the edge need not report it again.
    Settled,
}

/// Central's counters for one budget and window at one edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantRow {
    /// Which budget.
    pub budget: BudgetId,
    /// Which window.
    pub window: WindowId,
    /// Everything ever granted to this incarnation in this window, committed.
    pub granted: Amount,
    /// The highest number of a row that central heard: `granted` is all that came of it and of those before.
    pub heard: u64,
    /// What central knows that this incarnation spent in this window.
    pub heard_spent: Amount,
    /// What central knows that it gave back.
    pub heard_returned: Amount,
    /// What the window is good for.
    pub state: WindowState,
    /// When set: return what exceeds this much unspent credit.
    pub keep: Option<Amount>,
    /// The limit that central knows.
    pub limit: Amount,
    /// Spent in this window at all edges, as far as central knows.
    pub spent: Amount,
    /// Most that could still be granted here: what was never granted and what other edges may give back.
    pub left: Amount,
    /// Whether nothing is left to grant and nothing can come back: refuse at once rather than wait.
    pub exhausted: bool,
}

/// Central's answer to reports, sent only after its entry committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// The era in force.
    pub era: Era,
    /// For which incarnation; any other ignores it.
    pub incarnation: Incarnation,
    /// Rows.
    pub rows: Vec<GrantRow>,
}

/// The last word of an incarnation that will never spend again: everything not spent is returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalReport {
    /// Which incarnation ended.
    pub incarnation: Incarnation,
    /// Its windows and what it spent in each, crash charges included.
    pub rows: Vec<(BudgetId, WindowId, Amount)>,
    /// Receipts of that incarnation in its spool; central closes the incarnation once all are applied.
    pub receipts: u64,
}

/// How a receipt came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptKind {
    /// One call, settled.
    Call,
    /// What a crashed incarnation may have spent beyond its receipts.
    Crash,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Answered whole.
    Complete,
    /// The caller left first.
    CallerGone,
    /// Broken off after the first byte.
    Cut,
    /// Failed before the first byte.
    Failed,
    /// Unknown: the node that ran it crashed.
    Lost,
}

/// What one budget paid for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// Which budget.
    pub budget: BudgetId,
    /// The window that granted the credit.
    pub window: WindowId,
    /// What was charged, at most the hold.
    pub amount: Amount,
    /// What the call cost beyond its hold; counted apart and charged before any new grant.
    pub overrun: Amount,
}

/// The bill of one call. Exactly one exists for each call that took a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Which call.
    pub request: RequestId,
    /// How the receipt came about.
    pub kind: ReceiptKind,
    /// When the call ended.
    pub at: WallMs,
    /// Who pays.
    pub tenant: TenantName,
    /// The application.
    pub app: Name,
    /// The key, by name.
    pub key: Name,
    /// The scenario that the caller said; `_more` stands for all of a tenant that named too many.
    pub scenario: Option<Name>,
    /// The end user that the caller named.
    pub user: Option<UserHash>,
    /// What was asked for; empty on a crash charge.
    pub model: Option<ModelName>,
    /// What was asked to be done.
    pub operation: Option<Operation>,
    /// The region of the edge that took the call.
    pub region: RegionName,
    /// The region, or central, that served it.
    pub served_by: Option<String>,
    /// The provider, when central served it.
    pub provider: Option<Name>,
    /// The name of the provider's key that it was asked with.
    pub provider_key: Option<Name>,
    /// Attempts made.
    pub attempts: u16,
    /// What it used.
    pub usage: Usage,
    /// Whether `usage` is our bound because the upstream reported none.
    pub estimated: bool,
    /// From when on the version of the model's price is in force that `cost` was computed with, the one in force when the
    /// call was admitted; `None`: the model had no price.
    pub price_from: Option<WallMs>,
    /// What the call cost.
    pub cost: NanoUsd,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, when it did not end well.
    pub code: Option<Code>,
    /// What each budget paid.
    pub charges: Vec<Charge>,
}

/// Receipts from an edge's spool, in order and without gaps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptBatch {
    /// The incarnation that wrote them.
    pub incarnation: Incarnation,
    /// Position of the first in that incarnation's spool, from 0.
    pub first: u64,
    /// The receipts.
    pub receipts: Vec<Receipt>,
}
