//! A mesh of real processes for a test: `portolan up` in a directory of its own, on free ports.

mod joining;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde::Deserialize;
use tempfile::TempDir;

use crate::client::{Client, get};

/// What `up` says on standard error.
const REMARKS: &str = "remarks";

/// A running mesh. Dropping it stops every process of it.
#[derive(Debug)]
pub struct Mesh {
    up: Child,
    restarted: Vec<Child>,
    dir: TempDir,
    binary: PathBuf,
    /// What `up` wrote about the mesh.
    pub facts: Facts,
}

/// The contents of `mesh.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Facts {
    /// The authority of the listeners' certificates, a PEM file.
    pub ca: PathBuf,
    /// The demo tenant's API key.
    pub key: String,
    /// Directory of the operator's credentials.
    pub operator: PathBuf,
    /// The admin API of each central node.
    pub admin: Vec<String>,
    /// Every node.
    pub nodes: Vec<Node>,
    /// The demo model servers.
    pub demo: Vec<Demo>,
}

/// One node's process.
#[derive(Clone, Debug, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// `edge` or `central`.
    pub role: String,
    /// Its region.
    pub region: String,
    /// Its process.
    pub pid: u32,
    /// Where callers reach it; edges only.
    pub url: Option<String>,
    /// Where callers reach it without TLS; edges only.
    pub plain: Option<String>,
    /// Its log.
    pub log: PathBuf,
    /// Its configuration file.
    pub config: PathBuf,
}

/// One demo model server's process.
#[derive(Clone, Debug, Deserialize)]
pub struct Demo {
    /// Its name.
    pub name: String,
    /// Its region, or `provider`.
    pub region: String,
    /// Its process.
    pub pid: u32,
    /// Where it listens.
    pub url: String,
}

impl Mesh {
    /// Starts a mesh with the given executable and waits until it is ready.
    #[must_use]
    pub fn start(binary: &str) -> Self {
        Self::start_with(binary, &[])
    }

    /// As [`Mesh::start`], with more arguments for `up`.
    #[must_use]
    pub fn start_with(binary: &str, more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("mesh");
        let mut up = Command::new(binary)
            .args(["up", "--port", "0", "--data"])
            .arg(&data)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(append(&dir.path().join(REMARKS)))
            .spawn()
            .unwrap();
        let facts = data.join("mesh.json");
        let mut printed = String::new();
        let mut out = BufReader::new(up.stdout.take().unwrap());
        // `up` writes its facts before it says what to run next, and that ends with a line on how to stop it.
        while !printed.contains("Ctrl-C") {
            let remarks = || String::from_utf8_lossy(&read(&dir.path().join(REMARKS))).into_owned();
            let more = out.read_line(&mut printed).unwrap() > 0;
            assert!(more, "the mesh did not start:\n{printed}{}", remarks());
        }
        let facts = serde_json::from_slice(&read(&facts)).unwrap();
        Self { up, restarted: Vec::new(), dir, binary: binary.into(), facts }
    }

    /// The edge of a region.
    #[must_use]
    pub fn edge(&self, region: &str) -> &Node {
        self.facts.nodes.iter().find(|node| node.role == "edge" && node.region == region).unwrap()
    }

    /// Where callers reach the edge of a region.
    #[must_use]
    pub fn url(&self, region: &str) -> String {
        self.edge(region).url.clone().unwrap()
    }

    /// Where callers reach the edge of a region without TLS.
    #[must_use]
    pub fn plain(&self, region: &str) -> String {
        self.edge(region).plain.clone().unwrap()
    }

