//! The TUN device of a host (Linux, Documentation/networking/tuntap.rst).

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open as open_file};
use rustix::ioctl::{Updater, ioctl};

use crate::medium::{Medium, Taken};
use crate::{ChaosError, Namespace};

/// `TUNSETIFF`: `_IOW('T', 202, int)`.
const TUNSETIFF: u32 = 0x4004_54ca;
/// Packets of IP, without a frame around them.
const IFF_TUN: u16 = 0x0001;
/// No header before each packet.
const IFF_NO_PI: u16 = 0x1000;
/// `IFNAMSIZ`: a name and the zero after it.
const NAME: usize = 16;

/// Where the destination stands in a header of IPv4 (RFC 791 §3.1).
const DESTINATION: std::ops::Range<usize> = 16..20;
/// The protocol's place in the header, and UDP's number (RFC 791 §3.1, RFC 1700).
const PROTOCOL: usize = 9;
const UDP: u8 = 17;

/// `struct ifreq` as `TUNSETIFF` reads it: a name and flags.
#[repr(C)]
struct Request {
    name: [u8; NAME],
    flags: u16,
    rest: [u8; 22],
}

/// Makes a device in the calling thread's namespace; each read of the result is one packet sent by the host, each write
/// one that arrives there.
pub(crate) fn open(name: &str) -> io::Result<OwnedFd> {
    let mut request = Request { name: [0; NAME], flags: IFF_TUN | IFF_NO_PI, rest: [0; 22] };
    let room = request.name.iter_mut().take(NAME - 1);
    for (slot, byte) in room.zip(name.bytes()) {
        *slot = byte;
    }
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = open_file("/dev/net/tun", flags, Mode::empty())?;
    // SAFETY: `TUNSETIFF` reads and writes one `struct ifreq`, of which `Request` has the size and the layout, and keeps
    // no pointer to it.
    unsafe { ioctl(&device, Updater::<TUNSETIFF, Request>::new(&mut request)) }?;
    Ok(device)
}

/// The devices of all hosts.
#[derive(Debug)]
pub(crate) struct Tuns {
    devices: Vec<OwnedFd>,
    addresses: Vec<Ipv4Addr>,
}

impl Tuns {
    pub(crate) fn of(hosts: &mut [Namespace]) -> Result<Self, ChaosError> {
        let addresses = hosts.iter().map(Namespace::address).collect();
        let devices: Option<Vec<OwnedFd>> = hosts.iter_mut().map(Namespace::take_tun).collect();
        Ok(Self { devices: devices.ok_or(ChaosError::Ended)?, addresses })
    }
}

impl Medium for Tuns {
    fn devices(&self) -> Vec<BorrowedFd<'_>> {
        self.devices.iter().map(OwnedFd::as_fd).collect()
    }

    fn take(&self, device: usize, buffer: &mut [u8]) -> Option<Option<Taken>> {
        let len = rustix::io::read(self.devices.get(device)?, &mut *buffer).ok()?;
        let bytes = buffer.get(..len).unwrap_or_default();
        // Multicast, IPv6 and the like have nowhere to go.
        let is_ip4 = bytes.first().is_some_and(|version| version >> 4 == 4);
        let destination: Option<[u8; 4]> = bytes.get(DESTINATION).and_then(|at| at.try_into().ok());
        let to = destination.map(Ipv4Addr::from).filter(|_| is_ip4);
        let to = to.and_then(|to| self.addresses.iter().position(|at| *at == to));
        let is_datagram = bytes.get(PROTOCOL) == Some(&UDP);
        Some(to.map(|to| Taken { from: device, to, is_datagram, bytes: bytes.into() }))
    }

    fn deliver(&self, packet: &Taken) -> io::Result<()> {
        let device = self.devices.get(packet.to).ok_or(io::ErrorKind::NotConnected)?;
        rustix::io::write(device, &packet.bytes)?;
        Ok(())
    }
}
