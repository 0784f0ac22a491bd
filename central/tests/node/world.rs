//! A mesh of one central node, and whoever talks to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{Epoch, NodeId, Role, Stamp};
use bytes::Bytes;
use central::admin::api::Problem;
use central::config::{Config, Member, Mesh};
use central::node::{Node, NodeError};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mesh::pki::{self, Issued};
use mesh::{Connection, Credentials, Endpoint, Expect, Identity, Purpose, Receiver, Sender, tls};
use rustls_pki_types::ServerName;
use seam::{ByteStream, Host, Stopper, Task};
use serde::de::DeserializeOwned;
use tempfile::TempDir;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use wire::control::{Hello, NodeAddr, Opening, ToCentral, ToEdge};
use wire::frame::Kind;

const DAY: Duration = Duration::from_secs(24 * 3600);
const LOOPBACK: SocketAddr = SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0));

/// Longer than anything here takes, and shorter than patience with a hanging test.
const SOON: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) host: Host,
    dir: TempDir,
    authority: Issued,
    mesh: SocketAddr,
    admin: SocketAddr,
    stopper: Stopper,
    running: Task<Result<(), NodeError>>,
}

pub(crate) struct EdgeSession {
    host: Host,
    sender: Sender,
    receiver: Receiver,
    first: Option<ToEdge>,
    _connection: Connection,
    _endpoint: Endpoint,
}

impl World {
    pub(crate) async fn start() -> Self {
        let host = Host::real();
        let dir = tempfile::tempdir().unwrap();
        let authority = pki::create_authority(&host, &"test".parse().unwrap(), 10 * DAY).unwrap();
        let issued = issue(&host, &authority, "central/eu/c1");
        let seal = central::seal::new_key_file(&host, 1);
        for (file, text) in [
            ("node.pem", &issued.certificate),
            ("node.key", &issued.key),
            ("ca.pem", &authority.certificate),
            ("seal.keys", &seal),
        ] {
            let bytes = Bytes::from(text.clone());
            seam::write_atomic(host.disk().as_ref(), &dir.path().join(file), bytes).await.unwrap();
        }
        Self::run(host, dir, authority).await
    }

    async fn run(host: Host, dir: TempDir, authority: Issued) -> Self {
        let starting = Box::pin(async {
            loop {
                match Node::start(&host, config(&dir)).await {
                    // Tasks of the node before let go of its log one after the other.
                    Err(NodeError::Log(_)) => host.sleep(Duration::from_millis(10)).await,
                    started => return started.unwrap(),
                }
            }
        });
        let node = host.timeout(SOON, starting).await.unwrap();
        let (mesh, admin) = (node.mesh_addr().unwrap(), node.admin_addr().unwrap());
        let (stopper, stop) = Stopper::new();
        let running = host.spawn("node", Box::pin(node.until(stop)));
        Self { host, dir, authority, mesh, admin, stopper, running }
    }

    pub(crate) async fn restart(self) -> Self {
        let Self { host, dir, authority, stopper, running, .. } = self;
        stopper.stop();
        running.await.unwrap().unwrap();
        Self::run(host, dir, authority).await
    }

    pub(crate) async fn stop(self) {
        self.stopper.stop();
        self.running.await.unwrap().unwrap();
    }

    /// Opens a control session, trying until the node serves sessions.
    pub(crate) async fn edge(&self, name: &str, boot: u64, have: Option<(Stamp, Epoch)>) -> EdgeSession {
        let attempt = async {
            loop {
                let mut session = self.open(name, boot, have).await;
                match session.next().await {
                    ToEdge::Unavailable { .. } => self.host.sleep(Duration::from_millis(20)).await,
                    first => {
                        session.first = Some(first);
                        return session;
                    }
                }
            }
        };
        self.host.timeout(SOON, attempt).await.unwrap()
    }

    async fn open(&self, name: &str, boot: u64, have: Option<(Stamp, Epoch)>) -> EdgeSession {
        let credentials = self.credentials(&format!("edge/eu/{name}"));
        let endpoint = Endpoint::bind(&self.host, LOOPBACK, credentials).unwrap();
        let expect = Expect::role(Role::Central);
        let connection = endpoint.connect(self.mesh, &expect, Purpose::Calls).await.unwrap();
        let (mut sender, receiver) = connection.open(Opening::Control).await.unwrap();
        let hello = Hello {
            level: wire::LEVEL,
            build: "test".into(),
            boot,
            resume: None,
            last: None,
            mesh: endpoint.local_addr().unwrap(),
            have,
        };
        sender.send(Kind::TO_CENTRAL, &ToCentral::Hello(hello)).await.unwrap();
        let host = self.host.clone();
        EdgeSession { host, sender, receiver, first: None, _connection: connection, _endpoint: endpoint }
    }

