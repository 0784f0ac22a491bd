use proptest::prelude::*;
use wire::catalog::{Scope, Window};
use wire::ledger::{FinalReport, UsageRow};

use super::super::tests::{BUDGET, NOON, balanced, batch, budget, ledger_with, name, report, row, when};
use super::super::{LedgerRow, Registered};
use super::*;

const LIMIT: u64 = 200;

#[test]
fn what_a_lost_edge_held_counts_as_spent_until_it_comes_back_and_tells() {
    let mut world = World::new();
    world.ask(0, 80);
    world.spend(0, 30);
    world.lose(0, false);
    let row = world.row();
    assert_eq!((row.written_off, row.left, row.orphaned), (Amount(80), Amount(120), Amount::ZERO));
    world.end();
    let row = world.row();
    assert_eq!((row.receipts, row.written_off, row.left), (Amount(30), Amount::ZERO, Amount(170)));
}

#[test]
fn what_a_refunded_edge_spent_all_the_same_is_a_debt() {
    let mut world = World::new();
    world.ask(0, 80);
    world.spend(0, 30);
    world.lose(0, true);
    assert_eq!(world.row().left, Amount(200));
    world.spend(0, 10);
    world.end();
    let row = world.row();
    assert_eq!((row.receipts, row.overrun, row.left), (Amount::ZERO, Amount(40), Amount(160)));
}

#[test]
fn a_decision_is_made_once_under_its_number() {
    let mut ledger = ledger_with(LIMIT, Window::Total);
    let charge = correction("one", 50, false);
    let first = ledger.decide(WallMs::from_millis(NOON), &charge).unwrap();
    assert_eq!(ledger.decide(WallMs::from_millis(NOON + 5), &charge), Ok(first));
    let credited = ledger.decide(WallMs::from_millis(NOON), &correction("two", 60, true));
    assert_eq!(credited, Err(Undecided::TooMuch(Amount(50))));
    ledger.decide(WallMs::from_millis(NOON), &correction("three", 20, true)).unwrap();
    let row = balanced(&ledger);
    assert_eq!((row.corrected, row.left), (30, Amount(170)));
    assert_eq!(ledger.decided().count(), 2);
}

#[test]
fn one_users_account_is_corrected_and_no_others() {
    let mut ledger = Ledger::default();
    ledger.set_budget(&Budget {
        scope: Scope::EachUser("acme".parse().unwrap(), None),
        ..budget(100, Window::Total)
    });
    let at = WallMs::from_millis(NOON);
    let ann = UserHash(7 | 1 << 63);
    let of = |user, id: &str, amount, credit| {
        decision(
            id,
            Verdict::CorrectUser {
                budget: name("daily"),
                user,
                window: None,
                amount: Amount(amount),
                credit,
            },
        )
    };
    let charged = ledger.decide(at, &of(ann, "a", 60, false)).unwrap();
    assert_eq!((charged.rows[0].budget, charged.rows[0].amount), (BUDGET.of_user(ann.0), Amount(60)));
    assert_eq!(ledger.decide(at, &of(UserHash(8), "b", 1, true)), Err(Undecided::TooMuch(Amount(0))));
    assert_eq!(ledger.decide(at, &of(ann, "c", 61, true)), Err(Undecided::TooMuch(Amount(60))));
    ledger.decide(at, &of(ann, "d", 20, true)).unwrap();
    assert_eq!(balanced(&ledger).corrected, 40);
    // What is left to her is granted, and no more.
    ledger.register(&name("a"), 1, None, None);
    let asked = UsageRow { budget: BUDGET.of_user(ann.0), waiting: Amount(60), ..row(0, 0, 60) };
    let answers = ledger.report(when(NOON), &[(name("a"), report(Incarnation(1), asked))]);
    assert_eq!((answers[0].1.rows[0].granted, answers[0].1.rows[0].spent), (Amount(60), Amount(40)));
    assert_eq!(ledger.decide(at, &correction("e", 1, false)), Err(Undecided::EachUsers));
    let mut whole = ledger_with(LIMIT, Window::Total);
    assert_eq!(whole.decide(at, &of(ann, "a", 60, false)), Err(Undecided::NotEachUsers));
}

