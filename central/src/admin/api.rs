//! The admin API's messages, as JSON. Clients use these types too. Fields are added, never changed or taken away.

mod credit;
mod refusal;
mod usage;

pub use credit::{
    Action, BudgetAccount, BudgetHolder, Budgets, Correction, Decided, DecidedRow, Decisions, Lost,
};
pub use refusal::{Refusal, RefusalBudget, RefusalSaid};
pub use usage::{ChargeRow, ReceiptRow, Receipts, UsageGroup, UsageReport, UsageRow};

use std::net::SocketAddr;

use base::{
    Amount, BudgetId, Epoch, Era, Incarnation, ModelName, Name, NodeId, RegionName, Tokens, Unit, WallMs,
    WindowId,
};
use central_core::KeyOf;
use central_core::files::Source;
use central_core::plan::Plan;
use serde::{Deserialize, Serialize};
use settings::Fault;
use wire::catalog::Window;

/// `POST /v1/plan` and `POST /v1/apply`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The files' texts.
    pub files: Vec<Source>,
    /// Whether objects that no file mentions go.
    #[serde(default)]
    pub prune: bool,
    /// Why, in the operator's words; kept with the epoch.
    #[serde(default)]
    pub note: String,
    /// The epoch that the operator planned on; at another one the change is refused.
    #[serde(default)]
    pub base: Option<Epoch>,
}

/// Answer to `POST /v1/plan`: what would change, and why it cannot be applied, when it cannot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// What would change.
    pub plan: Plan,
    /// The same for people.
    pub text: String,
    /// Why it cannot be applied; empty when it can.
    pub faults: Vec<Fault>,
}

/// Answer to whatever changed the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The epoch now in force.
    pub epoch: Epoch,
    /// Whether it is a new one.
    pub changed: bool,
    /// What changed, for people.
    pub text: String,
}

/// `POST /v1/rollback`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// The epoch whose content shall be in force again.
    pub to: Epoch,
}

/// Every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A stable word: `invalid`, `conflict`, `not_found`, `unavailable`, `bad_request`, `internal`.
    pub code: String,
    /// What happened and what to do.
    pub message: String,
    /// Faults of files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
}

/// Answer to `GET /v1/catalog`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalog {
    /// The epoch in force.
    pub epoch: Epoch,
    /// Every object in the form of the files, so that it can be applied again.
    pub catalog: serde_json::Value,
    /// Providers' keys that have a credential.
    pub credentials: Vec<KeyOf>,
}

/// One of `GET /v1/epochs`, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochRow {
    /// Which.
    pub epoch: Epoch,
    /// When it was made.
    pub at: WallMs,
    /// By whom.
    pub by: String,
    /// Why.
    pub note: String,
    /// How many objects it put or removed.
    pub changes: usize,
}

/// Answer to `GET /v1/ledger`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Whether every row balances.
    pub balanced: bool,
    /// One row per budget and window.
    pub rows: Vec<LedgerRow>,
}

/// One budget's window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerRow {
    /// The budget's number.
    pub id: BudgetId,
    /// Its name.
    pub budget: Name,
    /// What it counts.
    pub unit: Unit,
    /// The window's start; 0 for a total.
    pub window: WindowId,
    /// Accounts that are summed here: one, or one per end user who was seen.
    #[serde(default)]
    pub accounts: u64,
    /// Whether it may be granted from.
    pub open: bool,
    /// Its limit.
    pub limit: Amount,
    /// Everything ever granted.
    pub granted: u128,
    /// Everything ever returned.
    pub returned: u128,
    /// Sum of receipts.
    pub receipts: Amount,
    /// Crash charges that stand.
    pub crash: Amount,
    /// Reported as spent, receipts on their way.
    pub settling: Amount,
    /// Held or available at edges.
    pub outstanding: Amount,
    /// Of it, at edges' incarnations that ended without a last word.
    pub orphaned: Amount,
    /// What lost lives of edges may have spent; counts as spent.
    #[serde(default)]
    pub written_off: Amount,
    /// What calls cost beyond their holds, and what refunded edges spent all the same.
    pub overrun: Amount,
    /// What operators charged, less what they credited.
    #[serde(default)]
    pub corrected: i128,
    /// What may still be granted.
    pub left: Amount,
    /// Whether granted less returned equals the sum of the rest.
    pub balanced: bool,
}

/// Answer to `GET /v1/leases`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leases {
    /// One row per budget, window and life of an edge.
    pub rows: Vec<LeaseRow>,
}

/// Credit of one budget's window at one life of an edge, in the budget's unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRow {
    /// The budget.
    pub budget: Name,
    /// The end user's hash, where each has an account.
    #[serde(default)]
    pub user: Option<String>,
    /// What it counts.
    pub unit: Unit,
    /// The window's start; 0 for a total.
    pub window: WindowId,
    /// The edge.
    pub edge: Name,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Whether that life may still get credit; one that may not keeps what it holds charged until the window ends.
    pub lives: bool,
    /// Whether an operator said that it is lost: what is unspent counts as spent.
    #[serde(default)]
    pub lost: bool,
    /// What came back by an operator's word; part of `returned`.
    #[serde(default)]
    pub refunded: Amount,
    /// Everything granted to it.
    pub granted: Amount,
    /// What it said it spent.
    pub spent: Amount,
    /// What it gave back.
    pub returned: Amount,
    /// Held by its calls or available to them, as far as it said.
    pub unspent: Amount,
    /// What it would like to have unspent.
    pub want: Amount,
    /// What its waiting call lacks.
    pub waiting: Amount,
    /// When it last asked, by the ledger's time, in milliseconds since 1970; 0: never.
    pub heard: WallMs,
}

