//! One run: set the mesh up, let it settle, strike, heal, wait until it is whole, serve on, and look at everything.

mod chaos;
mod finish;
mod setup;

use std::sync::Arc;
use std::time::Duration;

use base::mutant::Mutant;
use seam::{Stop, Stopper};
use thiserror::Error;

use crate::actors::{BOUND, Caller, CallerSetup, Observer};
use crate::deployment::DeployError;
use crate::engine::{Captured, Failure, Options, World, run, run_twice};
use crate::evidence::Evidence;
use crate::faults::Kind;
use crate::history::Recorder;
use crate::http::ExchangeError;
use crate::invariants::{Violation, judge};
use crate::marks::{self, Mark};
use crate::scenario::Scenario;
use crate::schedule::{CallerPlan, Schedule};
pub(crate) use setup::{Stage, actors, plan};

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Its schedule.
    pub schedule: Arc<Schedule>,
    /// What must not be; empty when all is well.
    pub violations: Vec<Violation>,
    /// What happened that must happen sometimes.
    pub marks: std::collections::BTreeSet<Mark>,
    /// The hash over every packet.
    pub hash: u64,
    /// Packets sent.
    pub packets: usize,
    /// Simulated time.
    pub simulated: Duration,
    /// Processor time, as far as the system tells it.
    pub cpu: Duration,
    /// Whether it was played twice, and was the same.
    pub twice: bool,
    /// Its packets, where they were to be kept.
    pub captured: Option<Captured>,
    /// All that is known of it.
    pub evidence: Evidence,
}

/// How to run a schedule.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// Which log lines to print, as `RUST_LOG` has it.
    pub log: Option<String>,
    /// Whether to run it twice and compare the two histories.
    pub twice: bool,
    /// A fault to plant in the product; heeded only with the feature `mutants`.
    pub mutant: Option<Mutant>,
    /// Bytes of packets to keep; none when absent.
    pub capture: Option<usize>,
}

/// A run could not be played.
#[derive(Debug, Error)]
pub enum PlayError {
    /// The mesh was not set up.
    #[error("the mesh was not set up")]
    Deploy(#[from] DeployError),
    /// Its first configuration was refused.
    #[error("the first configuration was refused")]
    Apply(#[source] ExchangeError),
    /// It never served before any fault.
    #[error("no answer before any fault: {0}")]
    NeverServed(String),
}

/// Plays `schedule` in a world of its own and judges it. What keeps the run from counting is a violation too.
#[must_use]
pub fn play(scenario: &Arc<Scenario>, schedule: &Arc<Schedule>, how: &How) -> Outcome {
    let scenario = &Arc::new(schedule.fit(scenario));
    let options = Options { log: how.log.clone(), capture: how.capture, ..Options::seed(schedule.seed) };
    #[cfg(feature = "mutants")]
    let mutant = how.mutant;
    let act = {
        let (scenario, schedule) = (Arc::clone(scenario), Arc::clone(schedule));
        move |world: World| {
            let (scenario, schedule) = (Arc::clone(&scenario), Arc::clone(&schedule));
            async move {
                #[cfg(feature = "mutants")]
                let _planted = mutant.map(base::mutant::plant);
                let began = cpu_time();
                let evidence = Box::pin(act(&world, &scenario, &schedule)).await;
                (evidence, cpu_time().saturating_sub(began))
            }
        }
    };
    let running = || if how.twice { run_twice(&options, act) } else { run(&options, act) };
    let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(running));
    let mut outcome = Outcome {
        schedule: Arc::clone(schedule),
        violations: Vec::new(),
        marks: std::collections::BTreeSet::new(),
        hash: 0,
        packets: 0,
        simulated: Duration::ZERO,
        cpu: Duration::ZERO,
        twice: false,
        captured: None,
        evidence: Evidence::default(),
    };
    match played {
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
            outcome.violations.push(wrong("panic", said.to_owned()));
        }
        Ok(Err(failure)) => outcome.violations.push(wrong(engine_name(&failure), failure.to_string())),
        Ok(Ok(report)) => {
            outcome.hash = report.trace.hash();
            outcome.packets = report.trace.packets().len();
            outcome.simulated = report.took;
            let (played, cpu) = report.value;
            outcome.cpu = cpu;
            outcome.twice = how.twice;
            outcome.captured = report.captured;
            match played {
                Ok(evidence) => {
                    outcome.violations = judge(&evidence);
                    outcome.marks = marks::hit(&evidence);
                    outcome.evidence = evidence;
                }
                Err(error) => outcome.violations.push(wrong("setup", crate::deployment::chain(&error))),
            }
        }
    }
    outcome
}

fn wrong(invariant: &'static str, what: String) -> Violation {
    Violation { invariant, at_ms: None, what }
}

const fn engine_name(failure: &Failure) -> &'static str {
    match failure {
        Failure::Diverged { .. } => "repeats",
        Failure::Leaked { .. } => "leaks",
        Failure::Late { .. } => "late",
        Failure::Thread(_) | Failure::Runtime(_) => "engine",
    }
}

