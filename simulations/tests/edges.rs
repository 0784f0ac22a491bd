//! Edges in distress, in a whole simulated mesh: central away at the start, their central node lost or replaced, their
//! name taken, their disk full, one of two paths cut. Callers are served as far as the design says, and the books balance.

#![cfg(test)]

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Amount, Mono, NodeId};
use central::admin::api::{AddMember, LedgerRow};
use seam::Lock;
use simulations::caller::{Answer, Caller};
use simulations::deployment::{Deployment, Layout, MODELS, PROVIDER_KEY};
use simulations::engine::{Cut, Link, Machine, Options, PowerLoss, World, run};

const STRICT: &str = "sk-of-the-strict-tenant-0123456789abcdef0123456789abcdef";
const FREE: &str = "sk-of-the-free-tenant-0123456789abcdef0123456789abcdef";
const CENTRALS: [&str; 3] = ["central-eu", "central-us", "central-ap"];
/// What a call costs, in nano-dollars: its hold is its charge.
const CENT: u64 = 10_000_000;
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_edge_that_starts_without_central_spends_what_its_journal_proves_and_no_more() {
    for seed in 0..2 {
        run(&options(seed), alone).unwrap();
    }
}

#[test]
fn of_two_edges_with_one_identity_the_newest_serves_and_the_older_ends() {
    run(&options(3), twins).unwrap();
}

#[test]
fn an_edge_is_attached_again_within_a_second_of_losing_its_central_node() {
    run(&options(4), reattached).unwrap();
}

#[test]
fn an_edge_stays_attached_while_its_central_node_is_replaced() {
    for is_leader in [false, true] {
        run(&options(5), move |world| replaced(world, is_leader)).unwrap();
    }
}

#[test]
fn a_full_disk_stops_strict_calls_only_and_loses_nothing() {
    for crashes in [false, true] {
        run(&options(6), move |world| full(world, crashes)).unwrap();
    }
}

#[test]
fn a_call_takes_the_other_path_when_one_is_cut() {
    run(&options(7), other_path).unwrap();
}

#[test]
fn calls_far_beyond_a_budget_are_paid_to_the_last_unit_and_told_that_it_is_exhausted() {
    run(&options(8), rush).unwrap();
}

async fn rush(world: World) {
    let layout = Layout { edges: vec!["eu", "us", "ap"], ..Layout::default() };
    let mesh = Mesh::start(&world, layout).await;
    world.sleep(2 * SECOND).await;
    let began = world.now();
    let calls: Vec<_> = (0..600)
        .map(|call| {
            let (caller, edge) = (mesh.callers.0.clone(), ["edge-eu", "edge-us", "edge-ap"][call % 3]);
            let host = caller.host().clone();
            host.spawn("rush", async move { caller.chat(edge, "half-dollar", false).await.unwrap() })
        })
        .collect();
    let mut answers = BTreeMap::<_, usize>::new();
    for call in calls {
        let answer = call.await.unwrap();
        *answers.entry((answer.status, answer.code())).or_default() += 1;
    }
    // Nobody is sent away while there is some left, and no call waits longer than calls do.
    assert_eq!(
        answers,
        BTreeMap::from([((200, String::new()), 100), ((402, "budget_exceeded".to_owned()), 500)])
    );
    assert!(world.now().since(began) < 2 * SECOND, "{:?}", world.now().since(began));
}

async fn alone(world: World) {
    let mesh = Mesh::start(&world, Layout::default()).await;
    for _call in 0..30 {
        mesh.pays().await;
        world.sleep(50 * MS).await;
    }
    for central in CENTRALS {
        mesh.machine(central).power_off(PowerLoss::Torn);
    }
    mesh.pays().await;
    // Its receipt gets to the disk; credit is there for more.
    world.sleep(SECOND).await;
    mesh.machine("edge-eu").power_off(PowerLoss::Torn);
    mesh.deployment.start("edge-eu");
    mesh.serves_free(SECOND).await;
    // Once more, in the middle of spending what was proven.
    for _call in 0..2 {
        mesh.pays().await;
    }
    world.sleep(SECOND).await;
    mesh.machine("edge-eu").crash();
    mesh.deployment.start("edge-eu");
    mesh.serves_free(SECOND).await;
    spend_the_rest(&mesh).await;

    for central in CENTRALS {
        mesh.deployment.start(central);
    }
    world.sleep(8 * SECOND).await;
    mesh.pays().await;
    world.sleep(SECOND).await;
    mesh.check_books().await;
}

