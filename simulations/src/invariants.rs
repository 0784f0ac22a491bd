//! What must hold in every run, one file each. Each judges the evidence alone, so that what it says can be checked again
//! when it changes, and each has a test that breaks it by hand.

mod acknowledged;
mod adjusted;
mod balanced;
mod baseline;
mod billed;
mod budget;
mod cancelled;
mod charged;
mod crowded;
mod current;
mod ended;
mod epochs;
mod expect;
mod features;
mod fresh;
mod healed;
mod held;
mod left;
mod levels;
mod linear;
mod operated;
mod outcomes;
mod overrun;
mod places;
mod priced;
mod receipts;
mod rested;
mod shares;
mod stale;
mod terms;
mod upstream;
mod waited;
mod yields;

pub(crate) use billed::ledger_error;

use base::Mono;
use serde::Serialize;

use crate::evidence::Evidence;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The invariant's name, which is its file's.
    pub invariant: &'static str,
    /// When it was seen, in milliseconds since the run began; absent: at the end.
    pub at_ms: Option<u64>,
    /// What was seen.
    pub what: String,
}

/// All invariants by name.
pub const ALL: [(&str, Judge); 33] = [
    ("budget", budget::judge),
    ("acknowledged", acknowledged::judge),
    ("adjusted", adjusted::judge),
    ("linear", linear::judge),
    ("outcomes", outcomes::judge),
    ("receipts", receipts::judge),
    ("billed", billed::judge),
    ("upstream", upstream::judge),
    ("epochs", epochs::judge),
    ("healed", healed::judge),
    ("fresh", fresh::judge),
    ("balanced", balanced::judge),
    ("baseline", baseline::judge),
    ("cancelled", cancelled::judge),
    ("charged", charged::judge),
    ("current", current::judge),
    ("held", held::judge),
    ("overrun", overrun::judge),
    ("priced", priced::judge),
    ("stale", stale::judge),
    ("operated", operated::judge),
    ("terms", terms::judge),
    ("levels", levels::judge),
    ("rested", rested::judge),
    ("features", features::judge),
    ("places", places::judge),
    ("waited", waited::judge),
    ("crowded", crowded::judge),
    ("left", left::judge),
    ("yields", yields::judge),
    ("shares", shares::judge),
    ("ended", ended::judge),
    ("expect", expect::judge),
];

/// Says what it finds wrong.
pub type Judge = fn(&Evidence) -> Vec<Violation>;

/// What all invariants find wrong.
#[must_use]
pub fn judge(evidence: &Evidence) -> Vec<Violation> {
    ALL.iter().flat_map(|(_name, judge)| judge(evidence)).collect()
}

fn violation(invariant: &'static str, at: Option<Mono>, what: impl Into<String>) -> Violation {
    let at_ms = at.map(|at| at.as_nanos() / 1_000_000);
    Violation { invariant, at_ms, what: what.into() }
}

#[cfg(test)]
pub(crate) mod samples;
