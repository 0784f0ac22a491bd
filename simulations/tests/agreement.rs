//! Central's members agree through everything that may happen to them: what was acknowledged is never lost, every state
//! is the same, and the group goes on as soon as a majority can.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{Name, NodeId, Revision, Role};
use central::consensus::{
    Consensus, MemberChange, MemberError, Options as Member, ProposeError, ReadError, StorageState,
};
use central_core::{Command, Registration, Reply, State};
use mesh::{Credentials, Endpoint, Purpose};
use seam::Host;
use simulations::authority::Authority;
use simulations::engine::{Cut, Link, Machine, Options, PowerLoss, Random, World, run, run_twice};
use wire::control::{Hello, NodeAddr, Opening};

const PORT: u16 = 7000;
const CREDENTIALS: &str = "/credentials";
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn acknowledged_commands_survive_the_leader_and_the_power_of_all() {
    let report = run_twice(&Options::seed(1), |world| async move {
        let mut group = Group::new(&world, 3).await;
        group.start_all().await;
        let leader = group.leader().await;
        group.register_from(leader, 0..5).await;
        group.register_from(other_than(leader), 5..10).await;
        group.agree().await;

        let before = world.now();
        group.machines[leader].power_off(PowerLoss::Unsynced);
        group.register_from(other_than(leader), 10..11).await;
        let failover = world.now().since(before);
        group.register_from(other_than(leader), 11..15).await;
        group.start(leader).await;
        group.agree().await;

        for machine in &group.machines {
            machine.power_off(PowerLoss::Unsynced);
        }
        group.start_all().await;
        group.agree().await;
        failover
    });
    let failover = report.unwrap().value;
    assert!(failover < 2 * SECOND, "{failover:?}");
}

#[test]
fn a_newcomer_gets_a_snapshot_and_takes_a_voters_place() {
    let run = run(&Options::seed(2), |world| async move {
        let mut group = Group::new(&world, 3).await;
        group.start_all().await;
        let leader = group.leader().await;
        // More entries than a snapshot is made after.
        group.register_many(leader, 0..1_200).await;
        let standing = group.member(leader).standing();
        assert!(standing.snapshot > Revision(0), "{standing:?}");

        let newcomer = group.machines.len();
        let addr = group.add_machine().await;
        group.start(newcomer).await;
        group.change(leader, MemberChange::AddLearner(number(newcomer), addr.clone())).await;
        let old = other_than(leader);
        group.change(leader, MemberChange::Replace { old: number(old), new: number(newcomer) }).await;
        group.machines[old].power_off(PowerLoss::Unsynced);
        group.first.remove(&number(old));
        group.first.insert(number(newcomer), addr);

        group.change(leader, MemberChange::Transfer(number(newcomer))).await;
        while group.leader().await != newcomer {
            world.sleep(50 * MS).await;
        }
        group.register_from(leader, 1_200..1_205).await;
        group.agree().await;
        let voters = group.member(newcomer).standing().members;
        assert_eq!(voters.iter().filter(|member| member.votes).count(), 3, "{voters:?}");
    });
    run.unwrap();
}

#[test]
fn a_learner_is_known_to_hold_a_log_before_anybody_lets_it_vote() {
    let run = run(&Options::seed(8), |world| async move {
        let mut group = Group::new(&world, 3).await;
        group.start_all().await;
        let leader = group.leader().await;
        group.register_from(leader, 0..5).await;
        let newcomer = group.machines.len();
        let addr = group.add_machine().await;
        // Its log is empty until it starts, long after the members changed.
        group.change(leader, MemberChange::AddLearner(number(newcomer), addr)).await;
        world.sleep(3 * SECOND).await;
        let knows = |group: &Group| {
            group.member(leader).read(|state| state.registry().joined.contains(&number(newcomer)))
        };
        assert!(!knows(&group));
        group.start(newcomer).await;
        world.sleep(5 * SECOND).await;
        group.register_from(leader, 5..10).await;
        world.sleep(SECOND).await;
        assert!(knows(&group));
    });
    run.unwrap();
}

