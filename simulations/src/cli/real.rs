//! `real`.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use central::admin::api::LedgerRow;
use clap::Args;

use super::{CliError, Out, words};
use crate::files;
use crate::real::{self, Ground, How, Outcome};
use crate::report::{self, Report, Run};
use crate::scenario::Scenario;
use crate::schedule::Schedule;

/// The exit code of a run on a machine that was too busy for it: it says nothing.
const VOID: u8 = 3;

/// Plays one scenario with real processes, in network namespaces when it is root.
#[derive(Debug, Args)]
pub(super) struct Real {
    /// The scenario's file.
    file: PathBuf,
    /// The seed, the first of several.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds, one after another.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// The product's binary.
    #[arg(long, default_value = "target/release/portolan")]
    portolan: PathBuf,
    /// Its binary of the next level of messages, built with `--features next-level`, for scenarios with upgrades.
    #[arg(long)]
    next: Option<PathBuf>,
    /// Put machines on the loopback device even when it is root; fewer faults.
    #[arg(long)]
    loopback: bool,
    /// Print what every caller saw.
    #[arg(long)]
    calls: bool,
    #[command(flatten)]
    out: Out,
}

impl Real {
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let scenario = Scenario::load(&self.file)?;
        let ground = if self.loopback { Ground::Loopback } else { real::prepare() };
        let how = How {
            portolan: self.portolan.clone(),
            next: self.next.clone(),
            out: self.out.out.clone(),
            ground,
        };
        let old = self.out.compare.as_deref().map(words::report).transpose()?;
        let (mut sum, mut voids, mut failed) = (Report::default(), 0u64, 0u64);
        for seed in self.seed..self.seed.saturating_add(self.seeds) {
            let schedule = Schedule::draw(&scenario, seed);
            let outcome = real::play(&scenario, &schedule, &how)?;
            let (run, mut report) = (Run::from(&outcome), Report::default());
            report.count(&scenario, &run, None);
            self.tell(&schedule, &outcome)?;
            figures(&report)?;
            conclude(&outcome)?;
            keep(&mut report, &outcome.logs, old.as_ref())?;
            if outcome.lateness.is_void() {
                voids += 1;
                sum.leave_out(&scenario, &run);
            } else {
                failed += u64::from(!outcome.violations.is_empty());
                sum.count(&scenario, &run, self.out.draw);
            }
        }
        if self.seeds > 1 {
            let (name, runs) = (&scenario.name, self.seeds);
            words::say(&format!("\n{name}: {runs} runs, {failed} failed, {voids} void and left out"))?;
            figures(&sum)?;
            for short in sum.scenarios.values().flat_map(report::Scenario::short_of) {
                failed += 1;
                words::say(&format!("  FAILED {short}"))?;
            }
            keep(&mut sum, &self.out.out.join("real").join(name), old.as_ref())?;
        }
        Ok(match (failed, voids) {
            (0, 0) => ExitCode::SUCCESS,
            (0, _) => ExitCode::from(VOID),
            (_, _) => ExitCode::FAILURE,
        })
    }

    fn tell(&self, schedule: &Schedule, outcome: &Outcome) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        let ms = |at: base::Mono| at.as_nanos() / 1_000_000;
        writeln!(
            out,
            "{} seed {}, real processes, load of the machine {}",
            schedule.scenario,
            schedule.seed,
            load()
        )?;
        for struck in &outcome.evidence.history.struck {
            let healed = struck.healed.map_or_else(|| "the end".to_owned(), |at| format!("{} ms", ms(at)));
            let (what, machines, at) = (struck.what, struck.machines.join(", "), ms(struck.at));
            writeln!(out, "{what} struck {machines} at {at} ms until {healed}")?;
        }
        if self.calls {
            for call in &outcome.evidence.history.calls {
                writeln!(out, "{call:?}")?;
            }
            for write in &outcome.evidence.history.writes {
                writeln!(out, "{write:?}")?;
            }
        }
        Ok(())
    }
}

/// Says what a report's runs measured.
fn figures(report: &Report) -> Result<(), CliError> {
    for sum in report.scenarios.values() {
        words::say(&format!("calls: {}", words::calls(sum)))?;
        words::figures(sum)?;
    }
    Ok(())
}

/// Says how a run ended.
fn conclude(outcome: &Outcome) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    for row in outcome.evidence.ledger.iter().flat_map(|ledger| &ledger.rows) {
        writeln!(out, "{}", books(row))?;
    }
    match outcome.evidence.converged {
        Some(took) => writeln!(out, "whole again {} ms after the last heal", took.as_millis())?,
        None => writeln!(out, "not whole again in time")?,
    }
    writeln!(out, "marks {:?}", outcome.marks)?;
    for skipped in &outcome.skipped {
        writeln!(out, "skipped: {skipped}")?;
    }
    writeln!(out, "links: {}", outcome.lateness)?;
    for violation in &outcome.violations {
        writeln!(out, "VIOLATED {}: {}", violation.invariant, violation.what)?;
    }
    writeln!(out, "logs in {}", outcome.logs.display())?;
    if outcome.lateness.is_void() {
        writeln!(
            out,
            "VOID: packets left the link emulator more than 5 ms late at the 99th percentile; \
             this machine is too busy, and the run says nothing"
        )?;
    }
    Ok(())
}

/// Writes a report to `directory`, and says where the page is.
fn keep(report: &mut Report, directory: &Path, old: Option<&Report>) -> Result<(), CliError> {
    report.sign();
    let page = directory.join("report.html").display().to_string();
    let written = report.write(directory, old);
    written.map_err(|source| CliError::File { path: page.clone(), source })?;
    words::say(&format!("report {page}"))
}

/// The books of one budget, in nano-dollars.
fn books(row: &LedgerRow) -> String {
    format!(
        "ledger of {}: limit {}, settled {}, charged for crashes {}, on its way {}, granted and open {}, overrun {}, {}",
        row.budget,
        row.limit.0,
        row.receipts.0,
        row.crash.0,
        row.settling.0,
        row.outstanding.0,
        row.overrun.0,
        if row.balanced { "balanced" } else { "NOT balanced" }
    )
}

/// Processes that ran or waited to, over the last minute, as Linux counts them.
fn load() -> String {
    let text = files::read(Path::new("/proc/loadavg")).unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}
