//! Three central nodes and two edges, as they ship, in the simulated world: calls are served by all paths, also after
//! the leader is lost, the books balance, and the whole history repeats byte for byte.

#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use base::Amount;
use seam::Lock;
use simulations::caller::Caller;
use simulations::deployment::{Deployment, Layout, MODELS, PROVIDER_KEY};
use simulations::engine::{Link, Machine, Options, PowerLoss, World, run, run_twice};

const KEY: &str = "sk-of-the-scenario-0123456789abcdef0123456789abcdef";
const CENTRALS: [&str; 3] = ["central-eu", "central-us", "central-ap"];
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn calls_are_served_before_and_after_the_leader_is_lost_and_the_history_repeats() {
    let report = run_twice(&options(11), scenario).unwrap();
    assert!(report.draws > 0);
    assert!(report.trace.packets().len() > 1000, "{:?}", report.trace);
}

#[test]
fn grants_outlast_central_and_the_books_balance_after_an_edge_was_killed() {
    for seed in 0..2 {
        run(&options(seed), outage).unwrap();
    }
}

/// All of central loses its power under a steady load, comes back, and then an edge is killed.
async fn outage(world: World) {
    let (mesh, caller) = start(&world).await;
    let steady = Steady::start(&world);
    world.sleep(5 * SECOND).await;
    for name in CENTRALS {
        mesh.machine(name).unwrap().power_off(PowerLoss::Torn);
    }
    world.sleep(4 * SECOND).await;
    for name in CENTRALS {
        mesh.start(name);
    }
    world.sleep(5 * SECOND).await;
    let (served, failed) = steady.stop();
    assert_eq!(failed, [] as [&str; 0], "of {} calls", served + failed.len());

    let steady = Steady::start(&world);
    world.sleep(2 * SECOND).await;
    mesh.machine("edge-us").unwrap().crash();
    mesh.start("edge-us");
    world.sleep(5 * SECOND).await;
    serve_all_paths(&caller).await;
    drop(steady.stop());
    world.sleep(8 * SECOND).await;
    check_books(&mesh, "central-ap").await;
    assert_eq!(mesh.ended(), [] as [&str; 0]);
}

async fn scenario(world: World) {
    let (mesh, caller) = start(&world).await;
    let steady = Steady::start(&world);
    serve_all_paths(&caller).await;

    let leader = leader(&mesh, "central-eu").await;
    mesh.machine(&leader).unwrap().power_off(PowerLoss::Unsynced);
    // At once, while nobody leads: grants last, and the relay goes through another node.
    serve_all_paths(&caller).await;
    let other = CENTRALS.into_iter().find(|name| *name != leader).unwrap();
    apply(&mesh, other, &catalog(200)).await;
    serve_all_paths(&caller).await;

    mesh.start(&leader);
    world.sleep(5 * SECOND).await;
    serve_all_paths(&caller).await;
    let (served, failed) = steady.stop();
    assert_eq!(failed, [] as [&str; 0], "of {} calls", served + failed.len());
    assert!(served > 50, "{served}");
    world.sleep(5 * SECOND).await;
    check_books(&mesh, &leader).await;
    assert_eq!(mesh.ended(), [] as [&str; 0]);
}

/// A mesh that serves, and a caller.
async fn start(world: &World) -> (Deployment, Caller) {
    world.default_link(Link { delay: 15 * MS, jitter: 2 * MS, loss: 1000, ..Link::default() });
    let layout = Layout {
        centrals: vec!["eu", "us", "ap"],
        edges: vec!["eu", "us"],
        models: vec!["eu", "us", "provider"],
        round_trip: 40 * MS,
        ..Layout::default()
    };
    let mesh = Deployment::new(world, &layout).await.unwrap();
    apply(&mesh, "central-eu", &catalog(100)).await;
    let caller = Caller::new(world.machine("caller").start(), KEY);
    first_answer(world, &caller).await;
    (mesh, caller)
}

