//! Hosts on the loopback device: datagrams and streams between them meet the links.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use simulation_chaos::{Emulator, Fate, Fates, Loopback, Ports};

const MS: Duration = Duration::from_millis(1);

/// All links take this long, and are cut when it is absent.
struct Alike(Option<Duration>);

impl Fates for Alike {
    fn fate(&mut self, _from: usize, _to: usize, _bytes: usize, _is_datagram: bool, now: Duration) -> Fate {
        self.0.map_or(Fate::Held, |delay| Fate::Arrives(now + delay))
    }
}

#[test]
fn datagrams_come_from_the_face_of_their_sender_after_the_delay() {
    let (loopback, port) = (Loopback::new(2), 7_931);
    let ports = Ports { datagrams: port, streams: &[] };
    let emulator = Emulator::on_loopback(loopback, &ports, Alike(Some(30 * MS))).unwrap();
    let [one, other] = [0, 1].map(|host| UdpSocket::bind((loopback.seat(host), port)).unwrap());
    let sent = Instant::now();
    one.send_to(b"hello", (loopback.face(1), port)).unwrap();
    let mut buffer = [0; 16];
    let (len, from) = other.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"hello");
    assert!(sent.elapsed() >= 30 * MS);
    assert_eq!(from, (loopback.face(0), port).into(), "who answers finds the way back");
    other.send_to(b"back", from).unwrap();
    let (len, _from) = one.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"back");
    assert!(emulator.stop().unwrap().delivered() == 2);
}

#[test]
fn streams_are_carried_in_order_held_by_a_cut_link_and_end_as_their_sender_does() {
    let (loopback, port) = (Loopback::new(2), 7_932);
    let ports = Ports { datagrams: port, streams: &[port] };
    let emulator = Emulator::on_loopback(loopback, &ports, Alike(Some(MS))).unwrap();
    let listener = TcpListener::bind((loopback.seat(1), port)).unwrap();
    let mut caller = TcpStream::connect((loopback.face(1), port)).unwrap();
    let (mut called, _relay) = listener.accept().unwrap();
    let sent: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
    let mut received = vec![0; sent.len()];
    std::thread::scope(|scope| {
        scope.spawn(|| caller.write_all(&sent).unwrap());
        called.read_exact(&mut received).unwrap();
    });
    assert_eq!(received, sent);
    emulator.change(|links| links.0 = None);
    caller.write_all(b"held").unwrap();
    caller.shutdown(std::net::Shutdown::Write).unwrap();
    called.set_nonblocking(true).unwrap();
    assert_eq!(called.read(&mut [0; 8]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    emulator.change(|links| links.0 = Some(MS));
    called.set_nonblocking(false).unwrap();
    let mut rest = String::new();
    called.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "held");
    drop(emulator);
}
