//! Tests of the tests: for each fault that can be planted in the product (`base::mutant`), the scenarios that must find
//! it, and the search for the first seed that does.
//!
//! A mutant counts as caught only where the product as it ships does nothing wrong with the same seed.

mod twins;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::mutant::Mutant;
use seam::Lock;

use crate::invariants::Violation;
use crate::play::{How, play};
use crate::scenario::Scenario;
use crate::schedule::Schedule;

/// The name under which the world with two edges of one identity appears; it is no file.
pub const TWINS: &str = "(twins)";

/// The scenarios that are to find a mutant, the likeliest first.
#[must_use]
pub const fn scenarios(mutant: Mutant) -> &'static [&'static str] {
    match mutant {
        Mutant::LostSync | Mutant::VoteLost | Mutant::EntryNotDurable => &["central-power-fails"],
        Mutant::ReadUnconfirmed | Mutant::CutOffKeepsEdges => &["central-cut-from-majority"],
        Mutant::GrantBeforeCommit
        | Mutant::LapsedCreditGranted
        | Mutant::ReturnsSummed
        | Mutant::GrantsSummed
        | Mutant::NewLifeNotNoted => &["last-cent-partition"],
        Mutant::WindowReopened => &["clock-goes-back"],
        Mutant::ReceiptsTwice | Mutant::ReceiptsForgotten => &["central-power-fails", "last-cent-partition"],
        Mutant::RevocationLost => &["edge-cut-from-central", "central-cut-from-majority"],
        Mutant::CeilingIgnored => &["edge-slow-disk"],
        Mutant::CrashForgotten | Mutant::ReturnTooEarly => &["edge-dies-returning"],
        Mutant::HoldLeaked | Mutant::ChargeDropped | Mutant::CancelNotForwarded | Mutant::BreakerStuck => {
            &["callers-leave"]
        }
        Mutant::SupersededGoesOn => &[TWINS],
        Mutant::AskedBehindAnswer | Mutant::CutAsFinished => &["model-instance-dies"],
        Mutant::AgeForgotten => &["edge-out-of-date"],
        Mutant::FirstModelHeld | Mutant::FirstModelBilled => &["dear-substitute"],
        Mutant::ReturnUntold => &["drain-and-return"],
        Mutant::TakeNotUndone | Mutant::SecondChargeDropped => &["several-budgets"],
        Mutant::PaceIgnored => &["provider-keys"],
        Mutant::ListIgnored | Mutant::UpstreamKept => &["catalog-at-work"],
        Mutant::WaiterKept | Mutant::WeightIgnored | Mutant::BatchUnyielding => {
            &["queues-under-load", "streams-at-the-door"]
        }
    }
}

/// How the search for a mutant ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunted {
    /// Which.
    pub mutant: Mutant,
    /// Runs played with it.
    pub runs: u64,
    /// Who found it; `None`: it survived.
    pub caught: Option<Caught>,
}

/// The run that found a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caught {
    /// Its scenario.
    pub scenario: String,
    /// Its seed.
    pub seed: u64,
    /// What it violated first.
    pub violation: Violation,
}

/// Scenarios by name, and what the product as it ships came to with the seeds played so far.
#[derive(Debug)]
pub struct Hunter {
    scenarios: BTreeMap<String, Arc<Scenario>>,
    clean: Lock<BTreeMap<(String, u64), Vec<Violation>>>,
}

impl Hunter {
    /// Hunts in these scenarios.
    #[must_use]
    pub fn new(scenarios: BTreeMap<String, Arc<Scenario>>) -> Self {
        Self { scenarios, clean: Lock::default() }
    }

    /// Searches for a mutant with seeds below `seeds`.
    pub fn hunt(&self, mutant: Mutant, seeds: u64) -> Hunted {
        let mut runs = 0;
        for seed in 0..seeds {
            for name in scenarios(mutant) {
                runs += 1;
                let found = self.play(name, seed, Some(mutant)).into_iter().next();
                if let Some(violation) = found
                    && self.is_clean(name, seed)
                {
                    let caught = Caught { scenario: (*name).to_owned(), seed, violation };
                    return Hunted { mutant, runs, caught: Some(caught) };
                }
            }
        }
        Hunted { mutant, runs, caught: None }
    }

    /// Whether the product as it ships does nothing wrong with a seed.
    pub fn is_clean(&self, name: &str, seed: u64) -> bool {
        let key = (name.to_owned(), seed);
        let known = self.clean.lock().get(&key).map(Vec::is_empty);
        known.unwrap_or_else(|| {
            let found = self.play(name, seed, None);
            let clean = found.is_empty();
            self.clean.lock().insert(key, found);
            clean
        })
    }

    /// What the product as it ships did wrong, by scenario and seed.
    #[must_use]
    pub fn unclean(&self) -> Vec<(String, u64, Violation)> {
        let clean = self.clean.lock();
        let first = clean
            .iter()
            .filter_map(|((name, seed), found)| Some((name.clone(), *seed, found.first()?.clone())));
        first.collect()
    }

    fn play(&self, name: &str, seed: u64, mutant: Option<Mutant>) -> Vec<Violation> {
        if name == TWINS {
            return twins::play(seed, mutant);
        }
        let Some(scenario) = self.scenarios.get(name) else {
            let what = format!("there is no scenario called {name}");
            return vec![Violation { invariant: "setup", at_ms: None, what }];
        };
        let schedule = Arc::new(Schedule::draw(scenario, seed));
        play(scenario, &schedule, &How { mutant, ..How::default() }).violations
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_mutant_is_hunted_in_scenarios_that_exist() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        for mutant in Mutant::ALL {
            for name in scenarios(*mutant).iter().filter(|name| **name != TWINS) {
                Scenario::load(&directory.join(format!("{name}.toml"))).unwrap();
            }
        }
    }
}
