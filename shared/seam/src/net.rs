//! Datagram sockets and byte streams.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::Boxed;

/// A reliable byte stream between two hosts.
pub trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for T {}

/// A byte stream of whichever network the host has.
pub type ByteStream = Box<dyn Stream>;

/// Accepts byte streams. Dropping it stops listening.
pub trait Listener: fmt::Debug + Send + Sync {
    /// The next stream and its peer. Cancel safe.
    ///
    /// # Errors
    /// What the network said; transient errors (a peer that left, no free descriptor) may be followed by streams.
    fn accept(&self) -> Boxed<'_, io::Result<(ByteStream, SocketAddr)>>;

    /// The address bound.
    ///
    /// # Errors
    /// When the socket is gone.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// A host's network.
pub trait Net: fmt::Debug + Send + Sync {
    /// Binds a datagram socket.
    ///
    /// # Errors
    /// What the network said.
    fn datagram(&self, at: SocketAddr) -> io::Result<Arc<dyn quinn::AsyncUdpSocket>>;

    /// Listens for byte streams.
    fn listen(&self, at: SocketAddr) -> Boxed<'_, io::Result<Box<dyn Listener>>>;

    /// The addresses of a name, or of an address written out.
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Boxed<'a, io::Result<Vec<SocketAddr>>>;

    /// Connects a byte stream to a name or an address.
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Boxed<'a, io::Result<ByteStream>>;
}
