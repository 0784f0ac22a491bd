//! `real`.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::{CliError, Out};
use crate::files;
use crate::real::{self, Figures, Ground, How, Outcome};
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
        let how = How { portolan: self.portolan.clone(), out: self.out.out.clone(), ground };
        let (mut sum, mut voids, mut failed) = (Figures::default(), 0u64, 0u64);
        for seed in self.seed..self.seed.saturating_add(self.seeds) {
            let schedule = Schedule::draw(&scenario, seed);
            let outcome = real::play(&scenario, &schedule, &how)?;
            self.tell(&schedule, &outcome)?;
            Self::keep(&schedule, &outcome)?;
            if outcome.lateness.is_void() {
                voids += 1;
            } else {
                failed += u64::from(!outcome.violations.is_empty());
                sum.add(&outcome.figures);
            }
        }
        if self.seeds > 1 {
            let mut out = io::stdout().lock();
            writeln!(
                out,
                "\n{}: {} runs, {failed} failed, {voids} void and left out",
                scenario.name, self.seeds
            )?;
            write!(out, "{sum}")?;
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
        write!(out, "{}", outcome.figures)?;
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

    fn keep(schedule: &Schedule, outcome: &Outcome) -> Result<(), CliError> {
        let lateness = &outcome.lateness;
        let us = |per_mille| u64::try_from(lateness.within(per_mille).as_micros()).unwrap_or(u64::MAX);
        let report = json!({
            "scenario": schedule.scenario,
            "seed": schedule.seed,
            "void": lateness.is_void(),
            "violations": outcome.violations,
            "marks": outcome.marks,
            "figures": outcome.figures,
            "skipped": outcome.skipped,
            "whole_again_ms": outcome.evidence.converged.map(crate::schedule::millis),
            "load": load(),
            "links": {
                "packets": lateness.delivered(),
                "dropped": lateness.dropped(),
                "late_p50_us": us(500),
                "late_p99_us": us(990),
                "late_p999_us": us(999),
                "real_time": lateness.is_urgent(),
            },
        });
        let path = outcome.logs.join("report.json");
        let name = path.display().to_string();
        let text = serde_json::to_vec_pretty(&report);
        let text = text.map_err(|source| CliError::File { path: name.clone(), source: source.into() })?;
        files::write(&path, &text).map_err(|source| CliError::File { path: name, source })
    }
}

/// Processes that ran or waited to, over the last minute, as Linux counts them.
fn load() -> String {
    let text = files::read(std::path::Path::new("/proc/loadavg")).unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}
