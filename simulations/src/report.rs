//! What came of many runs, as data that later runs are compared with, and as a page for people.

mod html;
mod plot;
mod run;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::figures::{Figures, percentile};
use crate::files;
use crate::history::CallOutcome;
use crate::marks::Mark;
pub use run::{Links, Processes, Run};
pub use timeline::Timeline;

/// Failed runs that a report keeps of one scenario.
const KEPT: usize = 50;

/// Losses of a leader of which 99 in a hundred tell something: of three, two may be slow by chance.
const TELLING: usize = 100;

/// What came of many runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The commit that ran, where git tells.
    pub commit: String,
    /// The machine's load averages when the report was made.
    pub load: String,
    /// The command that made it.
    pub command: String,
    /// Scenarios by name.
    pub scenarios: BTreeMap<String, Scenario>,
}

/// What came of the runs of one scenario.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scenario {
    /// What it shows.
    pub about: String,
    /// Runs.
    pub runs: u64,
    /// The first seed and the last.
    pub seeds: (u64, u64),
    /// Runs that violated something.
    pub failed: u64,
    /// Some of them: the seed, and what was violated.
    pub failures: Vec<(u64, Vec<String>)>,
    /// Their time, in milliseconds.
    pub simulated_ms: u64,
    /// Processor time, in milliseconds; 0 of runs with real processes.
    pub cpu_ms: u64,
    /// Runs played twice.
    pub twice: u64,
    /// Calls by how they ended, and with which code.
    pub calls: BTreeMap<String, u64>,
    /// Its figures.
    pub figures: Figures,
    /// In how many runs each mark was hit.
    pub marks: BTreeMap<Mark, u64>,
    /// The run that is drawn.
    pub drawn: Option<Timeline>,
    /// What is expected of all runs together: calls of sustained regions that end well, of a million; and milliseconds.
    pub expect: (u32, Option<u64>),
    /// Milliseconds within which half, and 99 in a hundred, of the changes after a loss of the leader are expected.
    pub written_within: Option<(u64, u64)>,
    /// What only runs with real processes have.
    pub real: Option<Processes>,
}

impl Scenario {
    /// Simulated seconds per second of a processor.
    #[must_use]
    pub fn speed(&self) -> f64 {
        ratio(self.simulated_ms, self.cpu_ms)
    }

    fn add_processes(&mut self, run: &Run<'_>) {
        if let Some(more) = &run.real {
            self.real.get_or_insert_default().add(more);
        }
    }

    /// What all runs together do not keep of what is expected. A share below one allows one call to go wrong in however
    /// few there are.
    #[must_use]
    pub fn short_of(&self) -> Vec<String> {
        let (well, failed) = self.figures.sustained;
        let (share, first_byte) = self.expect;
        let mut short = Vec::new();
        let allowed = (u128::from(well + failed) * u128::from(1_000_000 - share)).div_ceil(1_000_000);
        if u128::from(failed) > allowed {
            short.push(format!("{failed} of {} calls of sustained regions failed", well + failed));
        }
        if let (Some(most), Some(seen)) = (first_byte, percentile(&self.figures.sustained_first_byte, 99))
            && seen > most
        {
            short.push(format!("p99 to the first byte in sustained regions is {seen} ms, at most {most} ms"));
        }
        let telling = self.figures.next_write.len() >= TELLING;
        let of_writes = |share| percentile(&self.figures.next_write, share).filter(|_| telling);
        let (half, most) = self.written_within.unzip();
        for (share, most) in [(50, half), (99, most)] {
            if let (Some(most), Some(seen)) = (most, of_writes(share))
                && seen > most
            {
                short.push(format!(
                    "p{share} from the leader's loss to the next acknowledged change is {seen} ms, at most {most} ms"
                ));
            }
        }
        short
    }
}

