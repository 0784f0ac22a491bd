//! Byte streams as the kernels of two machines keep them: ordered frames, a window, resends, resets.
//!
//! A model, not TCP: a frame that the link loses is sent again after a back-off while those behind it wait, until
//! the sender gives up; no acknowledgement crosses the link, only the credit that opens the window again. A frame
//! for a process that is gone is answered by a reset, one for a machine without power by nothing.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::Waker;
use std::time::Duration;

use base::Mono;
use bytes::Bytes;

use super::super::capture;
use super::{Event, Presence, State};

/// Bytes under way or unread before the writer waits.
pub(super) const WINDOW: usize = 256 * 1024;
/// Connections that wait to be accepted; more are lost until there is room.
const BACKLOG: usize = 128;
/// The first wait before a frame is sent again, and the longest one.
const RESEND_FIRST: Duration = Duration::from_millis(400);
const RESEND_LAST: Duration = Duration::from_millis(6400);
/// The first wait when opening, where no round trip has been measured yet.
const REOPEN_FIRST: Duration = Duration::from_secs(1);
/// How long frames are sent again before the stream fails.
const GIVE_UP: Duration = Duration::from_secs(30);
/// How long opening is tried.
const GIVE_UP_OPENING: Duration = Duration::from_secs(15);
/// Header bytes of a frame on the wire.
const HEADER: usize = 40;

/// One of a stream's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Connector,
    Acceptor,
}

/// What one end sends to the other.
#[derive(Clone, Debug)]
pub(super) enum Frame {
    /// Asks to open.
    Open,
    /// Opened.
    Opened,
    Data(Bytes),
    /// So many bytes were read.
    Credit(usize),
    /// No more data comes.
    End,
    /// There is no such stream.
    Reset,
}

/// A listening port.
#[derive(Debug)]
pub(super) struct ListenQueue {
    pub(super) generation: u64,
    /// Connections to accept.
    pub(super) ready: VecDeque<u64>,
    pub(super) acceptor: Option<Waker>,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) connector: End,
    pub(super) acceptor: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Opening,
    Open,
    Failed(io::ErrorKind),
}

/// One end of a stream.
#[derive(Debug)]
pub(super) struct End {
    pub(super) at: SocketAddr,
    pub(super) generation: u64,
    pub(super) progress: Progress,
    /// The process has let go of it.
    pub(super) closed: bool,
    /// Bytes sent for which no credit came back.
    pub(super) unread_by_peer: usize,
    pub(super) end_sent: bool,
    pub(super) inbox: VecDeque<Bytes>,
    pub(super) ended_by_peer: bool,
    /// Bytes read for which no credit was sent.
    pub(super) read: usize,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    /// Frames that wait for the first of them to pass, and since when it was tried.
    stuck: VecDeque<Frame>,
    stuck_since: Mono,
    resend_after: Duration,
}

impl End {
    const fn new(at: SocketAddr, generation: u64, progress: Progress) -> Self {
        Self {
            at,
            generation,
            progress,
            closed: false,
            unread_by_peer: 0,
            end_sent: false,
            inbox: VecDeque::new(),
            ended_by_peer: false,
            read: 0,
            reader: None,
            writer: None,
            stuck: VecDeque::new(),
            stuck_since: Mono::ZERO,
            resend_after: Duration::ZERO,
        }
    }

    fn fail(&mut self, kind: io::ErrorKind) -> impl Iterator<Item = Waker> + use<> {
        self.progress = Progress::Failed(kind);
        self.stuck.clear();
        self.reader.take().into_iter().chain(self.writer.take())
    }
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Connector => Self::Acceptor,
            Self::Acceptor => Self::Connector,
        }
    }
}

impl Conn {
    pub(super) const fn end(&mut self, side: Side) -> &mut End {
        match side {
            Side::Connector => &mut self.connector,
            Side::Acceptor => &mut self.acceptor,
        }
    }
}

impl Frame {
    const fn traced_as(&self) -> u8 {
        match self {
            Self::Open => 1,
            Self::Opened => 2,
            Self::Data(_) => 3,
            Self::Credit(_) => 4,
            Self::End => 5,
            Self::Reset => 6,
        }
    }