#[test]
fn a_member_whose_disk_was_wiped_does_not_come_back_as_itself() {
    let run = run(&Options::seed(3), |world| async move {
        let mut group = Group::new(&world, 3).await;
        group.start_all().await;
        let leader = group.leader().await;
        group.register_from(leader, 0..5).await;
        world.sleep(SECOND).await;
        let wiped = other_than(leader);
        group.machines[wiped].power_off(PowerLoss::Unsynced);
        group.wipe(wiped).await;
        group.start(wiped).await;
        let member = group.member(wiped);
        let why = group.machines[wiped].run("stopped", async move { member.stopped().await }).await.unwrap();
        assert!(why.contains("lost or wiped"), "{why}");
        group.machines[wiped].crash();
        group.register_from(leader, 5..10).await;
        group.agree().await;
    });
    run.unwrap();
}

#[test]
fn members_change_whoever_leads() {
    let run = run(&Options::seed(5), |world| async move {
        let mut group = Group::new(&world, 3).await;
        group.start_all().await;
        let leader = group.leader().await;
        let newcomer = group.machines.len();
        let addr = group.add_machine().await;
        group.start(newcomer).await;

        let handing_over = {
            let member = group.member(leader);
            let sleeper = world.clone();
            let around = async move {
                for turn in 0.. {
                    drop(member.change_members(MemberChange::Transfer(number(turn % 3))).await);
                    sleeper.sleep(500 * MS).await;
                }
            };
            group.machines[leader].host().unwrap().spawn("transfers", around)
        };
        for _round in 0..10 {
            let asked = other_than(leader);
            let added = MemberChange::AddLearner(number(newcomer), addr.clone());
            assert_eq!(group.ask_to_change(asked, added).await, Ok(()));
            world.sleep(133 * MS).await;
        }
        // Many times: that there are more members must not depend on who leads at the moment.
        group.change(leader, MemberChange::Promote(number(newcomer))).await;
        for _round in 0..10 {
            let again = MemberChange::Promote(number(newcomer));
            assert_eq!(group.ask_to_change(leader, again).await, Ok(()));
            world.sleep(147 * MS).await;
        }
        let replaced = MemberChange::Remove(number(newcomer));
        assert_eq!(group.ask_to_change(other_than(leader), replaced).await, Ok(()));
        group.machines[newcomer].crash();
        handing_over.abort();
        group.register_from(leader, 0..5).await;
        group.agree().await;
    });
    run.unwrap();
}

#[test]
fn a_leader_whose_clock_is_wrong_dates_nothing_wrongly() {
    let run = run(&Options::seed(6), |world| async move {
        let mut group = Group::new(&world, 3).await;
        group.start_all().await;
        let leader = group.leader().await;
        world.sleep(2 * SECOND).await;
        let told = group.dated(leader).await;
        group.machines[leader].step_clock(40 * 86_400_000);
        world.sleep(20 * SECOND).await;
        assert_eq!(group.leader().await, leader);
        let later = group.dated(leader).await - told;
        assert!((20_000..21_000).contains(&later), "{later} ms passed");
    });
    run.unwrap();
}

#[test]
fn a_full_disk_refuses_hands_over_and_recovers_with_nothing_lost() {
    let run = run(&Options::seed(4), |world| async move {
        let mut group = Group::new(&world, 3).await;
        group.start_all().await;
        let full = group.leader().await;
        group.register_from(full, 0..5).await;
        let used = group.machines[full].disk_used();
        group.machines[full].disk_faults(|faults| faults.capacity = Some(used + 4096));

        // A segment of the log fills up; the next finds no room.
        let mut next = 5;
        while *group.member(full).storage().borrow() != StorageState::Full {
            let (member, command) = (group.member(full), registration(next, 4 << 20));
            let proposing = async move { member.propose(command).await };
            match group.machines[full].run("fill", proposing).await.unwrap() {
                Ok(_) => drop(group.acknowledged.insert(next)),
                // One whose entry was under way when the disk filled up may have been left out by the next leader.
                Err(refused) => {
                    assert!(matches!(refused, ProposeError::Full | ProposeError::Unknown(_)), "{refused}");
                }
            }
            next += 1;
        }
        let before = world.now();
        // The full member cannot even note the new leader, so that the others are asked.
        while group.member(other_than(full)).standing().leader == Some(number(full)) {
            world.sleep(50 * MS).await;
        }
        assert!(world.now().since(before) < 10 * SECOND);
        group.register_from(other_than(full), 100..105).await;

        group.machines[full].disk_faults(|faults| faults.capacity = None);
        group.agree().await;
        assert_eq!(*group.member(full).storage().borrow(), StorageState::Good);
    });
    run.unwrap();
}

