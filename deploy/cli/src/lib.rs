//! The one executable, `portolan`: a node of the mesh, a whole mesh on this machine, and the operator's commands.
//!
//! Exit codes: 0 done; 1 something failed on this machine; 2 wrong usage; 3 files or configuration are invalid, nothing
//! was changed; 4 no central node could be reached; 5 the mesh refused; 6 a check found something wrong.

mod admin;
mod args;
mod bills;
pub mod demo;
mod failure;
mod files;
mod node;
mod operator;
mod out;
mod pki;
mod tokenizer;
mod up;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Arguments, Command, Config};
use failure::Outcome;

/// Runs the executable with this process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_told() {
                out::remark(&failure);
            }
            failure.exit_code()
        }
    }
}

fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Pki { command } => pki::run(command),
        Command::Edge(arguments) => node::edge(&arguments),
        Command::Central(arguments) => node::central(&arguments),
        Command::Up(arguments) => up::run(&arguments),
        Command::Demo(arguments) => node::demo(arguments),
        Command::Status(report) => operator::status(&report),
        Command::Plan { files, reach } => operator::plan(&files, &reach),
        Command::Apply { files, note, base, reach } => operator::apply(&files, &note, base, &reach),
        Command::Get { kind, name, report } => operator::get(kind.as_deref(), name.as_deref(), &report),
        Command::Epochs(report) => operator::epochs(&report),
        Command::Rollback { epoch, reach } => operator::rollback(epoch, &reach),
        Command::Keys { command } => operator::keys(&command),
        Command::Ledger { command } => operator::ledger(&command),
        Command::Budgets(asked) => operator::budgets(&asked),
        Command::Leases(asked) => operator::leases(&asked),
        Command::Usage(asked) => operator::usage(&asked),
        Command::Bills { command } => operator::bills(&command),
        Command::Receipts(asked) => operator::receipts(&asked),
        Command::ExplainRefusal { request, report } => operator::explain_refusal(request, &report),
        Command::Level { to, reach } => operator::level(to, &reach),
        Command::Members { command } => operator::members(command),
        Command::Dialects => {
            out::raw(&dialect::fidelity_table());
            Ok(())
        }
        Command::Config { command: Config::Check { role, file } } => node::check(role, &file),
        Command::Config { command: Config::Tokenizer { file, count } } => {
            tokenizer::check(&file, count.as_deref())
        }
    }
}
