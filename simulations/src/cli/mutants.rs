//! `mutants`: plants each fault and looks for the seed that finds it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::mutant::Mutant;
use clap::Args;
use seam::Lock;

use super::CliError;
use super::sweep::{scenario_files, warm_up};
use super::words::say;
use crate::mutants::{Hunted, Hunter};
use crate::scenario::Scenario;
use crate::threads::at_once;

/// Longest text of a violation in the table, in characters.
const SHOWN: usize = 110;

/// Plants each mutant and demands that a seed finds it.
#[derive(Debug, Args)]
pub(super) struct Mutants {
    /// Only these, by name.
    #[arg(long)]
    only: Vec<String>,
    /// How many seeds each may take.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// Where the scenarios are.
    #[arg(long, default_value = "simulations/scenarios")]
    scenarios: PathBuf,
    /// How many runs at once.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

impl Mutants {
    pub(super) fn run(self) -> Result<bool, CliError> {
        if !cfg!(feature = "mutants") {
            let mend = "this build has no mutants; say: cargo run --profile sim -p simulations --features mutants -- mutants";
            return Err(CliError::Asked(mend.to_owned()));
        }
        let wanted = self.wanted()?;
        let mut scenarios = BTreeMap::new();
        for file in scenario_files(&self.scenarios)? {
            let scenario = Scenario::load(&file)?;
            scenarios.insert(scenario.name.clone(), Arc::new(scenario));
        }
        let hunter = Hunter::new(scenarios);
        warm_up();
        let hunted = self.hunt_all(&hunter, &wanted)?;
        self.play_clean(&hunter, &hunted);
        table(&hunter, &hunted)
    }

    fn wanted(&self) -> Result<Vec<Mutant>, CliError> {
        let named =
            |mutant: &&Mutant| self.only.is_empty() || self.only.iter().any(|name| name == mutant.name());
        let wanted: Vec<Mutant> = Mutant::ALL.iter().filter(named).copied().collect();
        if wanted.is_empty() {
            let names: Vec<&str> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
            return Err(CliError::Asked(format!("no such mutant; there are {}", names.join(", "))));
        }
        Ok(wanted)
    }

    fn hunt_all(&self, hunter: &Hunter, wanted: &[Mutant]) -> Result<Vec<Hunted>, CliError> {
        let (next, done) = (Lock::new(wanted.iter()), Lock::new(Vec::new()));
        let failed = Lock::new(None);
        at_once(self.threads, || {
            loop {
                let mutant = next.lock().next().copied();
                let Some(mutant) = mutant else { break };
                let hunted = hunter.hunt(mutant, self.seeds);
                if let Err(error) = say(&line(&hunted)) {
                    *failed.lock() = Some(error);
                }
                done.lock().push(hunted);
            }
        });
        let failed = failed.lock().take();
        let mut done = std::mem::take(&mut *done.lock());
        done.sort_by_key(|hunted| hunted.mutant);
        failed.map_or(Ok(done), Err)
    }

    /// The product as it ships plays every seed that a mutant was caught with or escaped before.
    fn play_clean(&self, hunter: &Hunter, hunted: &[Hunted]) {
        let caught = hunted.iter().filter_map(|hunted| hunted.caught.as_ref());
        let mut last: BTreeMap<&str, u64> = BTreeMap::new();
        for caught in caught {
            let most = last.entry(&caught.scenario).or_default();
            *most = caught.seed.max(*most);
        }
        let all = last.iter().flat_map(|(name, most)| (0..=*most).map(|seed| (*name, seed)));
        let next = Lock::new(all);
        at_once(self.threads, || {
            loop {
                let run = next.lock().next();
                let Some((name, seed)) = run else { break };
                hunter.is_clean(name, seed);
            }
        });
    }
}

fn line(hunted: &Hunted) -> String {
    let name = hunted.mutant.name();
    match &hunted.caught {
        None => format!("{name:<20} SURVIVED {} runs", hunted.runs),
        Some(caught) => {
            let what: String = caught.violation.what.chars().take(SHOWN).collect();
            let (scenario, seed, invariant) = (&caught.scenario, caught.seed, caught.violation.invariant);
            format!("{name:<20} {scenario:<26} seed {seed:>3}  {invariant:<13} {what}")
        }
    }
}

fn table(hunter: &Hunter, hunted: &[Hunted]) -> Result<bool, CliError> {
    say("\nmutant               scenario                   first     invariant     what it saw")?;
    for hunted in hunted {
        say(&line(hunted))?;
    }
    let unclean = hunter.unclean();
    for (name, seed, violation) in &unclean {
        let what: String = violation.what.chars().take(SHOWN).collect();
        say(&format!("WITHOUT A MUTANT {name} seed {seed} violates {}: {what}", violation.invariant))?;
    }
    let caught = hunted.iter().filter(|hunted| hunted.caught.is_some()).count();
    say(&format!("{caught} of {} mutants caught; {} runs without one failed", hunted.len(), unclean.len()))?;
    Ok(caught == hunted.len() && unclean.is_empty())
}
