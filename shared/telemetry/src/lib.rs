//! What operators see: metrics, call records, traces and logs.
//!
//! Decided here: every name of a metric, record field and span ([`names`]), which calls are recorded, and how much of
//! each may wait in memory. Keys, prompts and completions never pass through here.

pub mod logs;
pub mod metrics;
pub mod names;
pub mod record;
pub mod redact;
pub mod trace;
