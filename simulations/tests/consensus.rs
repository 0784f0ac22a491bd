//! Central's agreement on the simulated world: what was acknowledged survives kills, power losses of all nodes at
//! once, partitions and full disks, and every run repeats byte for byte.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::{Mono, Name, NodeId, Role};
use central::consensus::{Consensus, Options as Member, ProposeError, StorageState};
use central_core::{Command, Registration, Reply, State};
use mesh::{Credentials, Endpoint, Purpose};
use seam::{Host, Lock};
use simulations::authority::Authority;
use simulations::engine::{Cut, Failure, Link, Machine, Options, PowerLoss, Report, World, run, run_twice};
use wire::control::{Hello, NodeAddr};

const REGIONS: [&str; 3] = ["eu", "us", "ap"];
const PORT: u16 = 7000;
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// How often each of the three writers writes.
const PACE: Duration = Duration::from_millis(40);

#[test]
fn writes_outlive_a_power_loss_of_all_nodes_at_once() {
    for seed in 0..4 {
        check(seed, move |cluster| async move {
            for round in 0..3 {
                cluster.world.sleep(SECOND + round * 137 * MS).await;
                let loss = if seed % 2 == 0 { PowerLoss::Unsynced } else { PowerLoss::Torn };
                for machine in &cluster.machines {
                    machine.power_off(loss);
                }
                cluster.world.sleep(SECOND).await;
                cluster.start_all();
            }
        });
    }
}

/// The test of the test: disks whose syncs make nothing durable have to be found out.
#[test]
fn lying_disks_are_caught() {
    let losing = || {
        check(1, |cluster| async move {
            for machine in &cluster.machines {
                machine.disk_faults(|faults| faults.lies = true);
            }
            cluster.world.sleep(2 * SECOND).await;
            for machine in &cluster.machines {
                machine.power_off(PowerLoss::Unsynced);
            }
            cluster.start_all();
        })
    };
    assert!(std::panic::catch_unwind(losing).is_err());
}

#[test]
fn a_killed_leader_is_replaced_within_two_seconds_and_comes_back() {
    let report = check(1, |cluster| async move {
        let mut gaps = Vec::new();
        for _ in 0..5 {
            cluster.world.sleep(2 * SECOND).await;
            let leader = cluster.leader().unwrap();
            let killed = cluster.world.now();
            cluster.machines[leader].crash();
            while cluster.history.lock().newest <= killed {
                cluster.world.sleep(5 * MS).await;
            }
            gaps.push(cluster.world.now().since(killed));
            cluster.world.sleep(SECOND).await;
            cluster.start(leader);
        }
        cluster.history.lock().gaps = gaps;
    });
    let slowest = report.value.gaps.iter().max().copied().unwrap();
    assert!(slowest < 2 * SECOND, "{:?}", report.value.gaps);
}

#[test]
fn a_leader_cut_off_acknowledges_nothing_and_its_side_catches_up() {
    for (seed, cut) in [(1, Cut::Drop), (2, Cut::Hold)] {
        check(seed, move |cluster| async move {
            cluster.world.sleep(2 * SECOND).await;
            let leader = cluster.leader().unwrap();
            let (alone, others): (Vec<_>, Vec<_>) =
                cluster.machines.clone().into_iter().enumerate().partition(|(at, _)| *at == leader);
            let machines =
                |side: Vec<(usize, Machine)>| side.into_iter().map(|(_, machine)| machine).collect();
            let (alone, others): (Vec<Machine>, Vec<Machine>) = (machines(alone), machines(others));
            cluster.world.partition(&alone, &others, cut);
            cluster.world.sleep(6 * SECOND).await;
            assert!(cluster.leaders().iter().any(|at| *at != leader), "the majority has a leader");
            cluster.world.heal();
        });
    }
}

#[test]
fn full_disks_stop_acknowledging_say_so_and_lose_nothing() {
    check(3, |cluster| async move {
        cluster.world.sleep(2 * SECOND).await;
        for machine in &cluster.machines {
            let used = machine.disk_used();
            machine.disk_faults(|faults| faults.capacity = Some(used));
        }
        cluster.history.lock().bulky = true;
        while cluster.storage_states().iter().any(|state| *state != StorageState::Full) {
            cluster.world.sleep(SECOND).await;
        }
        // What is under way still ends; then nothing is acknowledged.
        cluster.world.sleep(SECOND).await;
        let before = cluster.acknowledged();
        cluster.world.sleep(10 * SECOND).await;
        assert_eq!(cluster.acknowledged(), before);
        assert!(cluster.history.lock().refused_full > 0);
        cluster.history.lock().bulky = false;
        if cluster.world.random("outage").chance(500_000) {
            for machine in &cluster.machines {
                machine.power_off(PowerLoss::Unsynced);
            }
            cluster.start_all();
        }
        for machine in &cluster.machines {
            machine.disk_faults(|faults| faults.capacity = None);
        }
    });
}

