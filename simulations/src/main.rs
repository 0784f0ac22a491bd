//! Plays scenarios of the mesh in a simulated world; see `docs/chaos.md`.

use std::process::ExitCode;

use clap::Parser as _;
use simulations::cli::{self, Arguments};

fn main() -> ExitCode {
    cli::main(Arguments::parse())
}
