//! One run with real processes: the scenario, its schedule, its actors and its judges are the simulator's; under them
//! are namespaces, the release binary and a link emulator. What cannot be done here is left out and told.

mod actor;
mod clocks;
mod ground;
mod links;
mod log;
mod machines;
mod nodes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::Mono;
use seam::Host;
use simulation_chaos::{ChaosError, Lateness};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};

use crate::authority::EnrolError;
use crate::deployment::ADMIN;
use crate::evidence::Evidence;
use crate::faults::{DiskFault, Fault};
use crate::files;
use crate::ground::Ground as _;
use crate::history::Recorder;
use crate::http::ExchangeError;
use crate::invariants::{Violation, judge};
use crate::marks::{self, Mark};
use crate::operator::Operator;
use crate::play::{PlayError, Stage, actors, plan};
use crate::scenario::Scenario;
use crate::schedule::Schedule;

use self::ground::{Builds, Real};
pub use machines::Ground;
use machines::{Machines, PREFIX};
use nodes::Provisions;

/// A disk that can be full.
const SMALL_MIB: u64 = 48;
/// Beside its phases, a run takes at most this: first answers, settling of the books, last looks.
const REST: Duration = Duration::from_secs(180);

/// What to run, and where to leave logs.
#[derive(Clone, Debug)]
pub struct How {
    /// The product's binary.
    pub portolan: PathBuf,
    /// Its binary of the next level of messages, for upgrades.
    pub next: Option<PathBuf>,
    /// Logs are left in its directory `real`.
    pub out: PathBuf,
    /// What machines are made of.
    pub ground: Ground,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// What must not be; empty when all is well.
    pub violations: Vec<Violation>,
    /// What happened that must happen sometimes.
    pub marks: std::collections::BTreeSet<Mark>,
    /// How long it took.
    pub took: Duration,
    /// How late packets were.
    pub lateness: Lateness,
    /// What of the schedule was not done, and why.
    pub skipped: Vec<String>,
    /// Where nodes' logs are.
    pub logs: PathBuf,
    /// All that is known of it.
    pub evidence: Evidence,
}

