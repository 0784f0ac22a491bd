//! What callers pay who leave: nothing while no upstream has their call, what was held once one may have.

use std::sync::Arc;
use std::time::Duration;

use base::{Amount, Unit};
use seam::{Bound, Boxed, Host, Parts, Tasks};
use tokio::task::AbortHandle;
use wire::catalog::{Budget, Catalog, Window};
use wire::ledger::{Outcome, Receipt};

use super::caller::Answered;
use super::instances::waiting;
use super::peering::Pair;
use super::server::{Act, Server};
use super::world::World;
use crate::fixtures;

#[tokio::test]
async fn who_leaves_the_line_of_a_model_server_here_pays_nothing() {
    let server = Server::start(&Host::real(), Act::Silent).await;
    let world = World::start(&server.url, |_, catalog| one_place(catalog)).await;
    leave_the_line(&world, &world, &server, "tiny").await;
}

#[tokio::test]
async fn who_leaves_the_line_of_a_model_server_of_another_region_pays_nothing() {
    let pair = Pair::with(Act::Silent, one_place).await;
    leave_the_line(&pair.here, &pair.there, &pair.server, "remote").await;
}

/// Callers of `here` leave: one whose call waits in line at `there`, the one before it, whose call the model server has, and
/// one whose call waited and then came to the server.
async fn leave_the_line(here: &World, there: &World, server: &Server, model: &str) {
    let _central = here.fund(&budget());
    let working = calls(here, model);
    server.open(1).await;
    let leaver = calls(here, model);
    waiting(there, "interactive", 1).await;
    let served_later = calls(here, model);
    waiting(there, "interactive", 2).await;

    drop(leaver);
    let receipts = here.receipts(1).await;
    free(&receipts[0]);
    waiting(there, "interactive", 1).await;
    assert_eq!(here.in_progress(), 2);

    drop(working);
    held(&here.receipts(2).await[1]);
    waiting(there, "interactive", 0).await;
    server.open(1).await;
    drop(served_later);
    held(&here.receipts(3).await[2]);
    server.open(0).await;

    here.quiet().await;
    let ended = here.host.timeout(Duration::from_secs(1), here.edge.left.ended()).await;
    ended.expect("nobody waits for word of a call any more");
    assert_eq!(here.edge.purse.open_calls(), 0, "every hold is back");
    assert_eq!((here.receipts(3).await.len(), server.asked().len()), (3, 2));
}

#[tokio::test]
async fn a_drain_waits_for_word_of_the_calls_that_were_left() {
    let pair = Pair::with(Act::Silent, one_place).await;
    let Pair { mut here, there, server } = pair;
    let _central = [here.fund(&budget()), there.fund(&budget())];
    let _working = calls(&there, "remote");
    server.open(1).await;
    let leaver = calls(&here, "remote");
    waiting(&there, "interactive", 1).await;
    drop(leaver);
    here.draining.stop();
    here.host.timeout(Duration::from_secs(4), here.running.drain()).await.expect("it drains");
    assert_eq!(here.edge.purse.open_calls(), 0, "no account is open");
    free(&here.receipts(1).await[0]);
}

#[tokio::test]
async fn a_call_of_which_nobody_can_be_heard_is_charged_what_was_held_and_once() {
    for crowded in [false, true] {
        let host = Host::real();
        let tasks = Arc::new(Ending(Arc::clone(&host.parts().tasks)));
        let ending = Host::from_parts(Parts { tasks, ..host.parts().clone() });
        let pair = Pair::on(if crowded { host } else { ending }, Act::Silent, one_place).await;
        let Pair { here, there, server } = pair;
        let _central = [here.fund(&budget()), there.fund(&budget())];
        let _working = calls(&there, "remote");
        server.open(1).await;
        // As many wait for word as may, or the task that waits is dropped.
        let places: Option<Vec<_>> = crowded.then(|| std::iter::from_fn(|| here.edge.left.enter()).collect());
        let leaver = calls(&here, "remote");
        waiting(&there, "interactive", 1).await;
        drop(leaver);
        here.quiet().await;
        held(&here.receipts(1).await[0]);
        waiting(&there, "interactive", 0).await;
        assert_eq!((here.receipts(1).await.len(), here.edge.purse.open_calls()), (1, 0));
        drop(places);
    }
}

/// A node's tasks, of which those that wait for word of a call are dropped, as when the node ends.
#[derive(Debug)]
struct Ending(Arc<dyn Tasks>);

impl Tasks for Ending {
    fn spawn(&self, name: &'static str, task: Boxed<'static, ()>) -> AbortHandle {
        let task = if name == "left" { Box::pin(std::future::ready(())) } else { task };
        self.0.spawn(name, task)
    }

    fn compute(&self, work: Box<dyn FnOnce() + Send>) {
        self.0.compute(work);
    }
}

fn free(receipt: &Receipt) {
    assert_eq!((receipt.outcome, receipt.estimated), (Outcome::CallerGone, false), "{receipt:?}");
    assert_eq!(charged(receipt), Amount(0), "{receipt:?}");
}

fn held(receipt: &Receipt) {
    assert_eq!((receipt.outcome, receipt.estimated), (Outcome::CallerGone, true), "{receipt:?}");
    assert_eq!(charged(receipt), Amount(1), "{receipt:?}");
}

/// What the budget paid.
fn charged(receipt: &Receipt) -> Amount {
    receipt.charges.first().map_or(Amount(0), |charge| charge.amount)
}

/// A caller of a model, who leaves when it is dropped.
fn calls(world: &World, model: &str) -> Bound<Answered> {
    let caller = world.caller();
    let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]}}"#);
    world.host.spawn("call", async move { caller.chat(body).await }).bound()
}

/// Every model server takes one call at a time, and a budget pays for calls.
fn one_place(catalog: &mut Catalog) {
    for model in catalog.models.values_mut() {
        model.replicas.iter_mut().for_each(|replica| replica.concurrency = Some(1));
    }
    catalog.budgets.insert(budget().name, budget());
}

fn budget() -> Budget {
    Budget { window: Window::Total, ..fixtures::budget("acme-day", Unit::Requests) }
}
