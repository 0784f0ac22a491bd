//! Explained refusals in the admin API.

use base::{Amount, Code, ModelName, Name, RegionName, TenantName, Unit, WallMs};
use serde::{Deserialize, Serialize};

use super::BudgetAccount;

/// Answer to `GET /v1/refusals/REQUEST`: why an edge refused a call, and how the call's budgets are now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The call.
    pub request: String,
    /// When it came.
    pub at: WallMs,
    /// The edge that refused it.
    pub edge: Name,
    /// Its region.
    pub region: RegionName,
    /// Whose it was.
    pub tenant: TenantName,
    /// The application.
    pub app: Name,
    /// The key, by name.
    pub key: Name,
    /// What was asked for, when that was read.
    pub asked: Option<ModelName>,
    /// Why, in a word.
    pub code: Code,
    /// What its caller was told.
    pub message: String,
    /// The limit that refused it, as `tenant.concurrency`.
    pub limit: Option<String>,
    /// The budget that did.
    pub budget: Option<Name>,
    /// Whether the edge was attached to central then.
    pub attached: bool,
    /// The budgets that were to pay for it.
    pub budgets: Vec<RefusalBudget>,
}

/// A budget of a refused call, in the budget's unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalBudget {
    /// Its name.
    pub budget: Name,
    /// The end user's hash, where each has an account.
    pub user: Option<String>,
    /// What it counts; `None`: it is not configured any more.
    pub unit: Option<Unit>,
    /// What the call might have cost at most.
    pub needed: Amount,
    /// Credit at the edge that no call held.
    pub free: Amount,
    /// Credit at the edge that calls held.
    pub held: Amount,
    /// What central had said to the edge; `None`: nothing yet.
    pub said: Option<RefusalSaid>,
    /// The same account at central, now.
    pub now: Option<BudgetAccount>,
}

/// What central had said of a budget before a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalSaid {
    /// What may be spent in the window.
    pub limit: Amount,
    /// What was spent.
    pub spent: Amount,
    /// What could still be granted.
    pub remaining: Amount,
    /// How long before the refusal, in milliseconds.
    pub ms_before: u32,
}