#[test]
fn a_run_with_every_fault_repeats_byte_for_byte() {
    let scenario = |world: World| async move {
        let cluster = Cluster::new(world).await;
        cluster.world.sleep(2 * SECOND).await;
        cluster.machines[0].crash();
        cluster.world.sleep(SECOND).await;
        cluster.start(0);
        cluster.machines[1].pause();
        cluster.world.sleep(3 * SECOND).await;
        cluster.machines[1].resume();
        for machine in &cluster.machines {
            machine.power_off(PowerLoss::Torn);
        }
        cluster.start_all();
        cluster.settle().await.acknowledged.len()
    };
    for seed in 0..3 {
        assert!(run_twice(&options(seed), scenario).unwrap().value > 50);
    }
}

/// Runs a cluster under writes, lets `faults` happen, and checks that it comes back with everything acknowledged.
fn check<S, F>(seed: u64, faults: S) -> Report<History>
where
    S: FnOnce(Cluster) -> F + Send + 'static,
    F: Future<Output = ()>,
{
    let report: Result<_, Failure> = run(&options(seed), |world| async move {
        let cluster = Cluster::new(world).await;
        faults(cluster.clone()).await;
        cluster.settle().await
    });
    let report = report.unwrap();
    assert!(report.value.acknowledged.len() > 50, "seed {seed}: {} writes", report.value.acknowledged.len());
    report
}

#[expect(clippy::disallowed_methods, reason = "a person who looks into a failure asks for its log")]
fn options(seed: u64) -> Options {
    Options { log: std::env::var("SIMULATION_LOG").ok(), ..Options::seed(seed) }
}

/// What writers saw.
#[derive(Clone, Debug, Default)]
struct History {
    next: u64,
    acknowledged: BTreeSet<String>,
    /// When the newest of those acknowledged was proposed.
    newest: Mono,
    refused_full: u64,
    /// Every fifth write is accompanied by a large one that replaces the one before.
    bulky: bool,
    /// From a leader's death to the next new acknowledgement.
    gaps: Vec<Duration>,
}

#[derive(Clone)]
struct Cluster {
    world: World,
    machines: Vec<Machine>,
    members: BTreeMap<NodeId, NodeAddr>,
    running: Arc<Lock<BTreeMap<usize, Consensus>>>,
    history: Arc<Lock<History>>,
}

impl Cluster {
    async fn new(world: World) -> Self {
        world.default_link(Link { delay: 15 * MS, jitter: 2 * MS, loss: 500, ..Link::default() });
        let authority = Authority::new(&world).await.unwrap();
        let mut machines = Vec::new();
        let mut members = BTreeMap::new();
        for (id, region) in (1..).zip(REGIONS) {
            let name = format!("central-{region}");
            let machine = world.machine(&name);
            let who = format!("central/{region}/{name}");
            authority.enrol(&machine, &who, Path::new("/credentials")).await.unwrap();
            let node = NodeAddr {
                name: name.parse().unwrap(),
                role: Role::Central,
                region: region.parse().unwrap(),
                mesh: machine.at(PORT),
            };
            members.insert(NodeId(id), node);
            machines.push(machine);
        }
        let cluster = Self { world, machines, members, running: Arc::default(), history: Arc::default() };
        cluster.start_all();
        for at in 0..cluster.machines.len() {
            let writer = cluster.clone();
            // Writers live outside of the cluster, as operators do, and speak to one node each.
            let machine = cluster.world.machine(&format!("writer-{at}"));
            drop(machine.start().spawn("write", async move { writer.write(at).await }));
        }
        cluster
    }

    fn start_all(&self) {
        for at in 0..self.machines.len() {
            self.start(at);
        }
    }

    fn start(&self, at: usize) {
        self.running.lock().remove(&at);
        let host = self.machines[at].start();
        let member = Member {
            id: NodeId(at as u64 + 1),
            dir: "/central".into(),
            round_trip: 40 * MS,
            first_members: self.members.clone(),
            patience: 2 * SECOND,
            feed: central::usage::Feed::default(),
        };
        let running = Arc::clone(&self.running);
        drop(host.spawn(
            "central",
            serve(host.clone(), member, move |member| drop(running.lock().insert(at, member))),
        ));
    }

