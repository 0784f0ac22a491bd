//! Words that every package shares: identifiers, units, instants, and what an error means to its reader.
//!
//! Decided here: which numbers may meet (a token count never adds to money), how an identifier is written, and
//! which codes callers see. Nothing here does I/O, reads a clock or draws a random number.

mod fault;
mod ids;
pub mod mutant;
mod pace;
mod price;
mod priority;
mod time;
mod units;
mod usage;

pub use fault::{Blame, Code, Elsewhere};
pub use ids::{
    BudgetId, Epoch, Era, IdError, Incarnation, KeyHash, ModelName, Name, NodeId, RegionName, RequestId,
    Revision, Role, Stamp, TenantName, UserHash, WindowId,
};
pub use pace::Pace;
pub use price::{Price, PriceVersion, Rates, Tier};
pub use priority::Priority;
pub use time::{Mono, WallMs};
pub use units::{Amount, NanoUsd, Tokens, Unit};
pub use usage::Usage;
