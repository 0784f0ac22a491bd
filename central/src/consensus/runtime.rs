//! openraft's runtime on a host: its tasks are the host's, its random numbers the host's, its timers tokio's. The same
//! type serves production and simulation, since openraft fixes it at compile time.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use openraft::{AsyncRuntime, OptionalSend};
use openraft_rt_tokio::TokioRuntime;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use seam::{Host, Task};

/// Runs openraft on the host of the task that asks ([`seam::current`]).
#[derive(Debug)]
pub(crate) struct HostRuntime(TokioRuntime);

/// A task ended without a result.
#[derive(Debug)]
pub(crate) struct Ended;

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task panicked or was ended with its host")
    }
}

/// Waits for a task's result.
#[derive(Debug)]
pub(crate) struct Handle<T>(Task<T>);

impl<T> Future for Handle<T> {
    type Output = Result<T, Ended>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(|_gone| Ended)
    }
}

/// The host whose task is running. Every task that reaches openraft is a host's; one that is not would escape a
/// simulated crash.
fn host() -> Host {
    seam::current().unwrap_or_else(|| {
        tracing::error!("a task outside any host reached the consensus");
        Host::real()
    })
}

impl AsyncRuntime for HostRuntime {
    type JoinError = Ended;
    type JoinHandle<T: OptionalSend + 'static> = Handle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = SmallRng;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = <TokioRuntime as AsyncRuntime>::Watch;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        Handle(host().spawn("raft", future))
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    /// A panic has been reported where it happened; to openraft any end without a result is the same.
    fn is_panic(_error: &Self::JoinError) -> bool {
        true
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        SmallRng::seed_from_u64(host().random_u64())
    }

    fn new(threads: usize) -> Self {
        Self(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }

    fn spawn_blocking<F, T>(work: F) -> impl Future<Output = Result<T, io::Error>> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let host = host();
        async move { host.compute(work).await.map_err(|_gone| io::Error::other(Ended.to_string())) }
    }
}
