//! What `up` runs and where: nodes, their ports and their files.
//!
//! Ports count from a base; base 0 takes free ones. They are kept in the mesh's directory: a mesh stays where it was first
//! started, as its log names its members by their addresses. Every port is tried before anything starts, so that a taken one is named.

use std::any::Any;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use seam::{Host, Listener};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::files::{self, Readers};

/// The regions of the mesh, in the order of their ports.
pub(super) const REGIONS: [&str; 3] = ["eu", "us", "ap"];
/// Where demo model servers run; the last is the provider behind central.
pub(super) const DEMOS: [&str; 3] = ["eu", "us", "provider"];
/// Where ports are counted from when nobody says.
const USUAL_BASE: u16 = 7_400;
/// Where the chosen ports are kept.
const PORTS: &str = "ports.json";

/// A central node.
#[derive(Clone, Debug)]
pub(super) struct Central {
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) region: &'static str,
    pub(super) mesh: SocketAddr,
    pub(super) admin: SocketAddr,
}

/// An edge.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) name: String,
    pub(super) region: &'static str,
    pub(super) mesh: SocketAddr,
    pub(super) secure: SocketAddr,
    pub(super) plain: SocketAddr,
}

/// A demo model server.
#[derive(Clone, Debug)]
pub(super) struct Demo {
    pub(super) name: String,
    pub(super) region: &'static str,
    pub(super) listen: SocketAddr,
}

/// The whole mesh.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    home: PathBuf,
    pub(super) centrals: Vec<Central>,
    pub(super) edges: Vec<Edge>,
    pub(super) demos: Vec<Demo>,
}

/// Ports in the order of [`REGIONS`] and [`DEMOS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ports {
    central: [u16; 3],
    admin: [u16; 3],
    edge: [u16; 3],
    secure: [u16; 3],
    plain: [u16; 3],
    demo: [u16; 3],
}

impl Layout {
    /// Takes the ports that the mesh has, or chooses them: from `base`, or free ones. Makes sure that each is free.
    pub(super) async fn choose(host: &Host, home: &Path, base: Option<u16>) -> Result<Self, Failure> {
        let kept: Option<Ports> =
            files::read(&home.join(PORTS)).ok().and_then(|text| serde_json::from_str(&text).ok());
        let ports = match (base, kept) {
            (None | Some(0), Some(kept)) => kept,
            (Some(base), Some(kept)) if Ports::from_base(base)? != kept => return Err(kept.stays(home, base)),
            (Some(0), None) => Ports::free(host).await?,
            (base, _same) => Ports::from_base(base.unwrap_or(USUAL_BASE))?,
        };
        // Where else it may be told to go; a mesh that is kept does not move.
        let base = kept.is_none().then(|| base.unwrap_or(USUAL_BASE));
        let layout = Self::new(home, &ports);
        layout.check(host, base).await?;
        let text = serde_json::to_string(&ports).map_err(Failure::failed)?;
        files::write(&home.join(PORTS), &text, Readers::All)?;
        Ok(layout)
    }

    fn new(home: &Path, ports: &Ports) -> Self {
        let numbered = REGIONS.into_iter().zip(1_u64..).zip(ports.central).zip(ports.admin);
        let centrals = numbered.map(|(((region, number), mesh), admin)| Central {
            number,
            name: format!("central-{region}"),
            region,
            mesh: local(mesh),
            admin: local(admin),
        });
        let edges = REGIONS.into_iter().zip(ports.edge).zip(ports.secure).zip(ports.plain).map(
            |(((region, mesh), secure), plain)| Edge {
                name: format!("edge-{region}"),
                region,
                mesh: local(mesh),
                secure: local(secure),
                plain: local(plain),
            },
        );
        let demos = DEMOS.into_iter().zip(ports.demo).map(|(region, listen)| Demo {
            name: format!("demo-{region}"),
            region,
            listen: local(listen),
        });
        Self {
            home: home.to_owned(),
            centrals: centrals.collect(),
            edges: edges.collect(),
            demos: demos.collect(),
        }
    }

    /// The mesh's own directory.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// A file or directory in it.
    pub(super) fn path(&self, within: &str) -> PathBuf {
        self.home.join(within)
    }

    pub(super) fn credentials(&self, node: &str) -> PathBuf {
        self.home.join("credentials").join(node)
    }

    pub(super) fn data(&self, node: &str) -> PathBuf {
        self.home.join("data").join(node)
    }

    pub(super) fn config(&self, node: &str) -> PathBuf {
        self.home.join(format!("{node}.toml"))
    }

    pub(super) fn log(&self, node: &str) -> PathBuf {
        self.home.join("logs").join(format!("{node}.log"))
    }

