//! Machines and the processes that run on them. A process has a generation: when it ends, the generation passes
//! first and its tasks are aborted then, so that nothing it does while it is torn down reaches the world.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use base::{Mono, WallMs};
use seam::{Boxed, ByteStream, Gone, Host, Listener, Lock, Net, Parts, Tasks};
use simulation_hooks::Random;
use tokio::task::AbortHandle;

use super::clock::{MachineClock, ProcessClock};
use super::disk::{Disk, DiskFaults, PowerLoss, ProcessDisk};
use super::entropy::ProcessEntropy;
use super::gate::{self, Gated};
use super::leaks::Collector;
use super::network::{Network, Presence};

/// What all machines of a world share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) seed: u64,
    pub(super) runtime: tokio::runtime::Handle,
    pub(super) network: Arc<Network>,
    pub(super) leaks: Arc<Collector>,
}

/// A machine of the world: an address, a disk, clocks, and at most one process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Machine(Arc<Core>);

/// What a machine is made of.
pub(super) struct Core {
    pub(super) name: String,
    pub(super) clock: Arc<MachineClock>,
    pub(super) shared: Arc<Shared>,
    address: IpAddr,
    disk: Arc<Disk>,
    state: Lock<State>,
}

struct State {
    /// Of the process that runs, or of the last one.
    generation: u64,
    host: Option<Host>,
    /// Tasks that wait for the process to run on, when it is paused.
    paused: Option<Vec<Waker>>,
    slow: Option<Slow>,
    /// Levels of messages that the next process knows more than this release.
    levels_ahead: u16,
    /// Tasks that wait until the processor of a slow machine is free.
    waiting: Vec<Waker>,
    tasks: BTreeMap<u64, AbortHandle>,
    next_task: u64,
    stream: Random,
}

/// A processor that takes longer for everything.
#[derive(Clone, Copy, Debug)]
struct Slow {
    /// What one turn of a task takes.
    turn: Duration,
    /// When it is done with the turns so far.
    busy_until: Mono,
}

/// What a turn of a task takes, for machines that are slow; on others it takes no time. A machine that is a hundred times
/// slower has a thousand turns a second.
const TURN: Duration = Duration::from_micros(10);
/// Timers count whole milliseconds.
const GRAIN: Duration = Duration::from_millis(1);

/// Whether a task may run.
pub(super) enum Admission {
    Run,
    Wait,
    /// The same; its machine is to wake it then.
    WaitUntil(Mono),
    Gone,
}

impl Machine {
    pub(super) fn new(name: &str, address: IpAddr, clock: MachineClock, shared: Arc<Shared>) -> Self {
        let seed = shared.seed;
        let state = State {
            generation: 0,
            host: None,
            paused: None,
            slow: None,
            levels_ahead: 0,
            waiting: Vec::new(),
            tasks: BTreeMap::new(),
            next_task: 0,
            stream: Random::for_purpose(seed, &format!("entropy of {name}")),
        };
        Self(Arc::new(Core {
            name: name.to_owned(),
            clock: Arc::new(clock),
            shared,
            address,
            disk: Arc::new(Disk::new(Random::for_purpose(seed, &format!("disk of {name}")))),
            state: Lock::new(state),
        }))
    }

