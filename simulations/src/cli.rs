//! The command line: plays scenarios, one seed or many, and says which seed broke what and how to play it again.

mod real;
mod run;
mod sweep;
mod words;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use thiserror::Error;

use crate::real::RealError;
use crate::scenario::ScenarioError;

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
    /// Plays all scenarios with fresh seeds for a time.
    Sweep(sweep::Sweep),
}

/// Where failures leave their schedules.
#[derive(Clone, Debug, clap::Args)]
struct Out {
    /// Directory for the schedules of runs that failed.
    #[arg(long, default_value = "target/simulations")]
    out: PathBuf,
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

/// Does what was asked; the exit code is 1 when something was violated, 2 when it could not be done, 3 when a
/// real run is void.
#[must_use]
pub fn main(arguments: Arguments) -> ExitCode {
    let done = match arguments.command {
        Command::Real(real) => return end(real.run()),
        Command::Run(run) => run.run(),
        Command::Replay(replay) => replay.run(),
        Command::Sweep(sweep) => sweep.run(),
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
