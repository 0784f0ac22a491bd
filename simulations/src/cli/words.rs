//! What is said of runs: a line for each that failed with the command that plays it again, and the sum of all.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use seam::Lock;

use super::CliError;
use super::sweep::Job;
use crate::files;
use crate::history::CallOutcome;
use crate::marks::Mark;
use crate::play::Outcome;

/// Longest text of one violation on the screen, in characters.
const SHOWN: usize = 600;

/// Speaks, and sums up.
#[derive(Debug)]
pub(super) struct Words {
    out: PathBuf,
    sums: Lock<BTreeMap<String, Sum>>,
}

#[derive(Debug, Default)]
struct Sum {
    runs: u64,
    failed: u64,
    simulated: Duration,
    cpu: Duration,
    calls: BTreeMap<CallOutcome, u64>,
    converged: Vec<Duration>,
    marks: BTreeSet<Mark>,
}

impl Words {
    pub(super) fn new(out: &Path) -> Self {
        Self { out: out.to_owned(), sums: Lock::default() }
    }

    pub(super) fn say(&self, text: &str) -> Result<(), CliError> {
        Ok(writeln!(io::stdout().lock(), "{text}")?)
    }

    /// Counts a run; says what it violated and leaves its schedule.
    pub(super) fn told(&self, job: &Job, outcome: &Outcome) -> Result<(), CliError> {
        self.count(outcome);
        if outcome.violations.is_empty() {
            return Ok(());
        }
        let path = self.keep(outcome)?;
        let (name, seed, file) = (&outcome.schedule.scenario, outcome.schedule.seed, job.file.display());
        let mut text = format!("FAILED {name} seed {seed}, trace {:016x}\n", outcome.hash);
        for violation in &outcome.violations {
            let at = violation.at_ms.map_or_else(String::new, |ms| format!(" at {ms} ms"));
            let what: String = violation.what.chars().take(SHOWN).collect();
            text += &format!("  {}{at}: {what}\n", violation.invariant);
        }
        text += &format!("  schedule {}\n", path.display());
        text += &format!("  again: cargo run --profile sim -p simulations -- replay {file} --seed {seed}");
        self.say(&text)
    }

    fn count(&self, outcome: &Outcome) {
        let mut sums = self.sums.lock();
        let sum = sums.entry(outcome.schedule.scenario.clone()).or_default();
        sum.runs += 1;
        sum.failed += u64::from(!outcome.violations.is_empty());
        sum.simulated += outcome.simulated;
        sum.cpu += outcome.cpu;
        sum.converged.extend(outcome.evidence.converged);
        sum.marks.extend(&outcome.marks);
        for call in &outcome.evidence.history.calls {
            *sum.calls.entry(call.outcome).or_default() += 1;
        }
    }

    fn keep(&self, outcome: &Outcome) -> Result<PathBuf, CliError> {
        let schedule = &outcome.schedule;
        let path = self.out.join(format!("{}-{}.json", schedule.scenario, schedule.seed));
        let broken = |source| CliError::File { path: path.display().to_string(), source };
        let json = serde_json::to_vec_pretty(&**schedule).unwrap_or_default();
        files::write(&path, &json).map_err(broken)?;
        Ok(path)
    }

    /// Says the sums; gives whether nothing failed.
    pub(super) fn sum(&self) -> Result<bool, CliError> {
        let mut sums = self.sums.lock();
        let mut all = BTreeSet::new();
        for (name, sum) in sums.iter_mut() {
            sum.converged.sort_unstable();
            let speed = sum.simulated.as_secs_f64() / sum.cpu.as_secs_f64().max(1e-9);
            let calls: Vec<String> =
                sum.calls.iter().map(|(outcome, count)| format!("{outcome:?} {count}")).collect();
            let (half, most) = (sum.converged.get(sum.converged.len() / 2), sum.converged.last());
            let whole = half.zip(most).map_or_else(String::new, |(half, most)| {
                format!(", whole again p50 {} ms, max {} ms", half.as_millis(), most.as_millis())
            });
            self.say(&format!(
                "{name}: {} runs, {} failed, {:.0} simulated s at {speed:.0} per CPU-s{whole}; calls: {}",
                sum.runs,
                sum.failed,
                sum.simulated.as_secs_f64(),
                calls.join(", "),
            ))?;
            all.extend(sum.marks.iter().copied());
        }
        let missed: Vec<String> =
            Mark::ALL.iter().filter(|mark| !all.contains(mark)).map(|mark| format!("{mark:?}")).collect();
        if !missed.is_empty() {
            self.say(&format!("never seen: {}", missed.join(", ")))?;
        }
        Ok(sums.values().all(|sum| sum.failed == 0))
    }
}