#[test]
fn a_member_whose_sync_fails_stops_and_the_others_go_on() {
    let run = run(&Options::seed(5), |world| async move {
        let mut group = Group::new(&world, 3).await;
        group.start_all().await;
        let failing = group.leader().await;
        group.register_from(failing, 0..5).await;
        group.machines[failing].disk_faults(|faults| faults.fails_syncs = true);
        group.register_from(other_than(failing), 5..10).await;
        let member = group.member(failing);
        let stopped = async move { member.stopped().await };
        let why = group.machines[failing].run("stopped", stopped).await.unwrap();
        assert!(!why.is_empty());
        group.machines[failing].crash();
        group.agree().await;
    });
    run.unwrap();
}

/// databendlabs/openraft#2080: a leader that reaches one voter and no majority keeps that voter from electing another.
#[test]
fn a_leader_that_reaches_one_voter_only_gives_way_to_the_majority() {
    let run = run(&Options::seed(6), |world| async move {
        let mut group = Group::new(&world, 5).await;
        group.start_all().await;
        let old = group.leader().await;
        group.register_from(old, 0..3).await;
        let bridge = (old + 1) % 5;
        let far: Vec<Machine> =
            (0..5).filter(|at| *at != old && *at != bridge).map(|at| group.machines[at].clone()).collect();
        world.partition(&[group.machines[old].clone()], &far, Cut::Drop);
        let before = world.now();
        group.register_from((old + 2) % 5, 3..4).await;
        let took = world.now().since(before);
        assert!(took < 8 * SECOND, "{took:?}");
        world.heal();
        group.agree().await;
    });
    run.unwrap();
}

/// Its heartbeats arrive and keep the others from standing, its writes are answered in time, and its questions are not.
#[test]
fn a_leader_whose_majority_answers_too_late_hands_over() {
    let run = run(&Options::seed(7), |world| async move {
        let mut group = Group::new(&world, 3).await;
        group.start_all().await;
        let slow = group.leader().await;
        group.register_from(slow, 0..3).await;
        let others: Vec<Machine> = group
            .machines
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != slow)
            .map(|(_, it)| it.clone())
            .collect();
        for other in &others {
            world.change_link(&group.machines[slow], other, |link| link.delay = 170 * MS);
            world.change_link(other, &group.machines[slow], |link| link.delay = 170 * MS);
        }
        let (before, member, host) = (world.now(), group.member(slow), group.machines[slow].host().unwrap());
        for next in 3.. {
            if group.member(other_than(slow)).standing().leader != Some(number(slow)) {
                break;
            }
            assert!(world.now().since(before) < 5 * SECOND);
            // So dense that the leader's lease never ends.
            let (writes, reads) = (member.clone(), member.clone());
            let write = async move { drop(writes.propose(registration(next, 0)).await) };
            let read = async move { drop(reads.read_index().await) };
            drop(host.spawn("write", write));
            drop(host.spawn("read", read));
            world.sleep(50 * MS).await;
        }
        let near = group.leader().await;
        group.read_index(near).await.unwrap();
        assert_eq!(group.leader().await, near);
        group.agree().await;
    });
    run.unwrap();
}

#[test]
fn nothing_acknowledged_is_lost_whatever_fails_in_whatever_order() {
    for seed in 0..6 {
        run(&Options::seed(seed), move |world| nemesis(world, seed)).unwrap();
    }
    run_twice(&Options::seed(100), |world| nemesis(world, 100)).unwrap();
}

async fn nemesis(world: World, seed: u64) {
    let mut group = Group::new(&world, 3).await;
    group.start_all().await;
    let mut random = world.random("nemesis");
    let mut next = 0;
    for _ in 0..8 {
        group.strike(&mut random).await;
        let calm = world.now() + Duration::from_millis(500 + random.below(3_000));
        while world.now() < calm {
            let at = usize::try_from(random.below(3)).unwrap();
            group.try_register(at, next).await;
            next += 1;
        }
        if random.below(3) > 0 {
            group.mend().await;
            world.sleep(SECOND).await;
        }
    }
    group.mend().await;
    group.agree().await;
    assert!(group.acknowledged.len() > 10, "seed {seed}: {} acknowledged", group.acknowledged.len());
}

const fn other_than(at: usize) -> usize {
    if at == 0 { 1 } else { 0 }
}

/// Members of a group, each on a machine of its own.
struct Group {
    world: World,
    authority: Authority,
    machines: Vec<Machine>,
    members: Vec<Option<Consensus>>,
    first: BTreeMap<NodeId, NodeAddr>,
    /// Registrations that were acknowledged.
    acknowledged: BTreeSet<u64>,
}