    /// The flags of the segment that a kernel would send.
    const fn flags(&self) -> u8 {
        match self {
            Self::Open => capture::SYN,
            Self::Opened => capture::SYN | capture::ACK,
            Self::Data(_) => capture::PSH | capture::ACK,
            Self::Credit(_) => capture::ACK,
            Self::End => capture::FIN | capture::ACK,
            Self::Reset => capture::RST,
        }
    }

    fn payload(&self) -> &[u8] {
        match self {
            Self::Data(bytes) => bytes,
            Self::Open | Self::Opened | Self::Credit(_) | Self::End | Self::Reset => &[],
        }
    }

    /// How long it is sent again: how soon first, and for how long.
    const fn patience(&self) -> (Duration, Duration) {
        match self {
            Self::Open => (REOPEN_FIRST, GIVE_UP_OPENING),
            Self::Opened | Self::Data(_) | Self::Credit(_) | Self::End | Self::Reset => {
                (RESEND_FIRST, GIVE_UP)
            }
        }
    }
}

impl State {
    /// Starts to open a stream.
    pub(super) fn open_stream(&mut self, from: SocketAddr, generation: u64, to: SocketAddr) -> u64 {
        let id = self.next_conn;
        self.next_conn += 1;
        let connector = End::new(from, generation, Progress::Opening);
        // Its generation is known once a listener takes it.
        let acceptor = End::new(to, 0, Progress::Opening);
        self.conns.insert(id, Conn { connector, acceptor });
        self.send_frame(id, Side::Connector, Frame::Open);
        id
    }

