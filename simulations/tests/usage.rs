//! A central node whose usage store is lost, as it is whenever a simulated process dies, gets it back: what the log still
//! has, and behind a snapshot what other nodes' stores have.

#![cfg(test)]

use std::time::Duration;

use base::NanoUsd;
use simulations::caller::Caller;
use simulations::deployment::{Deployment, Layout, MODELS};
use simulations::engine::{Link, Options, World, run_twice};

const KEY: &str = "sk-of-the-scenario-0123456789abcdef0123456789abcdef";
const CENTRALS: [&str; 3] = ["central-eu", "central-us", "central-ap"];
const SECOND: Duration = Duration::from_secs(1);

/// More log entries than are kept behind a snapshot.
const ENTRIES: u64 = 2_500;

#[test]
fn a_store_that_was_lost_is_complete_again_and_tells_what_the_ledger_says() {
    run_twice(&Options::seed(31), lost).unwrap();
}

async fn lost(world: World) {
    world.default_link(Link { delay: Duration::from_millis(5), ..Link::default() });
    let layout = Layout {
        centrals: vec!["eu", "us", "ap"],
        edges: vec!["eu", "us"],
        models: vec!["eu"],
        round_trip: Duration::from_millis(20),
        ..Layout::default()
    };
    let mesh = Deployment::new(&world, &layout).await.unwrap();
    mesh.apply("central-eu", &catalog()).await.unwrap();
    use_until(&world, &mesh, ENTRIES).await;
    for name in ["central-ap", "central-us"] {
        mesh.machine(name).unwrap().crash();
        mesh.start(name);
        completed(&world, &mesh, name).await;
        let said =
            |text: &str| world.log().iter().any(|line| line.machine == name && line.text.contains(text));
        assert!(said("are fetched from other nodes"), "{name} had nothing to fetch");
        assert!(said("the usage store is complete"), "{name}");
    }
    world.sleep(5 * SECOND).await;
    agrees(&mesh).await;
}

/// Calls at both edges until the log has so many entries.
async fn use_until(world: &World, mesh: &Deployment, entries: u64) {
    let caller = Caller::new(world.machine("caller").start(), KEY);
    for _ in 0..1_000 {
        if applied(mesh).await >= entries {
            return;
        }
        for edge in ["edge-eu", "edge-us"] {
            drop(caller.chat(edge, "near", false).await);
        }
        world.sleep(SECOND / 5).await;
    }
    panic!("the log never had {entries} entries");
}

/// Every node's store tells what the ledger says was spent.
async fn agrees(mesh: &Deployment) {
    let ledger = mesh.operator().ledger("central-eu").await.unwrap();
    let spent = NanoUsd(ledger.rows.iter().map(|row| row.receipts.0).sum());
    for name in CENTRALS {
        let report = mesh.operator().usage(name).await.unwrap();
        assert_eq!(report.missing_entries, 0, "{name}");
        let told: u64 = report.rows.iter().map(|row| row.total.cost).sum();
        assert_eq!((NanoUsd(told), report.rows.len()), (spent, 1), "{name}");
    }
}

/// Waits until a node's store lacks nothing.
async fn completed(world: &World, mesh: &Deployment, name: &str) {
    let began = world.now();
    loop {
        if let Ok(report) = mesh.operator().usage(name).await
            && report.missing_entries == 0
        {
            return;
        }
        assert!(world.now().since(began) < 30 * SECOND, "{name} does not become complete");
        world.sleep(SECOND / 10).await;
    }
}

async fn applied(mesh: &Deployment) -> u64 {
    let status = mesh.operator().status("central-ap").await.unwrap();
    status.members.iter().filter_map(|member| member.applied).max().unwrap_or_default()
}

fn catalog() -> String {
    format!(
        "tenants: [{{name: acme}}]\n\
         apps: [{{tenant: acme, name: web}}]\n\
         keys: [{{name: acme-key, tenant: acme, app: web, secret: {KEY}, debug: true}}]\n\
         budgets: [{{name: acme-all, tenant: acme, unit: usd, window: total, limit: 100}}]\n\
         models:\n\
         - {{name: near, price: {{input: 1, output: 2}}, context: 8192, output_cap: 64, replicas: [{{name: near-1, region: eu, url: \"http://model-eu:{MODELS}\"}}]}}\n"
    )
}
