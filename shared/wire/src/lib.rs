//! Every message between nodes: its type, its frame, its encoding and its version.
//!
//! Rules of change (REQ MESH-6): a released type is never edited. A new form is a new type beside the old one and a new
//! variant at the end of its enum, sent only at a session level that knows it. [`codec`] alone names the encoder, so
//! that it can be replaced in one file. Nothing here does I/O.

pub mod calendar;
pub mod call;
pub mod catalog;
pub mod codec;
pub mod control;
pub mod frame;
pub mod ledger;
pub mod refusal;

/// The newest session level this build speaks; `Hello` carries it and the lower of both ends rules.
pub const LEVEL: u16 = 1;

/// The level after it, which only tests of upgrades speak: edges tell more of themselves
/// ([`control::ToCentral::HealthNext`]) and are greeted ([`control::ToEdge::GreetingNext`]).
#[cfg(feature = "next-level")]
pub const NEXT_LEVEL: u16 = LEVEL + 1;
