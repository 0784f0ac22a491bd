//! One edge with its files, its certificates and its callers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::{Era, Incarnation, Name, Revision, Role, Stamp};
use bytes::Bytes;
use central_core::LogMs;
use central_core::ledger::{Ledger, Registered};
use mesh::{Identity, pki};
use seam::{Bound, Host, Stopper, write_atomic};
use telemetry::record::{Sampling, Sink};
use tempfile::TempDir;
use wire::catalog::{Budget, Catalog};
use wire::control::{NodeAddr, Welcome};
use wire::ledger::Receipt;

use super::caller::Caller;
use crate::call::Edge;
use crate::config::{Config, Guard, Ingress, Mesh, Record, Tls};
use crate::fixtures;
use crate::node::{Node, Running};

/// A running edge.
pub(super) struct World {
    pub(super) host: Host,
    pub(super) edge: Arc<Edge>,
    pub(super) plain: SocketAddr,
    pub(super) secure: SocketAddr,
    pub(super) address: NodeAddr,
    pub(super) draining: Stopper,
    pub(super) running: Running,
    pub(super) authority: String,
    pub(super) dir: TempDir,
    _rest: Stopper,
}

const HOUR: Duration = Duration::from_secs(3_600);

impl World {
    /// An edge of region `here` whose model `tiny` is served at `url`.
    pub(super) async fn start(url: &str, adjust: impl FnOnce(&mut Config, &mut Catalog)) -> Self {
        let host = Host::real();
        let mesh = pki::create_authority(&host, &"test".parse().unwrap(), HOUR).unwrap();
        let mut catalog = fixtures::catalog();
        let tiny = fixtures::model("tiny", url);
        catalog.models.insert(tiny.name.clone(), tiny);
        Self::join(&mesh, "here", catalog, adjust).await
    }

    /// An edge of a mesh, alone in its region.
    pub(super) async fn join(
        mesh: &pki::Issued,
        region: &str,
        catalog: Catalog,
        adjust: impl FnOnce(&mut Config, &mut Catalog),
    ) -> Self {
        Self::join_on(Host::real(), mesh, region, catalog, adjust).await
    }

    /// The same on a host of its own.
    pub(super) async fn join_on(
        host: Host,
        mesh: &pki::Issued,
        region: &str,
        mut catalog: Catalog,
        adjust: impl FnOnce(&mut Config, &mut Catalog),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        adjust(&mut config, &mut catalog);
        let authority = credentials(&host, dir.path(), mesh, region).await;
        let node = Node::bind(host.clone(), config).await.unwrap();
        let address = NodeAddr {
            name: format!("edge-{region}").parse().unwrap(),
            role: Role::Edge,
            region: region.parse().unwrap(),
            mesh: node.mesh_address().unwrap(),
        };
        let [plain, secure] = node.addresses()[..] else { panic!("two listeners") };
        let (draining, drain) = Stopper::new();
        let (rest, until_rest) = Stopper::new();
        let running = node.start(&drain, &until_rest).await.unwrap();
        let edge = Arc::clone(&running.edge);
        let world =
            Self { host, edge, plain, secure, address, draining, running, authority, dir, _rest: rest };
        world.install(1, catalog).await;
        world
    }

    /// Puts a configuration in force and waits until every part has it.
    pub(super) async fn install(&self, revision: u64, catalog: Catalog) {
        let stamp = Stamp { era: Era(1), revision: Revision(revision) };
        let here = self.edge.region.clone();
        let mut models = catalog.models.values();
        let local = models.find(|model| model.replicas.iter().any(|replica| replica.region == here));
        let local = local.map(|model| model.name.clone());
        assert!(self.edge.snapshots.install(stamp, catalog, self.host.now()));
        while local.as_ref().is_some_and(|model| !self.edge.dispatcher.serves_locally(model)) {
            tokio::task::yield_now().await;
        }
    }

    /// Replaces the listener's certificate by one of another authority; gives a caller that trusts only that.
    pub(super) async fn renew_certificate(&self) -> Caller {
        let authority = listener(&self.host, self.dir.path()).await;
        Caller::new(&self.host, self.plain, self.secure, &authority)
    }

    pub(super) fn caller(&self) -> Caller {
        Caller::new(&self.host, self.plain, self.secure, &self.authority)
    }

    /// Records written so far, at least `wanted` of them.
    pub(super) async fn records(&self, wanted: usize) -> Vec<serde_json::Value> {
        let within = Duration::from_secs(10);
        let records = self.host.timeout(within, self.written(wanted)).await;
        records.unwrap_or_else(|_late| panic!("no {wanted} records within {within:?}"))
    }

    async fn written(&self, wanted: usize) -> Vec<serde_json::Value> {
        let file = self.dir.path().join("calls/calls-0.jsonl");
        loop {
            let text = self.host.disk().read(&file).await.unwrap_or_default();
            let lines: Vec<_> = text
                .split(|byte| *byte == b'\n')
                .filter_map(|line| serde_json::from_slice(line).ok())
                .collect();
            if lines.len() >= wanted {
                return lines;
            }
            self.host.sleep(Duration::from_millis(5)).await;
        }
    }

