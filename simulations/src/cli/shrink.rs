//! `shrink`.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;

use super::CliError;
use super::run::Which;
use crate::files;
use crate::play::{How, Outcome, play};
use crate::shrink::shrink_by_playing;

/// Makes a schedule that violates something small.
#[derive(Debug, Args)]
pub(super) struct Shrink {
    #[command(flatten)]
    which: Which,
    /// The invariant that must stay violated; the first that is, when absent.
    #[arg(long)]
    invariant: Option<String>,
    /// How many runs it may take.
    #[arg(long, default_value_t = 200)]
    runs: usize,
    /// Directory for the small schedule, and the log and the packets of its run.
    #[arg(long, default_value = "target/simulations")]
    out: PathBuf,
}

impl Shrink {
    pub(super) fn run(self) -> Result<bool, CliError> {
        let (scenario, schedule) = self.which.read()?;
        super::sweep::warm_up();
        let first = play(&scenario, &std::sync::Arc::new(schedule.clone()), &How::default());
        let named = self.invariant.clone();
        let Some(invariant) = named.or_else(|| Some(first.violations.first()?.invariant.to_owned())) else {
            return Err(CliError::Asked("this run violates nothing; nothing is to be made small".to_owned()));
        };
        let (shrunk, outcome) = shrink_by_playing(&scenario, &schedule, &invariant, self.runs);
        let (name, seed) = (&schedule.scenario, schedule.seed);
        let stem = format!("{name}-{seed}-small");
        let path = self.out.join(format!("{stem}.json"));
        let json = serde_json::to_vec_pretty(&shrunk.schedule).unwrap_or_default();
        let packets = self.out.join(format!("{stem}.pcapng"));
        for (path, bytes) in
            [(&path, json), (&self.out.join(format!("{stem}.log")), log(&outcome).into_bytes())]
        {
            let broken = |source| CliError::File { path: path.display().to_string(), source };
            files::write(path, &bytes).map_err(broken)?;
        }
        let captured = super::run::write_packets(&packets, &outcome)?;
        let (small, file) = (&shrunk.schedule, self.which.file.display());
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "{invariant}: {} faults of {}, {} callers of {}, {} machines left out, after {} runs",
            small.faults.len(),
            schedule.faults.len(),
            small.callers.len(),
            schedule.callers.len(),
            small.without.len(),
            shrunk.runs,
        )?;
        for found in &outcome.violations {
            writeln!(out, "  {}: {}", found.invariant, found.what)?;
        }
        writeln!(
            out,
            "again: cargo run --profile sim -p simulations -- replay {file} --schedule {}",
            path.display()
        )?;
        writeln!(out, "packets: {captured}")?;
        Ok(true)
    }
}

/// What struck, and what machines logged, by time.
fn log(outcome: &Outcome) -> String {
    let ms = |at: base::Mono| at.as_nanos() / 1_000_000;
    let evidence = &outcome.evidence;
    let struck = evidence
        .history
        .struck
        .iter()
        .map(|struck| (ms(struck.at), format!("struck {} {}", struck.what, struck.machines.join(", "))));
    let said = evidence
        .log
        .iter()
        .map(|line| (ms(line.at), format!("{} {} {}", line.level, line.machine, line.text)));
    let mut lines: Vec<(u64, String)> = struck.chain(said).collect();
    lines.sort_by_key(|(at, _)| *at);
    let mut text = String::new();
    for (at, line) in lines {
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{:4}.{:03} {line}", at / 1_000, at % 1_000);
    }
    text
}