#[test]
fn what_fits_nothing_changes_nothing() {
    let mut ledger = ledger_with(LIMIT, Window::Rolling { seconds: 10 });
    ledger.register(&name("a"), 1, None, None);
    let before = ledger.clone();
    let at = WallMs::from_millis(NOON);
    let unknown = Verdict::Lost { edge: name("nobody"), life: None, refund: true };
    assert_eq!(ledger.decide(at, &decision("a", unknown)), Err(Undecided::NoEdge(name("nobody"))));
    assert_eq!(ledger.decide(at, &correction("b", 1, false)), Err(Undecided::Rolling));
    let never = Incarnation(99);
    let unknown = Verdict::Lost { edge: name("a"), life: Some(never), refund: false };
    assert_eq!(ledger.decide(at, &decision("c", unknown)), Err(Undecided::NoLife(name("a"), never)));
    assert_eq!(ledger, before);
}

fn decision(id: &str, what: Verdict) -> Decision {
    Decision { id: id.to_owned(), by: "ops".to_owned(), reason: "the disk burnt".to_owned(), what }
}

fn correction(id: &str, amount: u64, credit: bool) -> Decision {
    decision(id, Verdict::Correct { budget: name("daily"), window: None, amount: Amount(amount), credit })
}

/// What truly happens at edges, in the simplest form: each life has credit, spends it, and keeps bills.
struct World {
    ledger: Ledger,
    edges: [Edge; 2],
    decisions: u32,
    refunds: bool,
    corrected: i128,
}

struct Edge {
    name: Name,
    boot: u64,
    lives: Vec<Life>,
}

#[derive(Default)]
struct Life {
    number: u32,
    granted: u64,
    spent: u64,
    bills: Vec<u64>,
    billed: usize,
    told: bool,
}

impl World {
    fn new() -> Self {
        let edge =
            |of: &str| Edge { name: name(of), boot: 1, lives: vec![Life { number: 1, ..Life::default() }] };
        let edges = [edge("a"), edge("b")];
        let ledger = ledger_with(LIMIT, Window::Total);
        Self { ledger, edges, decisions: 0, refunds: false, corrected: 0 }
    }

    fn row(&self) -> LedgerRow {
        balanced(&self.ledger)
    }

    fn step(&mut self, (what, at, amount, coin): (u8, usize, u64, bool)) {
        match what {
            0 | 1 => self.ask(at, amount),
            2 | 3 => self.spend(at, amount),
            4 => self.bill(at),
            5 => self.lose(at, coin),
            6 => self.begin(at, !coin, coin),
            7 => self.tell(at),
            _ => self.correct(amount, coin),
        }
    }

    /// A report of the current life, and what it is granted.
    fn ask(&mut self, at: usize, amount: u64) {
        let Edge { name, lives, .. } = &mut self.edges[at];
        let life = lives.last_mut().unwrap();
        let asked = UsageRow { waiting: Amount(amount), ..row(life.spent, 0, amount) };
        let report = report(Incarnation(life.number), asked);
        let answers = self.ledger.report(when(NOON), &[(name.clone(), report)]);
        for (to, grants) in answers {
            for edge in self.edges.iter_mut().filter(|edge| edge.name == to) {
                let known =
                    edge.lives.last_mut().filter(|life| Incarnation(life.number) == grants.incarnation);
                if let (Some(life), Some(row)) = (known, grants.rows.first()) {
                    life.granted = life.granted.max(row.granted.0);
                }
            }
        }
    }

    /// An edge spends what it knows to have, whatever anybody decided.
    fn spend(&mut self, at: usize, amount: u64) {
        let life = self.edges[at].lives.last_mut().unwrap();
        let amount = amount.min(life.granted - life.spent);
        if amount > 0 {
            life.spent += amount;
            life.bills.push(amount);
        }
    }

