//! What the law costs: wallets and the ledger in virtual time, over links with delays and disks that take a while.
//! Shown: a budget is used to its last unit, calls hardly wait while it is rich, and unused credit comes back.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Amount, BudgetId, Era, Incarnation, Mono, Name, Unit, WallMs};
use central_core::LogMs;
use central_core::ledger::Ledger;
use wire::calendar::Zone;
use wire::catalog::{Budget, Mode, Scope, Window};
use wire::control::Welcome;
use wire::ledger::{Grants, Report};

use super::{Decision, Held, Record, Recovered, TICK, WaitId, Wallet};

const BUDGET: BudgetId = BudgetId(1);
const STEP: Duration = Duration::from_millis(1);
const SYNC_MS: u64 = 5;
/// The leader's tick and a quorum within 60 ms.
const COMMIT_MS: u64 = 70;
/// Reports are at least this far apart.
const GATHER_MS: u64 = 5;

#[test]
fn of_a_thousand_calls_at_once_exactly_those_are_served_that_the_budget_pays_for() {
    for delays in [[1, 1, 1], [1, 30, 90], [90, 90, 90]] {
        for (price, budget) in [(1, 100), (7, 700), (7, 703), (1_000_003, 100_000_300)] {
            let mut world = World::new(budget, &delays);
            for number in 0..1_000 {
                world.call(number % 3, Call { hold: price, cost: price, time: 200, tries: 1 });
            }
            world.run(5_000);
            assert_eq!(world.served, 100, "price {price}, budget {budget}, delays {delays:?}");
        }
    }
}

#[test]
fn large_holds_and_callers_who_retry_use_a_budget_up_to_less_than_one_hold() {
    for (hold, cost) in [(15, 10), (40, 10), (200, 10)] {
        let mut world = World::new(1_000, &[1, 30, 90]);
        for number in 0..300 {
            world.call(number % 3, Call { hold, cost, time: 300, tries: 200 });
        }
        world.run(60_000);
        let rest = 1_000 - world.charged;
        assert!(rest < hold, "hold {hold}, cost {cost}: {rest} left");
    }
}

#[test]
fn a_steady_load_on_a_rich_budget_waits_only_at_its_beginning() {
    let mut world = World::new(100_000_000, &[1, 30, 90]);
    for tick in 0..3_000 {
        world.call(tick % 3, Call { hold: 50, cost: 10, time: 500, tries: 1 });
        world.run(10);
        if tick == 100 {
            world.waited = 0;
        }
    }
    assert_eq!((world.refused, world.waited), (0, 0));
}

#[test]
fn demand_that_moves_to_another_edge_finds_the_credit_there() {
    let mut world = World::new(2_000, &[1, 90]);
    for tick in 0..200 {
        world.call(0, Call { hold: 4, cost: 1, time: 100, tries: 1 });
        world.run(10);
        assert_eq!(world.refused, 0, "call {tick}");
    }
    for _tick in 0..400 {
        world.call(1, Call { hold: 4, cost: 4, time: 100, tries: 1 });
        world.run(10);
    }
    world.run(2_500);
    assert!(world.charged >= 1_790, "{} charged, {} refused", world.charged, world.refused);
    let row = world.ledger.check().remove(0);
    assert_eq!(row.outstanding, Amount::ZERO, "idle credit came back");
}

#[derive(Clone, Copy, Debug)]
struct Call {
    hold: u64,
    cost: u64,
    time: u64,
    tries: u32,
}

#[derive(Debug)]
enum Event {
    Report(usize, Report),
    Commit(Vec<(usize, Report)>),
    Grants(usize, Grants),
    Synced(usize, Vec<Record>),
    Settle(usize, Held, Call),
    Late(usize, WaitId),
    Again(usize, Call),
}

#[derive(Debug)]
struct Edge {
    wallet: Wallet,
    delay: u64,
    syncing: bool,
    reported: u64,
    waits: BTreeMap<WaitId, Call>,
}

#[derive(Debug)]
struct World {
    ledger: Ledger,
    edges: Vec<Edge>,
    ms: u64,
    events: BTreeMap<(u64, u64), Event>,
    number: u64,
    served: u64,
    charged: u64,
    refused: u64,
    waited: u64,
}

