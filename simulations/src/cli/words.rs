//! What is said of runs: a line for each that failed with the command that plays it again, and the sum of all.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use seam::Lock;

use super::sweep::Job;
use super::{CliError, Out};
use crate::figures::percentile;
use crate::files;
use crate::play::Outcome;
use crate::report::{Report, Run, Scenario, ratio};

/// Longest text of one violation on the screen, in characters.
const SHOWN: usize = 600;

/// After so many runs the report is written, lest a sweep that is killed be lost.
const SAVED_EVERY: u64 = 500;

/// Speaks, and sums up.
#[derive(Debug)]
pub(super) struct Words {
    out: Out,
    old: Option<Report>,
    report: Lock<Report>,
}

impl Words {
    pub(super) fn new(out: &Out) -> Result<Self, CliError> {
        let old = out.compare.as_deref().map(report).transpose()?;
        Ok(Self { out: out.clone(), old, report: Lock::default() })
    }

    /// Goes on with the report that is in the output directory, when there is one.
    pub(super) fn resumed(out: &Out) -> Result<Self, CliError> {
        let words = Self::new(out)?;
        let path = out.out.join("report.json");
        let earlier = match report(&path) {
            Err(CliError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(words);
            }
            read => read?,
        };
        let commit = files::commit().unwrap_or_default();
        if earlier.commit != commit {
            return Err(CliError::Asked(format!(
                "{} is of commit {}, this is {commit}: seeds of two commits are not summed; leave --resume away to \
                 begin again, or give another --out",
                path.display(),
                earlier.commit,
            )));
        }
        *words.report.lock() = earlier;
        Ok(words)
    }

    /// The seed after the last one played.
    pub(super) fn next_seed(&self) -> Option<u64> {
        let report = self.report.lock();
        report.scenarios.values().map(|sum| sum.seeds.1.wrapping_add(1)).max()
    }

    pub(super) fn say(&self, text: &str) -> Result<(), CliError> {
        say(text)
    }

    /// Counts a run; says what it violated and leaves its schedule.
    pub(super) fn told(&self, job: &Job, outcome: &Outcome) -> Result<(), CliError> {
        let mut report = self.report.lock();
        report.count(&job.scenario, &Run::from(outcome), self.out.draw);
        if report.runs().is_multiple_of(SAVED_EVERY) {
            self.save(&mut report)?;
        }
        drop(report);
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

    fn keep(&self, outcome: &Outcome) -> Result<PathBuf, CliError> {
        let schedule = &outcome.schedule;
        let path = self.out.out.join(format!("{}-{}.json", schedule.scenario, schedule.seed));
        let broken = |source| CliError::File { path: path.display().to_string(), source };
        let json = serde_json::to_vec_pretty(&**schedule).unwrap_or_default();
        files::write(&path, &json).map_err(broken)?;
        Ok(path)
    }

    /// Says the sums and writes the report; gives whether nothing failed. All that must happen sometimes must have
    /// happened once each scenario ran `enough` times.
    pub(super) fn sum(&self, enough: Option<u64>) -> Result<bool, CliError> {
        let mut report = self.report.lock();
        let many = enough.is_some_and(|enough| report.scenarios.values().all(|sum| sum.runs >= enough));
        let mut is_well = true;
        for (name, sum) in &report.scenarios {
            let (runs, failed, twice) = (sum.runs, sum.failed, sum.twice);
            self.say(&format!(
                "{name}: {runs} runs, {failed} failed, {twice} played twice, {:.0} simulated s at {:.0} per CPU-s; {}",
                ratio(sum.simulated_ms, 1_000),
                sum.speed(),
                calls(sum),
            ))?;
            figures(sum)?;
            is_well &= failed == 0;
            for short in sum.short_of() {
                is_well = false;
                self.say(&format!("  FAILED {short}"))?;
            }
        }
        let never: Vec<String> = report.never_seen().iter().map(|mark| format!("{mark:?}")).collect();
        let idle = report.never_bit();
        for (what, names) in [("never happened", never), ("struck, and nobody noticed", idle)] {
            if !names.is_empty() {
                is_well &= !many;
                self.say(&format!("{what}: {}", names.join(", ")))?;
            }
        }
        self.save(&mut report)?;
        let failed: u64 = report.scenarios.values().map(|sum| sum.failed).sum();
        self.say(&format!("{} seeds of commit {}, {failed} failed", report.runs(), report.commit))?;
        self.say(&format!("report {}", self.out.out.join("report.html").display()))?;
        Ok(is_well)
    }

    fn save(&self, report: &mut Report) -> Result<(), CliError> {
        report.sign();
        let path = self.out.out.join("report.html").display().to_string();
        report.write(&self.out.out, self.old.as_ref()).map_err(|source| CliError::File { path, source })
    }
}

/// Calls by how they ended.
pub(super) fn calls(sum: &Scenario) -> String {
    let calls: Vec<String> = sum.calls.iter().map(|(how, count)| format!("{how} {count}")).collect();
    calls.join(", ")
}

/// Says a scenario's distributions and shares, a line each.
pub(super) fn figures(sum: &Scenario) -> Result<(), CliError> {
    for (name, times) in sum.figures.times() {
        let at = |share| percentile(times, share).unwrap_or(0);
        let (half, most_of, most) = (at(50), at(99), at(100));
        say(&format!("  {name}: p50 {half} ms, p99 {most_of} ms, max {most} ms, of {}", times.len()))?;
    }
    for (whose, (well, failed)) in sum.figures.shares() {
        say(&format!("  {whose}: {failed} of {} calls failed", well + failed))?;
    }
    Ok(())
}

/// The report at `path`.
pub(super) fn report(path: &Path) -> Result<Report, CliError> {
    let name = path.display().to_string();
    let text = files::read(path).map_err(|source| CliError::File { path: name.clone(), source })?;
    serde_json::from_str(&text).map_err(|source| CliError::Report { path: name, source })
}

/// Says a line.
pub(super) fn say(text: &str) -> Result<(), CliError> {
    Ok(writeln!(io::stdout().lock(), "{text}")?)
}
