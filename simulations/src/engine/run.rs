//! One run of a scenario: a fresh thread, a paused runtime, a world, and the report at the end.

use std::any::Any;
use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use base::Mono;
use simulation_hooks::Random;
use thiserror::Error;
use tokio::runtime::{Builder, Handle, RngSeed, Runtime};

use super::clock::WorldClock;
use super::gate::{self, MONO_START_NS};
use super::leaks::{Collector, Leaks};
use super::log;
use super::machine::Shared;
use super::network::Network;
use super::trace::Trace;
use super::world::World;

/// Stack of a scenario's thread: everything runs on it, unoptimized futures included.
const STACK: usize = 64 << 20;

/// How to run a scenario.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides everything that is drawn.
    pub seed: u64,
    /// The longest that the scenario may take, in simulated time.
    pub limit: Duration,
    /// Which log lines to print, in the syntax of `RUST_LOG`, with simulated times; none when absent.
    pub log: Option<String>,
    /// Bytes of packets to keep; none when absent.
    pub capture: Option<usize>,
}

impl Options {
    /// The options of `seed`: ten simulated minutes at most, no log.
    #[must_use]
    pub const fn seed(seed: u64) -> Self {
        Self { seed, limit: Duration::from_secs(600), log: None, capture: None }
    }
}

/// What a run gave.
#[derive(Debug)]
pub struct Report<T> {
    /// What the scenario returned.
    pub value: T,
    /// Its history.
    pub trace: Trace,
    /// Simulated time it took.
    pub took: Duration,
    /// Entropy that hosts drew through the C library, in draws.
    pub draws: u64,
    /// The packets, where they were to be kept.
    pub captured: Option<Captured>,
}

/// Packets of a run.
#[derive(Clone, Debug)]
pub struct Captured {
    /// As a pcapng file.
    pub file: Vec<u8>,
    /// How many found no room in it.
    pub left_out: u64,
}

