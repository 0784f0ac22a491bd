//! The link emulator: one thread between all hosts.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use crate::loopback::Datagrams;
use crate::medium::{Medium, Taken};
use crate::{ChaosError, Lateness, Loopback, Namespace, Ports, streams, thread, tun};

/// Packets read from one host before the others have their turn.
const BATCH: usize = 64;
/// The largest packet, in bytes.
const PACKET: usize = 65_536;
/// Packets that may be under way; more are dropped.
const UNDER_WAY: usize = 262_144;
/// How soon a change of links or the end is noticed without traffic.
const LOOK: Duration = Duration::from_millis(2);

/// What happens to one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives at this time since the emulator's start.
    Arrives(Duration),
    /// It arrives twice.
    Twice(Duration, Duration),
    /// It is lost.
    Lost,
    /// It waits until the links change, and its fate is asked for again.
    Held,
}

/// Decides packets' fates. Hosts are told by their place in the list that the emulator was given.
pub trait Fates: Send + 'static {
    /// The fate of a packet of `bytes` bytes sent at `now` (since the emulator's start). `is_datagram`: it is UDP.
    fn fate(&mut self, from: usize, to: usize, bytes: usize, is_datagram: bool, now: Duration) -> Fate;
}

/// A running emulator. Dropping it stops it.
#[derive(Debug)]
pub struct Emulator<F> {
    shared: Arc<Shared<F>>,
    thread: Option<JoinHandle<Lateness>>,
    streams: Option<JoinHandle<()>>,
}

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Shared<F> {
    fates: Mutex<F>,
    changed: AtomicBool,
    stopping: AtomicBool,
    begun: Instant,
}

impl<F> Shared<F> {
    pub(crate) fn fates(&self) -> MutexGuard<'_, F> {
        self.fates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Memory::Acquire)
    }

    /// Time since the emulator's start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

impl<F: Fates> Emulator<F> {
    /// Starts to carry packets between `hosts`.
    ///
    /// # Errors
    /// [`ChaosError`] when a host's device is taken already or the kernel refuses.
    pub fn start(hosts: &mut [Namespace], fates: F) -> Result<Self, ChaosError> {
        Self::over(tun::Tuns::of(hosts)?, fates)
    }

    /// Starts to carry datagrams and streams between hosts of the loopback device.
    ///
    /// # Errors
    /// [`ChaosError`] when an address is taken or the kernel refuses.
    pub fn on_loopback(loopback: Loopback, ports: &Ports<'_>, fates: F) -> Result<Self, ChaosError> {
        let mut emulator = Self::over(Datagrams::bind(loopback, ports.datagrams)?, fates)?;
        emulator.streams = Some(streams::serve(loopback, ports.streams, &emulator.shared)?);
        Ok(emulator)
    }

    /// Starts to carry packets over `medium`.
    pub(crate) fn over(medium: impl Medium, fates: F) -> Result<Self, ChaosError> {
        let shared = Arc::new(Shared {
            fates: Mutex::new(fates),
            changed: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            begun: Instant::now(),
        });
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let poll = poll.map_err(|error| ChaosError::kernel("polling devices")(error.into()))?;
        for (device, number) in medium.devices().into_iter().zip(0..) {
            let data = epoll::EventData::new_u64(number);
            epoll::add(&poll, device, data, epoll::EventFlags::IN)
                .map_err(|error| ChaosError::kernel("polling a device")(error.into()))?;
        }
        let wires = Wires {
            shared: Arc::clone(&shared),
            medium: Box::new(medium),
            poll,
            heap: BinaryHeap::new(),
            held: Vec::new(),
            sequence: 0,
            lateness: Lateness::new(),
        };
        let thread = std::thread::Builder::new().name("links".to_owned());
        let thread = thread.spawn(move || wires.run()).map_err(ChaosError::kernel("starting a thread"))?;
        Ok(Self { shared, thread: Some(thread), streams: None })
    }

    /// Changes the links. What was held is asked for again.
    pub fn change<T>(&self, change: impl FnOnce(&mut F) -> T) -> T {
        let changed = change(&mut self.shared.fates());
        self.shared.changed.store(true, Memory::Release);
        changed
    }