async fn spend_the_rest(mesh: &Mesh) {
    let before = mesh.paid();
    while mesh.is_paid().await {
        assert!(mesh.paid() < 1_000, "credit without an end");
    }
    assert!(mesh.paid() > before, "nothing was left after the second start");
    let refused = mesh.strict("edge-eu").await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "budget_unavailable"), "{refused:?}");
    assert!(refused.text.contains("central"), "{refused:?}");
    mesh.serves_free(SECOND).await;
}

async fn twins(world: World) {
    let mesh = Mesh::start(&world, Layout { twins: vec!["eu"], ..Layout::default() }).await;
    for _call in 0..5 {
        mesh.pays().await;
    }
    world.sleep(SECOND).await;
    mesh.deployment.start("twin-eu");
    let began = world.now();
    while mesh.deployment.ended().is_empty() {
        assert!(world.now().since(began) < 3 * SECOND, "the older edge goes on");
        world.sleep(10 * MS).await;
    }
    let ended = mesh.deployment.ended().remove(0);
    for part in ["edge-eu: ", "identity", "another process", "certificate"] {
        assert!(ended.contains(part), "{part} in {ended}");
    }
    assert!(mesh.callers.1.chat("edge-eu", "cent", false).await.is_err(), "the older edge still answers");
    for _call in 0..5 {
        assert!(mesh.is_paid_at("twin-eu").await);
    }
    world.sleep(8 * SECOND).await;
    assert_eq!(mesh.deployment.ended().len(), 1, "{:?}", mesh.deployment.ended());
    let row = mesh.row().await;
    assert_eq!(row.receipts, Amount(mesh.paid() * CENT), "{row:?}");
}

async fn reattached(world: World) {
    let mesh = Mesh::start(&world, Layout::default()).await;
    for leader in [false, true] {
        for is_power in [false, true] {
            world.sleep(5 * SECOND).await;
            let attached = mesh.lead(leader).await;
            let began = world.now();
            let machine = mesh.machine(&attached);
            if is_power {
                machine.power_off(PowerLoss::Unsynced);
            } else {
                machine.crash();
            }
            let took = mesh.attached_after(began).await;
            // A registration is a commit: without a leader it waits for an election, which may be split once.
            let most = if leader { 4 * SECOND } else { SECOND };
            assert!(took <= most, "leader {leader}, power {is_power}: {took:?}");
            mesh.deployment.start(&attached);
        }
    }
    mesh.pays().await;
}

async fn replaced(world: World, is_leader: bool) {
    let mesh = Mesh::start(&world, Layout { spare: Some("sa"), ..Layout::default() }).await;
    world.sleep(SECOND).await;
    // The member that goes is the one that the edge is attached to.
    for central in &CENTRALS[..2] {
        world.change_link(&mesh.machine("edge-eu"), &mesh.machine(central), |link| link.delay = 150 * MS);
    }
    let began = world.now();
    while mesh.attached_to().await.as_deref() != Some("central-ap") {
        assert!(world.now().since(began) < 30 * SECOND, "the edge never moved to the nearest");
        world.sleep(100 * MS).await;
    }
    mesh.lead(is_leader).await;
    mesh.deployment.start("central-sa");
    world.sleep(SECOND).await;
    let spare = AddMember {
        id: NodeId(4),
        name: "central-sa".parse().unwrap(),
        region: "sa".parse().unwrap(),
        mesh: mesh.machine("central-sa").at(7000),
        replaces: Some(NodeId(3)),
    };
    let began = world.now();
    mesh.deployment.operator().replace("central-eu", &spare).await.unwrap();
    for _call in 0..20 {
        // From the first on, credit must come from another central node.
        mesh.pays().await;
        world.sleep(100 * MS).await;
    }
    let away = mesh.away(began);
    assert_ne!(mesh.attached_to().await.unwrap(), "central-ap");
    assert!(away <= SECOND, "{away:?}");
}