/// Why a run does not count.
#[derive(Debug, Error)]
pub enum Failure {
    /// The scenario was not over in time.
    #[error("seed {seed}: not over after {} simulated seconds", .limit.as_secs())]
    Late {
        /// The run's seed.
        seed: u64,
        /// The limit set.
        limit: Duration,
    },
    /// Something went past the hosts.
    #[error("seed {seed}: {leaks}")]
    Leaked {
        /// The run's seed.
        seed: u64,
        /// What did.
        leaks: Leaks,
    },
    /// Two runs of one seed differ.
    #[error("seed {seed}: packet {index} differs between two runs: {first} and {second}")]
    Diverged {
        /// The runs' seed.
        seed: u64,
        /// Which packet of the history differs first.
        index: usize,
        /// The packet in the first run.
        first: String,
        /// The packet in the second run.
        second: String,
    },
    /// The thread of the run could not start.
    #[error("the scenario's thread did not start")]
    Thread(#[source] std::io::Error),
    /// The runtime could not start.
    #[error("the scenario's runtime did not start")]
    Runtime(#[source] std::io::Error),
}

/// Runs a scenario on a thread of its own. A panic of the scenario itself goes on in the caller.
///
/// # Errors
/// [`Failure`] when the scenario was too slow or something went past its hosts.
#[expect(clippy::disallowed_methods, reason = "a scenario's thread is the world that its hosts live in")]
pub fn run<S, F>(options: &Options, scenario: S) -> Result<Report<F::Output>, Failure>
where
    S: FnOnce(World) -> F + Send + 'static,
    F: Future,
    F::Output: Send + 'static,
{
    let options = options.clone();
    let work = move || log::kept(options.log.as_deref(), || on_this_thread(&options, scenario));
    let thread = thread::Builder::new().name("scenario".to_owned()).stack_size(STACK);
    let joined = thread.spawn(work).map_err(Failure::Thread)?.join();
    joined.unwrap_or_else(|panic: Box<dyn Any + Send>| std::panic::resume_unwind(panic))
}

/// Runs a scenario twice and demands the same history, byte for byte.
///
/// # Errors
/// [`Failure`] of either run, or where they differ.
pub fn run_twice<S, F>(options: &Options, scenario: S) -> Result<Report<F::Output>, Failure>
where
    S: Fn(World) -> F + Clone + Send + 'static,
    F: Future,
    F::Output: Send + 'static,
{
    let first = run(options, scenario.clone())?;
    let second = run(options, scenario)?;
    match first.trace.first_difference(&second.trace) {
        None => Ok(first),
        Some((index, one, other)) => Err(Failure::Diverged {
            seed: options.seed,
            index,
            first: format!("{one:?}"),
            second: format!("{other:?}"),
        }),
    }
}

fn on_this_thread<S, F>(options: &Options, scenario: S) -> Result<Report<F::Output>, Failure>
where
    S: FnOnce(World) -> F,
    F: Future,
{
    let seed = options.seed;
    enter_simulation(seed);
    let leaks = Arc::new(Collector::default());
    let runtime = paused_runtime(seed, Arc::clone(&leaks)).map_err(Failure::Runtime)?;
    let run = world_of(options, Arc::clone(&leaks), scenario);
    simulation_hooks::forget_draws();
    let (ended, trace, captured, took) = runtime.block_on(run);
    let draws = simulation_hooks::draws();
    drop(runtime);
    let leaks = leaks.with_draws(draws.stray);
    let value = ended.ok_or(Failure::Late { seed, limit: options.limit })?;
    if leaks.is_empty() {
        Ok(Report { value, trace, took, draws: draws.hosted, captured })
    } else {
        Err(Failure::Leaked { seed, leaks })
    }
}

/// Makes this thread a simulated one, and lets it draw what it draws only once.
fn enter_simulation(seed: u64) {
    simulation_hooks::enter(Random::for_purpose(seed, "thread").draw());
    simulation_hooks::set_time(MONO_START_NS, MONO_START_NS);
    fastrand::seed(Random::for_purpose(seed, "fastrand").draw());
    // The seeds of a thread's hash maps are drawn with the first of them.
    let _seeded = RandomState::new().hash_one(seed);
}

fn paused_runtime(seed: u64, leaks: Arc<Collector>) -> std::io::Result<Runtime> {
    let mut builder = Builder::new_current_thread();
    builder
        .enable_time()
        .start_paused(true)
        .rng_seed(RngSeed::from_bytes(&Random::for_purpose(seed, "scheduler").draw().to_le_bytes()))
        .on_task_spawn(move |task| {
            if !gate::is_spawning() {
                leaks.task(task.spawned_at().to_string());
            }
        });
    builder.build()
}

#[expect(clippy::disallowed_methods, reason = "the network's pump stands outside of every host")]
async fn world_of<S, F>(
    options: &Options,
    leaks: Arc<Collector>,
    scenario: S,
) -> (Option<F::Output>, Trace, Option<Captured>, Duration)
where
    S: FnOnce(World) -> F,
    F: Future,
{
    let (seed, limit) = (options.seed, options.limit);
    let clock = WorldClock::start();
    let runtime = Handle::current();
    let network = Arc::new(Network::new(clock, Random::for_purpose(seed, "network")));
    if let Some(most) = options.capture {
        network.capture(most);
    }
    let pumped = Arc::clone(&network);
    let pump = gate::spawning(|| runtime.spawn(async move { pumped.pump().await }));
    let shared = Shared { seed, runtime, network: Arc::clone(&network), leaks };
    let world = World::new(clock, Arc::new(shared));
    let ended = tokio::select! {
        biased;
        value = scenario(world.clone()) => Some(value),
        () = clock.sleep_until(Mono::ZERO + limit) => None,
    };
    world.end();
    // The aborted tasks are dropped when the scheduler comes round to them.
    world.sleep(Duration::from_millis(1)).await;
    pump.abort();
    let captured = network.take_capture().map(|(capture, names)| {
        let (file, left_out) = (capture.file(&names), capture.left_out());
        Captured { file, left_out }
    });
    (ended, network.take_trace(), captured, clock.now().since(Mono::ZERO))
}
