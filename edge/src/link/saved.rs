//! The last snapshot on disk: whole or absent, checked, with the time at which central last proved it current.
//!
//! File: `PSNP`, format version, CRC32C of the rest (both big-endian u32), then the encoded contents.

use std::convert::Infallible;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{Epoch, Stamp, WallMs};
use bytes::{BufMut as _, Bytes, BytesMut};
use seam::Host;
use serde::{Deserialize, Serialize};
use wire::catalog::{Catalog, Change, Object};
use wire::codec;
use wire::control::NodeAddr;

use crate::purse::Purse;
use crate::snapshot::Snapshots;

const MAGIC: &[u8; 4] = b"PSNP";
const VERSION: u32 = 1;
const HEADER: usize = 12;
/// The time of proof is written down this often when nothing else changes.
const REFRESH: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    stamp: Stamp,
    epoch: Epoch,
    proved: WallMs,
    objects: Vec<Object>,
    nodes: Vec<NodeAddr>,
}

/// Puts the snapshot on disk in force, if there is a good one.
pub(super) async fn restore(host: &Host, path: &Path, snapshots: &Snapshots, purse: &Purse) {
    let bytes = match host.disk().read(path).await {
        Ok(bytes) => bytes,
        Err(absent) if absent.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "cannot read the last snapshot");
            return;
        }
    };
    let Some(saved) = parse(&bytes) else {
        tracing::warn!(path = %path.display(), "the last snapshot is damaged; waiting for central");
        return;
    };
    let mut catalog = Catalog { epoch: saved.epoch, ..Catalog::default() };
    for object in saved.objects {
        catalog.apply(Change::Put(object));
    }
    let age = host.wall().since(saved.proved);
    if snapshots.restore(saved.stamp, catalog, host.now(), age) {
        purse.install(snapshots.load().budgets());
        snapshots.install_nodes(saved.nodes);
        tracing::info!(epoch = %saved.epoch, age_s = age.as_secs(), "serving from the snapshot on disk");
    }
}

/// Writes each new snapshot down, for ever.
pub(super) fn keep(
    host: &Host,
    path: &Path,
    snapshots: &Snapshots,
) -> impl Future<Output = Infallible> + use<> {
    let (host, path, snapshots): (Host, PathBuf, Snapshots) =
        (host.clone(), path.to_owned(), snapshots.clone());
    async move {
        let mut changes = snapshots.watch();
        loop {
            // A refresh is due or something changed; both are a reason to write.
            let _changed = host.timeout(REFRESH, changes.next()).await;
            if let Err(error) = write(&host, &path, &snapshots).await {
                tracing::warn!(%error, path = %path.display(), "cannot write the snapshot down");
            }
        }
    }
}

async fn write(host: &Host, path: &Path, snapshots: &Snapshots) -> std::io::Result<()> {
    let snapshot = snapshots.load();
    if snapshot.epoch() == Epoch(0) {
        return Ok(());
    }
    let mut age = u64::try_from(snapshots.age(host.now()).as_millis()).unwrap_or(u64::MAX);
    if base::mutant!(AgeForgotten) {
        age = 0;
    }
    let saved = Saved {
        stamp: snapshot.stamp(),
        epoch: snapshot.epoch(),
        proved: WallMs::from_millis(host.wall().as_millis().saturating_sub(age)),
        objects: snapshot.catalog().objects().collect(),
        nodes: snapshots.nodes().to_vec(),
    };
    let bytes = format(&saved).map_err(std::io::Error::other)?;
    if let Some(dir) = path.parent() {
        host.disk().create_dir_all(dir).await?;
    }
    seam::write_atomic(host.disk().as_ref(), path, bytes).await
}

fn format(saved: &Saved) -> Result<Bytes, codec::CodecError> {
    let payload = codec::encode(saved)?;
    let mut bytes = BytesMut::with_capacity(HEADER + payload.len());
    bytes.put_slice(MAGIC);
    bytes.put_u32(VERSION);
    bytes.put_u32(crc32c::crc32c(&payload));
    bytes.put_slice(&payload);
    Ok(bytes.freeze())
}

fn parse(bytes: &[u8]) -> Option<Saved> {
    let (header, payload) = bytes.split_at_checked(HEADER)?;
    let mut good = BytesMut::with_capacity(HEADER);
    good.put_slice(MAGIC);
    good.put_u32(VERSION);
    good.put_u32(crc32c::crc32c(payload));
    if header != good { None } else { codec::decode(payload).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_snapshot_is_not_read() {
        let saved = Saved {
            stamp: Stamp::default(),
            epoch: Epoch(3),
            proved: WallMs::from_millis(5),
            objects: Vec::new(),
            nodes: Vec::new(),
        };
        let good = format(&saved).unwrap();
        assert_eq!(parse(&good), Some(saved));
        for at in 0..good.len() {
            let mut bad = good.to_vec();
            bad[at] ^= 1;
            assert_eq!(parse(&bad), None, "byte {at}");
            assert_eq!(parse(&good[..at]), None, "cut at {at}");
        }
    }
}