/// Answer to `GET /v1/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The mesh's name.
    pub mesh: Name,
    /// The node that answers.
    pub node: Name,
    /// Raised by each restore.
    pub era: Era,
    /// Level of messages and entries.
    pub level: u16,
    /// The configuration's version.
    pub epoch: Epoch,
    /// The leader, when there is one.
    pub leader: Option<Name>,
    /// Raft term.
    pub term: u64,
    /// Central nodes.
    pub members: Vec<MemberRow>,
    /// Edges.
    pub edges: Vec<EdgeRow>,
    /// Models.
    pub models: Vec<ModelRow>,
    /// Budgets.
    pub budgets: Vec<BudgetRow>,
    /// Providers' keys, at each central node: what a node learns of a key it learns from its own calls.
    #[serde(default)]
    pub keys: Vec<KeyRow>,
}

/// A provider's key at a central node. Its credential is told nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRow {
    /// The central node.
    pub node: Name,
    /// The provider.
    pub provider: Name,
    /// The key.
    pub key: Name,
    /// Its share of calls, against the provider's other keys.
    pub weight: u32,
    /// Calls it serves.
    pub outstanding: u32,
    /// The provider refused it: milliseconds until a call probes it, 0 when the next one does.
    pub suspended_ms: Option<u64>,
    /// The provider asked it to wait: milliseconds.
    pub paced_ms: Option<u64>,
    /// What is known of it for single models.
    #[serde(default)]
    pub models: Vec<KeyModelRow>,
}

/// A provider's key at a central node, for one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyModelRow {
    /// The model.
    pub model: ModelName,
    /// The provider refused it to the key: milliseconds until a call probes it, 0 when the next one does.
    pub suspended_ms: Option<u64>,
    /// Nothing is left of a limit: for how many milliseconds.
    pub spent_ms: Option<u64>,
    /// Calls that are left until then, as the provider said last.
    pub requests_left: Option<u64>,
    /// Tokens that are left, as the provider said last.
    pub tokens_left: Option<u64>,
}

/// A central node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRow {
    /// Its number.
    pub id: NodeId,
    /// Its name.
    pub name: Name,
    /// Its region.
    pub region: RegionName,
    /// Where its mesh endpoint listens.
    pub mesh: SocketAddr,
    /// Whether it votes.
    pub voter: bool,
    /// Whether it answered the node that answers this.
    pub reachable: bool,
    /// Version of the configuration it has applied.
    pub epoch: Option<Epoch>,
    /// Index of the last entry it has applied.
    pub applied: Option<u64>,
    /// Edges attached to it.
    pub sessions: Option<usize>,
    /// Round trips it measured, in microseconds.
    pub links: Vec<LinkRow>,
}

/// A round trip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRow {
    /// To which node.
    pub to: Name,
    /// In microseconds.
    pub rtt_us: u32,
}

/// An edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeRow {
    /// Its name.
    pub name: Name,
    /// Its region.
    pub region: RegionName,
    /// Where its mesh endpoint listens.
    pub mesh: SocketAddr,
    /// The central node it is attached to; `None`: none that answered.
    pub attached_to: Option<Name>,
    /// Version of the configuration in force there.
    pub epoch: Option<Epoch>,
    /// Calls in progress.
    pub in_flight: Option<u32>,
    /// Whether it is leaving.
    pub draining: bool,
    /// Whether it left in good order.
    pub left: bool,
    /// Its build's version.
    pub build: String,
    /// Round trips it measured.
    pub links: Vec<LinkRow>,
    /// Tokenizers that models name and it does not have: bytes bound the calls of those models there.
    #[serde(default)]
    pub missing_tokenizers: Vec<TokenizerRow>,
}

/// A tokenizer that an edge lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenizerRow {
    /// As models name it.
    pub name: String,
    /// What is wrong.
    pub why: String,
    /// What mends it.
    pub mend: String,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRow {
    /// Its name.
    pub name: ModelName,
    /// Regions with replicas, and how many.
    pub replicas: Vec<(RegionName, usize)>,
    /// The provider that serves it through central.
    pub provider: Option<Name>,
    /// Tokens that fit.
    pub context: Option<Tokens>,
    /// Whether its price is known.
    pub priced: bool,
}

/// A budget's open window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetRow {
    /// Its name.
    pub name: Name,
    /// Whose calls it pays for, in words.
    pub scope: String,
    /// What it counts.
    pub unit: Unit,
    /// When it starts anew.
    pub window: Window,
    /// Its limit.
    pub limit: Amount,
    /// Settled, crash charges and overruns included.
    pub spent: Amount,
    /// Granted to edges and not spent.
    pub held: Amount,
    /// What may still be granted.
    pub left: Amount,
}

/// `POST /v1/members`: adds a node, first as a learner, then as a voter once it has caught up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddMember {
    /// A number that no member ever had.
    pub id: NodeId,
    /// The name in its certificate.
    pub name: Name,
    /// The region in its certificate.
    pub region: RegionName,
    /// Where its mesh endpoint listens.
    pub mesh: SocketAddr,
    /// A member that goes in the same step.
    #[serde(default)]
    pub replaces: Option<NodeId>,
}

/// Answer to `GET /v1/members` and to changes of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// The leader, when there is one.
    pub leader: Option<NodeId>,
    /// Members, voters and learners.
    pub members: Vec<MemberRow>,
}

/// `POST /v1/members/transfer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The voter that shall lead.
    pub to: NodeId,
}

/// `POST /v1/level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// The level that all nodes shall use.
    pub to: u16,
}