    /// Asks as an operator.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: serde_json::Value,
    ) -> Result<T, String> {
        let (status, answer) = self.exchange(method, path, body).await;
        if !status.is_success() {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&answer)));
        }
        serde_json::from_slice(&answer).map_err(|error| error.to_string())
    }

    /// Asks as an operator what must be refused.
    pub(crate) async fn refused(
        &self,
        method: Method,
        path: &str,
        body: serde_json::Value,
    ) -> (StatusCode, Problem) {
        let (status, answer) = self.exchange(method, path, body).await;
        (status, serde_json::from_slice(&answer).unwrap())
    }

    async fn exchange(&self, method: Method, path: &str, body: serde_json::Value) -> (StatusCode, Bytes) {
        let stream = self.connect_admin("operator/eu/op").await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let _connection = self.host.spawn("client", async move { drop(connection.await) }).bound();
        let body = Full::new(Bytes::from(body.to_string()));
        let request = Request::builder().method(method).uri(path).header("host", "admin").body(body).unwrap();
        let asking = sender.send_request(request);
        let (head, body) = self.host.timeout(SOON, asking).await.unwrap().unwrap().into_parts();
        (head.status, body.collect().await.unwrap().to_bytes())
    }

    /// A TLS connection to the operators' door, whose server has answered.
    pub(crate) async fn connect_admin(&self, who: &str) -> Result<TlsStream<ByteStream>, String> {
        let expect = Expect::role(Role::Central);
        let config = tls::client_config(&self.credentials(who), &expect, &[b"http/1.1"]).unwrap();
        let stream = self.host.connect("127.0.0.1", self.admin.port()).await.unwrap();
        let name = ServerName::try_from(tls::SERVER_NAME).unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await.map_err(|error| error.to_string())
    }

    fn credentials(&self, who: &str) -> Credentials {
        let issued = issue(&self.host, &self.authority, who);
        let authorities = &self.authority.certificate;
        Credentials::from_pem(&self.host, &issued.certificate, &issued.key, authorities).unwrap()
    }
}

impl EdgeSession {
    pub(crate) async fn next(&mut self) -> ToEdge {
        if let Some(first) = self.first.take() {
            return first;
        }
        self.host.timeout(SOON, self.receiver.expect(Kind::TO_EDGE)).await.unwrap().unwrap()
    }

    /// The next message that is `wanted`.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&ToEdge) -> bool) -> ToEdge {
        loop {
            let message = self.next().await;
            if wanted(&message) {
                return message;
            }
        }
    }

    pub(crate) async fn ended(&mut self) -> bool {
        matches!(self.host.timeout(SOON, self.receiver.recv()).await, Ok(Ok(None)))
    }

    pub(crate) async fn say(&mut self, message: &ToCentral) {
        self.sender.send(Kind::TO_CENTRAL, message).await.unwrap();
    }
}

fn issue(host: &Host, authority: &Issued, who: &str) -> Issued {
    let identity: Identity = format!("portolan://test/{who}").parse().unwrap();
    pki::issue(host, authority, &identity, DAY).unwrap()
}

fn config(dir: &TempDir) -> Config {
    let addr = NodeAddr {
        name: "c1".parse().unwrap(),
        role: Role::Central,
        region: "eu".parse().unwrap(),
        mesh: "127.0.0.1:1".parse().unwrap(),
    };
    Config {
        keep: central::usage::Kept::default(),
        clickhouse: None,
        data: dir.path().join("data"),
        id: NodeId(1),
        mesh: Mesh { listen: LOOPBACK, credentials: dir.path().to_owned() },
        admin: LOOPBACK,
        metrics: None,
        seal_keys: Some(dir.path().join("seal.keys")),
        upstream_authorities: None,
        traces: None,
        members: vec![Member { id: NodeId(1), addr }],
        round_trip: Duration::from_millis(10),
        drain: Duration::from_secs(5),
    }
}
