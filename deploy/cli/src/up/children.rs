//! The processes of the mesh: started from this executable, watched, stopped. None but these is ever signalled.
//!
//! Each is in a process group of its own, so that a Ctrl-C reaches `up` alone, which then stops them in order; and each
//! holds the reading end of a pipe from here, so that it stops by itself when `up` is killed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::future::select_all;
use seam::{Host, Stop};
use tokio::process::{Child, ChildStdin, Command};

use super::files::Written;
use super::layout::Layout;
use crate::failure::{Failure, Outcome};
use crate::files;

/// How long nodes may take to drain before they are killed.
const PATIENCE: Duration = Duration::from_secs(8);
/// How much of a dead node's log is shown.
const LAST_LINES: usize = 6;

/// The processes, in the order in which they start; they stop in the reverse order.
pub(super) struct Children {
    executable: PathBuf,
    planned: Vec<Planned>,
    running: Vec<Running>,
}

struct Planned {
    name: String,
    arguments: Vec<OsString>,
    log: PathBuf,
}

struct Running {
    name: String,
    process: Child,
    /// Kept apart: waiting for a process closes the input it still has.
    input: Option<ChildStdin>,
    log: PathBuf,
}

/// A process that ended without being asked.
pub(super) struct Death {
    name: String,
    status: String,
    log: PathBuf,
}

impl Children {
    pub(super) fn new(layout: &Layout, written: &Written) -> Result<Self, Failure> {
        let executable = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("cannot tell where this executable is: {error}")))?;
        let mut planned = Vec::new();
        for demo in &layout.demos {
            let mut arguments: Vec<OsString> = vec!["demo".into(), "--until-eof".into()];
            arguments.extend(["--listen".into(), demo.listen.to_string().into()]);
            arguments.extend(["--name".into(), demo.name.clone().into()]);
            arguments.extend(["--region".into(), demo.region.into()]);
            if demo.region == "provider" {
                arguments.extend(["--key".into(), written.provider_key.clone().into()]);
            }
            planned.push(Planned { name: demo.name.clone(), arguments, log: layout.log(&demo.name) });
        }
        let centrals = layout.centrals.iter().map(|central| ("central", &central.name));
        let edges = layout.edges.iter().map(|edge| ("edge", &edge.name));
        for (role, name) in centrals.chain(edges) {
            let arguments =
                vec![role.into(), "--until-eof".into(), "--config".into(), layout.config(name).into()];
            planned.push(Planned { name: name.clone(), arguments, log: layout.log(name) });
        }
        Ok(Self { executable, planned, running: Vec::new() })
    }

    /// What runs: this executable.
    pub(super) fn executable(&self) -> &Path {
        &self.executable
    }

    pub(super) fn start_all(&mut self) -> Outcome {
        for planned in std::mem::take(&mut self.planned) {
            self.running.push(self.start(planned)?);
        }
        Ok(())
    }

    fn start(&self, planned: Planned) -> Result<Running, Failure> {
        let mut process = Command::new(&self.executable)
            .args(&planned.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(files::append(&planned.log)?)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Failure::failed(format!("cannot start {}: {error}", planned.name)))?;
        let input = process.stdin.take();
        Ok(Running { name: planned.name, process, input, log: planned.log })
    }

    /// The process of a node.
    pub(super) fn pid(&self, name: &str) -> u32 {
        let running = self.running.iter().find(|running| running.name == name);
        running.and_then(|running| running.process.id()).unwrap_or(0)
    }

    /// Waits for the next process that ends. Cancel safe; pending for ever when none is left.
    pub(super) async fn death(&mut self) -> Death {
        if self.running.is_empty() {
            return std::future::pending().await;
        }
        let waits = self.running.iter_mut().map(|running| Box::pin(running.process.wait()));
        let (status, at, others) = select_all(waits).await;
        drop(others);
        let dead = self.running.remove(at);
        let status = status.map_or_else(|error| error.to_string(), describe);
        Death { name: dead.name, status, log: dead.log }
    }

    /// Asks every process to stop, edges first, and kills those that do not, or all once `now` is wanted.
    pub(super) async fn stop(&mut self, host: &Host, now: &Stop) {
        while let Some(first) = self.running.last() {
            // Edges drain while central still takes their receipts, and central stops before its demo provider.
            let kind = kind_of(&first.name).to_owned();
            let from = self.running.iter().position(|running| kind_of(&running.name) == kind).unwrap_or(0);
            let mut stopping = self.running.split_off(from);
            for running in &mut stopping {
                running.ask_to_stop();
            }
            let all =
                futures_util::future::join_all(stopping.iter_mut().map(|running| running.process.wait()));
            let stopped = tokio::select! {
                biased;
                stopped = host.timeout(PATIENCE, all) => stopped.is_ok(),
                () = now.wanted() => false,
            };
            if !stopped {
                for running in &mut stopping {
                    // One that ended meanwhile needs no killing.
                    drop(running.process.kill().await);
                }
            }
        }
    }
}

impl Running {
    /// Closes the pipe that the process watches: it drains and stops, as on SIGTERM.
    fn ask_to_stop(&mut self) {
        drop(self.input.take());
    }
}

impl Death {
    /// For the operator of a running mesh.
    pub(super) fn report(&self) -> String {
        format!("{} died: {}; its log is {}{}", self.name, self.status, self.log.display(), self.last_words())
    }

    /// For one whose mesh did not start.
    pub(super) fn failure(&self) -> Failure {
        let what = format!("{} died while the mesh started: {}{}", self.name, self.status, self.last_words());
        Failure::failed(what).mend(format!(
            "see its log, {}; when its data is damaged, start a new mesh with another --data",
            self.log.display()
        ))
    }

    fn last_words(&self) -> String {
        let log = files::read(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(LAST_LINES).map(|line| format!("\n    {line}")).collect();
        lines.into_iter().rev().collect()
    }
}

fn kind_of(name: &str) -> &str {
    name.split_once('-').map_or(name, |(kind, _region)| kind)
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _signal) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}