    /// Stops, and tells how late packets were.
    ///
    /// # Errors
    /// [`ChaosError::Ended`] when the thread ended before.
    pub fn stop(mut self) -> Result<Lateness, ChaosError> {
        self.shared.stopping.store(true, Memory::Release);
        let thread = self.thread.take().ok_or(ChaosError::Ended)?;
        // Its streams end with it, in `drop`.
        thread.join().map_err(|_panic| ChaosError::Ended)
    }
}

impl<F> Drop for Emulator<F> {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Memory::Release);
        if let Some(thread) = self.thread.take() {
            // Whether it ended well has been told or is of no interest any more.
            drop(thread.join());
        }
        if let Some(streams) = self.streams.take() {
            drop(streams.join());
        }
    }
}

/// A packet under way.
struct Packet {
    due: Duration,
    sequence: u64,
    taken: Taken,
}

/// The emulator's thread.
struct Wires<F> {
    shared: Arc<Shared<F>>,
    medium: Box<dyn Medium>,
    poll: OwnedFd,
    heap: BinaryHeap<Reverse<Packet>>,
    held: Vec<Packet>,
    sequence: u64,
    lateness: Lateness,
}

impl<F: Fates> Wires<F> {
    fn run(mut self) -> Lateness {
        self.lateness.set_urgent(thread::urgent());
        let mut events = Vec::with_capacity(self.medium.devices().len());
        let mut buffer = vec![0; PACKET].into_boxed_slice();
        while !self.shared.is_stopping() {
            let now = self.shared.elapsed();
            let next = self.heap.peek().map_or(LOOK, |Reverse(packet)| packet.due.saturating_sub(now));
            let wait = Timespec::try_from(next.min(LOOK)).unwrap_or_default();
            events.clear();
            // An interrupted wait is a wait that ended early.
            let _interrupted =
                epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&wait));
            for event in &events {
                self.read(usize::try_from(event.data.u64()).unwrap_or(usize::MAX), &mut buffer);
            }
            if self.shared.changed.swap(false, Memory::AcqRel) {
                for packet in std::mem::take(&mut self.held) {
                    self.carry(packet);
                }
            }
            self.deliver();
        }
        self.lateness
    }

    /// Takes what a host sent.
    fn read(&mut self, device: usize, buffer: &mut [u8]) {
        for _packet in 0..BATCH {
            let Some(taken) = self.medium.take(device, buffer) else { return };
            let Some(taken) = taken else { continue };
            if self.heap.len() + self.held.len() >= UNDER_WAY {
                self.lateness.drop_one();
                continue;
            }
            self.carry(Packet { due: Duration::ZERO, sequence: 0, taken });
        }
    }

    /// Asks for a packet's fate.
    fn carry(&mut self, packet: Packet) {
        let now = self.shared.elapsed();
        let Taken { from, to, is_datagram, bytes } = &packet.taken;
        let fate = self.shared.fates().fate(*from, *to, bytes.len(), *is_datagram, now);
        match fate {
            Fate::Arrives(due) => self.push(Packet { due, ..packet }),
            Fate::Twice(first, second) => {
                let again = Packet { due: second, sequence: 0, taken: packet.taken.clone() };
                self.push(Packet { due: first, ..packet });
                self.push(again);
            }
            Fate::Held => self.held.push(packet),
            Fate::Lost => {}
        }
    }

    fn push(&mut self, packet: Packet) {
        self.sequence += 1;
        self.heap.push(Reverse(Packet { sequence: self.sequence, ..packet }));
    }

    /// Hands over what is due.
    fn deliver(&mut self) {
        loop {
            let now = self.shared.elapsed();
            match self.heap.peek() {
                Some(Reverse(packet)) if packet.due <= now => {}
                Some(_) | None => return,
            }
            let Some(Reverse(packet)) = self.heap.pop() else { return };
            match self.medium.deliver(&packet.taken) {
                Ok(()) => self.lateness.note(now.saturating_sub(packet.due)),
                Err(_no_room_or_host_gone) => self.lateness.drop_one(),
            }
        }
    }
}

impl PartialEq for Packet {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Packet {}

impl PartialOrd for Packet {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Packet {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.sequence).cmp(&(other.due, other.sequence))
    }
}
