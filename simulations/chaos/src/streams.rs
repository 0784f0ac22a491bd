//! Streams between hosts of the loopback device: accepted at the receiver's face, carried on to its seat, each piece
//! when its link says so.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{Timespec, epoll};

use crate::emulator::{Fate, Fates, Shared};
use crate::{ChaosError, Loopback};

/// Bytes carried as one.
const PIECE: usize = 16 * 1024;
/// Pieces of one direction that may be under way; the sender waits for more.
const UNDER_WAY: usize = 64;
/// Streams at a time; more are closed.
const STREAMS: usize = 512;
/// What a link lost comes after this.
const AGAIN: Duration = Duration::from_millis(200);
/// How soon a freed link, the end of the run or of a stream is noticed.
const LOOK: Duration = Duration::from_millis(20);
/// What opens a stream counts as so many bytes.
const OPENING: usize = 40;

/// A listener at the face of a host, and where its streams go.
#[derive(Debug)]
struct Door {
    listener: TcpListener,
    host: usize,
    seat: SocketAddr,
}

/// The thread that accepts, and all that carry.
pub(crate) fn serve<F: Fates>(
    loopback: Loopback,
    ports: &[u16],
    shared: &Arc<Shared<F>>,
) -> Result<JoinHandle<()>, ChaosError> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC);
    let poll = poll.map_err(|error| ChaosError::kernel("polling listeners")(error.into()))?;
    let mut doors = Vec::new();
    for (host, port) in (0..loopback.hosts()).flat_map(|host| ports.iter().map(move |port| (host, *port))) {
        let at = SocketAddr::from((loopback.face(host), port));
        let bound = TcpListener::bind(at).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = bound.map_err(ChaosError::kernel(format!("listening at {at}")))?;
        let data = epoll::EventData::new_u64(doors.len() as u64);
        epoll::add(&poll, &listener, data, epoll::EventFlags::IN)
            .map_err(|error| ChaosError::kernel("polling a listener")(error.into()))?;
        doors.push(Door { listener, host, seat: (loopback.seat(host), port).into() });
    }
    let shared = Arc::clone(shared);
    let thread = thread::Builder::new().name("streams".to_owned());
    thread
        .spawn(move || accept(loopback, &poll, &doors, &shared))
        .map_err(ChaosError::kernel("starting a thread"))
}

fn accept<F: Fates>(loopback: Loopback, poll: &OwnedFd, doors: &[Door], shared: &Arc<Shared<F>>) {
    let open = Arc::new(AtomicUsize::new(0));
    let mut events = Vec::with_capacity(doors.len());
    let wait = Timespec::try_from(LOOK).unwrap_or_default();
    while !shared.is_stopping() {
        events.clear();
        // An interrupted wait is a wait that ended early.
        let _interrupted = epoll::wait(poll, rustix::buffer::spare_capacity(&mut events), Some(&wait));
        for event in &events {
            let Some(door) = usize::try_from(event.data.u64()).ok().and_then(|at| doors.get(at)) else {
                continue;
            };
            while let Ok((stream, source)) = door.listener.accept() {
                if open.load(Ordering::Relaxed) >= STREAMS {
                    continue;
                }
                let from = loopback.seated(source.ip());
                let link =
                    Link { from: from.unwrap_or(door.host), to: door.host, shared: Arc::clone(shared) };
                let (seat, open) = (door.seat, Arc::clone(&open));
                open.fetch_add(1, Ordering::Relaxed);
                let counted = Counted(open);
                let thread = thread::Builder::new().name("stream".to_owned());
                // Without a thread the stream is closed.
                drop(thread.spawn(move || {
                    let _counted = counted;
                    // A stream that breaks is closed on both sides.
                    let _broken = carry(stream, seat, &link);
                }));
            }
        }
    }
}

/// Counts a stream while it lives.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A directed link, as streams use it.
struct Link<F> {
    from: usize,
    to: usize,
    shared: Arc<Shared<F>>,
}

impl<F: Fates> Link<F> {
    fn back(&self) -> Self {
        Self { from: self.to, to: self.from, shared: Arc::clone(&self.shared) }
    }

    /// When what is sent now arrives; `None` when the run ends before.
    fn arrival(&self, bytes: usize) -> Option<Duration> {
        while !self.shared.is_stopping() {
            let now = self.shared.elapsed();
            let fate = self.shared.fates().fate(self.from, self.to, bytes, false, now);
            match fate {
                Fate::Arrives(due) | Fate::Twice(due, _) => return Some(due),
                Fate::Lost => thread::sleep(AGAIN),
                Fate::Held => thread::sleep(LOOK),
            }
        }
        None
    }

    fn wait_until(&self, due: Duration) {
        thread::sleep(due.saturating_sub(self.shared.elapsed()));
    }
}

/// Connects to the seat and carries both directions until both have ended.
fn carry<F: Fates>(stream: TcpStream, seat: SocketAddr, link: &Link<F>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let Some(due) = link.arrival(OPENING) else { return Ok(()) };
    link.wait_until(due);
    let seated = TcpStream::connect(seat)?;
    for end in [&stream, &seated] {
        end.set_nodelay(true)?;
        end.set_read_timeout(Some(LOOK))?;
    }
    let back = link.back();
    thread::scope(|scope| {
        for (link, source, sink) in [(link, &stream, &seated), (&back, &seated, &stream)] {
            let (pieces, arriving) = mpsc::sync_channel(UNDER_WAY);
            scope.spawn(move || read(link, source, &pieces));
            scope.spawn(move || write(link, &arriving, source, sink));
        }
    });
    Ok(())
}

/// A piece of a stream and when it arrives; empty at the end of the stream.
type Piece = (Duration, Vec<u8>);

fn read<F: Fates>(link: &Link<F>, mut source: &TcpStream, pieces: &SyncSender<Piece>) {
    let mut buffer = vec![0; PIECE];
    while !link.shared.is_stopping() {
        let len = match source.read(&mut buffer) {
            Ok(len) => len,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                continue;
            }
            Err(_reset) => 0,
        };
        let Some(due) = link.arrival(len.max(OPENING)) else { return };
        let piece = buffer.get(..len).unwrap_or_default().to_vec();
        if pieces.send((due, piece)).is_err() || len == 0 {
            return;
        }
    }
}

fn write<F: Fates>(link: &Link<F>, arriving: &Receiver<Piece>, source: &TcpStream, mut sink: &TcpStream) {
    // The reader goes when the run ends.
    while let Ok((due, piece)) = arriving.recv() {
        link.wait_until(due);
        if piece.is_empty() {
            // An end that is closed already needs no closing.
            let _closed = sink.shutdown(Shutdown::Write);
            return;
        }
        if sink.write_all(&piece).is_err() {
            break;
        }
    }
    let _closed = (source.shutdown(Shutdown::Both), sink.shutdown(Shutdown::Both));
}
