//! Two nodes over loopback.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use seam::Host;
use wire::control::Opening;
use wire::frame::Kind;

use crate::pki::{self, Issued};
use crate::{Connection, Credentials, Endpoint, Expect, Identity, Purpose};

const DAY: Duration = Duration::from_secs(24 * 3600);
const LOOPBACK: SocketAddr = SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0));

#[tokio::test]
async fn a_call_goes_over_and_its_answer_comes_back() {
    let mesh = Mesh::new("demo");
    let (edge, central) = (mesh.endpoint("edge/eu/e1"), mesh.endpoint("central/us/c1"));
    let (near, far) = connect(&edge, &central, Purpose::Calls).await;
    assert_eq!(near.peer(), &central.identity());
    assert_eq!(far.peer(), &edge.identity());
    assert_eq!(far.purpose(), Purpose::Calls);

    let (mut send, mut receive) = near.open(Opening::Call).await.unwrap();
    send.send(Kind::RPC_REQUEST, &"ping").await.unwrap();
    let body = Bytes::from(vec![7; 600_000]);
    let sending = async {
        send.send_data(body.clone()).await.unwrap();
        send.end(Kind::MESSAGE_END).await.unwrap();
        send.finish().unwrap();
    };
    let answering = async {
        let (opening, mut back, mut there) = far.accept_stream().await.unwrap();
        assert_eq!(opening, Opening::Call);
        assert_eq!(there.expect::<String>(Kind::RPC_REQUEST).await.unwrap(), "ping");
        let mut got = Vec::new();
        while let Some(frame) = there.recv().await.unwrap() {
            got.extend_from_slice(&frame.payload);
        }
        back.send(Kind::RPC_REPLY, &got.len()).await.unwrap();
        back.finish().unwrap();
        got
    };
    let ((), got) = tokio::join!(sending, answering);
    assert_eq!(got, body);
    assert_eq!(receive.expect::<usize>(Kind::RPC_REPLY).await.unwrap(), 600_000);
    assert_eq!(receive.recv().await.unwrap(), None);
}

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
        let authority = pki::create_authority(&host, &name.parse().unwrap(), 10 * DAY).unwrap();
        Self { host, name, authority }
    }

    fn credentials(&self, node: &str) -> Credentials {
        let identity: Identity = format!("portolan://{}/{node}", self.name).parse().unwrap();
        let issued = pki::issue(&self.host, &self.authority, &identity, DAY).unwrap();
        Credentials::from_pem(&self.host, &issued.certificate, &issued.key, &self.authority.certificate)
            .unwrap()
    }

    fn endpoint(&self, node: &str) -> Endpoint {
        Endpoint::bind(&self.host, LOOPBACK, self.credentials(node)).unwrap()
    }
}