async fn full(world: World, crashes: bool) {
    let mesh = Mesh::begin(&world, Layout::default()).await;
    let edge = mesh.machine("edge-eu");
    while !mesh.said("edge-eu", "configuration in force") {
        world.sleep(50 * MS).await;
    }
    world.sleep(200 * MS).await;
    // The journal has its segment; the spool claims its own with the first receipt.
    let used = edge.disk_used();
    edge.disk_faults(|faults| faults.capacity = Some(used));
    mesh.pays().await;
    world.sleep(500 * MS).await;
    let refused = mesh.strict("edge-eu").await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "storage_unavailable"), "{refused:?}");
    mesh.serves_free(SECOND).await;
    assert!(mesh.said("edge-eu", "no room on disk"), "{:?}", world.log());

    if crashes {
        // What was acknowledged and could not be written is charged to the life that ended.
        edge.crash();
        edge.disk_faults(|faults| faults.capacity = None);
        mesh.deployment.start("edge-eu");
    } else {
        edge.disk_faults(|faults| faults.capacity = None);
    }
    let began = world.now();
    while !mesh.is_paid().await {
        assert!(world.now().since(began) < 5 * SECOND, "strict calls are never served again");
        world.sleep(50 * MS).await;
    }
    world.sleep(8 * SECOND).await;
    mesh.check_books().await;
}

async fn other_path(world: World) {
    let layout = Layout { edges: vec!["eu", "us"], models: vec!["us", "provider"], ..Layout::default() };
    let mesh = Mesh::start(&world, layout).await;
    world.sleep(2 * SECOND).await;
    let (eu, us) = ([mesh.machine("edge-eu")], [mesh.machine("edge-us")]);
    let centrals = CENTRALS.map(|name| mesh.machine(name));
    for stream in [false, true] {
        for cut in [Cut::Drop, Cut::Hold] {
            mesh.answers("both", stream, "model-us").await;
            mesh.answers("relay-first", stream, "model-provider").await;
            world.partition(&eu, &us, cut);
            mesh.answers("both", stream, "model-provider").await;
            world.heal();
            world.sleep(6 * SECOND).await;
            world.partition(&eu, &centrals, cut);
            mesh.answers("relay-first", stream, "model-us").await;
            world.heal();
            world.sleep(6 * SECOND).await;
        }
    }
}

/// A mesh with an edge in `eu`, a tenant under a strict budget and one without any.
struct Mesh {
    world: World,
    deployment: Deployment,
    /// Under the budget, and under none.
    callers: (Caller, Caller),
    paid: Lock<u64>,
}

impl Mesh {
    async fn start(world: &World, layout: Layout) -> Self {
        let mesh = Self::begin(world, layout).await;
        mesh.serves_free(10 * SECOND).await;
        mesh
    }

