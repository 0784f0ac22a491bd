//! The certificates of a simulated mesh, made on a machine of their own and laid on the nodes' disks.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use mesh::pki::{self, Issued, PkiError};
use mesh::{AUTHORITIES, CERTIFICATE, Identity, IdentityError, KEY};
use seam::{Gone, write_atomic};
use thiserror::Error;

use crate::engine::{Machine, World};

/// The mesh that simulated nodes belong to.
pub const MESH: &str = "simulated";
/// Longer than any scenario.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);

/// A mesh's authority.
#[derive(Debug)]
pub struct Authority {
    machine: Machine,
    issued: Issued,
}

/// A node could not be enrolled.
#[derive(Debug, Error)]
pub enum EnrolError {
    /// The name of a node or its region is not one.
    #[error("not an identity")]
    Identity(#[from] IdentityError),
    /// The certificate could not be made.
    #[error("no certificate")]
    Certificate(#[from] PkiError),
    /// The node's disk refused it.
    #[error("the node's disk")]
    Disk(#[from] std::io::Error),
    /// The authority's machine was stopped.
    #[error("the authority is not running")]
    Gone,
}

impl Authority {
    /// Makes the authority of [`MESH`] on a machine called `authority`.
    ///
    /// # Errors
    /// [`EnrolError`] when its certificate cannot be made.
    pub async fn new(world: &World) -> Result<Self, EnrolError> {
        let machine = world.machine("authority");
        let host = machine.start();
        let making = machine.run("authority", async move {
            let mesh = MESH.parse().map_err(|why| IdentityError::Part {
                part: "mesh",
                text: MESH.to_owned(),
                why,
            })?;
            Ok::<_, EnrolError>(pki::create_authority(&host, &mesh, VALIDITY)?)
        });
        let issued = making.await??;
        Ok(Self { machine, issued })
    }

    /// Gives `machine` the identity `portolan://MESH/{who}` (role, region and node): lays its files into `dir` of its
    /// disk.
    ///
    /// # Errors
    /// [`EnrolError`] says what could not be done.
    pub async fn enrol(&self, machine: &Machine, who: &str, dir: &Path) -> Result<Identity, EnrolError> {
        let identity: Identity = format!("portolan://{MESH}/{who}").parse()?;
        let (host, authority, named) =
            (self.machine.host().ok_or(EnrolError::Gone)?, self.issued.clone(), identity.clone());
        let issuing =
            self.machine.run("issue", async move { pki::issue(&host, &authority, &named, VALIDITY) });
        let issued = issuing.await??;
        let disk = machine.disk();
        disk.create_dir_all(dir).await?;
        let files = [
            (CERTIFICATE, issued.certificate),
            (KEY, issued.key),
            (AUTHORITIES, self.issued.certificate.clone()),
        ];
        for (name, contents) in files {
            write_atomic(&*disk, &dir.join(name), Bytes::from(contents)).await?;
        }
        Ok(identity)
    }
}

impl From<Gone> for EnrolError {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}
