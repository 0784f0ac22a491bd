//! Nodes over loopback: what they share is here, each theme has its file.

mod calls;
mod keeping;
mod refusals;
mod rotation;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{Mono, WallMs};
use seam::{Clock, Host, Parts};

use crate::pki::{self, Issued};
use crate::{Connection, Credentials, Endpoint, Expect, Identity, Purpose};

const DAY: Duration = Duration::from_secs(24 * 3600);
const LOOPBACK: SocketAddr = SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0));

async fn connect(from: &Endpoint, to: &Endpoint, purpose: Purpose) -> (Connection, Connection) {
    let expect = Expect::role(to.identity().role);
    let dialling = from.connect(to.local_addr().unwrap(), &expect, purpose);
    let (near, far) = tokio::join!(dialling, to.accept());
    (near.unwrap(), far.unwrap())
}

struct Mesh {
    host: Host,
    name: &'static str,
    authority: Issued,
}

impl Mesh {
    fn new(name: &'static str) -> Self {
        let host = Host::real();
        let authority = pki::create_authority(&host, &name.parse().unwrap(), 100 * DAY).unwrap();
        Self { host, name, authority }
    }

    fn issue(&self, node: &str) -> Issued {
        let identity: Identity = format!("portolan://{}/{node}", self.name).parse().unwrap();
        pki::issue(&self.host, &self.authority, &identity, DAY).unwrap()
    }

    fn credentials(&self, node: &str) -> Credentials {
        let issued = self.issue(node);
        Credentials::from_pem(&self.host, &issued.certificate, &issued.key, &self.authority.certificate)
            .unwrap()
    }

    fn endpoint(&self, node: &str) -> Endpoint {
        Endpoint::bind(&self.host, LOOPBACK, self.credentials(node)).unwrap()
    }
}

/// A host whose wall clock is ahead of the real one.
fn ahead(by: Duration) -> Host {
    let real = Host::real();
    let clock = Arc::new(Ahead { clock: Arc::clone(&real.parts().clock), by });
    Host::from_parts(Parts { clock, ..real.parts().clone() })
}

#[derive(Debug)]
struct Ahead {
    clock: Arc<dyn Clock>,
    by: Duration,
}

impl Clock for Ahead {
    fn mono(&self) -> Mono {
        self.clock.mono()
    }

    fn wall(&self) -> WallMs {
        self.clock.wall().plus(self.by)
    }
}
