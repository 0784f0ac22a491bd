//! Operators, who speak to central's admin API with a certificate, as the command line does.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::{NodeId, Role};
use bytes::Bytes;
use central::admin::api::{
    AddMember, Catalog, Changed, EpochRow, Files, Ledger, Level, Members, Status, Transfer, UsageReport,
};
use central_core::files::Source;
use http::{Method, Request, Response};
use http_body_util::Full;
use mesh::{Credentials, Expect, tls};
use rustls::pki_types::ServerName;
use seam::{Host, Lock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_rustls::TlsConnector;

use crate::http::{Connection, ExchangeError};

/// A commit through an election takes seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// An apply waits this long for a leader, and asks this often.
const APPLIED_WITHIN: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_millis(100);

/// An operator on a host of their own.
#[derive(Clone)]
pub struct Operator {
    host: Host,
    tls: TlsConnector,
    port: u16,
    /// Connections by node that wait for the next read.
    idle: Arc<Lock<BTreeMap<String, Connection>>>,
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Operator {
    /// An operator on `host` with the credentials in `dir`, who finds admin APIs at `port`.
    ///
    /// # Errors
    /// [`ExchangeError`] when the credentials cannot be used.
    pub async fn new(host: Host, dir: &Path, port: u16) -> Result<Self, ExchangeError> {
        let credentials =
            Credentials::load(&host, dir).await.map_err(ExchangeError::broken("loading credentials"))?;
        let tls = tls::client_config(&credentials, &Expect::role(Role::Central), &[b"http/1.1"])
            .map_err(ExchangeError::broken("setting TLS up"))?;
        Ok(Self { host, tls: TlsConnector::from(Arc::new(tls)), port, idle: Arc::default() })
    }

    /// Their host; what they do runs on it.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Applies a file through the node called `node`.
    ///
    /// # Errors
    /// [`ExchangeError`]; the source says what the node answered.
    pub async fn apply(&self, node: &str, text: &str) -> Result<Changed, ExchangeError> {
        let source = Source { name: "scenario.yaml".to_owned(), text: text.to_owned() };
        let files = Files { files: vec![source], prune: false, note: String::new(), base: None };
        self.apply_files(node, &files).await
    }

    /// Applies files, with a note and for an epoch if wanted.
    ///
    /// # Errors
    /// As [`Operator::apply`].
    pub async fn apply_files(&self, node: &str, files: &Files) -> Result<Changed, ExchangeError> {
        self.ask(node, Method::POST, "/v1/apply", files).await
    }

    /// As [`Operator::apply`], again as long as there is no leader, for fifteen seconds.
    ///
    /// # Errors
    /// [`ExchangeError`]: the last refusal.
    pub async fn apply_when_led(&self, node: &str, text: &str) -> Result<Changed, ExchangeError> {
        let began = self.host.now();
        loop {
            match self.apply(node, text).await {
                Err(_tried_again) if self.host.now().since(began) < APPLIED_WITHIN => {
                    self.host.sleep(AGAIN).await;
                }
                done => return done,
            }
        }
    }

    /// What the node called `node` sees of the mesh.
    ///
    /// # Errors
    /// As [`Operator::apply`].
    pub async fn status(&self, node: &str) -> Result<Status, ExchangeError> {
        self.ask(node, Method::GET, "/v1/status", &()).await
    }

    /// The books of all budgets.
    ///
    /// # Errors
    /// As [`Operator::apply`].
    pub async fn ledger(&self, node: &str) -> Result<Ledger, ExchangeError> {
        self.ask(node, Method::GET, "/v1/ledger", &()).await
    }

    /// What tenants used, as the usage store of the node called `node` has it, complete or not.
    ///
    /// # Errors
    /// As [`Operator::apply`].
    pub async fn usage(&self, node: &str) -> Result<UsageReport, ExchangeError> {
        self.ask(node, Method::GET, "/v1/usage?by=tenant&partial=true", &()).await
    }

    /// The configuration in force, as the node called `node` reads it.
    ///
    /// # Errors
    /// As [`Operator::apply`].
    pub async fn catalog(&self, node: &str) -> Result<Catalog, ExchangeError> {
        self.ask(node, Method::GET, "/v1/catalog", &()).await
    }

    /// The last epochs, the newest first.
    ///
    /// # Errors
    /// As [`Operator::apply`].
    pub async fn epochs(&self, node: &str) -> Result<Vec<EpochRow>, ExchangeError> {
        self.ask(node, Method::GET, "/v1/epochs", &()).await
    }

    /// Replaces a member of central by another.
    ///
    /// # Errors
    /// As [`Operator::apply`].
    pub async fn replace(&self, node: &str, new: &AddMember) -> Result<Members, ExchangeError> {
        self.ask(node, Method::POST, "/v1/members", new).await
    }

    /// Hands leadership to the member numbered `to`.
    ///
    /// # Errors
    /// As [`Operator::apply`].
    pub async fn transfer(&self, node: &str, to: NodeId) -> Result<Members, ExchangeError> {
        self.ask(node, Method::POST, "/v1/members/transfer", &Transfer { to }).await
    }

    /// Lets the mesh use messages of another level.
    ///
    /// # Errors
    /// As [`Operator::apply`].
    pub async fn raise_level(&self, node: &str, to: u16) -> Result<Changed, ExchangeError> {
        self.ask(node, Method::POST, "/v1/level", &Level { to }).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        node: &str,
        method: Method,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, ExchangeError> {
        let body = if method == Method::GET {
            Bytes::new()
        } else {
            serde_json::to_vec(body).map_err(ExchangeError::broken("writing the request"))?.into()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::HOST, node)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(ExchangeError::broken("making the request"))?;
        let (asking, node) = (self.clone(), node.to_owned());
        let asked = self.host.spawn("ask", async move { asking.exchange(&node, request).await });
        let answer = asked.await??;
        if answer.status().is_success() {
            serde_json::from_slice(answer.body()).map_err(ExchangeError::broken("reading the answer"))
        } else {
            let said = format!("{}: {}", answer.status(), String::from_utf8_lossy(answer.body()));
            Err(ExchangeError::Broken { doing: "refused", source: said.into() })
        }
    }

    /// Reads go over a connection that is kept; a change over one of its own, so that a connection that broke while
    /// nobody looked does not leave it unknown.
    async fn exchange(
        &self,
        node: &str,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, ExchangeError> {
        if request.method() != Method::GET {
            return self
                .host
                .timeout(PATIENCE, async { self.connect(node).await?.ask(request).await })
                .await?;
        }
        let kept = self.idle.lock().remove(node).filter(|kept| !kept.is_closed());
        let asking = async {
            if let Some(mut kept) = kept
                && let Ok(answer) = kept.ask(request.clone()).await
            {
                return Ok((kept, answer));
            }
            let mut fresh = self.connect(node).await?;
            let answer = fresh.ask(request).await?;
            Ok::<_, ExchangeError>((fresh, answer))
        };
        let (connection, answer) = self.host.timeout(PATIENCE, asking).await??;
        self.idle.lock().insert(node.to_owned(), connection);
        Ok(answer)
    }

    async fn connect(&self, node: &str) -> Result<Connection, ExchangeError> {
        let stream = self.host.connect(node, self.port).await;
        let stream = stream.map_err(ExchangeError::broken("connecting to the node"))?;
        let name =
            ServerName::try_from(tls::SERVER_NAME).map_err(ExchangeError::broken("naming the node"))?;
        let stream = self.tls.connect(name, stream).await.map_err(ExchangeError::broken("the handshake"))?;
        Connection::open(&self.host, stream).await
    }
}
