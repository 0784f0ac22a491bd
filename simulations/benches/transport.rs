//! Simulated seconds per processor second of the mesh's transport alone: QUIC, TLS and the mesh's streams, and nothing above.
//!
//! Each edge keeps a connection to each central node and asks it four times a second; a message of 2 KiB a second goes with
//! them. Links take 20 ms one way. The workload is that of the figures that the simulator was planned with.

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
const ASK_EVERY: Duration = Duration::from_millis(250);
/// One message of so many bytes after so many questions.
const PUSH: usize = 2048;
const PUSH_AFTER: u32 = 4;

fn main() {
    println!("central nodes  edges  connections  simulated s per CPU-s  packets per simulated s");
    for (centrals, edges, span) in SIZES {
        let mut found: Vec<(f64, f64)> =
            (0..RUNS).map(|seed| measure(seed, centrals, edges, span)).collect();
        found.sort_by(|one, other| one.0.total_cmp(&other.0));
        if let Some((speed, packets)) = found.get(found.len() / 2) {
            println!("{centrals:13}  {edges:5}  {:11}  {speed:21.1}  {packets:23.0}", centrals * edges);
        }
    }
}

/// How fast one run was, from the first dial on, and how many packets each of its seconds had.
fn measure(seed: u64, centrals: usize, edges: usize, span: Duration) -> (f64, f64) {
    let report = run(&Options::seed(seed), move |world| talk(world, centrals, edges, span)).unwrap();
    let speed = span.as_secs_f64() / report.value.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let packets = report.trace.packets().len() as f64 / span.as_secs_f64();
    (speed, packets)
}

/// Processor time that `span` of talking takes.
async fn talk(world: World, centrals: usize, edges: usize, span: Duration) -> Duration {
    world.default_link(Link { delay: Duration::from_millis(20), ..Link::default() });
    let authority = Authority::new(&world).await.unwrap();
    let mut to = Vec::new();
    for n in 0..centrals {
        let machine = enrolled(&world, &authority, "central", n).await;
        drop(machine.start().spawn("serve", serve(machine.host().unwrap())));
        to.push(machine.at(PORT));
    }
    let mut from = Vec::new();
    for n in 0..edges {
        from.push(enrolled(&world, &authority, "edge", n).await);
    }
    let began = cpu_time();
    for machine in from {
        let host = machine.start();
        let (at, own) = (to.clone(), host.clone());
        drop(host.spawn("edge", async move {
            let endpoint = bind(&own).await;
            for at in at {
                let (asking, endpoint) = (own.clone(), endpoint.clone());
                drop(own.spawn("ask", async move {
                    let expect = Expect::role(Role::Central);
                    let connection = endpoint.connect(at, &expect, Purpose::Calls).await.unwrap();
                    ask_on(&asking, &connection).await.unwrap();
                }));
            }
            std::future::pending::<()>().await;
        }));
    }
    world.sleep(span).await;
    cpu_time().saturating_sub(began)
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

async fn ask_on(host: &Host, connection: &mesh::Connection) -> Result<(), MeshError> {
    // Not all at once.
    host.sleep(ASK_EVERY.mul_f64(f64::from((host.random_u64() >> 48) as u16) / f64::from(u16::MAX))).await;
    let mut next = host.now();
    for n in 1.. {
        let (mut sender, mut receiver) = connection.open(Opening::Rpc).await?;
        let bytes: usize = if n % PUSH_AFTER == 0 { PUSH } else { 16 };
        sender.send(Kind::RPC_REQUEST, &vec![0_u8; bytes]).await?;
        sender.finish()?;
        receiver.expect::<u64>(Kind::RPC_REPLY).await?;
        next = next + ASK_EVERY;
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
