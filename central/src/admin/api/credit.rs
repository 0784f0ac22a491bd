//! Budgets and decisions about credit in the admin API.

use base::{Amount, Incarnation, Name, Unit, WallMs, WindowId};
use serde::{Deserialize, Serialize};
use wire::catalog::Window;

/// Answer to `GET /v1/budgets`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budgets {
    /// One per budget, by name.
    pub budgets: Vec<BudgetAccount>,
}

/// A budget's open window, in its unit: `limit = spent + held + remaining`, unless more is spent or out than the limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetAccount {
    /// Its name.
    pub budget: Name,
    /// Whose calls it pays for, in words.
    pub scope: String,
    /// What it counts.
    pub unit: Unit,
    /// When it starts anew.
    pub window: Window,
    /// The open window's start; 0 for a total and for spans that move with time.
    pub since: WindowId,
    /// When it ends, in milliseconds since 1970; `None`: never.
    pub until: Option<WallMs>,
    /// How many accounts it has: one, or one per end user who was seen. The amounts below are of all together, but `limit`.
    pub accounts: u64,
    /// What may be spent in it, by each account.
    pub limit: Amount,
    /// What was spent: receipts, crash charges, what is written off, debt and corrections included.
    pub spent: Amount,
    /// Granted to edges, neither spent nor given back.
    pub held: Amount,
    /// What may still be granted.
    pub remaining: Amount,
    /// What calls cost beyond their holds; part of `spent`, and taken before any new grant.
    pub debt: Amount,
    /// What lost edges may have spent; part of `spent`.
    pub written_off: Amount,
    /// What operators charged less what they credited; part of `spent`.
    pub corrected: i128,
    /// Who holds what, by edge and life of it.
    pub holders: Vec<BudgetHolder>,
}

/// Credit of a budget at one life of an edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetHolder {
    /// The edge.
    pub edge: Name,
    /// Which life of it.
    pub life: Incarnation,
    /// Granted and not given back.
    pub granted: Amount,
    /// Of it, neither spent nor given back.
    pub held: Amount,
    /// Whether that life may get more.
    pub lives: bool,
}

/// `POST /v1/edges/NAME/lost`: what the edge holds and did not tell as spent counts as spent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lost {
    /// Why, in the operator's words; kept with the decision.
    pub reason: String,
    /// It is granted again instead, on the operator's word that it was not spent.
    #[serde(default)]
    pub refund: bool,
    /// Only this life of the edge.
    #[serde(default)]
    pub life: Option<Incarnation>,
    /// Of the operator's choice; what is asked again under it is done once.
    #[serde(default)]
    pub id: Option<String>,
}

/// `POST /v1/budgets/NAME/corrections`: more was spent than receipts say, or less.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    /// Why, in the operator's words; kept with the decision.
    pub reason: String,
    /// Of which end user, of a budget of which each has an account, as the application names them.
    #[serde(default)]
    pub user: Option<String>,
    /// In which window; without, the open one.
    #[serde(default)]
    pub window: Option<WindowId>,
    /// So much more, in the budget's unit.
    #[serde(default)]
    pub charge: Option<Amount>,
    /// So much less.
    #[serde(default)]
    pub credit: Option<Amount>,
    /// Of the operator's choice; what is asked again under it is done once.
    #[serde(default)]
    pub id: Option<String>,
}

/// Answer to `GET /v1/decisions`, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    /// The last 10,000.
    pub decisions: Vec<Decided>,
}

/// What an operator decided about credit, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// Its number.
    pub id: String,
    /// When, by the ledger's time.
    pub at: WallMs,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// What was done.
    pub action: Action,
    /// Which edge was lost.
    pub edge: Option<Name>,
    /// What changed, by budget, window and life.
    pub rows: Vec<DecidedRow>,
}

/// What a decision does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// What a lost edge held counts as spent.
    WriteOff,
    /// What a lost edge held is granted again.
    Refund,
    /// More was spent.
    Charge,
    /// Less was spent.
    Credit,
}

/// What a decision changed of one budget and window, the accounts of all its users together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedRow {
    /// The budget.
    pub budget: Name,
    /// The hash of the end user whose account was corrected.
    #[serde(default)]
    pub user: Option<String>,
    /// What it counts.
    pub unit: Unit,
    /// The window's start; 0 for a total.
    pub window: WindowId,
    /// Whose credit; `None` in a correction.
    pub life: Option<Incarnation>,
    /// How much.
    pub amount: Amount,
}
