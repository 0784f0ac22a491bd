//! The product's executable, built for end-to-end tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    portolan::main()
}
