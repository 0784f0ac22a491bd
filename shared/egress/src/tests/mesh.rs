//! Calls between two nodes, over real sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::mesh::{Connection, Credentials, Endpoint, Expect, Identity, Purpose, pki};
use base::{Mono, WallMs};
use seam::{Clock, Parts};
use wire::control::Opening;

use super::*;
use crate::Room;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn endpoint(host: &Host, authority: &pki::Issued, node: &str) -> Endpoint {
    let identity: Identity = format!("portolan://test/{node}").parse().unwrap();
    let issued = pki::issue(host, authority, &identity, DAY).unwrap();
    let credentials =
        Credentials::from_pem(host, &issued.certificate, &issued.key, &authority.certificate).unwrap();
    let at: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    Endpoint::bind(host, at, credentials).unwrap()
}

/// A connection to a node that serves model `m` from `fake`.
async fn connected(host: &Host, fake: &Fake) -> (Connection, Egress) {
    let serving = egress(host, &[fake]);
    (reached(host, &serving).await, serving)
}

/// A connection to a node that serves what `serving` has.
async fn reached(host: &Host, serving: &Egress) -> Connection {
    reached_on(host, host, serving).await
}

/// The same where the serving node has a host of its own.
async fn reached_on(host: &Host, far: &Host, serving: &Egress) -> Connection {
    let authority = pki::create_authority(host, &node("test"), DAY).unwrap();
    let near = endpoint(host, &authority, "edge/eu/e1");
    let far = endpoint(far, &authority, "edge/us/e2");
    let at = far.local_addr().unwrap();
    let (answering, spawner) = (serving.clone(), host.clone());
    drop(host.spawn("serving", async move {
        let connection = far.accept().await.unwrap();
        while let Ok((Opening::Call, sender, receiver)) = connection.accept_stream().await {
            let (egress, connection) = (answering.clone(), connection.clone());
            drop(
                spawner.spawn(
                    "call",
                    async move { crate::answer(&egress, &connection, sender, receiver).await },
                ),
            );
        }
    }));
    let expect = Expect::role(base::Role::Edge);
    near.connect(at, &expect, Purpose::Calls).await.unwrap()
}

async fn forward(host: &Host, connection: &Connection, stream: bool) -> Exchange {
    let egress = Egress::new(host, options());
    egress.forward(connection, call(stream), Bytes::from_static(BODY.as_bytes())).await
}

#[tokio::test]
async fn a_call_is_served_by_another_node() {
    let host = Host::real();
    let fake =
        Fake::start_on(&host, |request| if request == 0 { vec![ok(ANSWER)] } else { healthy_stream() });
    let fake = fake.await;
    let (connection, _serving) = connected(&host, &fake).await;

    let (body, tail) = read(forward(&host, &connection, false).await.unwrap()).await;
    assert_eq!((body.as_str(), tail.outcome, tail.usage.is_some()), (ANSWER, Outcome::Complete, true));
    let (body, tail) = read(forward(&host, &connection, true).await.unwrap()).await;
    assert_eq!((body, tail.outcome), ([TEXT, FINISH, DONE].concat(), Outcome::Complete));
    assert_eq!(hops(&tail), [("a", Ok(200))]);
    assert!(fake.requests().iter().all(|request| request.ends_with(BODY) && !request.contains("vk-1")));
}

#[tokio::test]
async fn what_was_asked_while_the_node_stood_still_is_not_served() {
    let host = Host::real();
    let fake = Fake::start_on(&host, |_request| vec![ok(ANSWER)]).await;
    let clock = Arc::new(Leaping { clock: Arc::clone(&host.parts().clock), ms: AtomicU64::new(0) });
    let far = Host::from_parts(Parts { clock: clock.clone(), ..host.parts().clone() });
    let serving = egress(&host, &[&fake]);
    let connection = reached_on(&host, &far, &serving).await;
    for (stood_still_ms, served) in [(2_000, true), (3_000, false)] {
        clock.ms.fetch_add(stood_still_ms, Ordering::Relaxed);
        let exchange = forward(&host, &connection, false).await;
        assert_eq!(exchange.is_ok(), served, "{stood_still_ms} ms");
    }
    assert!(connection.closed().await.to_string().contains("stood still"));
    assert_eq!(fake.requests().len(), 1);

    let again = reached_on(&host, &far, &serving).await;
    assert!(forward(&host, &again, false).await.is_ok(), "a new connection is none that waited");
}

/// A clock that leaps, as it looks to a process that stood still.
#[derive(Debug)]
struct Leaping {
    clock: Arc<dyn Clock>,
    ms: AtomicU64,
}

impl Clock for Leaping {
    fn mono(&self) -> Mono {
        self.clock.mono() + Duration::from_millis(self.ms.load(Ordering::Relaxed))
    }

    fn wall(&self) -> WallMs {
        self.clock.wall()
    }
}

