//! Orders to lead against a member that is deaf to some of them.

use base::{NodeId, Role};
use mesh::{Credentials, Endpoint, Purpose, pki};
use wire::control::NodeAddr;

use super::*;

#[tokio::test]
async fn a_member_that_the_first_order_never_reached_hears_the_next() {
    let members = Members::new();
    let (network, heard) = (members.network(), members.deaf_to(1));
    let request = TransferLeaderRequest::new(Vote::new(3, 1), 2, None);
    let mut peer = network.peer(2, &Place(members.second.clone()), Lane::Log);
    let agreed = peer.transfer_leader(request.clone(), RPCOption::new(Duration::from_secs(1))).await;
    assert!(matches!(agreed, Ok(Ok(()))), "{agreed:?}");
    let (orders, last) = heard.await.unwrap();
    assert_eq!((orders, last), (2, format!("{request:?}")));
}

/// Two members, the second played by the test.
struct Members {
    host: Host,
    first: Endpoint,
    listening: Endpoint,
    second: NodeAddr,
}

impl Members {
    fn new() -> Self {
        let (host, day) = (Host::real(), Duration::from_secs(24 * 3_600));
        let authority = pki::create_authority(&host, &"test".parse().unwrap(), day).unwrap();
        let endpoint = |node: &str| {
            let who = format!("portolan://test/central/eu/{node}").parse().unwrap();
            let issued = pki::issue(&host, &authority, &who, day).unwrap();
            let credentials =
                Credentials::from_pem(&host, &issued.certificate, &issued.key, &authority.certificate);
            Endpoint::bind(&host, "127.0.0.1:0".parse().unwrap(), credentials.unwrap()).unwrap()
        };
        let (first, listening) = (endpoint("c1"), endpoint("c2"));
        let second = NodeAddr {
            name: "c2".parse().unwrap(),
            role: Role::Central,
            region: "eu".parse().unwrap(),
            mesh: listening.local_addr().unwrap(),
        };
        Self { host, first, listening, second }
    }

    fn network(&self) -> Network {
        let links = Links::for_purpose(self.first.clone(), Purpose::Consensus);
        Network::new(self.host.clone(), NodeId(1), links, Arc::default(), Duration::from_secs(1))
    }

    /// The second member never answers the first `lost` orders; how many it heard by the one that it takes, and that one.
    fn deaf_to(&self, lost: usize) -> seam::Task<(usize, String)> {
        let listening = self.listening.clone();
        self.host.spawn("member", async move {
            let connection = listening.accept().await.unwrap();
            let mut unanswered = Vec::new();
            loop {
                let (_opening, mut sender, mut receiver) = connection.accept_stream().await.unwrap();
                let asked: RaftAsked = receiver.expect(Kind::RPC_REQUEST).await.unwrap();
                let RaftQuestion::Transfer(request) = asked.question else { panic!("{asked:?}") };
                if unanswered.len() < lost {
                    unanswered.push((sender, receiver));
                    continue;
                }
                let agreed: Answer<TransferLeaderResponse<Types>> = Ok(Ok(()));
                answer(&mut sender, &agreed).await;
                sender.stopped().await;
                return (unanswered.len() + 1, format!("{request:?}"));
            }
        })
    }
}
