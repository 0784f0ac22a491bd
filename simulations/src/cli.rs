//! The command line: plays scenarios, one seed or many, and says which seed broke what and how to play it again.

mod mutants;
mod real;
mod run;
mod shrink;
mod sweep;
mod words;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use thiserror::Error;

use crate::files;
use crate::real::RealError;
use crate::scenario::{RoundTrips, Scenario, ScenarioError};

/// Plays scenarios of the mesh in a simulated world.
#[derive(Debug, Parser)]
#[command(name = "simulations", version)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Plays one scenario with many seeds.
    Run(run::Run),
    /// Plays one seed, or one schedule, twice, and compares the histories.
    Replay(run::Replay),
    /// Plays one scenario with real processes in network namespaces; needs root.
    Real(real::Real),
    /// Makes a schedule that violates something small.
    Shrink(shrink::Shrink),
    /// Plays all scenarios with fresh seeds for a time.
    Sweep(sweep::Sweep),
    /// Plants faults in the product and looks for the seeds that find them.
    Mutants(mutants::Mutants),
}

/// Where reports go, and what they show.
#[derive(Clone, Debug, clap::Args)]
struct Out {
    /// Directory for the report and for the schedules of runs that failed.
    #[arg(long, default_value = "target/simulations")]
    out: PathBuf,
    /// An earlier `report.json` to compare with.
    #[arg(long)]
    compare: Option<PathBuf>,
    /// The seed whose run the report draws, rather than the worst.
    #[arg(long)]
    draw: Option<u64>,
}

/// A command cannot be carried out.
#[derive(Debug, Error)]
pub enum CliError {
    /// A scenario file.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A file cannot be read or written.
    #[error("{path}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A schedule is none.
    #[error("{path} is no schedule")]
    Schedule {
        /// Which.
        path: String,
        /// Why.
        source: serde_json::Error,
    },
    /// A report is none.
    #[error("{path} is no report; one is written as report.json by `run` and `sweep`")]
    Report {
        /// Which.
        path: String,
        /// Why.
        source: serde_json::Error,
    },
    /// What was asked makes no sense.
    #[error("{0}")]
    Asked(String),
    /// A run with real processes.
    #[error("no run with real processes")]
    Real(#[from] RealError),
    /// Standard output is gone.
    #[error("standard output")]
    Out(#[from] io::Error),
}

/// Whether this build can play it.
const fn can_play(scenario: &Scenario) -> bool {
    cfg!(feature = "next-level") || !scenario.next_level
}

/// The scenario at `file`, with the round trips of a table where there is one.
fn scenario(file: &Path, rtt: Option<&Path>) -> Result<Scenario, CliError> {
    let mut scenario = Scenario::load(file)?;
    if !can_play(&scenario) {
        let what =
            format!("{} needs `--features next-level`: nodes of two levels of messages", scenario.name);
        return Err(CliError::Asked(what));
    }
    if let Some(rtt) = rtt {
        let name = rtt.display().to_string();
        let text = files::read(rtt).map_err(|source| CliError::File { path: name.clone(), source })?;
        let laid = RoundTrips::parse(&text).and_then(|table| table.lay(&mut scenario));
        laid.map_err(|what| CliError::Asked(format!("{name}: {what}")))?;
    }
    Ok(scenario)
}

/// Does what was asked; the exit code is 1 when something was violated, 2 when it could not be done, 3 when a
/// real run is void.
#[must_use]
pub fn main(arguments: Arguments) -> ExitCode {
    let done = match arguments.command {
        Command::Real(real) => return end(real.run()),
        Command::Run(run) => run.run(),
        Command::Replay(replay) => replay.run(),
        Command::Shrink(shrink) => shrink.run(),
        Command::Sweep(sweep) => sweep.run(),
        Command::Mutants(mutants) => mutants.run(),
    };
    end(done.map(|is_well| if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

fn end(done: Result<ExitCode, CliError>) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(error) => {
            // Nowhere is left to complain when standard error is gone.
            drop(writeln!(io::stderr(), "{}", crate::deployment::chain(&error)));
            ExitCode::from(2)
        }
    }
}
