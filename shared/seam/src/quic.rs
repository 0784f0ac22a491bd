//! quinn's runtime on a host: its timers, tasks and clock.

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::Host;

/// Runs a quinn endpoint on a host. Sockets come from [`Host::datagram`].
#[derive(Clone, Debug)]
pub struct QuicRuntime(pub Host);

impl quinn::Runtime for QuicRuntime {
    #[expect(clippy::disallowed_methods, reason = "quinn counts in standard instants, on tokio's clock")]
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn quinn::AsyncTimer>> {
        Box::pin(Timer(Box::pin(tokio::time::sleep_until(at.into()))))
    }

    fn spawn(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        drop(self.0.spawn("quic", work));
    }

    fn wrap_udp_socket(&self, _socket: UdpSocket) -> io::Result<Arc<dyn quinn::AsyncUdpSocket>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "sockets come from the host"))
    }

    #[expect(clippy::disallowed_methods, reason = "quinn counts in standard instants, on tokio's clock")]
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

#[derive(Debug)]
struct Timer(Pin<Box<tokio::time::Sleep>>);

impl quinn::AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.0.as_mut().reset(at.into());
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Future::poll(self.0.as_mut(), cx)
    }
}