/// Processor time of this thread, from Linux's scheduler; zero elsewhere.
#[must_use]
pub fn cpu_time() -> Duration {
    let text = crate::files::read(std::path::Path::new("/proc/thread-self/schedstat")).unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

async fn act(world: &World, scenario: &Scenario, schedule: &Schedule) -> Result<Evidence, PlayError> {
    let recorder = Recorder::new(world.clock());
    let stage = Stage::simulated(world, scenario, schedule, &recorder).await?;
    Ok(stage.perform(scenario, schedule).await)
}

impl Stage {
    /// Lets the mesh settle, strikes, heals, waits until it is whole, serves on, and gathers the evidence.
    pub(crate) async fn perform(&self, scenario: &Scenario, schedule: &Schedule) -> Evidence {
        let (ground, recorder) = (self.field.ground(), &self.recorder);
        let before = self.counts();
        let (stopper, stop) = Stopper::new();
        let callers = start_actors(self, scenario, schedule, recorder, &stop);
        begin(recorder, "settle");
        ground.sleep(Duration::from_millis(schedule.settle)).await;

        begin(recorder, "chaos");
        self.chaos(schedule, &stop).await;
        begin(recorder, "heal");
        let converged = self.converge(scenario.expect.converge_within.most).await;
        begin(recorder, "serve");
        ground.sleep(Duration::from_millis(schedule.serve)).await;
        begin(recorder, "finish");
        stopper.stop();
        for caller in callers {
            // A caller's machine never ends: it is over when its last call is.
            let _gone = caller.await;
        }
        self.finish(scenario, schedule, before, converged).await
    }
}

fn begin(recorder: &Recorder, phase: &'static str) {
    let now = recorder.now();
    recorder.write(|history| history.phases.push((now, phase)));
}

fn start_actors(
    stage: &Stage,
    scenario: &Scenario,
    schedule: &Schedule,
    recorder: &Recorder,
    stop: &Stop,
) -> Vec<seam::Task<()>> {
    let ground = stage.field.ground();
    let operations = stage.operations.clone();
    let observer = Observer {
        operator: operations.operator.clone(),
        field: stage.field.clone(),
        recorder: recorder.clone(),
    };
    observer.start(stop.clone());
    stage.dns.start(operations.operator.host(), stop);
    operations.start_revoking(
        Duration::from_millis(schedule.settle + schedule.chaos / 2),
        setup::revocation(),
        stop.clone(),
    );
    if let Some(every) = scenario.load.write_every {
        operations.start_writing(every, ground, scenario.load.writers, stop);
    }
    if let Some(every) = scenario.load.read_every {
        operations.start_reading(every, ground.random("operator reads"), stop.clone());
    }
    stage.rivals.start(scenario.load.rivals, scenario.load.rival_every, ground, stop);
    let setup = stage.callers(scenario);
    let mut bound = Vec::new();
    if let Some(every) = scenario.load.adjust_every {
        stage.steward.start(every, ground, stop);
        bound = stage.start_bound(&setup, stop);
    }
    let start = |plan: &CallerPlan| {
        let host = stage.hosts.get(&plan.region)?.clone();
        let random = ground.random(&plan.name);
        let crowd = plan.crowd.as_deref().and_then(|tenant| scenario.crowd(tenant));
        let setup = crowd.map_or_else(|| setup.clone(), |crowd| setup.of(crowd));
        Some(Caller::new(host, plan.clone(), setup, random).start(stop.clone()))
    };
    schedule.callers.iter().filter_map(start).chain(bound).collect()
}

impl Stage {
    fn callers(&self, scenario: &Scenario) -> CallerSetup {
        let asked = &scenario.load.models;
        let models = if asked.is_empty() { scenario.topology.models() } else { asked.clone() };
        CallerSetup {
            load: scenario.load.clone(),
            models,
            dns: self.dns.clone(),
            recorder: self.recorder.clone(),
            keys: [setup::STRICT, setup::FREE],
            revoked: false,
            bound: false,
            crowd: None,
        }
    }

    /// Starts a caller in each region whose key is restricted at times.
    fn start_bound(&self, setup: &CallerSetup, stop: &Stop) -> Vec<seam::Task<()>> {
        let start = |(region, host): (&String, &seam::Host)| {
            let name = format!("bound-{region}");
            let random = self.field.ground().random(&name);
            let plan = CallerPlan { name, region: region.clone(), strict: false, at_once: 0, crowd: None };
            let setup = CallerSetup { keys: [BOUND; 2], bound: true, ..setup.clone() };
            Caller::new(host.clone(), plan, setup, random).start(stop.clone())
        };
        self.hosts.iter().map(start).collect()
    }

    /// Tasks of each node, and open byte streams of the world.
    fn counts(&self) -> (std::collections::BTreeMap<String, usize>, usize) {
        let nodes = self.field.places().iter();
        let nodes = nodes.filter(|(name, place)| {
            matches!(place.kind, Kind::Central | Kind::Edge) && !self.field.is_absent(name)
        });
        let tasks = nodes.map(|(name, _)| (name.clone(), self.field.ground().tasks(name))).collect();
        (tasks, self.field.ground().streams())
    }
}
