//! A client of central's admin API: HTTPS with the operator's certificate, JSON both ways.
//!
//! Any central node will do; they are tried in the order given until one can be reached and can answer.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use central::admin::api::Problem;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use mesh::{Credentials, Expect, tls};
use rustls_pki_types::ServerName;
use seam::Host;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_rustls::TlsConnector;

use crate::failure::{Exit, Failure};

/// Until a node has taken the connection.
const CONNECT: Duration = Duration::from_secs(3);
/// Until it has answered; a commit through an election takes seconds.
const ANSWER: Duration = Duration::from_secs(30);
/// Largest answer.
const LARGEST: usize = 64 * 1024 * 1024;

/// Speaks to the admin API.
pub(crate) struct Admin {
    host: Host,
    nodes: Vec<String>,
    tls: TlsConnector,
}

/// One node did not answer; another may.
struct Elsewhere {
    why: String,
    /// Whether TLS refused one side's certificate, which another node will hardly see otherwise.
    certificate: bool,
}

impl Elsewhere {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), certificate: false }
    }

    /// An error with its causes.
    fn from(error: &(dyn Error + 'static)) -> Self {
        let (mut why, mut certificate) = (String::new(), false);
        let mut next = Some(error);
        while let Some(cause) = next {
            let text = cause.to_string();
            if !why.contains(&text) {
                why = if why.is_empty() { text } else { format!("{why}: {text}") };
            }
            certificate |= is_tls(cause);
            let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            next = match inner {
                Some(inner) => Some(inner),
                None => cause.source(),
            };
        }
        Self { why, certificate }
    }
}

fn is_tls(cause: &(dyn Error + 'static)) -> bool {
    matches!(
        cause.downcast_ref::<rustls::Error>(),
        Some(rustls::Error::AlertReceived(_) | rustls::Error::InvalidCertificate(_))
    )
}

impl Admin {
    /// A client of `nodes` (`host:port`, `https://` allowed) that shows `credentials`.
    pub(crate) fn new(host: &Host, nodes: &[String], credentials: &Credentials) -> Result<Self, Failure> {
        let expect = Expect::role(base::Role::Central);
        let tls = tls::client_config(credentials, &expect, &[b"http/1.1"]).map_err(Failure::failed)?;
        let nodes = nodes.iter().map(|node| node.trim_start_matches("https://").trim_end_matches('/'));
        Ok(Self {
            host: host.clone(),
            nodes: nodes.map(str::to_owned).collect(),
            tls: TlsConnector::from(Arc::new(tls)),
        })
    }

    /// Asks for `path`.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// Sends `body` to `path`.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body).map_err(Failure::failed)?;
        self.ask(Method::POST, path, body.into()).await
    }

    /// Removes `path`.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.ask(Method::DELETE, path, Bytes::new()).await
    }

    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<T, Failure> {
        let (mut tried, mut certificates) = (Vec::new(), 0);
        for node in &self.nodes {
            match self.exchange(node, &method, path, body.clone()).await {
                Ok((status, answer)) if status.is_success() => {
                    let malformed =
                        |error| Failure::failed(format!("{node} answered something else: {error}"));
                    return serde_json::from_slice(&answer).map_err(malformed);
                }
                Ok((status, answer)) if status == StatusCode::SERVICE_UNAVAILABLE => {
                    tried.push(format!("{node}: {}", words(status, &answer)));
                }
                Ok((status, answer)) => return Err(refused(status, &answer)),
                Err(Elsewhere { why, certificate }) => {
                    certificates += usize::from(certificate);
                    tried.push(format!("{node}: {why}"));
                }
            }
        }
        if certificates > 0 && certificates == tried.len() {
            let what = format!(
                "central and this command do not accept each other's certificates\n  {}",
                tried.join("\n  ")
            );
            return Err(Failure::new(Exit::Refused, what).mend(
                "look at the certificate with `portolan pki show`; make an operator's, of this mesh, with `portolan pki issue --role operator`",
            ));
        }
        let what = format!("no central node could answer\n  {}", tried.join("\n  "));
        Err(Failure::new(Exit::Unreachable, what)
            .mend("check that central runs, and name its nodes with --admin HOST:PORT,…"))
    }

    async fn exchange(
        &self,
        node: &str,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Elsewhere> {
        let stream = self.host.timeout(CONNECT, self.connect(node)).await.map_err(late)??;
        let exchange = async {
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            let connection =
                self.host.spawn("admin connection", async move { drop(connection.await) }).bound();
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header(http::header::HOST, node)
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(Full::new(body))?;
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body = Limited::new(body, LARGEST).collect().await?.to_bytes();
            drop(connection);
            Ok::<_, Box<dyn Error + Send + Sync>>((head.status, body))
        };
        self.host.timeout(ANSWER, exchange).await.map_err(late)?.map_err(|error| Elsewhere::from(&*error))
    }

    async fn connect(
        &self,
        node: &str,
    ) -> Result<tokio_rustls::client::TlsStream<seam::ByteStream>, Elsewhere> {
        let parts = node.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = parts.ok_or_else(|| Elsewhere::new("is not HOST:PORT"))?;
        let stream = self.host.connect(host, port).await.map_err(|error| Elsewhere::from(&error))?;
        let name = ServerName::try_from(tls::SERVER_NAME).map_err(|error| Elsewhere::from(&error))?;
        self.tls.connect(name, stream).await.map_err(|error| Elsewhere::from(&error))
    }
}

fn late(_late: seam::Late) -> Elsewhere {
    Elsewhere::new("did not answer in time")
}

fn refused(status: StatusCode, answer: &[u8]) -> Failure {
    let exit = match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Exit::Invalid,
        _other => Exit::Refused,
    };
    Failure::new(exit, words(status, answer))
}

/// What an error's answer says.
fn words(status: StatusCode, answer: &[u8]) -> String {
    match serde_json::from_slice::<Problem>(answer) {
        Ok(problem) => {
            let faults = problem.faults.iter().map(|fault| format!("\n  {fault}"));
            format!("{}{}", problem.message, faults.collect::<String>())
        }
        Err(_something_else) => format!("HTTP {status}"),
    }
}
