//! Kept links: one dial for many, patience after a failure, a fresh dial after a death.

#![expect(clippy::disallowed_methods, reason = "a test that waits for the operating system to free a port")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::Role;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use seam::{Boxed, Host, Parts, Tasks};
use tokio::task::AbortHandle;
use wire::control::{NodeAddr, Opening};
use wire::frame::Kind;

use super::{LOOPBACK, Mesh};
use crate::{Check, Credentials, Endpoint, Expect, Links, MeshError, Purpose};

#[tokio::test]
async fn many_who_ask_at_once_share_one_connection() {
    let mesh = Mesh::new("demo");
    let (links, central) = (Links::new(mesh.endpoint("edge/eu/e1")), mesh.endpoint("central/eu/c1"));
    let to = address(&central, "eu");
    let asking = join_all((0..20).map(|_who| links.connect(&to)));
    let (found, _far) = tokio::join!(asking, central.accept());
    assert!(found.iter().all(Result::is_ok));
    assert!(central.accept().now_or_never().is_none(), "more than one connection was made");
    assert_eq!(links.rtts().len(), 1);
}

#[tokio::test]
async fn those_who_leave_before_a_silent_node_answers_leave_one_dial_behind() {
    let real = Host::real();
    let tasks = Arc::new(Counted { tasks: Arc::clone(&real.parts().tasks), dials: AtomicUsize::new(0) });
    let mesh = Mesh {
        host: Host::from_parts(Parts { tasks: tasks.clone(), ..real.parts().clone() }),
        ..Mesh::new("demo")
    };
    let links = Links::new(mesh.endpoint("edge/eu/e1"));
    let silent = std::net::UdpSocket::bind(LOOPBACK).unwrap();
    let central = mesh.endpoint("central/eu/c1");
    let to = NodeAddr { mesh: silent.local_addr().unwrap(), ..address(&central, "eu") };
    for _who in 0..20 {
        assert!(links.connect(&to).now_or_never().is_none());
        links.prepare(&to);
    }
    assert_eq!(tasks.dials.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn two_nodes_of_one_role_use_one_connection_both_ways() {
    let mesh = Mesh::new("demo");
    let (one, two) = (mesh.endpoint("edge/eu/e1"), mesh.endpoint("edge/eu/e2"));
    let (from_one, from_two) = (Links::new(one.clone()), Links::new(two.clone()));
    let (dialled, accepted) = tokio::join!(from_one.connect_to(&two), two.accept());
    let back = from_two.connect_to(&one).await;
    assert_eq!(back.remote(), one.local_addr().unwrap());
    let served = one.accept().await.unwrap();
    for (asker, answerer) in [(&dialled, &accepted.unwrap()), (&back, &served)] {
        let (_sender, _receiver) = asker.open(Opening::Call).await.unwrap();
        assert_eq!(answerer.accept_stream().await.unwrap().0, Opening::Call);
    }
    assert!(one.accept().now_or_never().is_none() && two.accept().now_or_never().is_none());
    let moved = NodeAddr { region: "us".parse().unwrap(), ..address(&one, "eu") };
    let refused = Links::new(two).connect(&moved).await.unwrap_err();
    assert!(matches!(refused, MeshError::Refused { check: Check::Region, .. }), "{refused}");
}

#[tokio::test]
async fn the_node_whose_name_comes_later_leaves_it_to_the_other_to_dial() {
    let real = Host::real();
    let tasks = Arc::new(Counted { tasks: Arc::clone(&real.parts().tasks), dials: AtomicUsize::new(0) });
    let host = Host::from_parts(Parts { tasks: tasks.clone(), ..real.parts().clone() });
    let mesh = Mesh { host, ..Mesh::new("demo") };
    let (one, two, central) =
        (mesh.endpoint("edge/eu/e1"), mesh.endpoint("edge/eu/e2"), mesh.endpoint("central/eu/c1"));
    let dials = || tasks.dials.load(Ordering::Relaxed);
    Links::new(two.clone()).prepare(&address(&one, "eu"));
    assert_eq!(dials(), 0);
    Links::new(one).prepare(&address(&two, "eu"));
    assert_eq!(dials(), 1);
    Links::new(two).prepare(&address(&central, "eu"));
    assert_eq!(dials(), 2, "an edge does not wait for central");
}

/// Counts dials.
#[derive(Debug)]
struct Counted {
    tasks: Arc<dyn Tasks>,
    dials: AtomicUsize,
}

impl Tasks for Counted {
    fn spawn(&self, name: &'static str, task: Boxed<'static, ()>) -> AbortHandle {
        self.dials.fetch_add(usize::from(name == "mesh-dial"), Ordering::Relaxed);
        self.tasks.spawn(name, task)
    }

    fn compute(&self, work: Box<dyn FnOnce() + Send>) {
        self.tasks.compute(work);
    }
}

#[tokio::test]
async fn after_a_failure_the_next_try_waits_its_turn() {
    let mesh = Mesh::new("demo");
    let (links, central) = (Links::new(mesh.endpoint("edge/eu/e1")), mesh.endpoint("central/eu/c1"));
    let elsewhere = address(&central, "us");
    let first = links.connect(&elsewhere).await.unwrap_err();
    assert!(matches!(first, MeshError::Refused { check: Check::Region, .. }), "{first}");
    let second = links.connect(&elsewhere).await.unwrap_err();
    assert!(
        matches!(&second, MeshError::BackingOff { last, .. } if last.contains("wrong region")),
        "{second}"
    );
}

#[tokio::test]
async fn a_dead_connection_is_dialled_anew_where_the_node_now_is() {
    let mesh = Mesh::new("demo");
    let links = Links::new(mesh.endpoint("edge/eu/e1"));
    let before = mesh.endpoint("central/eu/c1");
    let (first, _far) = tokio::join!(links.connect_to(&before), before.accept());
    before.close("restarting").await;
    let why = first.closed().await.to_string();
    assert!(why.contains("restarting"), "{why}");
    assert!(links.live(&"c1".parse().unwrap()).is_none());

    let after = mesh.endpoint("central/eu/c1");
    let (second, _far) = tokio::join!(links.connect_to(&after), after.accept());
    assert!(second.is_open());

    links.retain(|name| name.as_str() != "c1");
    assert!(!second.is_open());
    assert!(links.rtts().is_empty());
}

impl Links {
    async fn connect_to(&self, node: &Endpoint) -> crate::Connection {
        self.connect(&address(node, "eu")).await.unwrap()
    }
}

fn address(node: &Endpoint, region: &str) -> NodeAddr {
    NodeAddr {
        name: node.identity().node,
        role: node.identity().role,
        region: region.parse().unwrap(),
        mesh: node.local_addr().unwrap(),
    }
}

#[tokio::test]
async fn a_restarted_node_tells_its_peers_at_once_that_its_earlier_life_is_over() {
    let mesh = Mesh::new("demo");
    let edge = mesh.endpoint("edge/eu/e1");
    let credentials = mesh.issue("central/eu/c1");
    let life = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.unwrap()
    };
    let bind = |at| {
        let authority = &mesh.authority.certificate;
        let own =
            Credentials::from_pem(&mesh.host, &credentials.certificate, &credentials.key, authority).unwrap();
        Endpoint::bind(&Host::real(), at, own).unwrap()
    };

    let first = life();
    let (before, at) = {
        let _entered = first.enter();
        let before = bind(LOOPBACK);
        let at = before.local_addr().unwrap();
        (before, at)
    };
    let connection = edge.connect(at, &Expect::role(Role::Central), Purpose::Calls).await.unwrap();
    // Its tasks vanish without a word, as by SIGKILL: none runs any more when the endpoint goes.
    tokio::task::spawn_blocking(move || drop(first)).await.unwrap();
    drop(before);

    let second = life();
    let _after = {
        let _entered = second.enter();
        bind_again(&bind, at).await
    };
    let (mut send, _receive) = connection.open(Opening::Call).await.unwrap();
    send.send(Kind::RPC_REQUEST, "are you there?").await.unwrap();
    let why = connection.closed().await.to_string();
    assert!(why.contains("reset by peer"), "{why}");
    second.shutdown_background();
}

/// The first life's socket closes a moment after its tasks ended.
async fn bind_again(bind: &impl Fn(SocketAddr) -> Endpoint, at: SocketAddr) -> Endpoint {
    while std::net::UdpSocket::bind(at).is_err() {
        tokio::task::yield_now().await;
    }
    bind(at)
}
