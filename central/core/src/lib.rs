//! Central's replicated state: what operators configured, which nodes exist, and who holds which credit.
//!
//! Decided here, from log entries alone: whether a change of configuration stands, which epoch it makes, which
//! incarnation an edge spends under, and what each connected node must be told. State changes through one door,
//! [`State::apply`], which reads no clock, draws nothing and does no I/O: whoever proposes an entry puts times into it.

mod applied;
pub mod catalog;
mod command;
pub mod files;
mod history;
pub mod ledger;
pub mod plan;
mod registry;
mod shipping;
mod state;
mod usage;

pub use applied::{Applied, Effect, Refusal, Reply};
pub use command::{CatalogChange, Command, Entry, KeyOf, LogMs, Registration, Sealed};
pub use history::{EpochRecord, History, KEPT_EPOCHS};
pub use registry::{EdgeNode, Registry};
pub use shipping::Shipment;
pub use state::State;
pub use usage::{Usage, UsageKey, UsageTotal};
