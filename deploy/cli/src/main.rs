//! The executable.

fn main() -> std::process::ExitCode {
    portolan::main()
}
