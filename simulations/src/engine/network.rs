//! The in-memory network: machines by address, directed links between them, and what is on its way.
//!
//! Everything under way is an event in one heap, ordered by due time and sequence; the pump delivers what is due.
//! Timers count whole milliseconds, so an arrival is rounded up to the next one.

mod datagram;
mod link;
mod stream;
mod tcp;

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::Waker;

use base::Mono;
use bytes::Bytes;
use seam::Lock;
use simulation_hooks::Random;
use tokio::sync::Notify;

use super::capture::Capture;
use super::clock::WorldClock;
use super::trace::Trace;

use datagram::Inbox;
pub use link::{Cut, Link, Reorder};
pub(crate) use link::{Fate, Path};
use tcp::{Conn, Frame, ListenQueue, Side};

/// The first port that port 0 takes, as most systems have it.
const FIRST_FREE_PORT: u16 = 32_768;

/// What runs at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// The process of this generation.
    Up(u64),
    /// No process, but a kernel that refuses what arrives.
    Killed,
    /// Nothing: what arrives is lost.
    Off,
}

/// The network of one world.
#[derive(Debug)]
pub(super) struct Network {
    clock: WorldClock,
    state: Lock<State>,
    /// Something earlier than the pump waits for may be under way.
    changed: Notify,
}

struct State {
    now: Mono,
    random: Random,
    names: BTreeMap<String, IpAddr>,
    presence: BTreeMap<IpAddr, Presence>,
    next_port: BTreeMap<IpAddr, u16>,
    paths: BTreeMap<(IpAddr, IpAddr), Path<Event>>,
    default_link: Link,
    inboxes: BTreeMap<SocketAddr, Arc<Inbox>>,
    listeners: BTreeMap<SocketAddr, ListenQueue>,
    conns: BTreeMap<u64, Conn>,
    next_conn: u64,
    events: BinaryHeap<Reverse<Timed>>,
    next_event: u64,
    woken: Vec<Waker>,
    trace: Trace,
    capture: Option<Capture>,
}

/// Something under way.
#[derive(Debug)]
enum Event {
    Datagram { from: SocketAddr, to: SocketAddr, bytes: Bytes },
    Frame { conn: u64, to: Side, frame: Frame },
    Retry { conn: u64, from: Side },
}

#[derive(Debug)]
struct Timed {
    due: Mono,
    sequence: u64,
    event: Event,
}

impl Network {
    pub(super) fn new(clock: WorldClock, random: Random) -> Self {
        let state = State {
            now: Mono::ZERO,
            random,
            names: BTreeMap::new(),
            presence: BTreeMap::new(),
            next_port: BTreeMap::new(),
            paths: BTreeMap::new(),
            default_link: Link::default(),
            inboxes: BTreeMap::new(),
            listeners: BTreeMap::new(),
            conns: BTreeMap::new(),
            next_conn: 0,
            events: BinaryHeap::new(),
            next_event: 0,
            woken: Vec::new(),
            trace: Trace::default(),
            capture: None,
        };
        Self { clock, state: Lock::new(state), changed: Notify::new() }
    }

    /// Delivers what is due, for ever.
    pub(super) async fn pump(&self) {
        loop {
            let next = self.with(State::deliver_due);
            match next {
                None => self.changed.notified().await,
                Some(due) => {
                    tokio::select! {
                        biased;
                        () = self.changed.notified() => {}
                        () = self.clock.sleep_until(due) => {}
                    }
                }
            }
        }
    }

    pub(super) fn name(&self, name: &str, address: IpAddr) {
        self.with(|state| state.names.insert(name.to_owned(), address));
    }

    /// The address of a name or of an address written out.
    pub(super) fn resolve(&self, host: &str) -> io::Result<IpAddr> {
        if let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok(address);
        }
        if host == "localhost" {
            return Ok(Ipv4Addr::LOCALHOST.into());
        }
        self.with(|state| state.names.get(host).copied())
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no host is called {host}")))
    }

    /// Says what runs at `address` from now on. What the process before it had open ends as that kind of end has it.
    pub(super) fn set_presence(&self, address: IpAddr, presence: Presence) {
        self.with(|state| {
            state.presence.insert(address, presence);
            state.inboxes.retain(|at, _| at.ip() != address);
            state.listeners.retain(|at, _| at.ip() != address);
            state.end_streams_of(address, presence != Presence::Off);
        });
    }

    /// Changes the link from one address to another.
    pub(super) fn change_link(&self, from: IpAddr, to: IpAddr, change: impl FnOnce(&mut Link)) {
        self.with(|state| {
            let freed = {
                let path = state.path(from, to);
                change(&mut path.link);
                path.take_freed()
            };
            for event in freed {
                state.send_freed(from, to, event);
            }
        });
    }

    /// Sets what links are like that nobody changed.
    pub(super) fn set_default_link(&self, link: Link) {
        self.with(|state| state.default_link = link);
    }

    pub(super) fn take_trace(&self) -> Trace {
        self.with(|state| std::mem::take(&mut state.trace))
    }

    /// Keeps packets from now on, `most` bytes of them.
    pub(super) fn capture(&self, most: usize) {
        self.with(|state| state.capture = Some(Capture::new(most)));
    }

    /// What was kept, and the names of addresses.
    pub(super) fn take_capture(&self) -> Option<(Capture, Vec<(String, IpAddr)>)> {
        self.with(|state| {
            let names = state.names.iter().map(|(name, address)| (name.clone(), *address)).collect();
            Some((state.capture.take()?, names))
        })
    }

    /// Streams of which at least one end is open.
    pub(super) fn streams(&self) -> usize {
        self.with(|state| state.conns.len())
    }

    /// Works on the state; tasks that became ready are woken after the lock is free.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let (result, woken, changed) = {
            let mut state = self.state.lock();
            state.now = self.clock.now();
            let before = state.next_event;
            let result = work(&mut state);
            (result, std::mem::take(&mut state.woken), state.next_event != before)
        };
        if changed {
            self.changed.notify_one();
        }
        for waker in woken {
            waker.wake();
        }
        result
    }
}

