//! The load tool: a mock upstream, and loads that measure a gateway from outside.
//!
//! Every load is bounded in count and in time and goes to loopback addresses only. Latencies are measured here, CPU and
//! memory are read from the kernel's account of the gateway's processes.

mod calls;
mod connection;
mod mock;
mod process;
mod report;
mod steady;
mod streams;
mod target;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::client::Failed;

/// Loads a gateway on this machine and measures it.
#[derive(Debug, Parser)]
#[command(name = "load")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A cheap OpenAI upstream with fixed replies.
    Mock(mock::Options),
    /// Many short calls: calls per second, latency, CPU per call.
    Calls(calls::Options),
    /// Many parallel streams: CPU per chunk, memory per stream, delay of chunks.
    Streams(streams::Options),
    /// A steady load of calls and streams that tells each failure, for tests that kill nodes.
    Steady(steady::Options),
}

/// The whole program.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome: Result<(), Failed> = runtime.block_on(async {
        match cli.command {
            Command::Mock(options) => mock::run(options).await,
            Command::Calls(options) => calls::run(&options).await,
            Command::Streams(options) => streams::run(options).await,
            Command::Steady(options) => steady::run(options).await,
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}