    /// Plays central for one budget: grants what the node asks for, for as long as the guard lives.
    pub(super) fn fund(&self, budget: &Budget) -> Bound<()> {
        let edge: Name = "edge-here".parse().unwrap();
        let mut ledger = Ledger::default();
        ledger.set_budget(budget);
        let registered = ledger.register(&edge, 1, None, None);
        let Registered::Welcome { incarnation, .. } = registered else { panic!("{registered:?}") };
        let (host, purse) = (self.host.clone(), self.edge.purse.clone());
        purse.install(&BTreeMap::from([(budget.name.clone(), budget.clone())]));
        purse.welcome(&Welcome { level: wire::LEVEL, era: Era(0), incarnation });
        let granting = async move {
            loop {
                host.sleep(Duration::from_millis(5)).await;
                let Some(report) = purse.report() else { continue };
                let now = (host.wall(), LogMs::default());
                for (_edge, grants) in ledger.report(now, &[(edge.clone(), report)]) {
                    purse.granted(&grants);
                }
            }
        };
        self.host.spawn("central", granting).bound()
    }

    /// Receipts on the disk, once there are as many as wanted.
    pub(super) async fn receipts(&self, wanted: usize) -> Vec<Receipt> {
        let written = async {
            loop {
                let batch = self.edge.purse.batch(Incarnation(1), 0, 100);
                if let Some(batch) = batch.filter(|batch| batch.receipts.len() >= wanted) {
                    return batch.receipts;
                }
                self.host.sleep(Duration::from_millis(5)).await;
            }
        };
        self.host.timeout(Duration::from_secs(5), written).await.expect("each call leaves a receipt")
    }

    /// Calls in progress at the node.
    pub(super) fn in_progress(&self) -> u32 {
        self.edge.gate.lock().in_progress().0
    }

    /// Waits until a call is in progress.
    pub(super) async fn busy(&self) {
        let busy = async {
            while self.in_progress() == 0 {
                self.host.sleep(Duration::from_millis(1)).await;
            }
        };
        self.host.timeout(Duration::from_secs(5), busy).await.expect("a call comes in");
    }

    /// Waits until no call is in progress.
    pub(super) async fn quiet(&self) {
        let quiet = async {
            while self.in_progress() > 0 {
                self.host.sleep(Duration::from_millis(2)).await;
            }
        };
        self.host.timeout(Duration::from_secs(5), quiet).await.expect("every call ends");
    }
}

fn config(dir: &Path) -> Config {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let plain = Ingress { listen, tls: None, http3: false, public_port: None, metrics: true };
    let tls = Tls { certificate: dir.join("listener.pem"), key: dir.join("listener.key") };
    Config {
        data: dir.join("data"),
        central: vec![SocketAddr::from(([127, 0, 0, 1], 1)).into()],
        mesh: Mesh { listen, advertise: None, credentials: dir.join("credentials") },
        ingress: vec![plain.clone(), Ingress { tls: Some(tls), http3: true, metrics: false, ..plain }],
        guard: Guard { body_bytes: 64 * 1024, ..Guard::default() },
        record: Record {
            sink: Sink::Directory { path: dir.join("calls"), keep: 1 },
            sampling: Sampling { success_per_mille: 1_000, slow: HOUR },
        },
        traces: None,
        upstream_authorities: None,
        drain: Duration::from_secs(5),
        tokenizers: dir.join("tokenizers"),
        lame_duck: Duration::ZERO,
        debug: true,
    }
}

/// Writes the node's and the listener's credentials; gives the listener's authority.
async fn credentials(host: &Host, dir: &Path, authority: &pki::Issued, region: &str) -> String {
    let identity = Identity {
        mesh: "test".parse().unwrap(),
        role: Role::Edge,
        region: region.parse().unwrap(),
        node: format!("edge-{region}").parse().unwrap(),
    };
    let node = pki::issue(host, authority, &identity, HOUR).unwrap();
    let credentials = dir.join("credentials");
    host.disk().create_dir_all(&credentials).await.unwrap();
    for (path, text) in [
        (credentials.join(mesh::CERTIFICATE), &node.certificate),
        (credentials.join(mesh::KEY), &node.key),
        (credentials.join(mesh::AUTHORITIES), &authority.certificate),
    ] {
        write_atomic(&**host.disk(), &path, Bytes::from(text.to_string())).await.unwrap();
    }
    listener(host, dir).await
}

/// Writes a new listener's certificate; gives its new authority.
async fn listener(host: &Host, dir: &Path) -> String {
    let authority = pki::create_listener_authority(host, &"test".parse().unwrap(), HOUR).unwrap();
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let listener = pki::issue_listener(host, &authority, &names, HOUR).unwrap();
    for (file, text) in [("listener.pem", &listener.certificate), ("listener.key", &listener.key)] {
        write_atomic(&**host.disk(), &dir.join(file), Bytes::from(text.to_string())).await.unwrap();
    }
    authority.certificate
}
