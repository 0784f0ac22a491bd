//! Datagram sockets, as quinn wants them.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use seam::Lock;

use super::{Event, Network, Presence, State, at_machine};

/// Datagrams a socket keeps for its process before it drops more (a kernel's default buffer holds about as many).
const INBOX_LEN: usize = 4096;
/// Sets datagrams apart from streams in the trace.
const TRACED_AS: u8 = 0;

/// What arrived at a socket.
#[derive(Debug, Default)]
pub(super) struct Inbox(Lock<Arrived>);

#[derive(Debug, Default)]
struct Arrived {
    datagrams: VecDeque<(SocketAddr, Bytes)>,
    reader: Option<Waker>,
}

/// A bound socket.
#[derive(Debug)]
pub(in crate::engine) struct Socket {
    network: Arc<Network>,
    bound: SocketAddr,
    generation: u64,
    inbox: Arc<Inbox>,
}

impl Network {
    /// Binds a datagram socket for a process.
    pub(in crate::engine) fn datagram(
        self: &Arc<Self>,
        machine: IpAddr,
        generation: u64,
        at: SocketAddr,
    ) -> io::Result<Arc<Socket>> {
        let inbox = Arc::new(Inbox::default());
        let bound = self.with(|state| {
            let bound = state.bindable(machine, at, |state, at| state.inboxes.contains_key(&at))?;
            if state.presence(machine) == Presence::Up(generation) {
                state.inboxes.insert(bound, Arc::clone(&inbox));
            }
            io::Result::Ok(bound)
        })?;
        Ok(Arc::new(Socket { network: Arc::clone(self), bound, generation, inbox }))
    }
}

impl State {
    pub(super) fn deliver_datagram(&mut self, from: SocketAddr, to: SocketAddr, bytes: Bytes) {
        let Some(inbox) = self.inboxes.get(&to) else { return };
        let mut arrived = inbox.0.lock();
        if arrived.datagrams.len() < INBOX_LEN {
            arrived.datagrams.push_back((from, bytes));
        }
        self.woken.extend(arrived.reader.take());
    }

    fn send_datagram(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        self.trace.record(self.now, (from, to), TRACED_AS, bytes);
        if let Some(capture) = &mut self.capture {
            capture.datagram(self.now, (from, to), bytes);
        }
        let event = Event::Datagram { from, to, bytes: Bytes::copy_from_slice(bytes) };
        // Whether a datagram is lost is nobody's to know.
        let _lost = self.transmit(from.ip(), to.ip(), bytes.len(), event);
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysWritable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let to = at_machine(self.bound.ip(), transmit.destination);
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        self.network.with(|state| {
            if state.presence(self.bound.ip()) == Presence::Up(self.generation) {
                for datagram in transmit.contents.chunks(segment) {
                    state.send_datagram(self.bound, to, datagram);
                }
            }
        });
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut arrived = self.inbox.0.lock();
        let mut filled = 0;
        for (buf, meta) in bufs.iter_mut().zip(meta) {
            let Some((from, bytes)) = arrived.datagrams.pop_front() else { break };
            let len = buf.len().min(bytes.len());
            for (to, from) in buf.iter_mut().zip(&bytes) {
                *to = *from;
            }
            *meta = RecvMeta { addr: from, len, stride: len, ecn: None, dst_ip: Some(self.bound.ip()) };
            filled += 1;
        }
        if filled > 0 {
            return Poll::Ready(Ok(filled));
        }
        arrived.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.bound)
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let unbound = self.network.with(|state| {
            let is_mine = state.inboxes.get(&self.bound).is_some_and(|inbox| Arc::ptr_eq(inbox, &self.inbox));
            is_mine.then(|| state.inboxes.remove(&self.bound))
        });
        drop(unbound);
    }
}

#[derive(Debug)]
struct AlwaysWritable;

impl UdpPoller for AlwaysWritable {
    fn poll_writable(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