    /// Sends a frame, after those that wait to be sent again.
    pub(super) fn send_frame(&mut self, id: u64, from: Side, frame: Frame) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let end = conn.end(from);
        if end.stuck.is_empty() {
            self.try_frame(id, from, frame);
        } else {
            end.stuck.push_back(frame);
        }
    }

    /// Sends the first waiting frame again, and those behind it when it passed.
    pub(super) fn retry(&mut self, id: u64, from: Side) {
        loop {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            let end = conn.end(from);
            let Some(frame) = end.stuck.pop_front() else { return };
            let (_, give_up) = frame.patience();
            if self.now.since(end.stuck_since) >= give_up {
                self.woken.extend(end.fail(io::ErrorKind::TimedOut));
                self.forget_when_over(id);
                return;
            }
            if !self.try_frame(id, from, frame) {
                return;
            }
        }
    }

    /// Puts a frame on the link, or in front of those that wait when the link loses it. Says whether it passed.
    fn try_frame(&mut self, id: u64, from: Side, frame: Frame) -> bool {
        let Some(conn) = self.conns.get_mut(&id) else { return false };
        let ends = (conn.end(from).at, conn.end(from.other()).at);
        let payload = frame.payload();
        self.trace.record(self.now, ends, frame.traced_as(), payload);
        let len = payload.len() + HEADER;
        let event = Event::Frame { conn: id, to: from.other(), frame: frame.clone() };
        let passed = self.transmit(ends.0.ip(), ends.1.ip(), len, event);
        if let Some(capture) = &mut self.capture {
            capture.segment(self.now, ends, (frame.flags(), frame.payload()), passed);
        }
        if !passed && !matches!(frame, Frame::Reset) {
            self.wait_to_resend(id, from, frame);
        }
        passed
    }

    fn wait_to_resend(&mut self, id: u64, from: Side, frame: Frame) {
        let now = self.now;
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let end = conn.end(from);
        if end.resend_after.is_zero() {
            end.stuck_since = now;
            end.resend_after = frame.patience().0;
        } else {
            end.resend_after = RESEND_LAST.min(end.resend_after * 2);
        }
        end.stuck.push_front(frame);
        let due = now + end.resend_after;
        self.schedule(due, Event::Retry { conn: id, from });
    }

    /// Sends again what nobody took. Its place among the others does not matter: a machine that comes back knows
    /// nothing of the stream.
    fn lose_at_machine(&mut self, id: u64, from: Side, frame: Frame) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let end = conn.end(from);
        if end.stuck.is_empty() {
            self.wait_to_resend(id, from, frame);
        } else {
            end.stuck.push_back(frame);
        }
    }

    /// Hands a frame that arrived to the end it was for.
    pub(super) fn deliver_frame(&mut self, id: u64, to: Side, frame: Frame) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (machine, generation) = (conn.end(to).at.ip(), conn.end(to).generation);
        match self.presence(machine) {
            Presence::Off => self.lose_at_machine(id, to.other(), frame),
            Presence::Killed => self.refuse(id, to, &frame),
            Presence::Up(_) if matches!(frame, Frame::Open) => self.answer_open(id),
            Presence::Up(current) if current != generation => self.refuse(id, to, &frame),
            Presence::Up(_) => self.take_frame(id, to, frame),
        }
    }

    fn answer_open(&mut self, id: u64) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let Some(listener) = self.listeners.get_mut(&conn.acceptor.at) else {
            self.refuse(id, Side::Acceptor, &Frame::Open);
            return;
        };
        if listener.ready.len() >= BACKLOG {
            self.lose_at_machine(id, Side::Connector, Frame::Open);
            return;
        }
        conn.connector.resend_after = Duration::ZERO;
        conn.acceptor.generation = listener.generation;
        conn.acceptor.progress = Progress::Open;
        listener.ready.push_back(id);
        self.woken.extend(listener.acceptor.take());
        self.send_frame(id, Side::Acceptor, Frame::Opened);
    }

    fn take_frame(&mut self, id: u64, to: Side, frame: Frame) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.end(to.other()).resend_after = Duration::ZERO;
        let end = conn.end(to);
        match frame {
            Frame::Open => {}
            Frame::Opened | Frame::Data(_) if end.closed => self.refuse(id, to, &frame),
            Frame::Opened => {
                end.progress = Progress::Open;
                self.woken.extend(end.reader.take());
            }
            Frame::Data(bytes) => {
                end.inbox.push_back(bytes);
                self.woken.extend(end.reader.take());
            }
            Frame::Credit(bytes) => {
                end.unread_by_peer = end.unread_by_peer.saturating_sub(bytes);
                self.woken.extend(end.writer.take());
            }
            Frame::End => {
                end.ended_by_peer = true;
                self.woken.extend(end.reader.take());
            }
            Frame::Reset => {
                let refused = end.progress == Progress::Opening;
                let kind =
                    if refused { io::ErrorKind::ConnectionRefused } else { io::ErrorKind::ConnectionReset };
                self.woken.extend(end.fail(kind));
                self.forget_when_over(id);
            }
        }
    }

    /// Answers a frame for a stream that the machine does not have.
    fn refuse(&mut self, id: u64, to: Side, frame: &Frame) {
        if !matches!(frame, Frame::Reset) {
            self.reset_peer(id, to);
        }
    }

    fn reset_peer(&mut self, id: u64, from: Side) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.end(from).stuck.clear();
            self.try_frame(id, from, Frame::Reset);
        }
    }

    /// The process lets go of its end.
    pub(super) fn close_stream(&mut self, id: u64, side: Side) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let end = conn.end(side);
        end.closed = true;
        let is_open = end.progress == Progress::Open;
        let unread = !std::mem::take(&mut end.inbox).is_empty();
        if unread || end.progress == Progress::Opening {
            self.reset_peer(id, side);
        } else if is_open && !end.end_sent {
            end.end_sent = true;
            self.send_frame(id, side, Frame::End);
        }
        self.forget_when_over(id);
    }

    /// Ends everything a machine's process had open, and tells its peers when the kernel is still there to do so.
    pub(super) fn end_streams_of(&mut self, machine: IpAddr, tell: bool) {
        let ids: Vec<u64> = self.conns.keys().copied().collect();
        for id in ids {
            for side in [Side::Connector, Side::Acceptor] {
                let Some(conn) = self.conns.get_mut(&id) else { continue };
                let end = conn.end(side);
                let not_taken = side == Side::Acceptor && end.progress == Progress::Opening;
                if end.at.ip() != machine || end.closed || not_taken {
                    continue;
                }
                end.closed = true;
                end.stuck.clear();
                let was_open = matches!(end.progress, Progress::Open);
                end.progress = Progress::Failed(io::ErrorKind::ConnectionAborted);
                if tell && was_open {
                    self.reset_peer(id, side);
                }
                self.forget_when_over(id);
            }
        }
    }

    /// Forgets a stream once neither process holds an end. What is still under way then has no reader.
    fn forget_when_over(&mut self, id: u64) {
        let over = self.conns.get(&id).is_some_and(|conn| {
            let nobody_waits = |end: &End| end.closed || matches!(end.progress, Progress::Opening);
            conn.connector.closed && nobody_waits(&conn.acceptor)
        });
        if over {
            self.conns.remove(&id);
        }
    }
}
