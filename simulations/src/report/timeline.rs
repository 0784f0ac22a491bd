//! One run as it is drawn: calls by region and how they ended, faults, and who led.

use serde::{Deserialize, Serialize};

use super::{Run, outcome_name};
use crate::figures::is_served;
use crate::history::CallOutcome;

/// One run as it is drawn. Times are milliseconds since the run began.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// Its seed.
    pub seed: u64,
    /// How much went wrong; the worst run is drawn.
    pub badness: u64,
    /// When it ended.
    pub end: u64,
    /// Calls: region, when they began and ended, and how.
    pub calls: Vec<(String, u64, u64, String)>,
    /// Faults: what, whom, from, until.
    pub faults: Vec<(String, String, u64, u64)>,
    /// Phases by when they began.
    pub phases: Vec<(u64, String)>,
    /// Leaders by when they were first seen.
    pub leaders: Vec<(u64, String)>,
}

impl Timeline {
    /// That of a run.
    #[must_use]
    pub fn of(run: &Run<'_>) -> Self {
        let ms = |at: base::Mono| at.as_nanos() / 1_000_000;
        let history = &run.evidence.history;
        let end = crate::schedule::millis(run.took);
        let calls = history.calls.iter().map(|call| {
            // What the budget refused is no failure.
            let spent = call.code.as_deref().is_some_and(|code| code.starts_with("budget_"));
            let how = if spent { "out of budget" } else { outcome_name(call.outcome) };
            (call.region.clone(), ms(call.started), call.ended.map_or(end, ms), how.to_owned())
        });
        let faults = history.struck.iter().map(|struck| {
            let whom = struck.machines.join(", ");
            (struck.what.to_owned(), whom, ms(struck.at), struck.healed.map_or(end, ms))
        });
        let mut leaders: Vec<(u64, String)> = Vec::new();
        for seen in &history.observations {
            let Some(leader) = &seen.leader else { continue };
            if leaders.last().is_none_or(|(_, last)| last != leader) {
                leaders.push((ms(seen.at), leader.clone()));
            }
        }
        let failed = history.calls.iter().filter(|call| {
            !is_served(call) && !matches!(call.outcome, CallOutcome::HungUp | CallOutcome::Refused)
        });
        Self {
            seed: run.seed,
            badness: 1_000_000 * run.violations.len() as u64 + failed.count() as u64,
            end,
            calls: calls.collect(),
            faults: faults.collect(),
            phases: history.phases.iter().map(|(at, name)| (ms(*at), (*name).to_owned())).collect(),
            leaders,
        }
    }
}
