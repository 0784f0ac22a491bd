//! One HTTP/1.1 exchange of an actor, over whatever stream it has.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use seam::{Bound, Gone, Host, Late, Stream};
use thiserror::Error;

/// An exchange came to nothing.
#[derive(Debug, Error)]
pub enum ExchangeError {
    /// The connection could not be made, or broke.
    #[error("{doing}")]
    Broken {
        /// At what.
        doing: &'static str,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The time given ran out.
    #[error("no answer in time")]
    Late,
    /// The process that asked ended.
    #[error("the process that asked ended")]
    Gone,
}

impl ExchangeError {
    /// What broke while `doing` something.
    pub(crate) fn broken<E: Into<Box<dyn Error + Send + Sync>>>(doing: &'static str) -> impl Fn(E) -> Self {
        move |source| Self::Broken { doing, source: source.into() }
    }
}

impl From<Gone> for ExchangeError {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<Late> for ExchangeError {
    fn from(_: Late) -> Self {
        Self::Late
    }
}

/// A connection that takes one request after another. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    _serving: Bound<()>,
}

impl Connection {
    /// Opens one over `stream`.
    pub(crate) async fn open<S: Stream + 'static>(host: &Host, stream: S) -> Result<Self, ExchangeError> {
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(ExchangeError::broken("opening"))?;
        // How the connection ends shows in the exchange.
        let serving = host.spawn("http client", async move { drop(connection.await) }).bound();
        Ok(Self { sender, _serving: serving })
    }

    /// Whether the other side has ended it.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends one request and reads the whole answer.
    pub(crate) async fn ask(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, ExchangeError> {
        self.sender.ready().await.map_err(ExchangeError::broken("asking"))?;
        let answer = self.sender.send_request(request).await.map_err(ExchangeError::broken("asking"))?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(ExchangeError::broken("reading the answer"))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

/// Sends one request and reads the whole answer, within `time`. The connection ends with it.
pub(crate) async fn exchange<S: Stream + 'static>(
    host: &Host,
    stream: S,
    request: Request<Full<Bytes>>,
    time: Duration,
) -> Result<Response<Bytes>, ExchangeError> {
    let exchange = async { Connection::open(host, stream).await?.ask(request).await };
    host.timeout(time, exchange).await?
}
