//! The configuration files of nodes, as operators write them. All paths begin with a root: empty on a simulated machine,
//! a node's own directory on a real one.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::{ADMIN, CALLS, MESH};

/// Where a node's certificate is, below its root.
pub(crate) const CREDENTIALS: &str = "/credentials";
/// What it keeps.
pub(crate) const DATA: &str = "/data";
/// What central seals secrets with.
pub(crate) const SEAL_KEYS: &str = "/data/seal.keys";

/// A central node as all of them list it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) region: String,
    pub(crate) mesh: SocketAddr,
}

/// The file of the central node numbered `id`, which listens at `seat`.
pub(crate) fn central(
    root: &str,
    seat: Ipv4Addr,
    id: u64,
    round_trip: Duration,
    members: &[Member],
) -> String {
    let mut text = format!(
        "data = \"{root}{DATA}\"\nid = {id}\nseal_keys = \"{root}{SEAL_KEYS}\"\nround_trip_ms = {}\n\
         [mesh]\nlisten = \"{seat}:{MESH}\"\ncredentials = \"{root}{CREDENTIALS}\"\n\
         [admin]\nlisten = \"{seat}:{ADMIN}\"\n",
        round_trip.as_millis(),
    );
    for Member { id, name, region, mesh } in members {
        // Writing to a string cannot fail.
        let _infallible = write!(
            text,
            "[[members]]\nid = {id}\nname = \"{name}\"\nregion = \"{region}\"\nmesh = \"{mesh}\"\n"
        );
    }
    text
}

/// The file of an edge that listens at `seat` and whose mesh endpoint others reach `at`; `centrals` are written with
/// their ports.
pub(crate) fn edge(root: &str, seat: Ipv4Addr, at: SocketAddr, centrals: &[String]) -> String {
    let seeds: Vec<String> = centrals.iter().map(|central| format!("\"{central}\"")).collect();
    format!(
        "data = \"{root}{DATA}\"\ncentral = [{}]\n\
         [mesh]\nlisten = \"{seat}:{MESH}\"\nadvertise = \"{at}\"\ncredentials = \"{root}{CREDENTIALS}\"\n\
         [[ingress]]\nlisten = \"{seat}:{CALLS}\"\n",
        seeds.join(", "),
    )
}

/// What an edge's file says of call records.
pub(crate) fn records(directory: &str) -> String {
    format!("[record]\ndirectory = \"{directory}\"\nkeep = 1000\nsuccess_per_mille = 1000\n")
}

/// The text of [`SEAL_KEYS`].
pub(crate) fn seal_keys() -> String {
    format!("1 {:064x}\n", 7)
}
