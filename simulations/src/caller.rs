//! Callers of edges, as applications are: one HTTP/1.1 connection a call, in cleartext.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use seam::Host;

use crate::deployment::CALLS;
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

    /// Asks `model` where it is, at the edge called `edge`.
    ///
    /// # Errors
    /// [`ExchangeError`] when there is no whole answer.
    pub async fn chat(&self, edge: &str, model: &str, stream: bool) -> Result<Answer, ExchangeError> {
        let body = format!(
            r#"{{"model":"{model}","stream":{stream},"messages":[{{"role":"user","content":"Where are you?"}}]}}"#
        );
        let answer = self.post(edge, CALLS, "/v1/chat/completions", body).await?;
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        Ok(Answer { status: answer.status().as_u16(), text })
    }

    /// Posts `body` to `path` of the edge called `edge`.
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
        let request = Request::post(path)
            .header(http::header::HOST, edge)
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::AUTHORIZATION, format!("Bearer {}", self.key))
            .body(Full::new(body.into()))
            .map_err(ExchangeError::broken("making the request"))?;
        let (host, edge) = (self.host.clone(), edge.to_owned());
        let calling = self.host.spawn("call", async move {
            let stream = host.connect(&edge, port).await;
            let stream = stream.map_err(ExchangeError::broken("connecting to the edge"))?;
            exchange(&host, stream, request, PATIENCE).await
        });
        calling.await?
    }
}

/// What an edge answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body.
    pub text: String,
}

impl Answer {
    /// The code of an error in OpenAI's shape; empty when there is none.
    #[must_use]
    pub fn code(&self) -> String {
        let body: serde_json::Value = serde_json::from_str(&self.text).unwrap_or_default();
        let code = body.pointer("/error/code").and_then(serde_json::Value::as_str);
        code.unwrap_or_default().to_owned()
    }
}
