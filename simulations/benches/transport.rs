//! Simulated seconds per processor second of the mesh's transport alone: QUIC, TLS and the mesh's streams, and nothing above.
//!
//! Each edge keeps a connection to each central node and asks it four times a second or once; every fourth question is 2 KiB long.
//! Links take 20 ms one way. Counted from the time when all are connected.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark that fails to set up shall stop, and says what it found"
)]

use std::path::Path;
use std::time::Duration;

use base::Role;
use mesh::{Credentials, Endpoint, Expect, MeshError, Purpose};
use seam::Host;
use simulations::authority::Authority;
use simulations::engine::{Link, Machine, Options, World, run};
use simulations::play::cpu_time;
use wire::control::Opening;
use wire::frame::Kind;

/// Central nodes, edges, and how long they talk.
const SIZES: [(usize, usize, Duration); 4] = [
    (3, 2, Duration::from_secs(300)),
    (3, 12, Duration::from_secs(60)),
    (5, 45, Duration::from_secs(20)),
    (5, 195, Duration::from_secs(5)),
];
/// Runs of each size; the median counts.
const RUNS: u64 = 3;
const PORT: u16 = 7000;
const DIR: &str = "/credentials";
/// How often an edge asks on each connection.
const RATES: [u32; 2] = [4, 1];
/// One question of so many has so many bytes.
const LONG_AFTER: u32 = 4;
const LONG: usize = 2048;
/// Connections are made within this time.
const CONNECTED: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(200);

fn main() {
    println!(
        "central nodes  edges  connections  questions/s on each  simulated s per CPU-s  packets per simulated s"
    );
    for (centrals, edges, span) in SIZES {
        for rate in RATES {
            let load = Load { centrals, edges, span, rate };
            let mut found: Vec<(f64, f64)> = (0..RUNS).map(|seed| measure(seed, load)).collect();
            found.sort_by(|one, other| one.0.total_cmp(&other.0));
            if let Some((speed, packets)) = found.get(found.len() / 2) {
                let connections = centrals * edges;
                println!(
                    "{centrals:13}  {edges:5}  {connections:11}  {rate:19}  {speed:21.1}  {packets:23.0}"
                );
            }
        }
    }
}

/// Who talks, for how long, and how often.
#[derive(Clone, Copy, Debug)]
struct Load {
    centrals: usize,
    edges: usize,
    span: Duration,
    rate: u32,
}

/// How fast one run was, and how many packets each of its seconds had, those before and their handshakes included.
fn measure(seed: u64, load: Load) -> (f64, f64) {
    let report = run(&Options::seed(seed), move |world| talk(world, load)).unwrap();
    let speed = load.span.as_secs_f64() / report.value.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let packets = report.trace.packets().len() as f64 / (load.span + CONNECTED).as_secs_f64();
    (speed, packets)
}

/// Processor time that talking takes.
async fn talk(world: World, load: Load) -> Duration {
    world.default_link(Link { delay: Duration::from_millis(20), ..Link::default() });
    let authority = Authority::new(&world).await.unwrap();
    let mut to = Vec::new();
    for n in 0..load.centrals {
        let machine = enrolled(&world, &authority, "central", n).await;
        let host = machine.start();
        drop(host.spawn("serve", serve(host.clone())));
        to.push(machine.at(PORT));
    }
    let mut from = Vec::new();
    for n in 0..load.edges {
        from.push(enrolled(&world, &authority, "edge", n).await);
    }
    for machine in from {
        let host = machine.start();
        let (at, own, every) = (to.clone(), host.clone(), Duration::from_secs(1) / load.rate);
        drop(host.spawn("edge", async move {
            let endpoint = bind(&own).await;
            for at in at {
                let (asking, endpoint) = (own.clone(), endpoint.clone());
                drop(own.spawn("ask", async move {
                    let connection = connected(&asking, &endpoint, at).await;
                    ask_on(&asking, &connection, every).await.unwrap();
                }));
            }
            std::future::pending::<()>().await;
        }));
    }
    world.sleep(CONNECTED).await;
    let began = cpu_time();
    world.sleep(load.span).await;
    cpu_time().saturating_sub(began)
}

/// A node takes so many handshakes at once and no more.
async fn connected(host: &Host, endpoint: &Endpoint, at: std::net::SocketAddr) -> mesh::Connection {
    loop {
        if let Ok(connection) = endpoint.connect(at, &Expect::role(Role::Central), Purpose::Calls).await {
            return connection;
        }
        host.sleep(AGAIN).await;
    }
}

async fn enrolled(world: &World, authority: &Authority, role: &str, n: usize) -> Machine {
    let machine = world.machine(&format!("{role}-{n}"));
    authority.enrol(&machine, &format!("{role}/eu/{role}-{n}"), Path::new(DIR)).await.unwrap();
    machine
}

async fn bind(host: &Host) -> Endpoint {
    let credentials = Credentials::load(host, Path::new(DIR)).await.unwrap();
    Endpoint::bind(host, ([0, 0, 0, 0], PORT).into(), credentials).unwrap()
}

async fn ask_on(host: &Host, connection: &mesh::Connection, every: Duration) -> Result<(), MeshError> {
    // Not all at once.
    host.sleep(every.mul_f64(f64::from((host.random_u64() >> 48) as u16) / f64::from(u16::MAX))).await;
    let mut next = host.now();
    for n in 1_u32.. {
        let (mut sender, mut receiver) = connection.open(Opening::Rpc).await?;
        let bytes: usize = if n % LONG_AFTER == 0 { LONG } else { 16 };
        sender.send(Kind::RPC_REQUEST, &vec![0_u8; bytes]).await?;
        sender.finish()?;
        receiver.expect::<u64>(Kind::RPC_REPLY).await?;
        next = next + every;
        host.sleep_until(next).await;
    }
    Ok(())
}

async fn serve(host: Host) {
    let endpoint = bind(&host).await;
    while let Some(connection) = endpoint.accept().await {
        let of = host.clone();
        drop(host.spawn("connection", async move {
            while let Ok((_opening, mut sender, mut receiver)) = connection.accept_stream().await {
                drop(of.spawn("answer", async move {
                    receiver.expect::<Vec<u8>>(Kind::RPC_REQUEST).await?;
                    sender.send(Kind::RPC_REPLY, &0_u64).await?;
                    sender.finish()
                }));
            }
        }));
    }
}
