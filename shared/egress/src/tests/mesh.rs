//! Calls between two nodes, over real sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::mesh::{Connection, Credentials, Endpoint, Expect, Identity, Purpose, pki};
use base::{Mono, WallMs};
use seam::{Clock, Parts};
use wire::control::Opening;

use super::*;
use crate::{Asked, Room};

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
pub(super) async fn reached(host: &Host, serving: &Egress) -> Connection {
    reached_on(host, host, serving).await
}

/// The same where the serving node has a host of its own.
async fn reached_on(host: &Host, far: &Host, serving: &Egress) -> Connection {
    let [near, far] = pair(host, far);
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

/// The endpoints of two edges of a mesh.
fn pair(near: &Host, far: &Host) -> [Endpoint; 2] {
    let authority = pki::create_authority(near, &node("test"), DAY).unwrap();
    [endpoint(near, &authority, "edge/eu/e1"), endpoint(far, &authority, "edge/us/e2")]
}

async fn forward(host: &Host, connection: &Connection, stream: bool) -> Exchange {
    let egress = Egress::new(host, options());
    egress.forward(connection, call(stream), Bytes::from_static(BODY.as_bytes()), None).await
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
async fn the_other_node_says_how_far_a_call_came_that_was_left_in_its_line_or_behind_it() {
    let host = Host::real();
    let fake = Fake::start_on(&host, |_request| vec![Step::Hang]).await;
    let serving = Egress::new(&host, options());
    serving.install(vec![Upstream { terms: at_once(Some(1)), ..upstream("a", &fake) }]);
    let connection = reached(&host, &serving).await;
    let asked = |many| fake.requests().len() == many;
    let line = serving.shared.line(&"m".parse().unwrap()).unwrap();
    {
        let mut held = std::pin::pin!(forward(&host, &connection, false));
        let begun = until(&host, || asked(1));
        tokio::select! {
            biased;
            _ = &mut held => panic!("answered"),
            () = begun => {}
        }
        let waits = asked_of(leave(&host, &connection, 60_000, || !line.is_empty()).await);
        let tail = waits.heard().await.expect("it says so");
        assert_eq!((tail.outcome, tail.code), (Outcome::CallerGone, Some(Code::CallerGone)));
        assert_eq!((tail.reached_upstream, hops(&tail)), (false, Vec::new()));
        assert!(line.is_empty());
    }
    // The place is free: an upstream has the next call, which then is left.
    let working = asked_of(leave(&host, &connection, 60_000, || asked(2)).await);
    let tail = working.heard().await.expect("it says so");
    assert_eq!((tail.reached_upstream, hops(&tail)), (true, vec![("a", Err(Code::CallerGone))]));
    host.timeout(Duration::from_secs(1), fake.left()).await.unwrap();

    // Of a call that may not wait nobody is asked.
    let left = leave(&host, &connection, 0, || asked(3)).await;
    assert!(matches!(left, Left::Untold), "{left:?}");
}

#[tokio::test]
async fn a_node_that_says_nothing_leaves_it_open_how_far_a_call_came() {
    let host = Host::real();
    let ([near, far], expect) = (pair(&host, &host), Expect::role(base::Role::Edge));
    let at = far.local_addr().unwrap();
    let (connection, other) = tokio::join!(near.connect(at, &expect, Purpose::Calls), far.accept());
    let (connection, other) = (connection.unwrap(), other.unwrap());
    let read = AtomicU64::new(0);
    // Drops the stream once it is reset, as older releases do.
    let older = async {
        let (_opening, _sender, mut receiver) = other.accept_stream().await.unwrap();
        while let Ok(Some(_frame)) = receiver.recv().await {
            read.fetch_add(1, Ordering::Relaxed);
        }
    };
    let leaving = leave(&host, &connection, 60_000, || read.load(Ordering::Relaxed) == 3);
    let heard = async { asked_of(leaving.await).heard().await };
    assert_eq!(tokio::join!(older, heard).1, None);

    // Reset before all of it was read: it says that nothing of it was served.
    let (sender, mut receiver) = connection.open(Opening::Call).await.unwrap();
    let (_opening, answering, reading) = other.accept_stream().await.unwrap();
    drop(sender);
    let serving = Egress::new(&host, options());
    crate::answer(&serving, &other, answering, reading).await.unwrap();
    let tail: Tail = receiver.expect(::wire::frame::Kind::TAIL).await.unwrap();
    assert_eq!((tail.outcome, tail.reached_upstream), (Outcome::CallerGone, false));
}

/// What is heard of a forwarded call that may wait for `place_ms` and is left once `then` holds.
async fn leave(host: &Host, connection: &Connection, place_ms: u32, then: impl Fn() -> bool) -> Left {
    let (egress, mut left) = (Egress::new(host, options()), Left::untouched());
    let head = CallHead { place_ms, ..call(true) };
    let forwarded = egress.forward(connection, head, Bytes::from_static(BODY.as_bytes()), Some(&mut left));
    tokio::select! {
        biased;
        _ = forwarded => panic!("answered"),
        () = until(host, then) => {}
    }
    left
}

async fn until(host: &Host, holds: impl Fn() -> bool) {
    let looking = async {
        while !holds() {
            host.sleep(Duration::from_millis(1)).await;
        }
    };
    host.timeout(Duration::from_secs(5), looking).await.expect("in time");
}

fn asked_of(left: Left) -> Asked {
    let Left::Asked(asked) = left else { panic!("{left:?}") };
    *asked
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
