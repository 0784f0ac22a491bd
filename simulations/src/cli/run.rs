//! `run` and `replay`.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::sweep::{Job, Workers};
use super::words::Words;
use super::{CliError, Out};
use crate::files;
use crate::play::{How, Outcome, play};
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::shrink::CAPTURED;

/// Plays one scenario with many seeds.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// The scenario's file.
    file: PathBuf,
    /// How many seeds.
    #[arg(long, default_value_t = 10)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    #[command(flatten)]
    workers: Workers,
    /// A table of measured round trips between cloud regions.
    #[arg(long)]
    rtt: Option<PathBuf>,
    #[command(flatten)]
    out: Out,
}

/// Plays one seed twice.
#[derive(Debug, Args)]
pub(super) struct Replay {
    #[command(flatten)]
    which: Which,
    /// Log lines to print, as `RUST_LOG` has it.
    #[arg(long)]
    log: Option<String>,
    /// Print what every caller saw.
    #[arg(long)]
    calls: bool,
    /// Write the packets of the run to this file, as pcapng, at most 64 MiB of them.
    #[arg(long)]
    capture: Option<PathBuf>,
}

/// One run.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The scenario's file.
    pub(super) file: PathBuf,
    /// The seed.
    #[arg(long, required_unless_present = "schedule")]
    seed: Option<u64>,
    /// A schedule that a failure left, instead of a seed.
    #[arg(long, conflicts_with = "seed")]
    schedule: Option<PathBuf>,
    /// A table of measured round trips between cloud regions.
    #[arg(long)]
    rtt: Option<PathBuf>,
}

impl Which {
    /// The scenario and the schedule.
    pub(super) fn read(&self) -> Result<(Arc<Scenario>, Schedule), CliError> {
        let scenario = Arc::new(super::scenario(&self.file, self.rtt.as_deref())?);
        let schedule = match (&self.schedule, self.seed) {
            (Some(path), _) => {
                let name = path.display().to_string();
                let text =
                    files::read(path).map_err(|source| CliError::File { path: name.clone(), source })?;
                serde_json::from_str(&text).map_err(|source| CliError::Schedule { path: name, source })?
            }
            (None, Some(seed)) => Schedule::draw(&scenario, seed),
            (None, None) => return Err(CliError::Asked("give --seed or --schedule".to_owned())),
        };
        if schedule.scenario != scenario.name {
            let (theirs, ours) = (&schedule.scenario, &scenario.name);
            return Err(CliError::Asked(format!("the schedule is one of {theirs:?}, the file is {ours:?}")));
        }
        Ok((scenario, schedule))
    }
}

impl Run {
    pub(super) fn run(self) -> Result<bool, CliError> {
        let scenario = Arc::new(super::scenario(&self.file, self.rtt.as_deref())?);
        let words = Words::new(&self.out)?;
        let mut seeds = self.from..self.from.saturating_add(self.seeds);
        let file = self.file;
        self.workers.work(&words, move || {
            let seed = seeds.next()?;
            Some(Job { file: file.clone(), scenario: Arc::clone(&scenario), seed })
        })?;
        words.sum(None)
    }
}

impl Replay {
    pub(super) fn run(self) -> Result<bool, CliError> {
        let (scenario, schedule) = self.which.read()?;
        let schedule = Arc::new(schedule);
        super::sweep::warm_up();
        let capture = self.capture.as_ref().map(|_file| CAPTURED);
        let how = How { log: self.log, twice: true, capture, ..How::default() };
        let outcome = play(&scenario, &schedule, &how);
        let captured = self.capture.map(|file| write_packets(&file, &outcome)).transpose()?;
        let mut out = io::stdout().lock();
        writeln!(out, "seed {}", schedule.seed)?;
        let json = serde_json::to_string_pretty(&*schedule);
        writeln!(out, "{}", json.unwrap_or_default())?;
        for struck in &outcome.evidence.history.struck {
            let ms = |at: base::Mono| at.as_nanos() / 1_000_000;
            let healed = struck.healed.map_or_else(|| "the end".to_owned(), |at| format!("{} ms", ms(at)));
            writeln!(
                out,
                "{} struck {} at {} ms until {healed}",
                struck.what,
                struck.machines.join(", "),
                ms(struck.at)
            )?;
        }
        if self.calls {
            for call in &outcome.evidence.history.calls {
                writeln!(out, "{call:?}")?;
            }
            for served in &outcome.evidence.history.served {
                writeln!(out, "{served:?}")?;
            }
            for write in &outcome.evidence.history.writes {
                writeln!(out, "{write:?}")?;
            }
            for set in &outcome.evidence.history.sets {
                writeln!(out, "{set:?}")?;
            }
            for operated in &outcome.evidence.history.operated {
                writeln!(out, "{operated:?}")?;
            }
            for look in &outcome.evidence.history.looks {
                writeln!(out, "{look:?}")?;
            }
        }
        writeln!(out, "marks {:?}", outcome.marks)?;
        writeln!(out, "trace {:016x} of {} packets, played twice", outcome.hash, outcome.packets)?;
        if let Some(captured) = captured {
            writeln!(out, "packets {captured}")?;
        }
        for violation in &outcome.violations {
            writeln!(out, "VIOLATED {}: {}", violation.invariant, violation.what)?;
        }
        Ok(outcome.violations.is_empty())
    }
}

/// Writes a run's packets to `path`, and says in words what is there.
pub(super) fn write_packets(path: &Path, outcome: &Outcome) -> Result<String, CliError> {
    let Some(captured) = &outcome.captured else {
        return Ok("none: the run did not end".to_owned());
    };
    let broken = |source| CliError::File { path: path.display().to_string(), source };
    files::write(path, &captured.file).map_err(broken)?;
    let left_out = match captured.left_out {
        0 => String::new(),
        packets => format!(", without the last {packets}"),
    };
    Ok(format!("{}{left_out}", path.display()))
}
