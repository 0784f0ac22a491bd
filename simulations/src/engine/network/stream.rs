//! Byte streams and listeners, as processes hold them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use seam::{Boxed, ByteStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::tcp::{End, Frame, ListenQueue, Progress, Side, WINDOW};
use super::{Network, Presence, State, at_machine};

/// The most that one frame carries, as an interface that splits segments itself takes it.
const FRAME: usize = 16 * 1024;

/// One end of a stream.
#[derive(Debug)]
pub(in crate::engine) struct SimStream {
    network: Arc<Network>,
    id: u64,
    side: Side,
    machine: IpAddr,
    generation: u64,
}

/// A listening port.
#[derive(Debug)]
pub(in crate::engine) struct SimListener {
    network: Arc<Network>,
    bound: SocketAddr,
    generation: u64,
}

impl Network {
    /// Listens for a process.
    pub(in crate::engine) fn listen(
        self: &Arc<Self>,
        machine: IpAddr,
        generation: u64,
        at: SocketAddr,
    ) -> io::Result<SimListener> {
        let bound = self.with(|state| {
            let bound = state.bindable(machine, at, |state, at| state.listeners.contains_key(&at))?;
            if state.presence(machine) == Presence::Up(generation) {
                let queue = ListenQueue { generation, ready: VecDeque::new(), acceptor: None };
                state.listeners.insert(bound, queue);
            }
            io::Result::Ok(bound)
        })?;
        Ok(SimListener { network: Arc::clone(self), bound, generation })
    }

    /// Opens a stream for a process.
    pub(in crate::engine) async fn connect(
        self: &Arc<Self>,
        machine: IpAddr,
        generation: u64,
        to: SocketAddr,
    ) -> io::Result<SimStream> {
        let id = self.with(|state| {
            let taken = |state: &State, at| state.conns.values().any(|conn| conn.connector.at == at);
            let from = state.bindable(machine, SocketAddr::new(machine, 0), taken)?;
            io::Result::Ok(state.open_stream(from, generation, at_machine(machine, to)))
        })?;
        let network = Arc::clone(self);
        let stream = SimStream { network, id, side: Side::Connector, machine, generation };
        poll_fn(|cx| {
            stream.poll_end(cx, |_, end, cx| match end.progress {
                Progress::Open => Poll::Ready(Ok(())),
                Progress::Failed(kind) => Poll::Ready(Err(kind.into())),
                Progress::Opening => {
                    end.reader = Some(cx.waker().clone());
                    Poll::Pending
                }
            })
        })
        .await?;
        Ok(stream)
    }
}

/// What one poll asks the kernel to send afterwards.
type Sends = Vec<Frame>;

impl SimStream {
    /// Works on this end. A process that is over never gets an answer.
    fn poll_end<T>(
        &self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Sends, &mut End, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.network.with(|state| {
            if state.presence(self.machine) != Presence::Up(self.generation) {
                return Poll::Pending;
            }
            let Some(conn) = state.conns.get_mut(&self.id) else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            let mut sends = Sends::new();
            let polled = work(&mut sends, conn.end(self.side), cx);
            for frame in sends {
                state.send_frame(self.id, self.side, frame);
            }
            polled
        })
    }
}

impl AsyncRead for SimStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_end(cx, |sends, end, cx| {
            let Some(first) = end.inbox.front_mut() else {
                return match end.progress {
                    _ if end.ended_by_peer => Poll::Ready(Ok(())),
                    Progress::Failed(kind) => Poll::Ready(Err(kind.into())),
                    Progress::Opening | Progress::Open => {
                        end.reader = Some(cx.waker().clone());
                        Poll::Pending
                    }
                };
            };
            let len = first.len().min(buf.remaining());
            buf.put_slice(&first.split_to(len));
            if !first.has_remaining() {
                end.inbox.pop_front();
            }
            end.read += len;
            if end.read >= WINDOW / 2 {
                sends.push(Frame::Credit(std::mem::take(&mut end.read)));
            }
            Poll::Ready(Ok(()))
        })
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_end(cx, |sends, end, cx| {
            if let Progress::Failed(kind) = end.progress {
                return Poll::Ready(Err(kind.into()));
            }
            if end.end_sent {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            let room = WINDOW.saturating_sub(end.unread_by_peer).min(FRAME);
            if room == 0 {
                end.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let sent = buf.get(..room).unwrap_or(buf);
            end.unread_by_peer += sent.len();
            sends.push(Frame::Data(Bytes::copy_from_slice(sent)));
            Poll::Ready(Ok(sent.len()))
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_end(cx, |sends, end, _| {
            if end.progress == Progress::Open && !end.end_sent {
                end.end_sent = true;
                sends.push(Frame::End);
            }
            Poll::Ready(Ok(()))
        })
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.network.with(|state| {
            if state.presence(self.machine) == Presence::Up(self.generation) {
                state.close_stream(self.id, self.side);
            }
        });
    }
}

impl seam::Listener for SimListener {
    fn accept(&self) -> Boxed<'_, io::Result<(ByteStream, SocketAddr)>> {
        Box::pin(poll_fn(|cx| {
            self.network.with(|state| {
                let Some(queue) =
                    state.listeners.get_mut(&self.bound).filter(|queue| queue.generation == self.generation)
                else {
                    return Poll::Pending;
                };
                let Some(id) = queue.ready.pop_front() else {
                    queue.acceptor = Some(cx.waker().clone());
                    return Poll::Pending;
                };
                let peer = state.conns.get(&id).map_or(self.bound, |conn| conn.connector.at);
                let stream = SimStream {
                    network: Arc::clone(&self.network),
                    id,
                    side: Side::Acceptor,
                    machine: self.bound.ip(),
                    generation: self.generation,
                };
                Poll::Ready(Ok((Box::new(stream) as ByteStream, peer)))
            })
        }))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.bound)
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.network.with(|state| {
            let is_mine =
                state.listeners.get(&self.bound).is_some_and(|queue| queue.generation == self.generation);
            if is_mine && let Some(queue) = state.listeners.remove(&self.bound) {
                for id in queue.ready {
                    state.close_stream(id, Side::Acceptor);
                }
            }
        });
    }
}