/// A run could not be played.
#[derive(Debug, Error)]
pub enum RealError {
    /// There is no binary.
    #[error(
        "{0} is no file; build it with `cargo build --release -p portolan`, or name another with --portolan"
    )]
    NoBinary(String),
    /// There is no second binary.
    #[error(
        "{0} is no file; build it with `cargo build --release -p portolan --features next-level` and copy it from \
         target/release/portolan"
    )]
    NoNext(String),
    /// The kernel gives no hosts or links.
    #[error("no namespaces, mounts or TUN devices; run as root (CAP_NET_ADMIN, CAP_SYS_ADMIN, /dev/net/tun)")]
    Chaos(#[from] ChaosError),
    /// A file cannot be written.
    #[error("{path} cannot be written")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A certificate cannot be made.
    #[error("no certificate")]
    Enrol(#[from] EnrolError),
    /// The operator cannot work.
    #[error("the operator")]
    Operator(#[from] ExchangeError),
    /// The mesh does not serve.
    #[error("the mesh does not serve; its logs are in {logs}")]
    Play {
        /// Where.
        logs: String,
        /// Why.
        source: PlayError,
    },
    /// The runtime or its signals.
    #[error("the runtime")]
    Runtime(#[source] std::io::Error),
    /// Somebody asked it to end.
    #[error("ended by a signal")]
    Interrupted,
    /// It took too long.
    #[error("not over after {0:?}")]
    Late(Duration),
    /// The links ended early.
    #[error("the links ended early")]
    LinksEnded,
}

/// What machines can be made of here: namespaces when this process may have mounts of its own, which it then has, so that
/// runs leave nothing behind; else the loopback device. Called once, before there is a second thread.
#[must_use]
pub fn prepare() -> Ground {
    match simulation_chaos::isolate() {
        Ok(()) => {
            simulation_chaos::forget_dead(PREFIX);
            Ground::Namespaces
        }
        Err(_without_rights) => Ground::Loopback,
    }
}

/// Plays `schedule` with real processes, on the thread that called [`prepare`].
///
/// # Errors
/// [`RealError`] says why it could not be played; what was started is gone.
#[expect(clippy::disallowed_methods, reason = "a real run is not simulated")]
pub fn play(scenario: &Scenario, schedule: &Schedule, how: &How) -> Result<Outcome, RealError> {
    let found = |path: &PathBuf, missing: fn(String) -> RealError| {
        std::fs::canonicalize(path).map_err(|_none| missing(path.display().to_string()))
    };
    let portolan = found(&how.portolan, RealError::NoBinary)?;
    let next = how.next.as_ref().map(|path| found(path, RealError::NoNext)).transpose()?;
    let builds = Builds { portolan, next };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(RealError::Runtime)?;
    let clocks = clocks::library();
    let can = Can { ground: how.ground, upgrade: how.next.is_some(), step_clocks: clocks.is_some() };
    let (schedule, skipped) = possible(schedule, &can);
    let logs = how.out.join("real").join(format!("{}-{}", schedule.scenario, schedule.seed));
    let file = |path: &Path| {
        let path = path.display().to_string();
        move |source| RealError::File { path, source }
    };
    files::make_empty(&logs).map_err(file(&logs))?;
    let logs = std::fs::canonicalize(&logs).map_err(file(&logs))?;
    let scratch = Scratch(how.out.join(format!("real-{}", std::process::id())));
    files::make_empty(&scratch.0).map_err(file(&scratch.0))?;
    let root = std::fs::canonicalize(&scratch.0).map_err(file(&scratch.0))?;
    let (evidence, lateness, took) = runtime.block_on(async {
        let host = Host::real();
        let run = Run { host: &host, ground: how.ground, scenario, schedule: &schedule, logs: &logs, clocks };
        run.run(&root, builds).await
    })?;
    Ok(Outcome {
        seed: schedule.seed,
        violations: judge(&evidence),
        marks: marks::hit(&evidence),
        took,
        lateness,
        skipped,
        logs,
        evidence,
    })
}

/// What can be done to nodes here.
struct Can {
    ground: Ground,
    upgrade: bool,
    step_clocks: bool,
}

/// A schedule without the faults that cannot be struck here, and which those are.
fn possible(schedule: &Schedule, can: &Can) -> (Schedule, Vec<String>) {
    let mut possible = schedule.clone();
    let mut skipped =
        vec!["counts of nodes' tasks: no one outside can tell (open files are compared instead)".to_owned()];
    if can.ground == Ground::Loopback {
        skipped.push(
            "not root: machines are addresses of the loopback device; what links lose of streams comes later, and calls \
             from edges to model servers meet no link"
                .to_owned(),
        );
    }
    possible.faults.retain(|dated| {
        let why = match &dated.fault {
            Fault::ClockStep { .. } if !can.step_clocks => {
                "the library that steps clocks is not beside this program; run it where it was built"
            }
            Fault::ClockSkew { .. } => "the clocks of real nodes step, and run as fast as the machine's",
            Fault::Disk { how: DiskFault::Slow | DiskFault::Fails | DiskFault::Lies, .. } => {
                "a real disk can only be full"
            }
            Fault::Upgrade { .. } | Fault::RaiseLevel { .. } if !can.upgrade => {
                "there is one binary; --next names one built with `--features next-level`"
            }
            Fault::Slow { .. } => "all real nodes share the machine's processors",
            Fault::Disk { how: DiskFault::Full, .. } if can.ground == Ground::Loopback => {
                "a disk that can be full needs root"
            }
            Fault::PowerOff { .. } | Fault::LoseRegion { .. } => {
                let kept = "power loss: links go and processes die, but the kernel keeps what was not synced";
                if !skipped.iter().any(|said| said == kept) {
                    skipped.push(kept.to_owned());
                }
                return true;
            }
            Fault::Disk { how: DiskFault::Full, .. }
            | Fault::ClockStep { .. }
            | Fault::Crash { .. }
            | Fault::Pause { .. }
            | Fault::Partition { .. }
            | Fault::Degrade { .. }
            | Fault::CutRegion { .. }
            | Fault::Drain { .. }
            | Fault::Upgrade { .. }
            | Fault::RaiseLevel { .. }
            | Fault::Transfer { .. }
            | Fault::Replace { .. }
            | Fault::Flap { .. } => return true,
        };
        skipped.push(format!("{} at {} ms: {why}", dated.fault.kind(), dated.at));
        false
    });
    (possible, skipped)
}

struct Run<'a> {
    host: &'a Host,
    ground: Ground,
    scenario: &'a Scenario,
    schedule: &'a Schedule,
    logs: &'a Path,
    /// The library that steps clocks.
    clocks: Option<PathBuf>,
}

impl Run<'_> {
    async fn run(&self, root: &Path, builds: Builds) -> Result<(Evidence, Lateness, Duration), RealError> {
        let mut ended = signal(SignalKind::terminate()).map_err(RealError::Runtime)?;
        let mut interrupted = signal(SignalKind::interrupt()).map_err(RealError::Runtime)?;
        let topology = &self.scenario.topology;
        let plan = plan(topology, self.schedule);
        let nodes = plan.centrals.iter().chain(&plan.edges).map(|spot| spot.name.clone());
        let first: Vec<String> = nodes.collect();
        let spares = plan.spares.iter().map(|spot| spot.name.clone());
        let names =
            first.iter().cloned().chain(spares).chain(actors(topology)).chain(["operator".to_owned()]);
        let (machines, directory) = Machines::make(self.ground, names)?;
        let seated = |(place, name): (usize, &String)| Some((name.clone(), machines.seat(place)?));
        let seats: BTreeMap<_, _> = directory.keys().enumerate().filter_map(seated).collect();
        let directory = Arc::new(directory);
        let provisions = Provisions::new(self.host, root, self.logs)?;
        let nodes = provisions.nodes(&plan);
        let real = Real::new((self.schedule.seed, builds), self.host, &directory, machines, nodes)?;
        let guard = Guard(Arc::new(real));
        let is_full = |fault: &Fault| matches!(fault, Fault::Disk { how: DiskFault::Full, .. });
        if self.schedule.faults.iter().any(|dated| is_full(&dated.fault)) {
            guard.0.small_disks(SMALL_MIB)?;
        }
        if let Some(library) = self.clocks.clone().filter(|_library| self.steps_clocks()) {
            let file = |source| RealError::File { path: root.display().to_string(), source };
            guard.0.step_clocks(library, root).map_err(file)?;
        }
        provisions.lay_out(&plan, &directory, &seats)?;
        let credentials = provisions.enrol("operator", "operator/eu/operator")?;
        for name in &first {
            guard.0.start(name);
        }
        let ground: Arc<dyn crate::ground::Ground> = Arc::<Real>::clone(&guard.0);
        let phases = self.schedule.settle + self.schedule.chaos + self.schedule.serve;
        let most = Duration::from_millis(phases) + self.scenario.expect.converge_within.most + REST;
        let evidence = tokio::select! {
            biased;
            _signal = interrupted.recv() => Err(RealError::Interrupted),
            _signal = ended.recv() => Err(RealError::Interrupted),
            acted = self.host.timeout(most, self.act(&ground, &credentials)) => {
                acted.unwrap_or(Err(RealError::Late(most)))
            }
        }?;
        let took = ground.now().since(Mono::ZERO);
        let lateness = guard.0.end().ok_or(RealError::LinksEnded)?;
        Ok((evidence, lateness, took))
    }

    fn steps_clocks(&self) -> bool {
        self.schedule.faults.iter().any(|dated| matches!(dated.fault, Fault::ClockStep { .. }))
    }

    async fn act(
        &self,
        ground: &Arc<dyn crate::ground::Ground>,
        credentials: &Path,
    ) -> Result<Evidence, RealError> {
        let recorder = Recorder::new(Arc::clone(&self.host.parts().clock));
        let host = ground.boot("operator").ok_or(ExchangeError::Gone)?;
        let operator = Operator::new(host, credentials, ADMIN).await?;
        let set = Stage::set(ground, &operator, self.scenario, self.schedule, &recorder).await;
        let logs = self.logs.display().to_string();
        let stage = set.map_err(|source| RealError::Play { logs, source })?;
        Ok(stage.perform(self.scenario, self.schedule).await)
    }
}

/// Ends what runs on a ground, whatever happens.
struct Guard(Arc<Real>);

impl Drop for Guard {
    fn drop(&mut self) {
        // Nobody asks how late packets of a run were that came to nothing.
        drop(self.0.end());
    }
}

/// A directory that goes with the run.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left over costs room only.
        drop(files::remove(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_real_processes_cannot_have_are_left_out_and_told() {
        let text = "name = \"x\"\nabout = \"x\"\n[topology]\ncentral = [\"eu\"]\nedges = {eu = 1}\n\
            [[fault]]\nat = \"1s\"\ndo = \"clock_step\"\ntarget = \"edge-eu\"\nby = \"5s\"\n\
            [[fault]]\nat = \"2s\"\ndo = \"disk\"\ntarget = \"edge-eu\"\ndisk = \"lies\"\n\
            [[fault]]\nat = \"3s\"\ndo = \"disk\"\ntarget = \"edge-eu\"\ndisk = \"full\"\n\
            [[fault]]\nat = \"4s\"\ndo = \"upgrade\"\ntarget = \"edge-eu\"\n\
            [[fault]]\nat = \"5s\"\ndo = \"replace\"\ntarget = \"central-eu\"\n";
        let scenario = Scenario::parse("x.toml", text).unwrap();
        let schedule = Schedule::draw(&scenario, 1);
        let of = |all| {
            let can = Can { ground: Ground::Namespaces, upgrade: all, step_clocks: all };
            let (possible, skipped) = possible(&schedule, &can);
            (possible.faults.iter().map(|dated| dated.at).collect::<Vec<_>>(), skipped)
        };
        assert_eq!(of(true).0, [1_000, 3_000, 4_000, 5_000]);
        let (possible, skipped) = of(false);
        assert_eq!(possible, [3_000, 5_000]);
        assert!(skipped.iter().any(|said| said.starts_with("clock_step at 1000 ms")), "{skipped:?}");
        assert!(skipped.iter().any(|said| said.starts_with("disk at 2000 ms")), "{skipped:?}");
    }
}