    /// Its name, which resolves to its address.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.0.address
    }

    /// Its address with `port`.
    #[must_use]
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.0.address, port)
    }

    /// Starts a process, after killing the one that runs, and gives its host.
    #[must_use]
    pub fn start(&self) -> Host {
        self.crash();
        let generation = {
            let mut state = self.0.state.lock();
            state.generation += 1;
            state.generation
        };
        self.0.shared.network.set_presence(self.0.address, Presence::Up(generation));
        let host = self.built(Host::from_parts(self.parts(generation)));
        self.0.state.lock().host = Some(host.clone());
        host
    }

    /// Says how many levels of messages its next process knows more than this release. Without the feature `next-level`
    /// there is one build.
    pub fn set_build(&self, levels_ahead: u16) {
        self.0.state.lock().levels_ahead = levels_ahead;
    }

    #[cfg(feature = "next-level")]
    fn built(&self, host: Host) -> Host {
        host.ahead(self.0.state.lock().levels_ahead)
    }

    #[cfg(not(feature = "next-level"))]
    fn built(&self, host: Host) -> Host {
        host
    }

    /// The host of the process that runs.
    #[must_use]
    pub fn host(&self) -> Option<Host> {
        self.0.state.lock().host.clone()
    }

    /// Runs `work` in the process, which must have been started, and waits for its result.
    ///
    /// # Errors
    /// [`Gone`] when no process runs or it ends before the work does.
    pub async fn run<F>(&self, name: &'static str, work: F) -> Result<F::Output, Gone>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match self.host() {
            Some(host) => host.spawn(name, work).await,
            None => Err(Gone),
        }
    }

    /// Kills the process as `kill -9` does: its tasks end where they stand, its peers' connections are reset, and
    /// what it wrote stays, synced or not.
    pub fn crash(&self) {
        self.stop(Presence::Killed);
    }

    /// Cuts the power: peers hear nothing, and of what was not synced the disk loses what `loss` says.
    pub fn power_off(&self, loss: PowerLoss) {
        self.stop(Presence::Off);
        self.0.disk.power_off(loss);
    }

    /// Stops the process where it stands (`SIGSTOP`), until [`Machine::resume`].
    pub fn pause(&self) {
        self.0.state.lock().paused.get_or_insert_default();
    }

    /// Lets a paused process run on.
    pub fn resume(&self) {
        let parked = self.0.state.lock().paused.take().unwrap_or_default();
        for task in parked {
            task.wake();
        }
    }

    /// Steps its wall clock by `by_ms` milliseconds, forwards or backwards.
    pub fn step_clock(&self, by_ms: i64) {
        self.0.clock.step(by_ms);
    }

    /// Makes both its clocks faster by so many millionths, or slower, than they are.
    pub fn speed_clock(&self, by_ppm: i64) {
        self.0.clock.speed(by_ppm);
    }

    /// Lets it do its work so many times slower; 0: as fast as it can.
    pub fn slow(&self, times: u64) {
        let waiting = {
            let mut state = self.0.state.lock();
            state.slow = (times > 0).then(|| Slow {
                turn: TURN.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX)),
                busy_until: Mono::ZERO,
            });
            std::mem::take(&mut state.waiting)
        };
        for task in waiting {
            task.wake();
        }
    }

    /// What its wall clock shows.
    #[must_use]
    pub fn wall(&self) -> WallMs {
        self.0.clock.wall()
    }

    /// Changes how its disk misbehaves.
    pub fn disk_faults(&self, change: impl FnOnce(&mut DiskFaults)) {
        self.0.disk.change_faults(change);
    }

    /// Bytes its disk holds.
    #[must_use]
    pub fn disk_used(&self) -> u64 {
        self.0.disk.used()
    }

    /// Its disk as an operator with the machine stopped sees it.
    #[must_use]
    pub fn disk(&self) -> Arc<dyn seam::Disk> {
        let generation = self.0.state.lock().generation;
        Arc::new(ProcessDisk { disk: Arc::clone(&self.0.disk), machine: Arc::clone(&self.0), generation })
    }

    /// Tasks that live in its process.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.0.state.lock().tasks.len()
    }

    fn stop(&self, presence: Presence) {
        let (host, paused, tasks) = {
            let mut state = self.0.state.lock();
            state.generation += 1;
            (state.host.take(), state.paused.take(), std::mem::take(&mut state.tasks))
        };
        self.0.shared.network.set_presence(self.0.address, presence);
        for task in tasks.values() {
            task.abort();
        }
        drop((host, paused));
    }

    fn parts(&self, generation: u64) -> Parts {
        let core = &self.0;
        let purpose = format!("entropy of {}, process {generation}", core.name);
        Parts {
            clock: Arc::new(ProcessClock::start(&core.clock)),
            tasks: Arc::new(ProcessTasks { machine: Arc::clone(core), generation }),
            net: Arc::new(ProcessNet {
                network: Arc::clone(&core.shared.network),
                address: core.address,
                generation,
            }),
            disk: Arc::new(ProcessDisk {
                disk: Arc::clone(&core.disk),
                machine: Arc::clone(core),
                generation,
            }),
            entropy: Arc::new(ProcessEntropy(Lock::new(Random::for_purpose(core.shared.seed, &purpose)))),
        }
    }
}

