//! One HTTP/1.1 exchange of an actor, over whatever stream it has.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use seam::{Gone, Host, Late, Stream};
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

/// Sends one request and reads the whole answer, within `time`. The connection ends with it.
pub(crate) async fn exchange<S: Stream + 'static>(
    host: &Host,
    stream: S,
    request: Request<Full<Bytes>>,
    time: Duration,
) -> Result<Response<Bytes>, ExchangeError> {
    let exchange = async {
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(ExchangeError::broken("opening"))?;
        // How the connection ends shows in the exchange.
        let connection = host.spawn("http client", async move { drop(connection.await) }).bound();
        let answer = sender.send_request(request).await.map_err(ExchangeError::broken("asking"))?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(ExchangeError::broken("reading the answer"))?;
        drop(connection);
        Ok(Response::from_parts(head, body.to_bytes()))
    };
    host.timeout(time, exchange).await?
}
