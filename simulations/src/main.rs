//! Plays scenarios of the mesh in a simulated world; see `docs/chaos.md`.

use std::process::ExitCode;

use clap::Parser as _;
use simulations::cli::{self, Arguments};

// A run takes and gives back memory some thousand times in a simulated second, most of it small; this allocator gives small pieces sooner than the C library's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main(Arguments::parse())
}
