//! Why an edge refused a call, and how the call's budgets stood there when it did. An edge keeps its last refusals; central
//! asks for one when an operator does.

use base::{Amount, BudgetId, Code, ModelName, Name, RequestId, TenantName, WallMs};
use serde::{Deserialize, Serialize};

/// A call of a known caller that was refused before it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Which call.
    pub request: RequestId,
    /// When it came.
    pub at: WallMs,
    /// Whose it was.
    pub tenant: TenantName,
    /// The application.
    pub app: Name,
    /// The key, by name.
    pub key: Name,
    /// What was asked for, when that was read.
    pub asked: Option<ModelName>,
    /// Why.
    pub code: Code,
    /// What its caller was told.
    pub told: String,
    /// The limit that refused it, as `tenant.concurrency`.
    pub limit: Option<String>,
    /// The budget that did.
    pub budget: Option<Name>,
    /// Whether the edge was attached to central.
    pub attached: bool,
    /// The budgets that were to pay for it, at the edge.
    pub budgets: Vec<Stood>,
}

/// A budget at an edge, at the moment of a refusal; amounts in the budget's unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stood {
    /// The budget, or the end user's account of it.
    pub account: BudgetId,
    /// Its name.
    pub name: Name,
    /// What the call might have cost at most.
    pub needed: Amount,
    /// Credit at the edge that no call held.
    pub free: Amount,
    /// Credit at the edge that calls held.
    pub held: Amount,
    /// What central had said last; `None`: nothing yet.
    pub said: Option<Said>,
}

/// What central says of a budget beside its grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// What may be spent in the window.
    pub limit: Amount,
    /// What was spent.
    pub spent: Amount,
    /// What could still be granted.
    pub left: Amount,
    /// How long before the refusal, in milliseconds.
    pub ms_before: u32,
}
