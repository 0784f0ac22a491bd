//! How long credit may be where nobody needs it: what docs/budgets.md states, in a whole simulated mesh. Credit that lies
//! idle at one edge comes to a call at another before that is refused; an edge without calls gives all back; what an edge
//! that vanished keeps charged is bounded, and comes back with it, or ends with the window.

#![cfg(test)]

use std::time::Duration;

use base::Amount;
use central::admin::api::LedgerRow;
use simulations::caller::Caller;
use simulations::deployment::{Deployment, Layout, MODELS};
use simulations::engine::{Link, Options, PowerLoss, World, run};

const KEY: &str = "sk-of-the-only-tenant-0123456789abcdef0123456789abcdef";
/// What a call costs, in nano-dollars: its hold is its charge.
const CENT: u64 = 10_000_000;
const HALF_DOLLAR: u64 = 50 * CENT;
const LIMIT: u64 = 100 * HALF_DOLLAR;
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Round trips are 30 ms here; a grant takes two, the leader's tick and a disk.
const GRANT: Duration = Duration::from_millis(200);
const RECALLED: Duration = Duration::from_millis(600);
const IDLE: Duration = Duration::from_secs(2);

#[test]
fn no_call_is_refused_while_credit_lies_idle_elsewhere() {
    for seed in 0..3 {
        run(&Options::seed(seed), elsewhere).unwrap();
    }
}

#[test]
fn an_edge_without_calls_gives_all_its_credit_back() {
    run(&Options::seed(3), idle).unwrap();
}

#[test]
fn what_a_vanished_edge_strands_is_bounded_and_comes_back_with_it() {
    run(&Options::seed(4), vanished).unwrap();
}

#[test]
fn what_a_vanished_edge_strands_ends_with_the_window() {
    run(&Options::seed(5), forgotten).unwrap();
}

async fn elsewhere(world: World) {
    let mesh = Mesh::start(&world, "total").await;
    for _call in 0..60 {
        assert_eq!(mesh.call("edge-eu", "half-dollar").await, 200);
        world.sleep(20 * MS).await;
    }
    // The other edge had no credit, and the first one has some that nobody needs any more.
    for call in 0..40 {
        let began = world.now();
        assert_eq!(mesh.call("edge-us", "half-dollar").await, 200, "{call}");
        let took = world.now().since(began);
        assert!(took <= RECALLED + GRANT, "{call}: {took:?}");
    }
    for _call in 0..5 {
        assert_eq!(mesh.call("edge-us", "half-dollar").await, 402, "all is spent");
    }
    assert_eq!(mesh.row().await.left, Amount(0));
}

async fn idle(world: World) {
    let mesh = Mesh::start(&world, "total").await;
    for _call in 0..40 {
        assert_eq!(mesh.call("edge-eu", "cent").await, 200);
        world.sleep(20 * MS).await;
    }
    let stopped = world.now();
    assert!(mesh.row().await.outstanding > Amount(0));
    while mesh.row().await.outstanding > Amount(0) {
        world.sleep(20 * MS).await;
    }
    let took = world.now().since(stopped);
    assert!(took <= IDLE + GRANT, "{took:?}");
}

