//! The edge: a regional node that takes calls and answers them.
//!
//! In the order of a call's path: [`ingress`] (bytes become an arrival), `identity` (who calls), `convert` (what is
//! asked), `counting` (how many tokens it has), `routing` (where it may go), `admission` (whether it may be made now), `dispatch` (attempts until one
//! answers), `relay` (the answer on its way), `settle` (exactly one receipt); [`call`] walks them in one function. Around
//! them: [`config`] and [`snapshot`] (what the operator said), `rejection` (what callers are told), `record`, `debug`
//! and `metrics` (what is seen of a call), `pages` (what is no call), `peers` (calls of other nodes), [`node`] (all of it,
//! started and stopped).

mod admission;
mod call;
pub mod config;
mod convert;
mod count;
mod counting;
mod debug;
mod dice;
mod dispatch;
mod hall;
mod identity;
mod ingress;
mod journal;
pub mod link;
mod losses;
mod metrics;
pub mod node;
mod pages;
mod passes;
mod payers;
mod peers;
pub mod purse;
mod record;
mod refusals;
mod rejection;
mod relay;
mod routing;
mod scenarios;
mod settle;
pub mod snapshot;
mod spans;
mod spool;
mod thresholds;
mod translate;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