impl Group {
    async fn new(world: &World, count: usize) -> Self {
        world.default_link(Link { delay: 15 * MS, jitter: 2 * MS, ..Link::default() });
        let mut group = Self {
            world: world.clone(),
            authority: Authority::new(world).await.unwrap(),
            machines: Vec::new(),
            members: Vec::new(),
            first: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
        };
        for at in 0..count {
            let addr = group.add_machine().await;
            group.first.insert(number(at), addr);
        }
        group
    }

    async fn add_machine(&mut self) -> NodeAddr {
        let name = format!("central-{}", self.machines.len() + 1);
        let machine = self.world.machine(&name);
        machine.disk_faults(|faults| faults.sync_jitter = 3 * MS);
        self.authority.enrol(&machine, &format!("central/eu/{name}"), Path::new(CREDENTIALS)).await.unwrap();
        let addr = NodeAddr {
            name: name.parse().unwrap(),
            role: Role::Central,
            region: "eu".parse().unwrap(),
            mesh: machine.at(PORT),
        };
        self.machines.push(machine);
        self.members.push(None);
        addr
    }

    async fn start_all(&mut self) {
        for at in 0..self.machines.len() {
            self.start(at).await;
        }
    }

    async fn start(&mut self, at: usize) {
        let host = self.machines[at].start();
        let options = Member {
            id: number(at),
            dir: PathBuf::from("/central"),
            round_trip: 40 * MS,
            first_members: self.first.clone(),
            patience: SECOND,
            feed: central::usage::Feed::default(),
        };
        let starting = start(host.clone(), self.machines[at].at(PORT), options);
        self.members[at] = Some(host.spawn("central", starting).await.unwrap());
    }

    async fn wipe(&self, at: usize) {
        let disk = self.machines[at].disk();
        for dir in [Path::new("/central"), Path::new("/central/log")] {
            for name in disk.list(dir).await.unwrap() {
                // A directory is not removed; its files are.
                drop(disk.remove(&dir.join(name)).await);
            }
        }
    }

    fn member(&self, at: usize) -> Consensus {
        self.members[at].clone().unwrap()
    }

    fn running(&self) -> Vec<usize> {
        (0..self.machines.len()).filter(|at| self.machines[*at].host().is_some()).collect()
    }

    /// Where the leader is, once all members that run agree on it.
    async fn leader(&self) -> usize {
        loop {
            let seen: Vec<_> = self.running().iter().map(|at| self.member(*at).standing().leader).collect();
            if let [Some(leader), rest @ ..] = seen.as_slice()
                && rest.iter().all(|other| other == &Some(*leader))
            {
                return usize::try_from(leader.0).unwrap() - 1;
            }
            self.world.sleep(50 * MS).await;
        }
    }

    /// Registers edges with these numbers, one after the other, from the member at `at`; each until it is acknowledged.
    async fn register_from(&mut self, at: usize, numbers: Range<u64>) {
        for number in numbers {
            while !self.try_register(at, number).await {
                self.world.sleep(10 * MS).await;
            }
        }
    }

    async fn read_index(&self, at: usize) -> Result<Revision, ReadError> {
        let member = self.member(at);
        let reading = async move { member.read_index().await };
        self.machines[at].run("read", reading).await.unwrap()
    }

    async fn try_register(&mut self, at: usize, number: u64) -> bool {
        let Some(member) = self.members[at].clone() else { return false };
        let proposing = async move { member.propose(registration(number, 0)).await };
        let Some(host) = self.machines[at].host() else {
            self.world.sleep(10 * MS).await;
            return false;
        };
        // The process may be stopped for longer than anybody wants to wait.
        let proposed = host.spawn("propose", proposing);
        let proposed = tokio::select! {
            biased;
            proposed = proposed => proposed,
            () = self.world.sleep(2 * SECOND) => return false,
        };
        match proposed {
            Ok(Ok(Reply::Registered(_))) => self.acknowledged.insert(number),
            Ok(Ok(other)) => panic!("{other:?}"),
            Ok(Err(_)) | Err(_) => return false,
        };
        true
    }

    /// Registers edges with these numbers, many at once.
    async fn register_many(&mut self, at: usize, numbers: Range<u64>) {
        let host = self.machines[at].host().unwrap();
        for number in numbers {
            let member = self.member(at);
            drop(host.spawn("propose", async move { member.propose(registration(number, 0)).await }));
            self.world.sleep(11 * MS).await;
            self.acknowledged.insert(number);
        }
        self.world.sleep(SECOND).await;
    }