    /// A caller that offers HTTP/2 and HTTP/1.1.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::trusting(&self.facts.ca, &["h2", "http/1.1"])
    }

    /// The metrics of each central node, as an operator reads them.
    pub async fn central_metrics(&self) -> Vec<String> {
        let nodes = self.facts.nodes.iter().filter(|node| node.role == "central");
        let mut pages = Vec::new();
        for (node, admin) in nodes.zip(&self.facts.admin) {
            let client = Client::operator(&self.facts.operator, &node.name);
            let answer = client.ask(&format!("https://{admin}"), get("/metrics", "")).await.unwrap();
            assert_eq!(answer.status, 200, "{answer:?}");
            pages.push(String::from_utf8(answer.body.to_vec()).unwrap());
        }
        pages
    }

    /// The mesh's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs an operator command against the mesh.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.run_as(&self.facts.operator, arguments)
    }

    /// Runs an operator command against the mesh with the credentials in a directory.
    #[must_use]
    pub fn run_as(&self, credentials: &Path, arguments: &[&str]) -> Output {
        let reach = ["--admin", &self.facts.admin.join(","), "--credentials", credentials.to_str().unwrap()];
        self.portolan(&[arguments, &reach].concat())
    }

    /// Runs the executable.
    #[must_use]
    pub fn portolan(&self, arguments: &[&str]) -> Output {
        Command::new(&self.binary).args(arguments).output().unwrap()
    }

    /// Runs an operator command against the mesh and gives what it printed.
    ///
    /// # Errors
    /// What it printed on standard error, when it failed.
    pub fn operate(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.run(arguments);
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Asks a node to stop, as `kill` and every supervisor do.
    pub fn terminate(&self, name: &str) {
        signal(self.node(name).pid, "TERM");
    }

    /// How a node that `up` started ended, in `up`'s words; `None` while it runs.
    #[must_use]
    pub fn death(&self, name: &str) -> Option<String> {
        let remarks = String::from_utf8_lossy(&read(&self.dir.path().join(REMARKS))).into_owned();
        let how = remarks.split(&format!("{name} died: ")).nth(1)?;
        Some(how.split(';').next().unwrap_or_default().to_owned())
    }

    /// Starts a killed node again on its data; it has started when it listens, which callers see by retrying.
    pub fn restart(&mut self, name: &str) {
        let node = self.node(name).clone();
        let child = Command::new(&self.binary)
            .args([node.role.as_str(), "--config"])
            .arg(&node.config)
            .stdout(Stdio::null())
            .stderr(append(&node.log))
            .spawn()
            .unwrap();
        for known in &mut self.facts.nodes {
            if known.name == name {
                known.pid = child.id();
            }
        }
        self.restarted.push(child);
    }

    /// The exit code of a node that was started again, once it ended by itself, and its log.
    pub fn ended(&mut self, name: &str) -> Option<(i32, String)> {
        let node = self.node(name);
        let (pid, log) = (node.pid, node.log.clone());
        let child = self.restarted.iter_mut().find(|child| child.id() == pid)?;
        let code = child.try_wait().unwrap()?.code().unwrap_or(-1);
        Some((code, String::from_utf8_lossy(&read(&log)).into_owned()))
    }

    /// Starts a second process of an edge, with the same certificate and a data directory of its own, at `127.0.0.2`.
    #[must_use]
    pub fn twin(&self, name: &str) -> Twin {
        let node = self.node(name);
        let data = self.dir().join(format!("{name}-twin"));
        let config = String::from_utf8(read(&node.config)).unwrap();
        let lines = config.lines().map(|line| match line.split(' ').next() {
            Some("data" | "directory") => {
                let (key, _theirs) = line.split_once(" = ").unwrap();
                format!("{key} = {:?}\n", data.join(key))
            }
            Some("listen") => line.replace("127.0.0.1", "127.0.0.2") + "\n",
            _shared => format!("{line}\n"),
        });
        std::fs::create_dir(&data).unwrap();
        let file = data.join("edge.toml");
        std::fs::write(&file, lines.collect::<String>()).unwrap();
        let process = Command::new(&self.binary)
            .args([node.role.as_str(), "--config"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(append(&data.join("log")))
            .spawn()
            .unwrap();
        let plain = node.plain.clone().unwrap().replace("127.0.0.1", "127.0.0.2");
        Twin { process, plain }
    }

    /// A node by its name.
    #[must_use]
    pub fn node(&self, name: &str) -> &Node {
        self.facts.nodes.iter().find(|node| node.name == name).unwrap()
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What `up` saw may tell why the test failed.
            drop(std::io::stderr().write_all(&read(&self.dir.path().join(REMARKS))));
        }
        for child in &mut self.restarted {
            // It may be gone already.
            drop(child.kill());
            drop(child.wait());
        }
        signal(self.up.id(), "TERM");
        drop(self.up.wait());
    }
}

/// A second process of an edge. Dropping it kills it.
#[derive(Debug)]
pub struct Twin {
    process: Child,
    /// Where callers reach it without TLS.
    pub plain: String,
}

impl Drop for Twin {
    fn drop(&mut self) {
        // It may be gone already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Kills one of a mesh's processes with SIGKILL.
pub fn kill(pid: u32) {
    signal(pid, "KILL");
}

fn signal(pid: u32, name: &str) {
    drop(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status());
}

/// A file of the mesh, such as a node's log or configuration.
#[must_use]
pub fn text(path: &Path) -> String {
    String::from_utf8_lossy(&read(path)).into_owned()
}

/// Writes a file of the mesh anew.
pub fn rewrite(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// An address where nothing answers.
#[must_use]
pub fn nobody() -> std::net::SocketAddr {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

fn append(path: &Path) -> Stdio {
    std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap().into()
}
