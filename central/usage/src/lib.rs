//! The usage store: every receipt that central applied, and hourly totals of them, in an embedded database.
//!
//! Decided here: which receipts are new to this store, what they add to which hour, what it lacks, what it forgets.
//! Receipts are told apart by their place in the log ([`Batch::revision`] and their order in it), which is the same on
//! every central node; a store remembers up to where it has them and which ranges it lacks, in the transaction that
//! writes them. The same range may therefore come twice, late, or from another node's store: it counts once.
//!
//! Nothing here reads a clock, starts a thread or speaks to another node. All calls block on the disk: make them away
//! from tasks.

mod coverage;
mod dimensions;
mod error;
mod exchange;
mod listing;
mod parcel;
mod prune;
mod question;
mod schema;
mod store;
mod sums;
#[cfg(test)]
mod tests;

pub use coverage::Span;
pub use dimensions::{Dimension, Dimensions};
pub use error::StoreError;
pub use exchange::{HourRow, Page, Progress};
pub use listing::{Listed, Listing, Mark};
pub use parcel::{Bounds, Parcel, Placed, entry};
pub use prune::{Held, Keep};
pub use question::{Filter, Group, Question, Totals};
pub use store::{Place, Store, View};
pub use sums::Total;

use std::sync::Arc;

use base::{Name, Revision, WallMs};
use serde::{Deserialize, Serialize};
use wire::ledger::Receipt;

/// Milliseconds of an hour.
pub const HOUR_MS: u64 = 3_600_000;

/// The receipts that one entry of the log made count, with the edges that wrote them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The entry's index.
    pub revision: Revision,
    /// When the entry was proposed.
    pub taken: WallMs,
    /// The receipts, in the order in which they were applied.
    pub receipts: Arc<Vec<(Name, Receipt)>>,
}