    async fn begin(world: &World, layout: Layout) -> Self {
        world.default_link(Link { delay: 15 * MS, jitter: 2 * MS, ..Link::default() });
        let or = |given: Vec<&'static str>, usual: &[&'static str]| {
            if given.is_empty() { usual.to_vec() } else { given }
        };
        let layout = Layout {
            centrals: vec!["eu", "us", "ap"],
            edges: or(layout.edges, &["eu"]),
            models: or(layout.models, &["us", "provider"]),
            round_trip: 40 * MS,
            ..layout
        };
        let deployment = Deployment::new(world, &layout).await.unwrap();
        assert!(deployment.apply("central-eu", &catalog(&layout)).await.unwrap().changed);
        let caller = |key| Caller::new(world.machine(&key_name(key)).start(), key);
        let callers = (caller(STRICT), caller(FREE));
        Self { world: world.clone(), deployment, callers, paid: Lock::default() }
    }

    fn machine(&self, name: &str) -> Machine {
        self.deployment.machine(name).unwrap().clone()
    }

    /// How many strict calls were answered.
    fn paid(&self) -> u64 {
        *self.paid.lock()
    }

    async fn strict(&self, edge: &str) -> Answer {
        self.callers.0.chat(edge, "cent", false).await.unwrap()
    }

    async fn is_paid_at(&self, edge: &str) -> bool {
        let is_paid = self.strict(edge).await.status == 200;
        *self.paid.lock() += u64::from(is_paid);
        is_paid
    }

    async fn is_paid(&self) -> bool {
        self.is_paid_at("edge-eu").await
    }

    async fn pays(&self) {
        let answer = self.strict("edge-eu").await;
        assert_eq!(answer.status, 200, "after {} calls: {answer:?}", self.paid());
        *self.paid.lock() += 1;
    }

    /// A call that no budget pays for is answered within `time`.
    async fn serves_free(&self, time: Duration) {
        let began = self.world.now();
        loop {
            let answer = self.callers.1.chat("edge-eu", "cent", false).await;
            if answer.as_ref().is_ok_and(|answer| answer.status == 200) {
                return;
            }
            assert!(self.world.now().since(began) < time, "{answer:?}");
            self.world.sleep(20 * MS).await;
        }
    }

    async fn answers(&self, model: &str, stream: bool, server: &str) {
        let began = self.world.now();
        let answer = self.callers.1.chat("edge-eu", model, stream).await.unwrap();
        let took = self.world.now().since(began);
        assert_eq!(answer.status, 200, "{model}, stream {stream}, after {took:?}: {answer:?}");
        assert!(answer.text.contains(server), "{model}, stream {stream}: {answer:?}");
        // A silent link is given up after three seconds, and no one waits for a dial that gets no answer; the rest is the
        // other path's round trips and the model server's own time.
        assert!(took < 9 * SECOND / 2, "{model}, stream {stream}: {took:?}");
    }

    async fn attached_to(&self) -> Option<String> {
        let status = self.deployment.operator().status("central-eu").await.unwrap();
        let edge = status.edges.into_iter().find(|edge| edge.name.as_str() == "edge-eu").unwrap();
        Some(edge.attached_to?.to_string())
    }

    /// The central node that the edge is attached to, once that is the leader or not, as asked.
    async fn lead(&self, is_leader: bool) -> String {
        let began = self.world.now();
        loop {
            let status = self.deployment.operator().status("central-eu").await.unwrap();
            let leader = status.leader.unwrap();
            if let Some(attached) = self.attached_to().await {
                if (attached == leader.as_str()) == is_leader {
                    return attached;
                }
                let to = status.members.iter().find(|member| (member.name.as_str() == attached) == is_leader);
                let moved = self.deployment.operator().transfer(&leader.to_string(), to.unwrap().id).await;
                drop(moved);
            }
            assert!(self.world.now().since(began) < 20 * SECOND, "leadership does not move");
            self.world.sleep(200 * MS).await;
        }
    }

    /// How long after `began` the edge was attached anew.
    async fn attached_after(&self, began: Mono) -> Duration {
        loop {
            let lines = self.world.log();
            let attached = lines.iter().find(|line| {
                line.at >= began && line.machine == "edge-eu" && line.text.starts_with("attached to central")
            });
            if let Some(line) = attached {
                return line.at.since(began);
            }
            assert!(self.world.now().since(began) < 20 * SECOND, "the edge is not attached again");
            self.world.sleep(50 * MS).await;
        }
    }

    /// How long in all the edge was without a session since `began`, when it had one then.
    fn away(&self, began: Mono) -> Duration {
        let (mut away, mut since) = (Duration::ZERO, None);
        for line in self.world.log().iter().filter(|line| line.at >= began && line.machine == "edge-eu") {
            if line.text.starts_with("the session with central ended") || line.text.starts_with("leaving for")
            {
                since = since.or(Some(line.at));
            } else if line.text.starts_with("attached to central") {
                away += since.take().map_or(Duration::ZERO, |since| line.at.since(since));
            }
        }
        away + since.map_or(Duration::ZERO, |since| self.world.now().since(since))
    }

    fn said(&self, machine: &str, text: &str) -> bool {
        self.world.log().iter().any(|line| line.machine == machine && line.text.contains(text))
    }

    async fn row(&self) -> LedgerRow {
        let ledger = self.deployment.operator().ledger("central-eu").await.unwrap();
        assert!(ledger.balanced, "{ledger:?}");
        let row = ledger.rows.into_iter().next().unwrap();
        assert_eq!(row.settling, Amount(0), "{row:?}");
        row
    }

    /// Every paid call is in the books once: as a receipt, or within what ended lives are charged.
    async fn check_books(&self) {
        let row = self.row().await;
        let (paid, receipts) = (self.paid() * CENT, row.receipts.0);
        assert!(receipts <= paid && paid <= receipts + row.crash.0, "{paid} paid: {row:?}");
        assert!(receipts + row.crash.0 <= row.limit.0, "{row:?}");
        assert_eq!(self.deployment.ended(), [] as [&str; 0]);
    }
}