#[tokio::test]
async fn a_node_without_room_for_a_body_or_an_answer_says_so_and_has_room_again() {
    let host = Host::real();
    let fake = Fake::start_on(&host, |_request| vec![ok(ANSWER)]).await;
    for (bodies, answers, code) in [
        (BODY.len() - 1, ANSWER.len(), Some(Code::ModelOverloaded)),
        (BODY.len(), ANSWER.len() - 1, Some(Code::Overloaded)),
        (BODY.len(), ANSWER.len(), None),
    ] {
        let (bodies, answers) = (Room::new(bodies), Room::new(answers));
        let serving =
            Egress::new(&host, Options { bodies: bodies.clone(), answers: answers.clone(), ..options() });
        serving.install(vec![upstream("a", &fake)]);
        let connection = reached(&host, &serving).await;
        for _again in 0..2 {
            match forward(&host, &connection, false).await {
                Ok(reply) => assert_eq!((read(reply).await.0.as_str(), None), (ANSWER, code)),
                Err(failed) => assert_eq!(Some(failed.failure.code), code),
            }
            let given_back = async {
                while bodies.held() + answers.held() > 0 {
                    host.sleep(Duration::from_millis(1)).await;
                }
            };
            host.timeout(Duration::from_secs(5), given_back).await.expect("the room is given back");
        }
    }
}

#[tokio::test]
async fn a_failure_at_another_node_is_told_with_its_tale() {
    let host = Host::real();
    let fake = Fake::start_on(&host, |request| match request {
        0 => vec![with_status("429 Slow", "retry-after: 1\r\n", "{}")],
        _later => vec![sent(STREAM), chunk(TEXT), Step::Close],
    });
    let fake = fake.await;
    let (connection, serving) = connected(&host, &fake).await;

    let failed = forward(&host, &connection, true).await.unwrap_err();
    assert_eq!((failed.failure.code, failed.failure.retry_after_ms), (Code::UpstreamRateLimited, Some(1000)));
    assert_eq!(hops(&failed.tail), [("a", Err(Code::UpstreamRateLimited))]);
    serving.install(Vec::new());
    assert_eq!(forward(&host, &connection, true).await.unwrap_err().failure.code, Code::NoTarget);
    serving.install(vec![upstream("b", &fake)]);
    let (body, tail) = read(forward(&host, &connection, true).await.unwrap()).await;
    assert_eq!((body.as_str(), tail.code), (TEXT, Some(Code::UpstreamCut)));
}

#[tokio::test]
async fn leaving_cancels_the_call_at_the_other_node() {
    let host = Host::real();
    for first in [Vec::new(), vec![sent(STREAM), chunk(TEXT)]] {
        let begins = !first.is_empty();
        let script = move |_request| [first.clone(), vec![Step::Hang]].concat();
        let fake = Fake::start_on(&host, script).await;
        let (connection, serving) = connected(&host, &fake).await;
        let leaving = async {
            let mut reply = forward(&host, &connection, true).await.unwrap();
            reply.body.next().await.unwrap();
        };
        if begins {
            leaving.await;
        } else {
            assert!(host.timeout(Duration::from_millis(100), leaving).await.is_err());
        }
        host.timeout(Duration::from_secs(1), fake.left()).await.unwrap();
        assert_eq!(serving.instances()[0].outstanding, 0);
    }
}

#[tokio::test]
async fn leaving_after_the_finish_still_learns_what_was_used() {
    let host = Host::real();
    let script = |_request| {
        let late = Step::Wait(Duration::from_millis(50));
        vec![sent(STREAM), chunk(TEXT), chunk(FINISH), late, chunk(USAGE), chunk(DONE), sent(LAST_CHUNK)]
    };
    let fake = Fake::start_on(&host, script).await;
    let (connection, _serving) = connected(&host, &fake).await;
    let mut reply = forward(&host, &connection, true).await.unwrap();
    let mut got = Vec::new();
    while !got.ends_with(FINISH.as_bytes()) {
        got.extend(reply.body.next().await.unwrap());
    }
    let tail = reply.body.leave(Duration::from_secs(5)).await;
    assert_eq!((tail.outcome, tail.usage.is_some()), (Outcome::Complete, true));
}

#[tokio::test]
async fn losing_the_other_node_mid_stream_is_a_cut() {
    let host = Host::real();
    let fake = Fake::start_on(&host, |_request| vec![sent(STREAM), chunk(TEXT), Step::Hang]).await;
    let (connection, _serving) = connected(&host, &fake).await;
    let mut reply = forward(&host, &connection, true).await.unwrap();
    reply.body.next().await.unwrap();
    connection.close("gone");
    assert_eq!(reply.body.next().await, None);
    let tail = reply.body.tail();
    assert_eq!((tail.outcome, tail.code), (Outcome::Cut, Some(Code::MeshUnreachable)));
    let failed = forward(&host, &connection, true).await.unwrap_err();
    assert_eq!((failed.failure.code, failed.tail.reached_upstream), (Code::MeshUnreachable, false));
}
