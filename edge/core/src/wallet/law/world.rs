//! The checker's world: one ledger, some edges, a bad network, and dice.

mod quiet;

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Amount, BudgetId, Era, Incarnation, Mono, Name, NanoUsd, RequestId, Unit, WallMs, WindowId};
use central_core::LogMs;
use central_core::ledger::{self, Ledger, Registered, Verdict};
use wire::calendar::Zone;
use wire::catalog::{Budget, Mode, Scope, Window};
use wire::control::Welcome;
use wire::ledger::{
    FinalReport, Grants, Outcome, Receipt, ReceiptBatch, ReceiptKind, Report, Usage, UsageRow,
};

use super::super::{Decision, IDLE, Mutant, Settled};
use super::auditor::{Auditor, EACH};
use super::node::{Call, Node};

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    ReclaimAtExpiry,
    DeltaGrants,
    ReturnNotDurable,
    IgnoreCeiling,
    GrantBeforeCommit,
}

#[derive(Clone, Debug)]
enum Message {
    Hello { boot: u64, resume: Option<Incarnation>, last: Option<Incarnation> },
    Report(Report),
    Receipts(ReceiptBatch),
    Final(FinalReport),
    Welcome { boot: u64, incarnation: Incarnation },
    Grants(Grants),
    Applied { incarnation: Incarnation, next: u64 },
    Closed(Incarnation),
}

type Key = (usize, Incarnation, BudgetId, WindowId);

#[derive(Debug)]
pub(super) struct World {
    dice: Dice,
    fault: Option<Fault>,
    ledger: Ledger,
    budgets: BTreeMap<Name, Budget>,
    nodes: Vec<Node>,
    /// Messages on their way: from or to which edge.
    net: Vec<(usize, Message)>,
    lossless: bool,
    /// A disk was lost, and with it receipts.
    wiped: bool,
    auditor: Auditor,
    /// Credit that central committed.
    granted: BTreeMap<Key, Amount>,
    reported: BTreeMap<Key, Amount>,
    now: Mono,
    wall: u64,
    boots: u64,
    calls: u128,
    decisions: u32,
    largest: u64,
}

