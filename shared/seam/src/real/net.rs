//! Sockets of the operating system.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use quinn::Runtime as _;
use tokio::net::{TcpListener, TcpStream};

use crate::{Boxed, ByteStream, Listener, Net};

#[derive(Debug)]
pub(super) struct SystemNet;

impl Net for SystemNet {
    fn datagram(&self, at: SocketAddr) -> io::Result<Arc<dyn quinn::AsyncUdpSocket>> {
        quinn::TokioRuntime.wrap_udp_socket(std::net::UdpSocket::bind(at)?)
    }

    fn listen(&self, at: SocketAddr) -> Boxed<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(
            async move { Ok(Box::new(SystemListener(TcpListener::bind(at).await?)) as Box<dyn Listener>) },
        )
    }

    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Boxed<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Boxed<'a, io::Result<ByteStream>> {
        Box::pin(async move {
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as ByteStream)
        })
    }
}

#[derive(Debug)]
struct SystemListener(TcpListener);

impl Listener for SystemListener {
    fn accept(&self) -> Boxed<'_, io::Result<(ByteStream, SocketAddr)>> {
        Box::pin(async move {
            let (stream, peer) = self.0.accept().await?;
            stream.set_nodelay(true)?;
            Ok((Box::new(stream) as ByteStream, peer))
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}