    fn bill(&mut self, at: usize) {
        let Edge { name, lives, .. } = &mut self.edges[at];
        for life in lives.iter_mut() {
            let open: Vec<_> = life.bills[life.billed..].iter().map(|amount| (*amount, 0)).collect();
            let mut batch = batch(life.billed as u64, &open);
            batch.incarnation = Incarnation(life.number);
            self.ledger.receipts(name, &batch);
            life.billed = life.bills.len();
        }
    }

    fn lose(&mut self, at: usize, refund: bool) {
        self.decisions += 1;
        self.refunds |= refund;
        let what = Verdict::Lost { edge: self.edges[at].name.clone(), life: None, refund };
        let decision = decision(&self.decisions.to_string(), what);
        self.ledger.decide(WallMs::from_millis(NOON), &decision).unwrap();
    }

    fn correct(&mut self, amount: u64, credit: bool) {
        self.decisions += 1;
        let decision = correction(&self.decisions.to_string(), amount, credit);
        if self.ledger.decide(WallMs::from_millis(NOON), &decision).is_ok() {
            self.corrected += if credit { -i128::from(amount) } else { i128::from(amount) };
            self.refunds |= credit;
        }
    }

    /// The edge registers: with the life it has, or anew; a crash loses its last bill.
    fn begin(&mut self, at: usize, resumes: bool, crashed: bool) {
        let Edge { name, boot, lives } = &mut self.edges[at];
        let last = lives.last_mut().unwrap();
        let known = Some(Incarnation(last.number));
        if !resumes {
            *boot += 1;
        }
        if crashed {
            let kept = last.bills.len().saturating_sub(1).max(last.billed);
            last.bills.truncate(kept);
        }
        let resume = if resumes { known } else { None };
        let Registered::Welcome { incarnation, .. } = self.ledger.register(name, *boot, resume, known) else {
            panic!("it is the newest process")
        };
        if incarnation.0 != last.number {
            lives.push(Life { number: incarnation.0, ..Life::default() });
        }
    }

    /// Former lives say their last word.
    fn tell(&mut self, at: usize) {
        let Edge { name, lives, .. } = &mut self.edges[at];
        let former = lives.len() - 1;
        for life in lives[..former].iter_mut().filter(|life| !life.told) {
            let word = FinalReport {
                incarnation: Incarnation(life.number),
                rows: vec![(BUDGET, WindowId(0), Amount(life.spent))],
                receipts: life.bills.len() as u64,
            };
            self.ledger.close(name, &word);
            life.told = true;
        }
    }

    fn spent(&self) -> u128 {
        self.edges.iter().flat_map(|edge| &edge.lives).map(|life| u128::from(life.spent)).sum()
    }

    fn check(&self) {
        let Some(row) = self.ledger.check().into_iter().next() else { return };
        assert!(row.balanced, "{row:?}");
        let out = row.granted - row.returned + u128::from(row.overrun.0);
        let taken = out.saturating_add_signed(row.corrected);
        assert_eq!(u128::from(row.left.0), u128::from(LIMIT).saturating_sub(taken), "{row:?}");
        assert_eq!(row.corrected, self.corrected);
        let charged = out - u128::from(row.overrun.0);
        assert!(self.refunds || self.spent() <= charged, "{} is spent: {row:?}", self.spent());
        assert!(self.refunds || self.spent() <= u128::from(LIMIT), "overspent");
    }

    /// All edges come back and tell all: what was spent is charged, once.
    fn end(&mut self) {
        for at in 0..self.edges.len() {
            self.bill(at);
            self.begin(at, false, false);
            self.tell(at);
        }
        let Some(row) = self.ledger.check().into_iter().next() else { return };
        let charged = u128::from(row.receipts.0) + u128::from(row.crash.0) + u128::from(row.overrun.0);
        assert_eq!(charged, self.spent(), "{row:?}");
        assert_eq!((row.outstanding, row.orphaned, row.written_off), Default::default(), "{row:?}");
        self.check();
    }
}

proptest! {
    #[test]
    fn whatever_is_lost_refunded_and_corrected_is_charged_once(
        steps in prop::collection::vec((0u8..10, 0usize..2, 1u64..60, any::<bool>()), 1..80),
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            world.check();
        }
        world.end();
    }
}
