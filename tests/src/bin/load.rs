//! The load tool: a mock upstream, and loads that measure a gateway. See `load --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tests::load::main()
}
