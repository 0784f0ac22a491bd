//! What packets come from and go to: the hosts' devices, or sockets in their stead.

use std::io;
use std::os::fd::BorrowedFd;

/// A packet that a host sent.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    /// The place of the host that sent it.
    pub(crate) from: usize,
    /// The place of the host it goes to.
    pub(crate) to: usize,
    /// Whether it is UDP.
    pub(crate) is_datagram: bool,
    /// All of it.
    pub(crate) bytes: Box<[u8]>,
}

/// Where the emulator's packets come from.
pub(crate) trait Medium: Send + 'static {
    /// What can be read, a descriptor that does not block for each host.
    fn devices(&self) -> Vec<BorrowedFd<'_>>;

    /// Takes one packet from a device; `None` when it has no more, `Some(None)` for one that goes nowhere.
    fn take(&self, device: usize, buffer: &mut [u8]) -> Option<Option<Taken>>;

    /// Hands a packet to the host it goes to.
    ///
    /// # Errors
    /// The kernel's: no room, or the host is gone.
    fn deliver(&self, packet: &Taken) -> io::Result<()>;
}
