//! A host: the handle through which all of a node's code reaches the outside.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base::{Mono, WallMs};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::work::{Reporting, Timed};
use crate::{ByteStream, Disk, Listener, Parts};

tokio::task_local! {
    static CURRENT: Host;
}

/// The host whose task is running, for libraries that spawn without a handle.
#[must_use]
pub fn current() -> Option<Host> {
    CURRENT.try_with(Clone::clone).ok()
}

/// One node's access to the outside. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Host {
    parts: Arc<Parts>,
    #[cfg(feature = "next-level")]
    levels_ahead: u16,
}

/// The task ended without a result: it was aborted or it panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// The time given ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late;

impl Host {
    /// The operating system's host. Call it within a tokio runtime.
    #[must_use]
    pub fn real() -> Self {
        Self::from_parts(crate::real::parts())
    }

    /// A host made of `parts`.
    #[must_use]
    pub fn from_parts(parts: Parts) -> Self {
        Self {
            parts: Arc::new(parts),
            #[cfg(feature = "next-level")]
            levels_ahead: 0,
        }
    }

    /// The same host with a process that speaks so many levels of messages more than this release.
    #[cfg(feature = "next-level")]
    #[must_use]
    pub fn ahead(mut self, levels: u16) -> Self {
        self.levels_ahead = levels;
        self
    }

    /// How many levels of messages its process speaks more than this release.
    #[cfg(feature = "next-level")]
    #[must_use]
    pub const fn levels_ahead(&self) -> u16 {
        self.levels_ahead
    }

    /// What the host is made of, to build one that differs in a part.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Monotonic time since the host started.
    #[must_use]
    pub fn now(&self) -> Mono {
        self.parts.clock.mono()
    }

    /// Wall time; may step either way.
    #[must_use]
    pub fn wall(&self) -> WallMs {
        self.parts.clock.wall()
    }

    /// Waits for `time`.
    #[expect(clippy::disallowed_methods, reason = "the one door to timers")]
    pub fn sleep(&self, time: Duration) -> tokio::time::Sleep {
        tokio::time::sleep(time)
    }

    /// Waits until this host's clock shows `at`.
    pub fn sleep_until(&self, at: Mono) -> tokio::time::Sleep {
        self.sleep(at.since(self.now()))
    }

    /// Runs `work` for at most `time`.
    ///
    /// # Errors
    /// [`Late`] when the time ran out; `work` is dropped.
    #[expect(clippy::disallowed_methods, reason = "the one door to timers")]
    pub fn timeout<F: Future>(&self, time: Duration, work: F) -> Timed<F> {
        Timed::new(tokio::time::timeout(time, work))
    }

    /// Starts a task of this host. It runs on when the returned handle is dropped; see [`Task::bound`].
    pub fn spawn<F>(&self, name: &'static str, work: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (done, result) = oneshot::channel();
        let scoped = CURRENT.scope(self.clone(), Reporting::new(work, done));
        let abort = self.parts.tasks.spawn(name, Box::pin(scoped));
        Task { result, abort }
    }

    /// Runs `work` as this host's, in the task that awaits it.
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(self.clone(), work)
    }

    /// Runs heavy or blocking work away from the tasks.
    ///
    /// # Errors
    /// [`Gone`] when the work panicked or the process is ending.
    pub async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Gone> {
        let (done, result) = oneshot::channel();
        self.parts.tasks.compute(Box::new(move || drop(done.send(work()))));
        result.await.map_err(|_dropped| Gone)
    }

    /// Binds a datagram socket for QUIC; port 0 takes a free one.
    ///
    /// # Errors
    /// What the network said, such as an address in use.
    pub fn datagram(&self, at: SocketAddr) -> io::Result<Arc<dyn quinn::AsyncUdpSocket>> {
        self.parts.net.datagram(at)
    }

    /// Listens for byte streams; port 0 takes a free one.
    ///
    /// # Errors
    /// What the network said, such as an address in use.
    pub async fn listen(&self, at: SocketAddr) -> io::Result<Box<dyn Listener>> {
        self.parts.net.listen(at).await
    }

    /// The addresses of `host` (a name or an address), each with `port`.
    ///
    /// # Errors
    /// What name resolution said.
    pub async fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.parts.net.lookup(host, port).await
    }

    /// Connects a byte stream to `host` (a name or an address) and `port`.
    ///
    /// # Errors
    /// What the network or name resolution said.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<ByteStream> {
        self.parts.net.connect(host, port).await
    }

    /// The host's disk.
    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.parts.disk
    }

    /// Fills `bytes` with random bytes fit for keys.
    pub fn fill_random(&self, bytes: &mut [u8]) {
        self.parts.entropy.fill(bytes);
    }

    /// A random number.
    #[must_use]
    pub fn random_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_random(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A random number of 128 bits.
    #[must_use]
    pub fn random_u128(&self) -> u128 {
        let mut bytes = [0; 16];
        self.fill_random(&mut bytes);
        u128::from_le_bytes(bytes)
    }
}

/// A running task; awaiting it gives its result.
#[derive(Debug)]
pub struct Task<T> {
    result: oneshot::Receiver<T>,
    abort: AbortHandle,
}

impl<T> Task<T> {
    /// Ends the task at its next await.
    pub fn abort(&self) {
        self.abort.abort();
    }

    /// Whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.abort.is_finished()
    }

    /// Ties the task to the returned guard: it ends when the guard is dropped.
    #[must_use]
    pub fn bound(self) -> Bound<T> {
        Bound(self)
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, Gone>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result).poll(cx).map_err(|_dropped| Gone)
    }
}

/// A task that ends with this guard.
#[derive(Debug)]
pub struct Bound<T>(Task<T>);

impl<T> Future for Bound<T> {
    type Output = Result<T, Gone>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T> Drop for Bound<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
