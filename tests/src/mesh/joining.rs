//! Central nodes that are added to a mesh while it runs: a certificate by `portolan pki`, a configuration that names no
//! members, and a process.

use std::fs::write;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::{Command, Stdio};

use super::{Mesh, Node, append};

impl Mesh {
    /// Starts a central node that is no member yet, and gives where its mesh endpoint listens.
    pub fn join(&mut self, id: u64, name: &str, region: &str) -> SocketAddr {
        let home = self.dir.path().join("mesh");
        let credentials = home.join("credentials").join(name);
        let (pki, to) = (home.join("pki"), credentials.to_str().unwrap());
        let issue = ["pki", "issue", "--role", "central", "--region", region, "--node", name, "--out", to];
        let issued = self.portolan(&[&issue[..], &["--dir", pki.to_str().unwrap()]].concat());
        assert!(issued.status.success(), "{issued:?}");
        let (mesh, admin) = (free(), free());
        let text = format!(
            "data = {data:?}\nid = {id}\nseal_keys = {seal:?}\ndrain_s = 5\n\n\
             [mesh]\nlisten = \"{mesh}\"\ncredentials = {credentials:?}\n\n[admin]\nlisten = \"{admin}\"\n",
            data = home.join("data").join(name),
            seal = home.join("seal.keys"),
        );
        let (config, log) =
            (home.join(format!("{name}.toml")), home.join("logs").join(format!("{name}.log")));
        write(&config, text).unwrap();
        let child = Command::new(&self.binary)
            .args(["central", "--config"])
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(append(&log))
            .spawn()
            .unwrap();
        self.facts.admin.push(admin.to_string());
        self.facts.nodes.push(Node {
            name: name.to_owned(),
            role: "central".to_owned(),
            region: region.to_owned(),
            pid: child.id(),
            url: None,
            plain: None,
            log,
            config,
        });
        self.restarted.push(child);
        mesh
    }
}

/// An address that nobody listens at, for streams and datagrams.
fn free() -> SocketAddr {
    loop {
        let stream = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at = stream.local_addr().unwrap();
        if UdpSocket::bind(at).is_ok() {
            return at;
        }
    }
}
