//! `sweep`, and the threads that play.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::Mono;
use clap::Args;
use seam::{Host, Lock};

use super::words::Words;
use super::{CliError, Out};
use crate::files;
use crate::play::{How, play};
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::threads::at_once;

/// Runs of each scenario after which all that must happen sometimes must have happened.
const ENOUGH: u64 = 10;

/// Plays all scenarios with fresh seeds for a time.
#[derive(Debug, Args)]
pub(super) struct Sweep {
    /// How long.
    #[arg(long, default_value_t = 5)]
    minutes: u64,
    /// Where the scenarios are.
    #[arg(long, default_value = "simulations/scenarios")]
    scenarios: PathBuf,
    /// A table of measured round trips between cloud regions, for scenarios that name theirs.
    #[arg(long)]
    rtt: Option<PathBuf>,
    /// The first seed; drawn and printed when absent.
    #[arg(long)]
    from: Option<u64>,
    /// Seeds 0, 1, … that every scenario plays before fresh ones.
    #[arg(long, default_value_t = 0)]
    fixed: u64,
    /// Goes on after the last seed of the report in `--out`, of the same commit, and adds to it.
    #[arg(long, conflicts_with = "from")]
    resume: bool,
    #[command(flatten)]
    workers: Workers,
    #[command(flatten)]
    out: Out,
}

/// One run to play.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) file: PathBuf,
    pub(super) scenario: Arc<Scenario>,
    pub(super) seed: u64,
}

/// Threads that play runs.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Workers {
    /// How many runs at once.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Plays seeds that so many divides twice, and demands that both runs are equal; 0: none.
    #[arg(long, value_name = "N", default_value_t = 100)]
    again_every: u64,
}

impl Sweep {
    pub(super) fn run(self) -> Result<bool, CliError> {
        let mut scenarios = Vec::new();
        for file in scenario_files(&self.scenarios)? {
            if !super::can_play(&Scenario::load(&file)?) {
                continue;
            }
            let scenario = Arc::new(super::scenario(&file, self.rtt.as_deref())?);
            scenarios.push((file, scenario));
        }
        let host = Host::real();
        let began: Mono = host.now();
        let most = Duration::from_secs(self.minutes.saturating_mul(60));
        let words = if self.resume { Words::resumed(&self.out)? } else { Words::new(&self.out)? };
        let resumed = words.next_seed();
        let fixed = if resumed.is_some() { 0 } else { self.fixed };
        let from = resumed.or(self.from).unwrap_or_else(|| host.random_u64() >> 24);
        words.say(&format!("{} scenarios, seeds {}from {from}", scenarios.len(), fixed_words(fixed)))?;
        let mut next = 0usize;
        self.workers.work(&words, move || {
            if host.now().since(began) >= most {
                return None;
            }
            let (file, scenario) = scenarios.get(next % scenarios.len().max(1))?;
            let round = (next / scenarios.len().max(1)) as u64;
            let seed = round.checked_sub(fixed).map_or(round, |fresh| from.wrapping_add(fresh));
            next += 1;
            Some(Job { file: file.clone(), scenario: Arc::clone(scenario), seed })
        })?;
        words.sum(Some(ENOUGH))
    }
}

fn fixed_words(fixed: u64) -> String {
    fixed.checked_sub(1).map_or_else(String::new, |last| format!("0 to {last}, then "))
}

impl Workers {
    /// Plays what `next` gives until it gives nothing.
    pub(super) fn work(
        self,
        words: &Words,
        next: impl FnMut() -> Option<Job> + Send,
    ) -> Result<(), CliError> {
        warm_up();
        let next = Lock::new(next);
        let failed = Lock::new(None);
        at_once(self.threads.max(1), || {
            loop {
                let job = (next.lock())();
                let Some(job) = job else { break };
                let schedule = Arc::new(Schedule::draw(&job.scenario, job.seed));
                let how = How { twice: self.is_twice(job.seed), ..How::default() };
                let outcome = play(&job.scenario, &schedule, &how);
                if let Err(error) = words.told(&job, &outcome) {
                    *failed.lock() = Some(error);
                    break;
                }
            }
        });
        let failed = failed.lock().take();
        failed.map_or(Ok(()), Err)
    }

    const fn is_twice(&self, seed: u64) -> bool {
        // No seed but 0 is a multiple of 0.
        self.again_every > 0 && seed.is_multiple_of(self.again_every)
    }
}

/// Whatever a process makes once draws entropy from the run that needs it first: one run is thrown away.
pub(super) fn warm_up() {
    const TINY: &str = "name = \"warm-up\"\nabout = \"x\"\n[topology]\ncentral = [\"eu\"]\nedges = {eu = 1}\n\
        [[topology.server]]\nname = \"model-eu\"\nregion = \"eu\"\nserves = [\"m\"]\n\
        [phases]\nsettle = \"1s\"\nchaos = \"1s\"\nserve = \"1s\"\n";
    if let Ok(scenario) = Scenario::parse("warm-up", TINY) {
        let schedule = Arc::new(Schedule::draw(&scenario, 0));
        drop(play(&Arc::new(scenario), &schedule, &How::default()));
    }
}

pub(super) fn scenario_files(directory: &Path) -> Result<Vec<PathBuf>, CliError> {
    let broken = |source| CliError::File { path: directory.display().to_string(), source };
    let files = files::list(directory, "toml").map_err(broken)?;
    if files.is_empty() {
        return Err(CliError::Asked(format!("{} holds no scenario", directory.display())));
    }
    Ok(files)
}