impl State {
    /// Delivers all events that are due, and says when the next one is.
    fn deliver_due(&mut self) -> Option<Mono> {
        loop {
            let next = self.events.peek()?;
            if next.0.due > self.now {
                return Some(next.0.due);
            }
            if let Some(Reverse(timed)) = self.events.pop() {
                match timed.event {
                    Event::Datagram { from, to, bytes } => self.deliver_datagram(from, to, bytes),
                    Event::Frame { conn, to, frame } => self.deliver_frame(conn, to, frame),
                    Event::Retry { conn, from } => self.retry(conn, from),
                }
            }
        }
    }

    fn schedule(&mut self, due: Mono, event: Event) {
        let sequence = self.next_event;
        self.next_event += 1;
        self.events.push(Reverse(Timed { due, sequence, event }));
    }

    /// Sends an event over the link between two machines. Says whether it was not lost, as far as the sender's
    /// kernel can ever find out by the lack of an answer.
    fn transmit(&mut self, from: IpAddr, to: IpAddr, len: usize, event: Event) -> bool {
        if from == to {
            self.schedule(self.now, event);
            return true;
        }
        let now = self.now;
        let mut random = self.random;
        let is_datagram = matches!(event, Event::Datagram { .. });
        let fate = self.path(from, to).fate(now, len, is_datagram, &mut random);
        self.random = random;
        match fate {
            Fate::Lost => return false,
            Fate::Held => self.path(from, to).hold(event),
            Fate::Arrives(due) => self.schedule(due, event),
            Fate::ArrivesTwice(due, again) => {
                if let Event::Datagram { from, to, bytes } = &event {
                    let copy = Event::Datagram { from: *from, to: *to, bytes: bytes.clone() };
                    self.schedule(again, copy);
                }
                self.schedule(due, event);
            }
        }
        true
    }

    /// Sends on what a link had held back. It cannot be lost any more.
    fn send_freed(&mut self, from: IpAddr, to: IpAddr, event: Event) {
        let now = self.now;
        let due = self.path(from, to).arrival_of_freed(now);
        self.schedule(due, event);
    }

    fn path(&mut self, from: IpAddr, to: IpAddr) -> &mut Path<Event> {
        let link = &self.default_link;
        self.paths.entry((from, to)).or_insert_with(|| Path::new(link.clone()))
    }

    fn presence(&self, address: IpAddr) -> Presence {
        self.presence.get(&address).copied().unwrap_or(Presence::Off)
    }

    /// The address and port to bind for a machine that asked for `at`.
    fn bindable(
        &mut self,
        machine: IpAddr,
        at: SocketAddr,
        taken: impl Fn(&Self, SocketAddr) -> bool,
    ) -> io::Result<SocketAddr> {
        let own = at.ip() == machine || at.ip().is_unspecified() || at.ip().is_loopback();
        if !own {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        if at.port() != 0 {
            let bound = SocketAddr::new(machine, at.port());
            return if taken(self, bound) { Err(io::ErrorKind::AddrInUse.into()) } else { Ok(bound) };
        }
        for _ in FIRST_FREE_PORT..=u16::MAX {
            let next = self.next_port.entry(machine).or_insert(FIRST_FREE_PORT);
            let port = *next;
            *next = next.checked_add(1).unwrap_or(FIRST_FREE_PORT);
            let bound = SocketAddr::new(machine, port);
            if !taken(self, bound) {
                return Ok(bound);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }
}

/// The machine's own address in place of a loopback one: a machine has one interface here.
fn at_machine(machine: IpAddr, at: SocketAddr) -> SocketAddr {
    if at.ip().is_loopback() || at.ip().is_unspecified() { SocketAddr::new(machine, at.port()) } else { at }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("now", &self.now).field("trace", &self.trace).finish_non_exhaustive()
    }
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.sequence).cmp(&(other.due, other.sequence))
    }
}