async fn vanished(world: World) {
    let mesh = Mesh::start(&world, "total").await;
    let began = world.now();
    let calls = 200;
    for _call in 0..calls {
        assert_eq!(mesh.call("edge-eu", "cent").await, 200);
        world.sleep(40 * MS).await;
    }
    let rate = calls * CENT * 1_000 / u64::try_from(world.now().since(began).as_millis()).unwrap();
    mesh.deployment.machine("edge-eu").unwrap().power_off(PowerLoss::Torn);
    world.sleep(SECOND).await;
    let row = mesh.row().await;
    let stranded = row.outstanding.saturating_add(row.orphaned).0;
    // Demand for the horizon and a grant, and sixteen calls; an edge gives back what exceeds that by six tenths.
    let most = (rate * 5 + rate / 2 + 16 * CENT) * 16 / 10;
    assert!(stranded <= most, "{stranded} of at most {most}");

    // All else is spent where an edge lives, and nothing of what is stranded.
    let mut paid = 0;
    while mesh.call("edge-us", "half-dollar").await == 200 {
        paid += HALF_DOLLAR;
    }
    let row = mesh.row().await;
    assert!(row.left < Amount(HALF_DOLLAR) && calls * CENT + paid + stranded <= LIMIT, "{row:?}");

    mesh.deployment.start("edge-eu");
    let began = world.now();
    while mesh.row().await.left.0 + CENT * 40 < stranded {
        assert!(world.now().since(began) < 10 * SECOND, "{:?}", mesh.row().await);
        world.sleep(50 * MS).await;
    }
}

async fn forgotten(world: World) {
    let mesh = Mesh::start(&world, "minute").await;
    for _call in 0..40 {
        assert_eq!(mesh.call("edge-eu", "cent").await, 200);
        world.sleep(20 * MS).await;
    }
    mesh.deployment.machine("edge-eu").unwrap().power_off(PowerLoss::Torn);
    world.sleep(61 * SECOND).await;
    assert_eq!(mesh.call("edge-us", "half-dollar").await, 200);
    world.sleep(4 * SECOND).await;
    let row = mesh.row().await;
    assert!(row.open && row.outstanding.saturating_add(row.orphaned) == Amount(0), "{row:?}");
    assert!(row.left.0 + HALF_DOLLAR >= LIMIT, "a new window has all of its limit: {row:?}");
}

struct Mesh {
    deployment: Deployment,
    caller: Caller,
}

impl Mesh {
    async fn start(world: &World, window: &str) -> Self {
        world.default_link(Link { delay: 15 * MS, jitter: 2 * MS, ..Link::default() });
        let layout = Layout {
            centrals: vec!["eu", "us", "ap"],
            edges: vec!["eu", "us"],
            models: vec!["us"],
            round_trip: 40 * MS,
            ..Layout::default()
        };
        let deployment = Deployment::new(world, &layout).await.unwrap();
        assert!(deployment.apply("central-eu", &catalog(window)).await.unwrap().changed);
        let mesh = Self { deployment, caller: Caller::new(world.machine("caller").start(), KEY) };
        for edge in ["edge-eu", "edge-us"] {
            while mesh.call(edge, "free").await != 200 {
                world.sleep(20 * MS).await;
            }
        }
        mesh
    }

    async fn call(&self, edge: &str, model: &str) -> u16 {
        self.caller.chat(edge, model, false).await.map_or(0, |answer| answer.status)
    }

    /// The open window.
    async fn row(&self) -> LedgerRow {
        let ledger = self.deployment.operator().ledger("central-eu").await.unwrap();
        assert!(ledger.balanced, "{ledger:?}");
        ledger.rows.into_iter().find(|row| row.open).unwrap()
    }
}

fn catalog(window: &str) -> String {
    let model = |name: &str, price: &str| {
        let replica =
            |region| format!("{{name: {region}-1, region: {region}, url: \"http://model-us:{MODELS}\"}}");
        format!(
            "- {{name: {name}, price: {{input: 0, output: 0, call: {price}}}, context: 8192, output_cap: 64, replicas: [{}, {}]}}\n",
            replica("eu"),
            replica("us")
        )
    };
    format!(
        "tenants: [{{name: only}}]\n\
         apps: [{{tenant: only, name: web}}]\n\
         keys: [{{name: only-key, tenant: only, app: web, secret: {KEY}}}]\n\
         budgets: [{{name: all, tenant: only, unit: usd, window: {window}, limit: 50, horizon_ms: 5000}}]\n\
         models:\n{}{}{}",
        model("cent", "0.01"),
        model("half-dollar", "0.50"),
        model("free", "0")
    )
}