    /// Tries every port.
    async fn check(&self, host: &Host, base: Option<u16>) -> Result<(), Failure> {
        for central in &self.centrals {
            datagram(host, central.mesh, &format!("{} (mesh)", central.name), base)?;
            stream(host, central.admin, &format!("{} (admin)", central.name), base).await?;
        }
        for edge in &self.edges {
            datagram(host, edge.mesh, &format!("{} (mesh)", edge.name), base)?;
            datagram(host, edge.secure, &format!("{} (HTTP/3)", edge.name), base)?;
            stream(host, edge.secure, &format!("{} (HTTPS)", edge.name), base).await?;
            stream(host, edge.plain, &format!("{} (HTTP)", edge.name), base).await?;
        }
        for demo in &self.demos {
            stream(host, demo.listen, &demo.name, base).await?;
        }
        Ok(())
    }
}

impl Ports {
    fn from_base(base: u16) -> Result<Self, Failure> {
        let at = |offset: u16| {
            base.checked_add(offset).ok_or_else(|| {
                Failure::failed(format!("ports from {base} on run past 65535"))
                    .mend("choose a lower --port, at most 65400")
            })
        };
        let three = |offset: u16| Ok([at(offset)?, at(offset + 1)?, at(offset + 2)?]);
        Ok(Self {
            central: three(1)?,
            admin: three(11)?,
            edge: three(21)?,
            secure: three(43)?,
            plain: three(80)?,
            demo: three(91)?,
        })
    }

    /// Why a mesh that is kept does not move.
    fn stays(&self, home: &Path, asked: u16) -> Failure {
        let home = home.display();
        let first = self.secure.first().copied().unwrap_or_default();
        let what = format!(
            "the mesh in {home} has its ports already (HTTPS from {first}), and cannot move to those of --port {asked}"
        );
        Failure::failed(what).mend("leave --port out, or keep another mesh with another --data")
    }

    /// Ports that are free now. All are held until the last is found, so that none is given twice.
    async fn free(host: &Host) -> Result<Self, Failure> {
        let mut held = Vec::new();
        let mut ports = [[0; 3]; 6];
        for port in ports.iter_mut().flatten() {
            *port = free_port(host, &mut held).await?;
        }
        let [central, admin, edge, secure, plain, demo] = ports;
        Ok(Self { central, admin, edge, secure, plain, demo })
    }
}

/// A port that is free for streams and for datagrams.
async fn free_port(host: &Host, held: &mut Vec<Held>) -> Result<u16, Failure> {
    let failed = |error: io::Error| Failure::failed(format!("cannot find a free port: {error}"));
    for _try in 0..100 {
        let stream = host.listen(local(0)).await.map_err(failed)?;
        let at = stream.local_addr().map_err(failed)?;
        if let Ok(datagram) = host.datagram(at) {
            held.push((stream, Box::new(datagram)));
            return Ok(at.port());
        }
    }
    Err(Failure::failed("cannot find a port that is free for TCP and UDP"))
}

/// Both sockets of a port; nothing is done with them but holding them.
type Held = (Box<dyn Listener>, Box<dyn Any + Send>);

const fn local(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

fn datagram(host: &Host, at: SocketAddr, whose: &str, base: Option<u16>) -> Result<(), Failure> {
    host.datagram(at).map(drop).map_err(|error| taken(at, "UDP", whose, base, &error))
}

async fn stream(host: &Host, at: SocketAddr, whose: &str, base: Option<u16>) -> Result<(), Failure> {
    host.listen(at).await.map(drop).map_err(|error| taken(at, "TCP", whose, base, &error))
}

fn taken(at: SocketAddr, kind: &str, whose: &str, base: Option<u16>, error: &io::Error) -> Failure {
    let port = at.port();
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => format!("{kind} port {port}, meant for {whose}, is taken"),
        _other => format!("cannot use {kind} port {port}, meant for {whose}: {error}"),
    };
    let mend = "stop what listens there (`ss -lntup` tells)";
    Failure::failed(what).mend(match base {
        Some(base) => {
            let other = if base == 0 { USUAL_BASE } else { 0 };
            format!("{mend}, or choose other ports, such as --port {other}")
        }
        None => format!("{mend}; a mesh that is kept with --data does not move to other ports"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_named_with_whose_it_was_to_be() {
        let host = Host::real();
        let home = tempfile::tempdir().unwrap();
        let free = Ports::free(&host).await.unwrap();
        let text = serde_json::to_string(&free).unwrap();
        files::write(&home.path().join(PORTS), &text, Readers::All).unwrap();
        let squatter = host.listen(local(free.secure[1])).await.unwrap();

        let error = Layout::choose(&host, home.path(), None).await.unwrap_err().to_string();
        let expected = format!("TCP port {}, meant for edge-us (HTTPS), is taken", free.secure[1]);
        assert!(error.contains(&expected), "{error}");

        drop(squatter);
        let layout = Layout::choose(&host, home.path(), Some(0)).await.unwrap();
        assert_eq!(layout.edges[1].secure.port(), free.secure[1], "the ports are kept");
        let moved = Layout::choose(&host, home.path(), Some(20_000)).await.unwrap_err().to_string();
        assert!(moved.contains("cannot move to those of --port 20000"), "{moved}");
        assert!(Ports::from_base(65_500).is_err());
    }
}