fn key_name(key: &str) -> String {
    key.trim_start_matches("sk-of-the-").split('-').next().unwrap_or_default().to_owned()
}

/// Models that cost a cent and half a dollar a call; a model and a route that go by a peer or by central's relay.
fn catalog(layout: &Layout) -> String {
    let near = format!("http://model-{}:{MODELS}", layout.models[0]);
    let replicas: Vec<String> = layout
        .edges
        .iter()
        .map(|region| format!("{{name: {region}-1, region: {region}, url: \"{near}\"}}"))
        .collect();
    let replicas = replicas.join(", ");
    let fits = "context: 8192, output_cap: 64";
    format!(
        "tenants: [{{name: strict}}, {{name: free}}]\n\
         apps: [{{tenant: strict, name: web}}, {{tenant: free, name: web}}]\n\
         keys: [{{name: strict-key, tenant: strict, app: web, secret: {STRICT}}}, {{name: free-key, tenant: free, app: web, secret: {FREE}}}]\n\
         budgets: [{{name: all, tenant: strict, unit: usd, window: total, limit: 50, horizon_ms: 5000}}]\n\
         providers: [{{name: provider, base_url: \"http://model-provider:{MODELS}\", credential: {PROVIDER_KEY}}}]\n\
         models:\n\
         - {{name: cent, price: {{input: 0, output: 0, call: 0.01}}, {fits}, replicas: [{replicas}]}}\n\
         - {{name: half-dollar, price: {{input: 0, output: 0, call: 0.50}}, {fits}, replicas: [{replicas}]}}\n\
         - {{name: far, price: {{input: 1, output: 2}}, {fits}, replicas: [{{name: us-1, region: us, url: \"http://model-us:{MODELS}\"}}]}}\n\
         - {{name: both, price: {{input: 1, output: 2}}, {fits}, provider: provider, replicas: [{{name: us-1, region: us, url: \"http://model-us:{MODELS}\"}}]}}\n\
         - {{name: relayed, price: {{input: 1, output: 2}}, {fits}, provider: provider}}\n\
         routes: [{{name: relay-first, strategy: ordered, targets: [relayed, far]}}]\n"
    )
}

#[expect(clippy::disallowed_methods, reason = "a person who looks into a failure asks for its log")]
fn options(seed: u64) -> Options {
    Options { log: std::env::var("SIMULATION_LOG").ok(), ..Options::seed(seed) }
}
