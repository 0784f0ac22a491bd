//! The TUN device of a host (Linux, Documentation/networking/tuntap.rst).

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open as open_file};
use rustix::ioctl::{Updater, ioctl};

/// `TUNSETIFF`: `_IOW('T', 202, int)`.
const TUNSETIFF: u32 = 0x4004_54ca;
/// Packets of IP, without a frame around them.
const IFF_TUN: u16 = 0x0001;
/// No header before each packet.
const IFF_NO_PI: u16 = 0x1000;
/// `IFNAMSIZ`: a name and the zero after it.
const NAME: usize = 16;

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
