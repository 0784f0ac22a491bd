//! Hosts without namespaces, for those who are not root: each is a pair of addresses of the loopback device. A process
//! binds its host's *seat* and is reached at its *face*, where sockets of the emulator take datagrams and streams and
//! carry them on to the seat.
//!
//! Datagrams meet the links as packets do. Streams are the kernel's up to the face: what a link loses of them comes later,
//! and who connects learns that nobody listens by the end of the connection. A stream of a process that binds no seat is
//! of unknown origin and meets no link.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};

use crate::ChaosError;
use crate::medium::{Medium, Taken};

/// Most hosts: those of one byte.
const MOST: usize = 250;
/// The second byte of faces and seats: of the process's number, six bits are added, and its low byte is the third.
const FACES: u8 = 64;
const SEATS: u8 = 128;

/// Addresses for hosts, told by their places in a list, which differ from those of most other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loopback {
    hosts: usize,
    number: [u8; 2],
}

/// What the emulator carries on to every host.
#[derive(Clone, Copy, Debug)]
pub struct Ports<'a> {
    /// The port of datagrams.
    pub datagrams: u16,
    /// Ports of streams.
    pub streams: &'a [u16],
}

impl Loopback {
    /// Addresses for so many hosts, 250 at most.
    #[must_use]
    pub fn new(hosts: usize) -> Self {
        let [.., high, low] = std::process::id().to_be_bytes();
        Self { hosts: hosts.min(MOST), number: [high % 64, low] }
    }

    /// How many hosts there are.
    #[must_use]
    pub const fn hosts(self) -> usize {
        self.hosts
    }

    /// Where others reach a host.
    #[must_use]
    pub fn face(self, host: usize) -> Ipv4Addr {
        self.at(FACES, host)
    }

    /// What a host's processes bind.
    #[must_use]
    pub fn seat(self, host: usize) -> Ipv4Addr {
        self.at(SEATS, host)
    }

    /// Whose seat an address is.
    pub(crate) fn seated(self, address: IpAddr) -> Option<usize> {
        (0..self.hosts).find(|host| IpAddr::from(self.seat(*host)) == address)
    }

    fn at(self, kind: u8, host: usize) -> Ipv4Addr {
        let [high, low] = self.number;
        Ipv4Addr::new(127, kind + high, low, u8::try_from(host + 1).unwrap_or(u8::MAX))
    }
}

/// The sockets at all faces.
#[derive(Debug)]
pub(crate) struct Datagrams {
    loopback: Loopback,
    port: u16,
    sockets: Vec<UdpSocket>,
}

impl Datagrams {
    pub(crate) fn bind(loopback: Loopback, port: u16) -> Result<Self, ChaosError> {
        let bind = |host| {
            let at = SocketAddr::from((loopback.face(host), port));
            let bound = UdpSocket::bind(at).and_then(|socket| {
                socket.set_nonblocking(true)?;
                Ok(socket)
            });
            bound.map_err(ChaosError::kernel(format!("binding {at}")))
        };
        let sockets = (0..loopback.hosts).map(bind).collect::<Result<_, _>>()?;
        Ok(Self { loopback, port, sockets })
    }
}

impl Medium for Datagrams {
    fn devices(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.as_fd()).collect()
    }

    fn take(&self, device: usize, buffer: &mut [u8]) -> Option<Option<Taken>> {
        let (len, source) = match self.sockets.get(device)?.recv_from(buffer) {
            Ok(taken) => taken,
            // Somebody whom a datagram was carried on to has gone: the kernel says so once.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Some(None),
            Err(_none) => return None,
        };
        let bytes = buffer.get(..len).unwrap_or_default().into();
        let from = self.loopback.seated(source.ip());
        Some(from.map(|from| Taken { from, to: device, is_datagram: true, bytes }))
    }

    fn deliver(&self, packet: &Taken) -> io::Result<()> {
        let socket = self.sockets.get(packet.from).ok_or(io::ErrorKind::NotConnected)?;
        socket.send_to(&packet.bytes, (self.loopback.seat(packet.to), self.port))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_has_a_face_and_a_seat_of_its_own() {
        let loopback = Loopback::new(40);
        let addresses = (0..40).flat_map(|host| [loopback.face(host), loopback.seat(host)]);
        let different: std::collections::BTreeSet<_> = addresses.collect();
        assert_eq!(different.len(), 80);
        assert!(different.iter().all(Ipv4Addr::is_loopback));
        assert_eq!(loopback.seated(loopback.seat(7).into()), Some(7));
        assert_eq!(loopback.seated(loopback.face(7).into()), None);
    }
}