    /// The ledger's time, told by an entry that the member at `at` proposes, in milliseconds since 1970.
    async fn dated(&self, at: usize) -> u64 {
        let member = self.member(at);
        let proposing = async move { member.propose(Command::Reports(Vec::new())).await };
        self.machines[at].run("propose", proposing).await.unwrap().unwrap();
        self.member(at).read(|state| state.ledger().now().as_millis())
    }

    async fn ask_to_change(&self, at: usize, change: MemberChange) -> Result<(), MemberError> {
        let member = self.member(at);
        let changing = async move { member.change_members(change).await };
        self.machines[at].run("change", changing).await.unwrap()
    }

    async fn change(&self, at: usize, change: MemberChange) {
        loop {
            match self.ask_to_change(at, change.clone()).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::info!(%error, "again");
                    self.world.sleep(100 * MS).await;
                }
            }
        }
    }

    async fn mend(&mut self) {
        self.world.heal();
        for at in 0..self.machines.len() {
            self.machines[at].resume();
            if self.machines[at].host().is_none() {
                self.start(at).await;
            }
        }
    }

    async fn strike(&mut self, random: &mut Random) {
        let at = usize::try_from(random.below(3)).unwrap();
        match random.below(7) {
            0 => self.machines[at].crash(),
            1 => self.machines[at].power_off(PowerLoss::Torn),
            2 => self.machines[at].pause(),
            3 => {
                for machine in &self.machines {
                    machine.power_off(PowerLoss::Unsynced);
                }
                self.start_all().await;
            }
            4 => self.world.partition(&self.machines[at..=at], &self.machines, Cut::Drop),
            5 => self.world.cut(&self.machines[at..=at], &self.machines, Cut::Drop),
            _ => self.world.partition(&self.machines[at..=at], &self.machines, Cut::Hold),
        }
    }

    /// Waits until all running members have the same state, which holds all that was acknowledged.
    async fn agree(&self) {
        let running = self.running();
        for at in &running {
            loop {
                let member = self.member(*at);
                if self.machines[*at]
                    .run("read", async move { member.read_index().await })
                    .await
                    .unwrap()
                    .is_ok()
                {
                    break;
                }
            }
        }
        self.world.sleep(2 * SECOND).await;
        let states: Vec<_> = running.iter().map(|at| self.member(*at).read(State::clone)).collect();
        for state in &states {
            let edges = &state.registry().edges;
            for number in &self.acknowledged {
                assert!(edges.contains_key(&edge(*number)), "edge {number} was acknowledged and is gone");
            }
            assert_eq!(state.fingerprint(), states[0].fingerprint());
            assert_eq!(state.registry().members, self.first);
        }
    }
}

fn number(at: usize) -> NodeId {
    NodeId(at as u64 + 1)
}

async fn start(host: Host, at: std::net::SocketAddr, options: Member) -> Consensus {
    let credentials = Credentials::load(&host, Path::new(CREDENTIALS)).await.unwrap();
    let endpoint = Endpoint::bind(&host, at, credentials).unwrap();
    let started = Consensus::start(&host, options, &endpoint, State::default()).await;
    let (member, mut events) = started.unwrap();
    drop(host.spawn("events", async move { while events.recv().await.is_some() {} }));
    let (serving, spawner) = (member.clone(), host.clone());
    drop(host.spawn("accept", async move {
        while let Some(connection) = endpoint.accept().await {
            let member = serving.clone();
            drop(spawner.spawn("serve", async move {
                match connection.purpose() {
                    Purpose::Consensus => member.serve(connection).await,
                    Purpose::Calls => {
                        while let Ok((Opening::Rpc, sender, receiver)) = connection.accept_stream().await {
                            drop(member.answer(&connection, sender, receiver).await);
                        }
                    }
                }
            }));
        }
    }));
    member
}

fn edge(number: u64) -> Name {
    format!("edge-{number}").parse().unwrap()
}

/// A registration; its build's version has this many bytes more.
fn registration(number: u64, size: usize) -> Command {
    let edge = edge(number);
    let hello = Hello {
        level: 1,
        build: "x".repeat(size),
        boot: number,
        resume: None,
        last: None,
        mesh: "10.9.9.9:7000".parse().unwrap(),
        have: None,
    };
    Command::Register(Registration { edge, region: "eu".parse().unwrap(), hello })
}