impl Report {
    /// Counts a run; draws it when `named` is its seed, or when nothing worse was drawn yet.
    pub fn count(&mut self, scenario: &crate::scenario::Scenario, run: &Run<'_>, named: Option<u64>) {
        let seed = run.seed;
        let sum = self.of(scenario);
        sum.seeds = if sum.runs == 0 { (seed, seed) } else { (sum.seeds.0.min(seed), sum.seeds.1.max(seed)) };
        sum.runs += 1;
        if !run.violations.is_empty() {
            sum.failed += 1;
            if sum.failures.len() < KEPT {
                let said = run.violations.iter().map(|found| format!("{}: {}", found.invariant, found.what));
                sum.failures.push((seed, said.collect()));
            }
        }
        sum.simulated_ms += crate::schedule::millis(run.took);
        sum.cpu_ms += crate::schedule::millis(run.cpu);
        sum.twice += u64::from(run.twice);
        for call in &run.evidence.history.calls {
            let how = outcome_name(call.outcome);
            let how = call.code.as_ref().map_or_else(|| how.to_owned(), |code| format!("{how} {code}"));
            *sum.calls.entry(how).or_default() += 1;
        }
        sum.figures.add(&Figures::of(run.evidence));
        for mark in run.marks {
            *sum.marks.entry(*mark).or_default() += 1;
        }
        sum.add_processes(run);
        let drawn = Timeline::of(run);
        let is_worse = sum.drawn.as_ref().is_none_or(|old| drawn.badness > old.badness);
        let is_named = |timeline: &Timeline| named == Some(timeline.seed);
        if is_named(&drawn) || (is_worse && !sum.drawn.as_ref().is_some_and(is_named)) {
            sum.drawn = Some(drawn);
        }
    }

    /// Notes a run that says nothing.
    pub fn leave_out(&mut self, scenario: &crate::scenario::Scenario, run: &Run<'_>) {
        self.of(scenario).add_processes(run);
    }

    fn of(&mut self, scenario: &crate::scenario::Scenario) -> &mut Scenario {
        let millis = crate::schedule::millis;
        let expect = &scenario.expect;
        self.scenarios.entry(scenario.name.clone()).or_insert_with(|| Scenario {
            about: scenario.about.clone(),
            expect: (expect.success.0, expect.first_byte_within.map(|time| millis(time.most))),
            written_within: expect.written_within.map(|time| (millis(time.least), millis(time.most))),
            ..Scenario::default()
        })
    }

    /// Runs of all scenarios.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.scenarios.values().map(|scenario| scenario.runs).sum()
    }

    /// Marks that no run hit.
    #[must_use]
    pub fn never_seen(&self) -> Vec<Mark> {
        let seen: BTreeSet<Mark> =
            self.scenarios.values().flat_map(|scenario| scenario.marks.keys().copied()).collect();
        Mark::ALL.iter().copied().filter(|mark| !seen.contains(mark)).collect()
    }

    /// Kinds of faults that struck and after which nothing changed for anybody, in any run.
    #[must_use]
    pub fn never_bit(&self) -> Vec<String> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (kind, (_struck, bit)) in self.scenarios.values().flat_map(|scenario| &scenario.figures.faults) {
            *sums.entry(kind).or_default() += bit;
        }
        sums.into_iter().filter(|(_, bit)| *bit == 0).map(|(kind, _)| kind.to_owned()).collect()
    }

    /// Says where it comes from.
    pub fn sign(&mut self) {
        self.commit = files::commit().unwrap_or_else(|| "unknown".to_owned());
        self.load = files::read(Path::new("/proc/loadavg")).unwrap_or_default().trim().to_owned();
        self.command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    }

    /// Writes `report.json` and `report.html` to `directory`, beside `old` where there is one.
    ///
    /// # Errors
    /// The disk's.
    pub fn write(&self, directory: &Path, old: Option<&Self>) -> io::Result<()> {
        files::write(&directory.join("report.json"), &serde_json::to_vec_pretty(self)?)?;
        files::write(&directory.join("report.html"), html::page(self, old).as_bytes())
    }
}

/// How a call ended, in reports.
pub(crate) const fn outcome_name(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Open | CallOutcome::Abandoned => "open",
        CallOutcome::Complete => "complete",
        CallOutcome::Refused => "refused",
        CallOutcome::Failed => "failed",
        CallOutcome::Broken => "broken",
        CallOutcome::Short | CallOutcome::Foreign => "wrong",
        CallOutcome::HungUp => "hung up",
        CallOutcome::Unreachable => "unreachable",
        CallOutcome::Late => "late",
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown to people with a few digits")]
pub(crate) fn ratio(of: u64, to: u64) -> f64 {
    of as f64 / (to as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_slow_losses_of_a_leader_are_no_share() {
        let mut scenario = Scenario { written_within: Some((1_300, 2_500)), ..Scenario::default() };
        scenario.figures.next_write = vec![1_400; TELLING - 1];
        assert!(scenario.short_of().is_empty());
        scenario.figures.next_write.push(1_400);
        assert_eq!(scenario.short_of().len(), 1);
    }
}
