//! Callers of edges, as applications are: one HTTP/1.1 connection a call, in cleartext.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use seam::Host;

use crate::http::{ExchangeError, exchange};

/// Longer than any call that a scenario waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A caller on a host of its own.
#[derive(Clone, Debug)]
pub struct Caller {
    host: Host,
    key: String,
}

impl Caller {
    /// A caller on `host` that shows `key`.
    #[must_use]
    pub fn new(host: Host, key: &str) -> Self {
        Self { host, key: key.to_owned() }
    }

    /// Its host.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Posts `body` to `path` of the edge called `edge`. Run it on the caller's host.
    ///
    /// # Errors
    /// [`ExchangeError`] when there is no whole answer.
    pub async fn post(
        &self,
        edge: &str,
        port: u16,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Result<Response<Bytes>, ExchangeError> {
        let stream =
            self.host.connect(edge, port).await.map_err(ExchangeError::broken("connecting to the edge"))?;
        let request = Request::post(path)
            .header(http::header::HOST, edge)
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::AUTHORIZATION, format!("Bearer {}", self.key))
            .body(Full::new(body.into()))
            .map_err(ExchangeError::broken("making the request"))?;
        exchange(&self.host, stream, request, PATIENCE).await
    }
}