    /// Proposes through one node at a steady pace, for ever, answered or not.
    async fn write(&self, at: usize) {
        loop {
            self.world.sleep(PACE).await;
            let Some(member) = self.running.lock().get(&at).cloned() else { continue };
            let Some(host) = self.machines[at].host() else { continue };
            let history = Arc::clone(&self.history);
            let world = self.world.clone();
            drop(host.spawn("propose", async move { propose(&world, &member, &history).await }));
        }
    }

    fn acknowledged(&self) -> usize {
        self.history.lock().acknowledged.len()
    }

    fn leaders(&self) -> Vec<usize> {
        let running = self.running.lock();
        running
            .iter()
            .filter(|(at, member)| self.machines[**at].host().is_some() && member.leads())
            .map(|(at, _)| *at)
            .collect()
    }

    fn leader(&self) -> Option<usize> {
        self.leaders().first().copied()
    }

    fn storage_states(&self) -> Vec<StorageState> {
        self.running.lock().values().map(|member| member.storage().borrow().clone()).collect()
    }

    /// Waits until all nodes run and agree, and checks them against what was acknowledged.
    async fn settle(&self) -> History {
        let before = self.acknowledged();
        let began = self.world.now();
        while self.acknowledged() < before + 20 {
            assert!(self.world.now().since(began) < 20 * SECOND, "no writes 20 seconds after the faults");
            self.world.sleep(100 * MS).await;
        }
        for machine in self.world.machines().iter().filter(|machine| machine.name().starts_with("writer")) {
            machine.crash();
        }
        self.world.sleep(5 * SECOND).await;
        let history = self.history.lock().clone();
        let mut fingerprints = BTreeSet::new();
        for (at, member) in self.running.lock().iter() {
            let (edges, fingerprint) =
                member.read(|state| (state.registry().edges.clone(), state.fingerprint().unwrap()));
            for edge in &history.acknowledged {
                let name: Name = edge.parse().unwrap();
                assert!(edges.contains_key(&name), "{edge} was acknowledged and is not on node {at}");
            }
            fingerprints.insert(fingerprint);
        }
        assert_eq!(fingerprints.len(), 1, "all nodes have the same state");
        history
    }
}

async fn propose(world: &World, member: &Consensus, history: &Lock<History>) {
    let began = world.now();
    let (edge, bulky) = {
        let mut history = history.lock();
        history.next += 1;
        (format!("edge-{}", history.next), history.bulky && history.next.is_multiple_of(5))
    };
    if bulky {
        drop(member.propose(register("bulk", 400_000)).await);
    }
    match member.propose(register(&edge, 10)).await {
        Ok(Reply::Registered(_)) => {
            let mut history = history.lock();
            history.acknowledged.insert(edge);
            history.newest = history.newest.max(began);
        }
        Ok(other) => panic!("{edge}: {other:?}"),
        Err(ProposeError::Full) => history.lock().refused_full += 1,
        Err(_) => {}
    }
}

async fn serve(host: Host, member: Member, ready: impl FnOnce(Consensus)) {
    let credentials = Credentials::load(&host, Path::new("/credentials")).await.unwrap();
    let endpoint = Endpoint::bind(&host, ([0, 0, 0, 0], PORT).into(), credentials).unwrap();
    let (consensus, mut events) = Consensus::start(&host, member, &endpoint, State::default()).await.unwrap();
    drop(host.spawn("events", async move { while events.recv().await.is_some() {} }));
    ready(consensus.clone());
    while let Some(connection) = endpoint.accept().await {
        let (consensus, serving) = (consensus.clone(), host.clone());
        drop(host.spawn("connection", async move {
            match connection.purpose() {
                Purpose::Consensus => consensus.serve(connection).await,
                Purpose::Calls => {
                    while let Ok((_, sender, receiver)) = connection.accept_stream().await {
                        let (consensus, connection) = (consensus.clone(), connection.clone());
                        drop(serving.spawn("answer", async move {
                            drop(consensus.answer(&connection, sender, receiver).await);
                        }));
                    }
                }
            }
        }));
    }
}

fn register(edge: &str, build: usize) -> Command {
    Command::Register(Registration {
        edge: edge.parse().unwrap(),
        region: "eu".parse().unwrap(),
        hello: Hello {
            level: 1,
            build: "x".repeat(build),
            boot: 1,
            resume: None,
            last: None,
            mesh: ([10, 9, 9, 9], 1).into(),
            have: None,
        },
    })
}
