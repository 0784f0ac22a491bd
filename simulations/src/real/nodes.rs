//! What nodes find on their disks before they start: a certificate, and a configuration file.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mesh::pki::{self, Issued};
use mesh::{AUTHORITIES, CERTIFICATE, Identity, IdentityError, KEY};
use seam::Host;

use super::RealError;
use super::actor::Directory;
use super::ground::Node;
use crate::authority::{EnrolError, MESH};
use crate::deployment::{self, Plan, configs};
use crate::files;

/// Longer than any run, and than nodes warn of.
const VALIDITY: Duration = Duration::from_secs(30 * 24 * 3600);

/// An authority, and where everything goes.
#[derive(Debug)]
pub(super) struct Provisions<'a> {
    host: &'a Host,
    root: &'a Path,
    logs: &'a Path,
    authority: Issued,
}

impl<'a> Provisions<'a> {
    pub(super) fn new(host: &'a Host, root: &'a Path, logs: &'a Path) -> Result<Self, RealError> {
        let wrong = |why| EnrolError::from(IdentityError::Part { part: "mesh", text: MESH.to_owned(), why });
        let mesh = MESH.parse().map_err(wrong)?;
        let authority = pki::create_authority(host, &mesh, VALIDITY).map_err(EnrolError::from)?;
        Ok(Self { host, root, logs, authority })
    }

    /// The directory of a machine.
    pub(super) fn root(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Gives the machine called `name` the identity `portolan://MESH/{who}`; says where.
    pub(super) fn enrol(&self, name: &str, who: &str) -> Result<PathBuf, RealError> {
        let identity: Identity = format!("portolan://{MESH}/{who}").parse().map_err(EnrolError::from)?;
        let issued = pki::issue(self.host, &self.authority, &identity, VALIDITY).map_err(EnrolError::from)?;
        let directory = self.root(name).join(configs::CREDENTIALS.trim_start_matches('/'));
        for (file, contents) in [
            (CERTIFICATE, &issued.certificate),
            (KEY, &issued.key),
            (AUTHORITIES, &self.authority.certificate),
        ] {
            write(&directory.join(file), contents.as_bytes())?;
        }
        Ok(directory)
    }

    /// Nodes as they will stand.
    pub(super) fn nodes(&self, plan: &Plan) -> BTreeMap<String, Node> {
        let named = |command| {
            move |spot: &deployment::Spot| {
                let log = self.logs.join(format!("{}.log", spot.name));
                (spot.name.clone(), Node { command, root: self.root(&spot.name), log })
            }
        };
        let centrals = plan.centrals.iter().chain(&plan.spares).map(named("central"));
        centrals.chain(plan.edges.iter().map(named("edge"))).collect()
    }

    /// Lays out what nodes need; those without a seat listen at any address.
    pub(super) fn lay_out(
        &self,
        plan: &Plan,
        directory: &Directory,
        seats: &BTreeMap<String, Ipv4Addr>,
    ) -> Result<(), RealError> {
        let seat = |name: &String| seats.get(name).copied().unwrap_or(Ipv4Addr::UNSPECIFIED);
        let at = |name: &str| {
            let address = directory.get(name).copied().unwrap_or(Ipv4Addr::UNSPECIFIED);
            SocketAddr::from((address, deployment::MESH))
        };
        let numbered = (1..).zip(plan.centrals.iter().chain(&plan.spares));
        let numbered = numbered.map(|(id, spot)| configs::Member {
            id,
            name: spot.name.clone(),
            region: spot.region.clone(),
            mesh: at(&spot.name),
        });
        let mut members: Vec<_> = numbered.collect();
        let spares = members.split_off(plan.centrals.len());
        let listed = members.iter().map(|member| (member, members.as_slice()));
        // Without a list of members a node waits until somebody adds it.
        for (member, listed) in listed.chain(spares.iter().map(|spare| (spare, &[][..]))) {
            let (name, root) = (&member.name, self.root(&member.name));
            self.enrol(name, &format!("central/{}/{name}", member.region))?;
            let seal_keys = root.join(configs::SEAL_KEYS.trim_start_matches('/'));
            write(&seal_keys, configs::seal_keys().as_bytes())?;
            let root_text = root.display().to_string();
            let text = configs::central(&root_text, seat(name), member.id, plan.round_trip, listed);
            write(&root.join("node.toml"), text.as_bytes())?;
        }
        let seeds: Vec<_> = members.iter().map(|member| member.mesh.to_string()).collect();
        for spot in &plan.edges {
            let root = self.root(&spot.name).display().to_string();
            self.enrol(&spot.name, &format!("edge/{}/{}", spot.region, spot.name))?;
            let mut text = configs::edge(&root, seat(&spot.name), at(&spot.name), &seeds);
            if let Some(records) = plan.records {
                text += &configs::records(&format!("{root}{records}"));
            }
            write(&self.root(&spot.name).join("node.toml"), text.as_bytes())?;
        }
        Ok(())
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), RealError> {
    files::write(path, bytes).map_err(|source| RealError::File { path: path.display().to_string(), source })
}