impl World {
    fn new(limit: u64, delays: &[u64]) -> Self {
        let name: Name = "all".parse().unwrap();
        let budget = Budget {
            id: BUDGET,
            name: name.clone(),
            scope: Scope::Key("key".parse().unwrap()),
            unit: Unit::Requests,
            window: Window::Total,
            zone: Zone::default(),
            limit: Amount(limit),
            mode: Mode::Strict,
            thresholds: Vec::new(),
            horizon_ms: 60_000,
        };
        let mut ledger = Ledger::default();
        ledger.set_budget(&budget);
        let budgets = [(name, budget)].into();
        let edge = |(at, delay): (usize, &u64)| {
            ledger.register(&edge_name(at), 1, None, None);
            let mut wallet = Wallet::new(Recovered::default());
            wallet.install(&budgets);
            wallet.welcome(&Welcome { level: 1, era: Era(0), incarnation: Incarnation(1) });
            Edge { wallet, delay: *delay, syncing: false, reported: 0, waits: BTreeMap::new() }
        };
        let edges = delays.iter().enumerate().map(edge).collect();
        Self {
            ledger,
            edges,
            ms: 1,
            events: BTreeMap::new(),
            number: 0,
            served: 0,
            charged: 0,
            refused: 0,
            waited: 0,
        }
    }

    fn now(&self) -> Mono {
        Mono::ZERO + STEP * u32::try_from(self.ms).unwrap()
    }

    fn after(&mut self, ms: u64, event: Event) {
        self.number += 1;
        self.events.insert((self.ms + ms, self.number), event);
    }

    fn call(&mut self, at: usize, call: Call) {
        let now = self.now();
        match self.edges[at].wallet.ask(&[(BUDGET, Amount(call.hold))], now) {
            Decision::Held(held) => self.after(call.time, Event::Settle(at, held, call)),
            Decision::Wait { id, until } => {
                self.waited += 1;
                self.edges[at].waits.insert(id, call);
                let patience = u64::try_from(until.since(now).as_millis()).unwrap();
                self.after(patience, Event::Late(at, id));
            }
            Decision::Refused(_why) => self.again(at, call),
        }
        self.pump(at);
    }

    fn again(&mut self, at: usize, call: Call) {
        self.refused += 1;
        if call.tries > 1 {
            self.after(250, Event::Again(at, Call { tries: call.tries - 1, ..call }));
        }
    }

    fn run(&mut self, ms: u64) {
        for _step in 0..ms {
            self.ms += 1;
            while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= self.ms) {
                let event = entry.remove();
                self.happen(event);
            }
            for at in 0..self.edges.len() {
                if self.ms.is_multiple_of(u64::try_from(TICK.as_millis()).unwrap()) {
                    let now = self.now();
                    self.edges[at].wallet.tick(now);
                    self.report(at);
                }
                self.pump(at);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Report(at, report) => self.after(COMMIT_MS, Event::Commit(vec![(at, report)])),
            Event::Commit(reports) => {
                let named: Vec<_> = reports.into_iter().map(|(at, report)| (edge_name(at), report)).collect();
                for (edge, grants) in
                    self.ledger.report((WallMs::from_millis(self.ms), LogMs(self.ms)), &named)
                {
                    let to = (0..self.edges.len()).find(|at| edge_name(*at) == edge).unwrap();
                    self.after(self.edges[to].delay, Event::Grants(to, grants));
                }
            }
            Event::Grants(at, grants) => {
                let now = self.now();
                self.edges[at].wallet.granted(&grants, now);
                self.pump(at);
            }
            Event::Synced(at, records) => {
                self.edges[at].syncing = false;
                for record in &records {
                    self.edges[at].wallet.written(record);
                }
                self.pump(at);
            }
            Event::Settle(at, held, call) => {
                drop(self.edges[at].wallet.settle(held, &[(BUDGET, Amount(call.cost))]));
                self.served += 1;
                self.charged += call.cost;
                self.pump(at);
            }
            Event::Late(at, id) => {
                if let Some(call) = self.edges[at].waits.remove(&id) {
                    assert!(self.edges[at].wallet.give_up(id).is_some());
                    self.again(at, call);
                }
            }
            Event::Again(at, call) => self.call(at, call),
        }
    }

    /// Takes what the wallet decided, writes its records, and reports when it presses.
    fn pump(&mut self, at: usize) {
        for (id, answer) in self.edges[at].wallet.decided() {
            let Some(call) = self.edges[at].waits.remove(&id) else { continue };
            match answer {
                Ok(held) => self.after(call.time, Event::Settle(at, held, call)),
                Err(_why) => self.again(at, call),
            }
        }
        if !self.edges[at].syncing && self.edges[at].wallet.has_records() {
            self.edges[at].syncing = true;
            let records = self.edges[at].wallet.records();
            self.after(SYNC_MS, Event::Synced(at, records));
        }
        if self.edges[at].wallet.is_urgent() && self.ms >= self.edges[at].reported + GATHER_MS {
            self.report(at);
        }
    }

    fn report(&mut self, at: usize) {
        self.edges[at].reported = self.ms;
        let now = self.now();
        if let Some(report) = self.edges[at].wallet.report(now) {
            self.after(self.edges[at].delay, Event::Report(at, report));
        }
    }
}

fn edge_name(at: usize) -> Name {
    format!("edge-{at}").parse().unwrap()
}
