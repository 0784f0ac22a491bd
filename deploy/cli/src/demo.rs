//! The demo model server: it speaks OpenAI and answers who it is, so that a demonstration shows which server a call
//! reached.
//!
//! It keeps no state and judges nothing but the shape of a request: any model name is accepted, the reply names the
//! server, its region and what was asked, and tokens come at the configured pace. It runs on a [`Host`], so that the
//! simulator runs the same server.

mod answer;
mod chat;
mod embedding;
mod problem;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use seam::{ByteStream, Host, Listener, Stop};
use tokio::sync::mpsc;

use answer::Answerer;

/// Tokens that its models read; longer prompts are refused.
pub(crate) const CONTEXT: u64 = 8192;

/// How long replies under way may go on after a stop.
const DRAIN: Duration = Duration::from_secs(5);

/// The pause after a failed accept, such as one without a free descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a demo model server is.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Its name, which its answers say and its list of models holds.
    pub name: String,
    /// Its region, which its answers say.
    pub region: String,
    /// The bearer key it demands; none lets everybody in.
    pub key: Option<String>,
    /// From the request to the first token.
    pub first_token: Duration,
    /// Pace of the tokens after the first; zero sends them all at once.
    pub tokens_per_s: u32,
}

/// A demo model server that holds its port.
#[derive(Debug)]
pub struct Server {
    host: Host,
    listener: Box<dyn Listener>,
    addr: SocketAddr,
    answerer: Arc<Answerer>,
}

/// Binds and serves until `stop`.
///
/// # Errors
/// What the network said to the address.
pub async fn run(host: &Host, options: Options, stop: Stop) -> io::Result<()> {
    Server::bind(host, options).await?.run(stop).await;
    Ok(())
}

impl Server {
    /// Takes the port; calls wait until [`Server::run`].
    ///
    /// # Errors
    /// What the network said to the address.
    pub async fn bind(host: &Host, options: Options) -> io::Result<Self> {
        let listener = host.listen(options.listen).await?;
        let addr = listener.local_addr()?;
        let answerer = Arc::new(Answerer::new(host.clone(), options));
        Ok(Self { host: host.clone(), listener, addr, answerer })
    }

    /// The address bound.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until `stop`, then lets replies under way end for at most five seconds.
    pub async fn run(self, stop: Stop) {
        let (alive, mut ended) = mpsc::channel::<()>(1);
        loop {
            tokio::select! {
                biased;
                () = stop.wanted() => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _peer)) => self.serve(stream, stop.clone(), alive.clone()),
                    Err(error) => {
                        tracing::warn!(%error, "the demo model server could not accept a connection");
                        self.host.sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop((self.listener, alive));
        // Nothing is ever sent: this ends when the last connection drops its sender.
        ended.recv().await;
    }

    fn serve(&self, stream: ByteStream, stop: Stop, alive: mpsc::Sender<()>) {
        let host = self.host.clone();
        let answerer = Arc::clone(&self.answerer);
        drop(self.host.spawn("demo connection", async move {
            serve_connection(&host, answerer, stream, stop).await;
            drop(alive);
        }));
    }
}

async fn serve_connection(host: &Host, answerer: Arc<Answerer>, stream: ByteStream, stop: Stop) {
    let service = service_fn(move |request| {
        let answerer = Arc::clone(&answerer);
        async move { answerer.answer(request).await }
    });
    let connection = http1::Builder::new()
        // The date would come from the operating system's clock.
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        biased;
        result = connection.as_mut() => result,
        () = stop.wanted() => {
            connection.as_mut().graceful_shutdown();
            host.timeout(DRAIN, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection to the demo model server ended early");
    }
}

#[cfg(test)]
mod tests;