impl World {
    pub(super) fn new(seed: u64, fault: Option<Fault>) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66);
        let edges = 2 + dice.below(3);
        let nodes = (0..edges).map(|number| Node::new(format!("edge-{number}").parse().unwrap())).collect();
        let mut world = Self {
            dice,
            fault,
            ledger: Ledger::default(),
            budgets: BTreeMap::new(),
            nodes,
            net: Vec::new(),
            lossless: false,
            wiped: false,
            auditor: Auditor::default(),
            granted: BTreeMap::new(),
            reported: BTreeMap::new(),
            now: Mono::from_nanos(1),
            wall: 1_798_718_400_000,
            boots: 0,
            calls: 0,
            decisions: 0,
            largest: 0,
        };
        world.largest = if world.dice.below(2) == 0 { 1 } else { 12 };
        let users = if world.dice.below(2) == 0 { Window::Total } else { Window::Hour };
        for (number, window) in [(1, Window::Total), (2, Window::Hour), (3, users)] {
            let most = if fault.is_some() { 90 } else { 200 };
            let limit = 30 + world.dice.below(most);
            world.set_budget(number, window, limit);
        }
        world
    }

    pub(super) fn run(mut self, steps: u32) -> Result<(), String> {
        for _step in 0..steps {
            self.step()?;
            self.auditor.check()?;
            self.auditor.check_rows(&self.ledger.check())?;
            if self.fault.is_none() {
                self.check_committed()?;
            }
        }
        if self.fault.is_none() { self.quiesce() } else { Ok(()) }
    }

    fn step(&mut self) -> Result<(), String> {
        let at = self.dice.index(self.nodes.len());
        self.now = self.now + Duration::from_millis(self.dice.below(60));
        match self.dice.below(100) {
            0..=27 => self.call(at),
            28..=39 => self.settle(at),
            40..=63 => self.deliver()?,
            64..=73 => self.report(at)?,
            74..=83 => self.sync(at),
            84..=88 => self.tick(at),
            89..=91 => self.start(at),
            92..=93 => self.crash(at),
            94 => self.clock(),
            95 if self.fault.is_none() => self.change_limit(),
            95 => self.crash(at),
            96 => self.adopt(at),
            97 => self.nodes[at].purge(),
            98 => self.retire(at),
            _ if self.fault.is_none() => self.lose(at),
            _ => self.reclaim(at),
        }
        self.decided(at);
        // Long enough for end users to be forgotten, while what was said of them is still on its way.
        if self.dice.below(20) == 0 {
            self.now = self.now + IDLE;
        }
        Ok(())
    }

    fn set_budget(&mut self, number: u64, window: Window, limit: u64) {
        let id = BudgetId(number.into());
        let name: Name = format!("budget-{number}").parse().unwrap();
        let scope = match id {
            EACH => Scope::EachUser("acme".parse().unwrap(), None),
            _other => Scope::Key("key".parse().unwrap()),
        };
        let unit = Unit::Requests;
        let budget = Budget {
            id,
            name: name.clone(),
            scope,
            unit,
            window,
            zone: Zone::default(),
            limit: Amount(limit),
            mode: Mode::Strict,
            thresholds: Vec::new(),
            horizon_ms: 60_000,
        };
        self.ledger.set_budget(&budget);
        self.auditor.limit(id, budget.limit);
        self.budgets.insert(name, budget);
    }

    fn change_limit(&mut self) {
        let number = 1 + self.dice.below(2);
        let id = BudgetId(number.into());
        if self.dice.below(4) == 0 {
            self.ledger.remove_budget(id);
            self.budgets.retain(|_name, budget| budget.id != id);
        } else {
            let window = if number == 1 { Window::Total } else { Window::Hour };
            let limit = 20 + self.dice.below(250);
            self.set_budget(number, window, limit);
        }
        for node in &mut self.nodes {
            if let Some(wallet) = &mut node.wallet
                && self.dice.below(3) > 0
            {
                wallet.install(&self.budgets);
            }
        }
    }

    fn start(&mut self, at: usize) {
        let mutant = match self.fault {
            Some(Fault::IgnoreCeiling) => Some(Mutant::IgnoreCeiling),
            Some(Fault::ReturnNotDurable) => Some(Mutant::ReportReturnsEarly),
            Some(Fault::ReclaimAtExpiry | Fault::DeltaGrants | Fault::GrantBeforeCommit) | None => None,
        };
        let node = &mut self.nodes[at];
        if node.wallet.is_none() {
            self.boots += 1;
            node.start(self.boots, mutant);
            node.wallet.as_mut().unwrap().install(&self.budgets);
            if self.dice.below(3) == 0 {
                self.adopt(at);
            }
        }
    }

    fn crash(&mut self, at: usize) {
        let kept = self.dice.index(4);
        if self.dice.below(4) == 0 {
            self.nodes[at].rest(kept);
        }
        self.nodes[at].crash(kept);
        if self.dice.below(6) == 0 {
            self.nodes[at].wipe();
            self.wiped = true;
        }
    }

    fn adopt(&mut self, at: usize) {
        if let Some(wallet) = &mut self.nodes[at].wallet {
            wallet.adopt();
        }
    }

    fn retire(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if let Some(wallet) = &mut node.wallet
            && self.dice.below(4) == 0
        {
            node.retired = true;
            wallet.retire();
        }
    }

    fn clock(&mut self) {
        self.wall = match self.dice.below(3) {
            0 => self.wall + 3_600_000,
            1 => self.wall + 600_000,
            _ => self.wall - 1_800_000,
        };
    }

    fn tick(&mut self, at: usize) {
        let pause = if self.dice.below(6) == 0 { 2_000 } else { 50 };
        self.now = self.now + Duration::from_millis(pause + self.dice.below(400));
        if let Some(wallet) = &mut self.nodes[at].wallet {
            wallet.tick(self.now);
            self.nodes[at].seen = self.now;
        }
    }

    fn sync(&mut self, at: usize) {
        let count = self.dice.index(6);
        self.nodes[at].sync_journal(count);
        if self.dice.below(2) == 0 {
            self.nodes[at].sync_spool();
        }
    }

    fn call(&mut self, at: usize) {
        let mut asks = Vec::new();
        let most = self.largest;
        for number in 1..=2 {
            if self.dice.below(4) > 0 {
                asks.push((BudgetId(number), Amount(1 + self.dice.below(most))));
            }
        }
        if self.fault.is_none() && self.dice.below(2) == 0 {
            let user = 1 + self.dice.below(3);
            asks.push((EACH.of_user(user), Amount(1 + self.dice.below(most))));
        }
        let whole = self.fault.is_some();
        let cost = |dice: &mut Dice, hold: Amount| if whole { hold } else { Amount(dice.below(hold.0 + 1)) };
        let costs = asks.iter().map(|(budget, hold)| (*budget, cost(&mut self.dice, *hold))).collect();
        self.calls += 1;
        let call = Call { number: self.calls, asks, costs };
        let Some(wallet) = &mut self.nodes[at].wallet else { return };
        match wallet.ask(&call.asks, self.now) {
            Decision::Held(held) => self.begin(at, held, call),
            Decision::Wait { id, .. } => drop(self.nodes[at].waits.insert(id, call)),
            Decision::Refused(_why) => {}
        }
    }

    fn begin(&mut self, at: usize, held: super::super::Held, call: Call) {
        for part in &held.parts {
            let cost = call.costs.iter().find(|(budget, _cost)| *budget == part.budget).unwrap().1;
            self.auditor.spend(part.budget, part.window, cost);
        }
        self.nodes[at].held.push((held, call));
    }

    fn decided(&mut self, at: usize) {
        let Some(wallet) = &mut self.nodes[at].wallet else { return };
        for (id, answer) in wallet.decided() {
            let call = self.nodes[at].waits.remove(&id).unwrap();
            if let Ok(held) = answer {
                self.begin(at, held, call);
            }
        }
        if self.dice.below(8) == 0
            && let Some((id, _call)) = self.nodes[at].waits.pop_first()
        {
            let _why = self.nodes[at].wallet.as_mut().unwrap().give_up(id);
        }
    }

    fn settle(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if node.held.is_empty() {
            return;
        }
        let chosen = self.dice.index(node.held.len());
        let (held, call) = node.held.swap_remove(chosen);
        let Some(wallet) = &mut node.wallet else { return };
        let Settled { incarnation: Some(incarnation), charges } = wallet.settle(held, &call.costs) else {
            return;
        };
        let receipt = Receipt {
            request: RequestId(call.number),
            kind: ReceiptKind::Call,
            at: WallMs::from_millis(self.wall),
            tenant: "acme".parse().unwrap(),
            app: "app".parse().unwrap(),
            key: "key".parse().unwrap(),
            scenario: None,
            user: None,
            model: None,
            operation: None,
            region: "eu".parse().unwrap(),
            served_by: None,
            provider: None,
            provider_key: None,
            attempts: 1,
            usage: Usage::default(),
            estimated: false,
            price_from: None,
            cost: NanoUsd(0),
            outcome: Outcome::Complete,
            code: None,
            charges,
        };
        node.spool.entry(incarnation).or_default().push(receipt);
    }

    fn report(&mut self, at: usize) -> Result<(), String> {
        let node = &mut self.nodes[at];
        let Some(wallet) = &mut node.wallet else { return Ok(()) };
        if !node.welcomed {
            let hello = Message::Hello { boot: node.boot, resume: wallet.to_resume(), last: wallet.last() };
            self.net.push((at, hello));
        }
        let report = wallet.report(self.now);
        for mut last_word in wallet.finals() {
            let receipts = node.spool.get(&last_word.incarnation).map_or(0, Vec::len);
            // A receipt that a crash may still take must not be promised.
            if node.synced.get(&last_word.incarnation).copied().unwrap_or_default() == receipts {
                last_word.receipts = receipts as u64;
                self.net.push((at, Message::Final(last_word)));
            }
        }
        if self.fault.is_none() {
            node.check(report.as_ref())?;
        }
        if let Some(report) = report {
            for row in &report.rows {
                self.reported.insert((at, report.incarnation, row.budget, row.window), row.spent);
            }
            self.net.push((at, Message::Report(report)));
        }
        self.net.extend(node.batches(5).into_iter().map(|batch| (at, Message::Receipts(batch))));
        if self.fault == Some(Fault::ReturnNotDurable) && self.dice.below(4) == 0 {
            // The moment at which that fault hurts: what was said is not on the disk, and central is away.
            self.nodes[at].crash(0);
            self.start(at);
            self.adopt(at);
        }
        Ok(())
    }

    fn deliver(&mut self) -> Result<(), String> {
        if self.net.is_empty() {
            return Ok(());
        }
        let chosen = self.dice.index(self.net.len());
        let (at, message) = if self.lossless { self.net.remove(0) } else { self.net[chosen].clone() };
        if !self.lossless {
            match self.dice.below(10) {
                0 => drop(self.net.swap_remove(chosen)),
                1 => {}
                _ => {
                    self.net.swap_remove(chosen);
                }
            }
        }
        self.now = self.now + Duration::from_millis(1 + self.dice.below(20));
        self.wall += 1;
        self.receive(at, message)
    }

    fn receive(&mut self, at: usize, message: Message) -> Result<(), String> {
        match message {
            Message::Hello { boot, resume, last } => self.register(at, boot, resume, last),
            Message::Report(report) => self.commit(at, report),
            Message::Receipts(batch) => self.apply(at, &batch)?,
            Message::Final(report) => {
                if let Some(closed) = self.ledger.close(&self.nodes[at].name, &report) {
                    self.net.push((at, Message::Closed(closed.incarnation)));
                }
            }
            Message::Welcome { boot, incarnation } => self.welcome(at, boot, incarnation),
            Message::Grants(grants) => self.grant(at, grants),
            Message::Applied { incarnation, next } => {
                if self.nodes[at].spool.contains_key(&incarnation) {
                    let acked = self.nodes[at].acked.entry(incarnation).or_default();
                    *acked = (*acked).max(next);
                }
            }
            Message::Closed(incarnation) => {
                if let Some(wallet) = &mut self.nodes[at].wallet {
                    wallet.closed(incarnation);
                }
            }
        }
        self.decided(at);
        Ok(())
    }

    fn register(&mut self, at: usize, boot: u64, resume: Option<Incarnation>, last: Option<Incarnation>) {
        let registered = self.ledger.register(&self.nodes[at].name, boot, resume, last);
        if let Registered::Welcome { incarnation, .. } = registered {
            self.net.push((at, Message::Welcome { boot, incarnation }));
        }
    }

    fn welcome(&mut self, at: usize, boot: u64, incarnation: Incarnation) {
        let node = &mut self.nodes[at];
        if let Some(wallet) = &mut node.wallet
            && node.boot == boot
        {
            wallet.welcome(&Welcome { level: 1, era: Era(0), incarnation });
            node.welcomed = wallet.current() == Some(incarnation) || node.retired;
        }
    }

    /// An entry is committed, and then its grants are sent. The planted fault sends them though the entry is lost.
    fn commit(&mut self, at: usize, report: Report) {
        let lost = self.fault == Some(Fault::GrantBeforeCommit) && self.dice.below(4) == 0;
        let before = lost.then(|| self.ledger.clone());
        let name = self.nodes[at].name.clone();
        let mut reports = vec![(name, report)];
        if self.dice.below(2) == 0
            && let Some(other) =
                self.net.iter().position(|(_at, message)| matches!(message, Message::Report(_)))
            && let (from, Message::Report(report)) = self.net.swap_remove(other)
        {
            reports.push((self.nodes[from].name.clone(), report));
        }
        for (edge, mut grants) in
            self.ledger.report((WallMs::from_millis(self.wall), LogMs(self.wall)), &reports)
        {
            let to = self.nodes.iter().position(|node| node.name == edge).unwrap();
            for row in &mut grants.rows {
                let key = (to, grants.incarnation, row.budget, row.window);
                // A settled account of a user may be forgotten.
                let old = self.granted.get(&key).copied().unwrap_or_default();
                self.granted.insert(key, old.max(row.granted));
                if self.fault == Some(Fault::DeltaGrants) {
                    row.granted = row.granted.saturating_sub(old);
                }
            }
            self.net.push((to, Message::Grants(grants)));
        }
        if let Some(before) = before {
            self.ledger = before;
        }
    }

    fn grant(&mut self, at: usize, mut grants: Grants) {
        let Some(wallet) = &mut self.nodes[at].wallet else { return };
        if self.fault == Some(Fault::DeltaGrants) && wallet.current() == Some(grants.incarnation) {
            for row in &mut grants.rows {
                let line = wallet.lines.get(&row.budget);
                let account =
                    line.and_then(|line| line.accounts().find(|(window, _account)| *window == row.window));
                let had = account.map_or(Amount::ZERO, |(_window, account)| account.granted());
                row.granted = had.saturating_add(row.granted);
            }
        }
        wallet.granted(&grants, self.now);
    }

    fn apply(&mut self, at: usize, batch: &ReceiptBatch) -> Result<(), String> {
        let name = self.nodes[at].name.clone();
        let taken = self.ledger.receipts(&name, batch);
        for receipt in taken.fresh {
            self.auditor.bill(receipt.request)?;
        }
        self.net.push((at, Message::Applied { incarnation: batch.incarnation, next: taken.next }));
        if let Some(closed) = taken.closed {
            self.net.push((at, Message::Closed(closed.incarnation)));
        }
        Ok(())
    }

    /// An operator gives an edge up, right or wrong. One that is there hears of it at the end of its session.
    fn lose(&mut self, at: usize) {
        self.decisions += 1;
        let what = Verdict::Lost { edge: self.nodes[at].name.clone(), life: None, refund: false };
        let (id, by, reason) = (self.decisions.to_string(), "ops".to_owned(), "it burnt".to_owned());
        let decision = ledger::Decision { id, by, reason, what };
        if self.ledger.decide(WallMs::from_millis(self.wall), &decision).is_ok() {
            self.nodes[at].welcomed = false;
        }
    }

    /// The planted fault: central takes back what an edge that was silent for 5 s did not report as spent.
    fn reclaim(&mut self, at: usize) {
        let silent = self.nodes[at].wallet.is_none() || self.now.since(self.nodes[at].seen).as_secs() >= 5;
        if self.fault != Some(Fault::ReclaimAtExpiry) || !silent {
            return;
        }
        for ((_at, incarnation, budget, window), granted) in
            self.granted.iter().filter(|(key, _)| key.0 == at)
        {
            let key = (at, *incarnation, *budget, *window);
            let spent = self.reported.get(&key).copied().unwrap_or_default();
            let row = UsageRow {
                budget: *budget,
                window: *window,
                spent,
                returned: granted.saturating_sub(spent),
                want: Amount::ZERO,
                waiting: Amount::ZERO,
                number: u64::MAX,
                forgotten: false,
            };
            let report = Report { era: Era(0), incarnation: *incarnation, rows: vec![row] };
            let reports = [(self.nodes[at].name.clone(), report)];
            drop(self.ledger.report((WallMs::from_millis(self.wall), LogMs(self.wall)), &reports));
        }
    }

    /// I5: no wallet believes in credit that was not committed.
    fn check_committed(&self) -> Result<(), String> {
        for (at, node) in self.nodes.iter().enumerate() {
            let Some(wallet) = &node.wallet else { continue };
            let Some(incarnation) = wallet.current() else { continue };
            for (budget, line) in &wallet.lines {
                for (window, account) in line.accounts() {
                    let committed = self.granted.get(&(at, incarnation, *budget, window)).copied();
                    if account.granted() > committed.unwrap_or_default() {
                        return Err(format!("{account:?} has more than was committed: {committed:?}"));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The generator `SplitMix64`.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}
