//! The one executable, `portolan`: a node of the mesh, a whole mesh on this machine, and the operator's commands.
//!
//! Exit codes: 0 done; 1 something failed on this machine; 2 wrong usage; 3 files or configuration are invalid, nothing
//! was changed; 4 no central node could be reached; 5 the mesh refused; 6 a check found something wrong.

mod args;
pub mod demo;
mod failure;
mod files;
mod node;
mod out;
mod pki;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Arguments, Command};
use failure::Outcome;

/// Runs the executable with this process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            out::remark(&failure);
            failure.exit_code()
        }
    }
}

fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Pki { command } => pki::run(command),
        Command::Demo(demo) => node::demo(demo),
    }
}