/// One tenant; a model near the first edge, one near the other, and one at a provider that central alone may reach.
fn catalog(dollars: u32) -> String {
    format!(
        "tenants: [{{name: acme}}]\n\
         apps: [{{tenant: acme, name: web}}]\n\
         keys: [{{name: acme-key, tenant: acme, app: web, secret: {KEY}, debug: true}}]\n\
         budgets: [{{name: acme-day, tenant: acme, unit: usd, window: day, limit: {dollars}}}]\n\
         providers: [{{name: provider, base_url: \"http://model-provider:{MODELS}\", credential: {PROVIDER_KEY}}}]\n\
         models:\n\
         - {{name: near, price: {{input: 1, output: 2}}, context: 8192, output_cap: 64, replicas: [{{name: near-1, region: eu, url: \"http://model-eu:{MODELS}\"}}]}}\n\
         - {{name: far, price: {{input: 1, output: 2}}, context: 8192, output_cap: 64, replicas: [{{name: far-1, region: us, url: \"http://model-us:{MODELS}\"}}]}}\n\
         - {{name: relayed, price: {{input: 1, output: 2}}, context: 8192, output_cap: 64, provider: provider}}\n"
    )
}

async fn apply(mesh: &Deployment, node: &str, text: &str) {
    assert!(mesh.apply(node, text).await.unwrap().changed);
}

async fn leader(mesh: &Deployment, seen_by: &'static str) -> String {
    mesh.operator().status(seen_by).await.unwrap().leader.unwrap().to_string()
}

/// Waits until both edges have the configuration.
async fn first_answer(world: &World, caller: &Caller) {
    let began = world.now();
    while call(caller, "edge-eu", "near", false).await.is_err()
        || call(caller, "edge-us", "far", false).await.is_err()
    {
        assert!(world.now().since(began) < 10 * SECOND, "{:?}", call(caller, "edge-eu", "near", false).await);
        world.sleep(50 * MS).await;
    }
}

/// Both edges serve from their own region, from the other one and through central, whole and streamed.
async fn serve_all_paths(caller: &Caller) {
    for edge in ["edge-eu", "edge-us"] {
        for (model, server) in [("near", "model-eu"), ("far", "model-us"), ("relayed", "model-provider")] {
            for stream in [false, true] {
                let answer = call(caller, edge, model, stream).await.unwrap_or_else(|why| {
                    panic!("{edge}, {model}, stream {stream}: {why}");
                });
                assert!(answer.contains(server), "{edge}, {model}: {answer}");
                assert!(!stream || answer.ends_with("data: [DONE]\n\n"), "{answer}");
            }
        }
    }
}

/// Callers at both edges, at a steady pace, that ask for both regions' models.
struct Steady {
    machine: Machine,
    calls: Arc<Lock<(usize, Vec<String>)>>,
}

impl Steady {
    fn start(world: &World) -> Self {
        let machine = world.machine(&format!("steady-{:?}", world.now()));
        let caller = Caller::new(machine.start(), KEY);
        let calls = Arc::<Lock<(usize, Vec<String>)>>::default();
        for (edge, model) in
            [("edge-eu", "near"), ("edge-us", "near"), ("edge-eu", "far"), ("edge-us", "far")]
        {
            let (caller, calls) = (caller.clone(), Arc::clone(&calls));
            let host = caller.host().clone();
            drop(host.spawn("steady", async move {
                loop {
                    match call(&caller, edge, model, false).await {
                        Ok(_) => calls.lock().0 += 1,
                        Err(why) => calls.lock().1.push(format!("{edge}, {model}: {why}")),
                    }
                    caller.host().sleep(200 * MS).await;
                }
            }));
        }
        Self { machine, calls }
    }

    /// How many calls were served, and what was wrong with the others.
    fn stop(self) -> (usize, Vec<String>) {
        self.machine.crash();
        self.calls.lock().clone()
    }
}

/// The body of an answer, or what was wrong.
async fn call(
    caller: &Caller,
    edge: &'static str,
    model: &'static str,
    stream: bool,
) -> Result<String, String> {
    let answer = caller.chat(edge, model, stream).await.map_err(|error| format!("{error:?}"))?;
    if answer.status == 200 { Ok(answer.text) } else { Err(format!("{}: {}", answer.status, answer.text)) }
}

/// What was granted, spent and is left adds up at every node, and the calls were charged.
async fn check_books(mesh: &Deployment, node: &str) {
    let ledger = mesh.operator().ledger(node).await.unwrap();
    assert!(ledger.balanced, "{ledger:?}");
    let row = ledger.rows.first().unwrap();
    assert!(row.receipts > Amount(0), "{row:?}");
    assert_eq!(row.settling, Amount(0), "{row:?}");
}

#[expect(clippy::disallowed_methods, reason = "a person who looks into a failure asks for its log")]
fn options(seed: u64) -> Options {
    Options { log: std::env::var("SIMULATION_LOG").ok(), ..Options::seed(seed) }
}
