//! An actor's process: a thread in its host's namespace with a runtime of its own, which dies with it as a killed
//! process does. The actor's code is the simulator's.

#![expect(
    clippy::disallowed_methods,
    reason = "real actors run on runtimes of their own, in threads of their own"
)]

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc;

use seam::{Boxed, ByteStream, Clock, Host, Listener, Net, Tasks};
use simulation_chaos::{Actor, ChaosError, Namespace};
use tokio::net::TcpSocket;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// Where hosts are, by name.
pub(super) type Directory = Arc<BTreeMap<String, Ipv4Addr>>;

/// A process of an actor. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    handle: Handle,
    /// The runtime ends when it goes.
    _end: oneshot::Sender<()>,
    /// The process stands still until it goes.
    paused: Option<mpsc::Sender<()>>,
    /// Dropped last, when the runtime has been told to end.
    _thread: Actor,
}

impl Process {
    /// Starts one in `namespace`, or at `seat`, with nothing to do, and gives its host, whose clock is `clock`.
    pub(super) fn start(
        (namespace, seat): (Option<&Namespace>, Option<Ipv4Addr>),
        clock: &Arc<dyn Clock>,
        directory: &Directory,
    ) -> Result<(Self, Host), ChaosError> {
        let (end, ended) = oneshot::channel::<()>();
        let (thread, handle) = Actor::start(namespace, move |tell, _ending| {
            let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
            tell(runtime.handle().clone());
            // It ends when the sender goes.
            let _gone = runtime.block_on(ended);
            runtime.shutdown_background();
        })?;
        let mut parts = Host::real().parts().clone();
        parts.clock = Arc::clone(clock);
        parts.tasks = Arc::new(On(handle.clone()));
        parts.net = Arc::new(Named { directory: Arc::clone(directory), seat, net: parts.net });
        Ok((Self { handle, _end: end, paused: None, _thread: thread }, Host::from_parts(parts)))
    }

    /// Lets it stand still: its one thread waits.
    pub(super) fn pause(&mut self) {
        let (go_on, waiting) = mpsc::channel();
        self.paused = Some(go_on);
        // The sender says nothing: it goes.
        drop(self.handle.spawn(async move {
            let _gone = waiting.recv();
        }));
    }

    pub(super) fn resume(&mut self) {
        self.paused = None;
    }
}

/// Tasks on a runtime.
#[derive(Debug)]
struct On(Handle);

impl Tasks for On {
    fn spawn(&self, _name: &'static str, task: Boxed<'static, ()>) -> AbortHandle {
        self.0.spawn(task).abort_handle()
    }

    fn compute(&self, work: Box<dyn FnOnce() + Send>) {
        drop(self.0.spawn_blocking(work));
    }
}

/// The system's network, in which hosts are found by a directory and a machine may have a seat.
#[derive(Debug)]
struct Named {
    directory: Directory,
    seat: Option<Ipv4Addr>,
    net: Arc<dyn Net>,
}

impl Net for Named {
    fn datagram(&self, at: SocketAddr) -> io::Result<Arc<dyn quinn::AsyncUdpSocket>> {
        self.net.datagram(at)
    }

    fn listen(&self, at: SocketAddr) -> Boxed<'_, io::Result<Box<dyn Listener>>> {
        let ip = self.seat.filter(|_| at.ip().is_unspecified()).map_or_else(|| at.ip(), Into::into);
        self.net.listen((ip, at.port()).into())
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Boxed<'a, io::Result<ByteStream>> {
        Box::pin(async move {
            match (self.directory.get(host), self.seat) {
                (Some(address), Some(seat)) => {
                    let socket = TcpSocket::new_v4()?;
                    socket.bind((seat, 0).into())?;
                    let stream = socket.connect((*address, port).into()).await?;
                    stream.set_nodelay(true)?;
                    Ok(Box::new(stream) as ByteStream)
                }
                (Some(address), None) => self.net.connect(&address.to_string(), port).await,
                (None, _) => self.net.connect(host, port).await,
            }
        })
    }

    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Boxed<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move {
            match self.directory.get(host) {
                Some(address) => Ok(vec![SocketAddr::from((*address, port))]),
                None => self.net.lookup(host, port).await,
            }
        })
    }
}
