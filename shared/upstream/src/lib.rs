//! Which instance of a model serves a call, and what a call's end says about the instance that served it.
//!
//! Decided here: the choice among instances ([`choose`]) and
//! among the keys of a provider ([`Keys`]), what an answer says to be left of a key's limits ([`Quota`]), when one is out and how it comes back ([`Instance`]), whose
//! fault an answer or a broken connection is ([`of_status`], [`of_fault`]), how long to wait ([`Backoff`],
//! [`retry_after`]), and in which order calls are served that wait ([`Queue`]). From: offers, outcomes, the time and drawn numbers, all handed in. Nothing here does I/O, reads a
//! clock or draws.

mod backoff;
mod choice;
mod instance;
mod keys;
mod queue;
mod quota;
mod terms;
mod verdict;

pub use backoff::{Backoff, retry_after};
pub use choice::{Choice, choose};
pub use instance::{Health, Instance, Offer, Ticket};
pub use keys::{
    Away, Barred, Barrier, KeyCall, KeyModelStatus, KeyStatus, KeyTerms, KeyTicket, Keys, KeysOffer,
};
pub use queue::{Bounds, Crowded, Lack, Queue, Served, Turn, Waiter};
pub use quota::{Left, Quota};
pub use terms::Terms;
pub use verdict::{Fault, Verdict, of_fault, of_status};
