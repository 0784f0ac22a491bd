//! A change whose answer is lost with the leader, and which another operator overwrites before it is looked after: it
//! never comes back, and it is not called refused.

#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use central::admin::api::Changed;
use seam::Lock;
use simulations::deployment::{Deployment, Layout};
use simulations::engine::{Cut, Link, Machine, Options, PowerLoss, World, run};
use simulations::http::ExchangeError;

const CENTRALS: [&str; 3] = ["central-eu", "central-us", "central-ap"];
const MS: Duration = Duration::from_millis(1);

/// What came of a change, once it is known.
type Answer = Arc<Lock<Option<Result<Changed, ExchangeError>>>>;

#[test]
fn a_change_that_others_overwrote_while_its_fate_was_unknown_never_comes_back() {
    let run = run(&Options::seed(1), |world| async move {
        world.default_link(Link { delay: 20 * MS, ..Link::default() });
        let layout = Layout { centrals: vec!["eu", "us", "ap"], round_trip: 40 * MS, ..Layout::default() };
        let mesh = Deployment::new(&world, &layout).await.unwrap();
        mesh.apply(CENTRALS[0], "tenants: [{name: a}]").await.unwrap();
        let mut overwritten = 0;
        for turn in 0..12 {
            overwritten += u32::from(turn_of(&world, &mesh, turn).await);
        }
        assert!(
            overwritten > 3,
            "{overwritten} of 12 were seen in force and overwritten before they were answered"
        );
    });
    run.unwrap();
}

/// Loses the leader some time after a change was asked for; says whether it was in force and had no answer by then.
async fn turn_of(world: &World, mesh: &Deployment, turn: u32) -> bool {
    let operator = mesh.operator();
    let leader = operator.status(CENTRALS[0]).await.unwrap().leader.unwrap();
    let leader = CENTRALS.into_iter().find(|name| *name == leader.as_str()).unwrap();
    let others: Vec<&str> = CENTRALS.into_iter().filter(|name| *name != leader).collect();
    let [asked, third] = [others[0], others[1]];
    let machine = |name: &str| -> Machine { mesh.machine(name).unwrap().clone() };

    let ours = u64::from(turn) * 2 + 1;
    let answer = ask(mesh, asked, ours);
    // A connection, a handshake and a confirmed read take seven ways; then the proposal is on its way.
    world.sleep(10 * MS * (13 + turn)).await;
    world.cut(&[machine(leader)], &[machine(asked)], Cut::Drop);
    world.sleep(60 * MS).await;
    let is_seen = limit(mesh, leader).await == Some(ours);
    machine(leader).power_off(PowerLoss::Unsynced);
    let is_open = answer.lock().is_none();
    mesh.apply(third, &budget(ours + 1)).await.unwrap();
    while answer.lock().is_none() {
        world.sleep(50 * MS).await;
    }
    let last = limit(mesh, third).await;
    let answer = answer.lock().take().unwrap();
    if is_seen {
        assert_eq!(last, Some(ours + 1), "turn {turn}: {answer:?}");
        let refused = answer.as_ref().err().map(|error| format!("{error:?}"));
        assert!(refused.is_none_or(|why| why.contains("504")), "turn {turn}: {answer:?}");
    }
    world.heal();
    mesh.start(leader);
    mesh.apply(leader, &budget(ours + 1)).await.unwrap();
    is_seen && is_open
}

fn ask(mesh: &Deployment, node: &'static str, limit: u64) -> Answer {
    let (answer, operator) = (Answer::default(), mesh.operator().clone());
    let told = Arc::clone(&answer);
    drop(mesh.operator().host().spawn("change", async move {
        let done = operator.apply(node, &budget(limit)).await;
        *told.lock() = Some(done);
    }));
    answer
}

fn budget(limit: u64) -> String {
    format!("budgets: [{{name: b, tenant: a, unit: requests, window: total, limit: {limit}}}]")
}

async fn limit(mesh: &Deployment, node: &str) -> Option<u64> {
    let catalog = mesh.operator().catalog(node).await.unwrap().catalog;
    catalog.pointer("/budgets/0/limit")?.as_u64()
}
