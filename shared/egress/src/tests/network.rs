//! A network in memory, and servers on it that follow a script.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use seam::{Boxed, ByteStream, Host, Listener, Lock, Net, Parts};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{Mutex, mpsc, watch};

/// What a socket's buffer holds.
const BUFFER: usize = 8 * 1024;

/// Hosts on one network.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    host: Host,
}

/// The network as its host has it.
#[derive(Clone, Debug)]
struct Wires {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    ports: Lock<BTreeMap<u16, mpsc::UnboundedSender<DuplexStream>>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

/// A port on which connections are never established.
pub(super) const BLACK_HOLE: u16 = 1;

impl Memory {
    pub(super) fn new() -> Self {
        let net = Arc::new(Wires { shared: Arc::default() });
        Self { host: Host::from_parts(Parts { net, ..Host::real().parts().clone() }) }
    }

    pub(super) fn host(&self) -> Host {
        self.host.clone()
    }
}

impl Net for Wires {
    fn datagram(&self, _at: SocketAddr) -> io::Result<Arc<dyn quinn::AsyncUdpSocket>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn listen(&self, _at: SocketAddr) -> Boxed<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let (sender, streams) = mpsc::unbounded_channel();
            let mut ports = self.shared.ports.lock();
            let port = 1000 + u16::try_from(ports.len()).unwrap();
            ports.insert(port, sender);
            Ok(Box::new(Port { port, streams: Mutex::new(streams) }) as Box<dyn Listener>)
        })
    }

    fn lookup<'a>(&'a self, _host: &'a str, _port: u16) -> Boxed<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }

    fn connect<'a>(&'a self, _host: &'a str, port: u16) -> Boxed<'a, io::Result<ByteStream>> {
        Box::pin(async move {
            if port == BLACK_HOLE {
                std::future::pending::<()>().await;
            }
            let (near, far) = tokio::io::duplex(BUFFER);
            let sent = self.shared.ports.lock().get(&port).map(|listener| listener.send(far));
            match sent {
                Some(Ok(())) => Ok(Box::new(near) as ByteStream),
                Some(Err(_)) | None => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        })
    }
}

#[derive(Debug)]
struct Port {
    port: u16,
    streams: Mutex<mpsc::UnboundedReceiver<DuplexStream>>,
}

impl Listener for Port {
    fn accept(&self) -> Boxed<'_, io::Result<(ByteStream, SocketAddr)>> {
        Box::pin(async move {
            let stream = self.streams.lock().await.recv().await.ok_or(io::ErrorKind::BrokenPipe)?;
            Ok((Box::new(stream) as ByteStream, self.local_addr()?))
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok((Ipv4Addr::LOCALHOST, self.port).into())
    }
}

/// What a server does after it read a request.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Sends bytes.
    Send(String),
    /// Sends these bytes without end.
    Endless(&'static str),
    /// Waits.
    Wait(Duration),
    /// Does nothing more, and notes when the other side closes.
    Hang,
    /// Closes.
    Close,
}

/// A server that follows a script: the steps for each request, by its number from 0.
pub(super) struct Fake {
    port: u16,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    requests: Lock<Vec<String>>,
    connections: AtomicUsize,
    left: watch::Sender<usize>,
    written: AtomicUsize,
}

type Script = Arc<dyn Fn(usize, &str) -> Vec<Step> + Send + Sync>;

impl Fake {
    pub(super) async fn start(
        net: &Memory,
        script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        Self::start_on(&net.host(), script).await
    }

    pub(super) async fn start_on(
        host: &Host,
        script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(host, Arc::new(move |number, _request: &str| script(number))).await
    }

    /// One whose steps follow what the request says.
    pub(super) async fn reading(
        net: &Memory,
        script: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(&net.host(), Arc::new(move |_number, request: &str| script(request))).await
    }

    async fn start_with(host: &Host, script: Script) -> Self {
        let listener = host.listen((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Seen> = Arc::default();
        let (accepting, spawner) = (Arc::clone(&seen), host.clone());
        drop(host.spawn("fake", async move {
            while let Ok((stream, _peer)) = listener.accept().await {
                accepting.connections.fetch_add(1, Ordering::SeqCst);
                drop(spawner.spawn(
                    "fake-connection",
                    follow(spawner.clone(), stream, Arc::clone(&accepting), Arc::clone(&script)),
                ));
            }
        }));
        Self { port, seen }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.seen.requests.lock().clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// Bytes sent so far.
    pub(super) fn written(&self) -> usize {
        self.seen.written.load(Ordering::SeqCst)
    }

    /// Waits until the other side closed a connection in the middle of a call.
    pub(super) async fn left(&self) {
        let mut left = self.seen.left.subscribe();
        left.wait_for(|count| *count > 0).await.unwrap();
    }
}

async fn follow(host: Host, mut stream: ByteStream, seen: Arc<Seen>, script: Script) {
    while let Some(request) = request(&mut stream).await {
        let number = {
            let mut requests = seen.requests.lock();
            requests.push(request.clone());
            requests.len() - 1
        };
        for step in script(number, &request) {
            match step {
                Step::Send(text) => {
                    if stream.write_all(text.as_bytes()).await.is_err() {
                        seen.left.send_modify(|count| *count += 1);
                        return;
                    }
                    seen.written.fetch_add(text.len(), Ordering::SeqCst);
                }
                Step::Endless(text) => {
                    while stream.write_all(text.as_bytes()).await.is_ok() {
                        seen.written.fetch_add(text.len(), Ordering::SeqCst);
                        tokio::task::yield_now().await;
                    }
                    seen.left.send_modify(|count| *count += 1);
                    return;
                }
                Step::Wait(time) => host.sleep(time).await,
                Step::Hang => {
                    // Nothing more is sent, so that this ends when the other side closes.
                    drop(stream.read(&mut [0; 64]).await);
                    seen.left.send_modify(|count| *count += 1);
                    return;
                }
                Step::Close => return,
            }
        }
    }
}

/// The next request, its head and body; `None` at the end.
async fn request(stream: &mut ByteStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text);
            }
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(length) if length > 0 => read.extend_from_slice(&piece[..length]),
            Ok(_) | Err(_) => return None,
        }
    }
}
