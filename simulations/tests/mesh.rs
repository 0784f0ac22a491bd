//! The mesh's links over the simulated network: they repeat byte for byte and come back after faults.

#![cfg(test)]

use std::path::Path;
use std::time::Duration;

use base::Role;
use mesh::{Credentials, Endpoint, Links};
use seam::Host;
use simulations::authority::Authority;
use simulations::engine::{Cut, Link, Machine, Options, PowerLoss, World, run_twice};
use wire::control::{NodeAddr, Opening};
use wire::frame::Kind;

const PORT: u16 = 7000;
const DIR: &str = "/credentials";
const MS: Duration = Duration::from_millis(1);

#[test]
fn links_repeat_and_come_back_after_a_kill_a_power_loss_and_a_partition() {
    let report = run_twice(&Options::seed(5), faults).unwrap();
    let [calm, killed, dark, cut] = report.value;
    assert!(calm < 200 * MS, "{calm:?}");
    for back in [killed, dark, cut] {
        assert!(back < Duration::from_secs(8), "{:?}", report.value);
    }
}

/// How long it takes until an answer comes, without a fault and after each.
async fn faults(world: World) -> [Duration; 4] {
    world.default_link(Link { delay: 25 * MS, jitter: 2 * MS, loss: 1000, ..Link::default() });
    let authority = Authority::new(&world).await.unwrap();
    let (server, client) = (world.machine("server"), world.machine("client"));
    let to = NodeAddr {
        name: "server".parse().unwrap(),
        role: Role::Central,
        region: "eu".parse().unwrap(),
        mesh: server.at(PORT),
    };
    authority.enrol(&server, "central/eu/server", Path::new(DIR)).await.unwrap();
    authority.enrol(&client, "edge/us/client", Path::new(DIR)).await.unwrap();
    start(&server);
    let host = client.start();
    let caller = host.clone();
    let bind = async move { Links::new(bind(&caller, 0).await) };
    let links = host.spawn("links", bind).await.unwrap();

    let calm = first_answer(&world, &host, &links, &to).await;
    server.crash();
    start(&server);
    let killed = first_answer(&world, &host, &links, &to).await;
    server.power_off(PowerLoss::Unsynced);
    world.sleep(Duration::from_secs(5)).await;
    start(&server);
    let dark = first_answer(&world, &host, &links, &to).await;
    world.partition(std::slice::from_ref(&server), std::slice::from_ref(&client), Cut::Drop);
    world.sleep(Duration::from_secs(10)).await;
    world.heal();
    let cut = first_answer(&world, &host, &links, &to).await;
    [calm, killed, dark, cut]
}

#[test]
fn nodes_of_one_role_share_a_connection_that_either_of_them_may_dial() {
    let report = run_twice(&Options::seed(6), sharing).unwrap();
    assert!(report.value.iter().all(|taken| *taken < Duration::from_secs(3)), "{:?}", report.value);
}

/// How long it takes until both have a link: when both look, when only the one whose name comes later does, and when
/// both do after the other's death.
async fn sharing(world: World) -> [Duration; 3] {
    world.default_link(Link { delay: 25 * MS, ..Link::default() });
    let authority = Authority::new(&world).await.unwrap();
    let (one, two) = (world.machine("e1"), world.machine("e2"));
    for (machine, identity) in [(&one, "edge/eu/e1"), (&two, "edge/eu/e2")] {
        authority.enrol(machine, identity, Path::new(DIR)).await.unwrap();
    }
    let address = |machine: &Machine| NodeAddr {
        name: machine.name().parse().unwrap(),
        role: Role::Edge,
        region: "eu".parse().unwrap(),
        mesh: machine.at(PORT),
    };
    let (to_one, to_two) = (address(&one), address(&two));
    let late = peer(&two, &to_one).await;
    // It answers and looks for nobody.
    drop(peer(&one, &to_one).await);
    let alone = until_linked(&world, &[&late]).await;
    one.crash();
    let early = peer(&one, &to_two).await;
    let again = until_linked(&world, &[&early, &late]).await;
    two.crash();
    let late = peer(&two, &to_one).await;
    let both = until_linked(&world, &[&early, &late]).await;
    [alone, again, both]
}

/// A node that answers, and keeps a link to `other` unless that is itself.
async fn peer(machine: &Machine, other: &NodeAddr) -> Looking {
    let host = machine.start();
    let (at, keeping, to) = (host.clone(), host.clone(), other.clone());
    let is_itself = machine.name() == other.name.as_str();
    let bind = async move { bind(&at, PORT).await };
    let endpoint = host.spawn("bind", bind).await.unwrap();
    drop(host.spawn("serve", answer(host.clone(), endpoint.clone())));
    let links = Links::new(endpoint);
    let kept = links.clone();
    if !is_itself {
        drop(host.spawn("keep", async move {
            loop {
                kept.prepare(&to);
                keeping.sleep(500 * MS).await;
            }
        }));
    }
    Looking { host, links, to: other.clone() }
}

/// A node with a link.
struct Looking {
    host: Host,
    links: Links,
    to: NodeAddr,
}

/// Waits until every node's link stands and answers.
async fn until_linked(world: &World, nodes: &[&Looking]) -> Duration {
    let before = world.now();
    for node in nodes {
        loop {
            let (links, to, host) = (node.links.clone(), node.to.clone(), node.host.clone());
            let asking = async move {
                links.live(&to.name)?;
                host.timeout(500 * MS, ask(&links, &to)).await.ok()?.ok()
            };
            match node.host.spawn("ask", asking).await {
                Ok(Some(())) => break,
                _ => world.sleep(100 * MS).await,
            }
        }
    }
    world.now().since(before)
}

async fn first_answer(world: &World, host: &Host, links: &Links, to: &NodeAddr) -> Duration {
    let before = world.now();
    loop {
        let (links, to, asking) = (links.clone(), to.clone(), host.clone());
        let asked = host.spawn("ask", async move { asking.timeout(500 * MS, ask(&links, &to)).await });
        match asked.await {
            Ok(Ok(Ok(()))) => return world.now().since(before),
            _ => world.sleep(100 * MS).await,
        }
    }
}

async fn ask(links: &Links, to: &NodeAddr) -> Result<(), mesh::MeshError> {
    let connection = links.connect(to).await?;
    let (mut sender, mut receiver) = connection.open(Opening::Rpc).await?;
    sender.send(Kind::RPC_REQUEST, &7u64).await?;
    sender.finish()?;
    assert_eq!(receiver.expect::<u64>(Kind::RPC_REQUEST).await?, 8);
    Ok(())
}

fn start(server: &Machine) {
    let host = server.start();
    drop(host.spawn("serve", serve(host.clone())));
}

async fn serve(host: Host) {
    let endpoint = bind(&host, PORT).await;
    answer(host, endpoint).await;
}

async fn answer(host: Host, endpoint: Endpoint) {
    while let Some(connection) = endpoint.accept().await {
        drop(host.spawn("connection", async move {
            while let Ok((_, mut sender, mut receiver)) = connection.accept_stream().await {
                let number = receiver.expect::<u64>(Kind::RPC_REQUEST).await.unwrap();
                sender.send(Kind::RPC_REQUEST, &(number + 1)).await.unwrap();
                sender.finish().unwrap();
            }
        }));
    }
}

async fn bind(host: &Host, port: u16) -> Endpoint {
    let credentials = Credentials::load(host, Path::new(DIR)).await.unwrap();
    Endpoint::bind(host, ([0, 0, 0, 0], port).into(), credentials).unwrap()
}