impl Core {
    pub(super) fn admit(&self, generation: u64, waker: &Waker) -> Admission {
        let mut state = self.state.lock();
        if state.generation != generation {
            return Admission::Gone;
        }
        if let Some(parked) = &mut state.paused {
            parked.push(waker.clone());
            return Admission::Wait;
        }
        let now = self.clock.world();
        let Some(slow) = &mut state.slow else { return Admission::Run };
        if slow.busy_until < now + GRAIN {
            slow.busy_until = slow.busy_until.max(now) + slow.turn;
            return Admission::Run;
        }
        let free = slow.busy_until;
        state.waiting.push(waker.clone());
        // The first to wait sees to it that all are woken.
        if state.waiting.len() == 1 { Admission::WaitUntil(free) } else { Admission::Wait }
    }

    /// Wakes the tasks that wait for the processor, at `free`.
    #[expect(
        clippy::disallowed_methods,
        reason = "the processor of a simulated machine stands outside of its tasks"
    )]
    pub(super) fn wake_when_free(self: &Arc<Self>, free: Mono) {
        let core = Arc::clone(self);
        let waking = async move {
            core.clock.sleep_until(free).await;
            let waiting = std::mem::take(&mut core.state.lock().waiting);
            for task in waiting {
                task.wake();
            }
        };
        drop(gate::spawning(|| self.shared.runtime.spawn(waking)));
    }

    /// Whether the process of `generation` still runs (or, stopped, nothing was started since).
    pub(super) fn is_current(&self, generation: u64) -> bool {
        self.state.lock().generation == generation
    }

    pub(super) fn forget_task(&self, id: u64) {
        let gone = self.state.lock().tasks.remove(&id);
        drop(gone);
    }

    pub(super) fn stream(&self) -> Random {
        self.state.lock().stream
    }

    pub(super) fn keep_stream(&self, stream: Random) {
        self.state.lock().stream = stream;
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.address)
    }
}

#[derive(Debug)]
struct ProcessTasks {
    machine: Arc<Core>,
    generation: u64,
}

impl Tasks for ProcessTasks {
    #[expect(clippy::disallowed_methods, reason = "the door to tasks, in the simulated world")]
    fn spawn(&self, name: &'static str, work: Boxed<'static, ()>) -> AbortHandle {
        let core = &self.machine;
        let id = {
            let mut state = core.state.lock();
            state.next_task += 1;
            state.next_task
        };
        let machine = Arc::clone(core);
        let gated = Gated { machine, generation: self.generation, id, name, work: Some(work) };
        let task = gate::spawning(|| core.shared.runtime.spawn(gated)).abort_handle();
        let mut state = core.state.lock();
        if state.generation == self.generation && !task.is_finished() {
            state.tasks.insert(id, task.clone());
        }
        task
    }

    fn compute(&self, work: Box<dyn FnOnce() + Send>) {
        if self.machine.is_current(self.generation) {
            work();
        }
    }
}

#[derive(Debug)]
struct ProcessNet {
    network: Arc<Network>,
    address: IpAddr,
    generation: u64,
}

impl Net for ProcessNet {
    fn datagram(&self, at: SocketAddr) -> io::Result<Arc<dyn quinn::AsyncUdpSocket>> {
        Ok(self.network.datagram(self.address, self.generation, at)?)
    }

    fn listen(&self, at: SocketAddr) -> Boxed<'_, io::Result<Box<dyn Listener>>> {
        let listener = self.network.listen(self.address, self.generation, at);
        Box::pin(async move { Ok(Box::new(listener?) as Box<dyn Listener>) })
    }

    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Boxed<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(vec![SocketAddr::new(self.network.resolve(host)?, port)]) })
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Boxed<'a, io::Result<ByteStream>> {
        Box::pin(async move {
            let to = SocketAddr::new(self.network.resolve(host)?, port);
            let stream = self.network.connect(self.address, self.generation, to).await?;
            Ok(Box::new(stream) as ByteStream)
        })
    }
}
