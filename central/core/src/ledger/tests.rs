use base::{Amount, BudgetId, Era, Incarnation, Name, NanoUsd, RequestId, Unit, WallMs, WindowId};
use proptest::prelude::*;
use wire::calendar::Zone;
use wire::catalog::{Budget, Mode, Scope, Window};
use wire::ledger::{
    Charge, FinalReport, GrantRow, Outcome, Receipt, ReceiptBatch, ReceiptKind, Report, Usage, UsageRow,
    WindowState,
};

use super::{Check, Ledger, LedgerRow, Listing, Registered};
use crate::LogMs;

pub(super) const BUDGET: BudgetId = BudgetId(1);
const FIRST: Incarnation = Incarnation(1);
pub(super) const NOON: u64 = 1_798_718_400_000;

#[test]
fn credit_is_granted_once_however_often_the_ask_is_repeated() {
    let mut ledger = ledger_with(1_000, Window::Total);
    let first = ask(&mut ledger, "a", NOON, row(0, 0, 100));
    let again = ask(&mut ledger, "a", NOON, row(0, 0, 100));
    assert_eq!((first.granted, again.granted), (Amount(100), Amount(100)));
    assert_eq!(ask(&mut ledger, "a", NOON, row(60, 0, 100)).granted, Amount(160));
}

#[test]
fn a_row_that_arrives_after_a_later_one_wants_nothing() {
    let mut ledger = ledger_with(1_000, Window::Total);
    ask(&mut ledger, "a", NOON, row(0, 0, 10));
    let quiet = ask(&mut ledger, "a", NOON, UsageRow { number: 2, ..row(0, 10, 0) });
    assert_eq!((quiet.granted, quiet.heard), (Amount(10), 2));
    let late = ask(&mut ledger, "a", NOON, UsageRow { number: 1, waiting: Amount(30), ..row(0, 0, 30) });
    assert_eq!((late.granted, late.heard), (Amount(10), 2));
}

#[test]
fn grants_never_exceed_the_limit_and_returned_credit_is_granted_again() {
    let mut ledger = ledger_with(100, Window::Total);
    ask(&mut ledger, "a", NOON, UsageRow { waiting: Amount(90), ..row(0, 0, 90) });
    let short = ask(&mut ledger, "b", NOON, UsageRow { waiting: Amount(40), ..row(0, 0, 40) });
    assert_eq!((short.granted, short.exhausted), (Amount::ZERO, false));
    // What the first gives back goes to the one that waits at once, without another ask.
    let grants = ledger.report(when(NOON + 10), &[(name("a"), report(FIRST, row(10, 80, 0)))]);
    let to_b = grants.iter().find(|(edge, _grants)| *edge == name("b")).unwrap();
    assert_eq!(to_b.1.rows[0].granted, Amount(40));
    balanced(&ledger);
}

#[test]
fn an_exhausted_budget_says_so() {
    let mut ledger = ledger_with(100, Window::Total);
    ask(&mut ledger, "a", NOON, UsageRow { waiting: Amount(100), ..row(0, 0, 100) });
    ask(&mut ledger, "a", NOON, row(100, 0, 0));
    let answer = ask(&mut ledger, "b", NOON, UsageRow { waiting: Amount(1), ..row(0, 0, 1) });
    assert!(answer.exhausted);
    assert_eq!((answer.spent, answer.limit), (Amount(100), Amount(100)));
}

#[test]
fn a_receipt_is_applied_once_by_its_position() {
    let mut ledger = ledger_with(100, Window::Total);
    ask(&mut ledger, "a", NOON, row(0, 0, 50));
    let batch = batch(0, &[(10, 0), (20, 0)]);
    let taken = ledger.receipts(&name("a"), &batch);
    assert_eq!((taken.next, taken.fresh.len()), (2, 2));
    let again = ledger.receipts(&name("a"), &batch);
    assert_eq!((again.next, again.fresh.len()), (2, 0));
    let gap = ReceiptBatch { first: 5, ..batch };
    assert_eq!(ledger.receipts(&name("a"), &gap).next, 2);
    assert_eq!(balanced(&ledger).receipts, Amount(30));
}

#[test]
fn a_crashed_incarnation_is_charged_to_its_ceiling_and_gives_the_rest_back() {
    let mut ledger = ledger_with(100, Window::Total);
    ask(&mut ledger, "a", NOON, UsageRow { waiting: Amount(80), ..row(0, 0, 80) });
    let welcome = ledger.register(&name("a"), 7, None, Some(FIRST));
    assert_eq!(welcome, Registered::Welcome { incarnation: Incarnation(2), superseded: Some(1) });
    assert_eq!(balanced(&ledger).orphaned, Amount(80));

    let last_word =
        FinalReport { incarnation: FIRST, rows: vec![(BUDGET, WindowId(0), Amount(50))], receipts: 2 };
    assert_eq!(ledger.close(&name("a"), &last_word), None, "its receipts come first");
    let receipts = batch(0, &[(10, 0), (20, 0)]);
    let closed = ledger.receipts(&name("a"), &receipts).closed.unwrap();
    assert_eq!(closed.crash[0].amount, Amount(20));
    let row = balanced(&ledger);
    assert_eq!((row.receipts, row.crash, row.left), (Amount(30), Amount(20), Amount(50)));

    // Whatever comes late of it changes nothing.
    assert!(ledger.close(&name("a"), &last_word).unwrap().crash.is_empty());
    assert_eq!(ledger.receipts(&name("a"), &batch(2, &[(9, 0)])).fresh.len(), 0);
    ledger.report(when(NOON), &[(name("a"), report(FIRST, row_of(0, 80, 0)))]);
    assert_eq!(balanced(&ledger), row);
}

#[test]
fn a_process_that_resumes_keeps_its_incarnation_and_the_older_one_stays_out() {
    let mut ledger = ledger_with(100, Window::Total);
    ask(&mut ledger, "a", NOON, row(0, 0, 10));
    let resumed = ledger.register(&name("a"), 2, Some(FIRST), Some(FIRST));
    assert_eq!(resumed, Registered::Welcome { incarnation: FIRST, superseded: Some(1) });
    assert_eq!(ledger.register(&name("a"), 1, Some(FIRST), Some(FIRST)), Registered::Superseded);
    let same = ledger.register(&name("a"), 2, None, None);
    assert_eq!(same, Registered::Welcome { incarnation: FIRST, superseded: None });
}

#[test]
fn a_window_that_ended_takes_settlements_but_grants_nothing_even_if_the_clock_steps_back() {
    let mut ledger = ledger_with(100, Window::Day);
    let today = Window::Day.at(at(NOON), &Zone::default());
    let tomorrow = WindowId(today.0 + 86_400_000);
    let first = ask(&mut ledger, "a", NOON, row(0, 0, 40));
    assert_eq!(first.window, today);
    ask(&mut ledger, "a", tomorrow.0, UsageRow { window: tomorrow, ..row(0, 0, 10) });

    let late = UsageRow { window: today, ..row(5, 0, 90) };
    let grants = ledger.report(when(NOON), &[(name("a"), report(FIRST, late))]);
    let rows = &grants[0].1.rows;
    assert_eq!((rows[0].window, rows[0].granted, rows[0].state), (today, Amount(40), WindowState::Closed));
    assert_eq!((rows[1].window, rows[1].granted, rows[1].state), (tomorrow, Amount(55), WindowState::Open));

    let settled = UsageRow { window: today, ..row(5, 35, 0) };
    let grants = ledger.report(when(NOON), &[(name("a"), report(FIRST, settled))]);
    assert_eq!(grants[0].1.rows[0].state, WindowState::Settled);
    assert!(ledger.check().iter().all(|row| row.balanced));
}

#[test]
fn an_old_window_is_sealed_and_a_late_receipt_still_finds_its_place() {
    let mut ledger = ledger_with(100, Window::Hour);
    let hour = Window::Hour.at(at(NOON), &Zone::default());
    ask(&mut ledger, "a", NOON, row(0, 0, 40));
    ask(&mut ledger, "a", NOON + 26 * 3_600_000, row(0, 0, 0));
    let sealed = ledger.check().into_iter().find(|row| row.window == hour).unwrap();
    assert_eq!((sealed.orphaned, sealed.balanced), (Amount(40), true));
    let mut late = batch(0, &[(30, 0)]);
    late.receipts[0].charges[0].window = hour;
    ledger.receipts(&name("a"), &late);
    let row = ledger.check().into_iter().find(|row| row.window == hour).unwrap();
    assert_eq!((row.orphaned, row.receipts, row.balanced), (Amount(10), Amount(30), true));
}

#[test]
fn an_overrun_and_a_lowered_limit_come_before_any_new_grant() {
    let mut ledger = ledger_with(100, Window::Total);
    ask(&mut ledger, "a", NOON, row(0, 0, 20));
    ledger.receipts(&name("a"), &batch(0, &[(20, 15)]));
    assert_eq!(balanced(&ledger).left, Amount(65));
    ledger.set_budget(&budget(10, Window::Total));
    let answer = ask(&mut ledger, "a", NOON, UsageRow { waiting: Amount(1), ..row(20, 0, 1) });
    assert_eq!(answer.granted, Amount(20));
}

#[test]
fn a_removed_budget_remembers_what_was_spent() {
    let mut ledger = ledger_with(100, Window::Total);
    ask(&mut ledger, "a", NOON, row(0, 0, 20));
    ledger.remove_budget(BUDGET);
    assert_eq!(ask(&mut ledger, "a", NOON, row(20, 0, 50)).granted, Amount(20));
    ledger.set_budget(&budget(100, Window::Total));
    assert_eq!(ask(&mut ledger, "b", NOON, row(0, 0, 0)).spent, Amount(20));
}

#[test]
fn each_user_has_the_whole_limit_and_what_they_spent_is_remembered_without_a_holder() {
    let mut ledger = ledger_with(10, Window::Total);
    ledger.set_budget(&Budget {
        scope: Scope::EachUser("acme".parse().unwrap(), None),
        ..budget(10, Window::Total)
    });
    assert_eq!(of_user(&mut ledger, 0, row(0, 0, 10)), None, "nobody is not somebody");
    for user in 1..=100 {
        let asked = UsageRow { number: 3 * user, waiting: Amount(10), ..row(0, 0, 10) };
        assert_eq!(of_user(&mut ledger, user, asked).unwrap().granted, Amount(10));
        of_user(&mut ledger, user, UsageRow { number: 3 * user + 1, ..row(4, 6, 0) });
        let mut batch = batch(user - 1, &[(4, 0)]);
        batch.receipts[0].charges[0].budget = BUDGET.of_user(user);
        assert_eq!(ledger.receipts(&name("a"), &batch).fresh.len(), 1);
        assert_eq!(
            of_user(&mut ledger, user, UsageRow { number: 3 * user + 2, forgotten: true, ..row(0, 0, 0) }),
            None
        );
    }
    assert_eq!(ledger.leases().count(), 0);
    let sum = balanced(&ledger);
    assert_eq!(
        (sum.accounts, sum.limit, sum.receipts, sum.left),
        (100, Amount(1_000), Amount(400), Amount(600))
    );

    let late = UsageRow { number: 21, waiting: Amount(9), ..row(0, 0, 9) };
    assert_eq!(of_user(&mut ledger, 7, late), None, "said before it was forgotten");
    let again = UsageRow { number: 303, waiting: Amount(9), ..row(0, 0, 9) };
    let answer = of_user(&mut ledger, 7, again).unwrap();
    assert_eq!((answer.granted, answer.spent, answer.left), (Amount::ZERO, Amount(4), Amount(6)));
    let fits = UsageRow { number: 304, waiting: Amount(6), ..row(0, 0, 6) };
    let answer = of_user(&mut ledger, 7, fits).unwrap();
    assert_eq!((answer.granted, answer.heard_spent, answer.left), (Amount(6), Amount::ZERO, Amount::ZERO));

    // Sent twice before the user was forgotten, and one of them late: the counters since then began anew.
    let late = UsageRow { number: 22, ..row(2, 4, 0) };
    let answer = of_user(&mut ledger, 7, late).unwrap();
    assert_eq!(
        (answer.heard_spent, answer.heard_returned, answer.left),
        (Amount::ZERO, Amount::ZERO, Amount::ZERO)
    );
    let spent = UsageRow { number: 305, ..row(3, 3, 0) };
    let answer = of_user(&mut ledger, 7, spent).unwrap();
    assert_eq!((answer.heard_spent, answer.heard_returned, answer.left), (Amount(3), Amount(3), Amount(3)));
}

#[test]
fn a_user_of_a_window_that_ended_is_forgotten_once_all_is_settled() {
    let mut ledger = ledger_with(10, Window::Hour);
    ledger.set_budget(&Budget {
        scope: Scope::EachUser("acme".parse().unwrap(), None),
        ..budget(10, Window::Hour)
    });
    let hour = Window::Hour.at(at(NOON), &Zone::default());
    for user in [1, 2] {
        let asked = UsageRow { waiting: Amount(10), ..row(0, 0, 10) };
        assert_eq!(of_user(&mut ledger, user, asked).unwrap().window, hour);
    }
    let rows =
        [1, 2].map(|user| UsageRow { budget: BUDGET.of_user(user), window: hour, ..row(0, 10 / user, 0) });
    let report = Report { era: Era(0), incarnation: FIRST, rows: rows.into() };
    ledger.report(when(NOON + 3_600_000), &[(name("a"), report)]);
    let kept: Vec<_> = ledger.leases().map(|lease| (lease.user, lease.unspent)).collect();
    assert_eq!(kept, [(2, Amount(5))]);
}

#[test]
fn a_user_who_settled_before_the_window_ended_is_forgotten_after_it() {
    let mut ledger = ledger_with(10, Window::Hour);
    let of_users = Scope::EachUser("acme".parse().unwrap(), None);
    ledger.set_budget(&Budget { scope: of_users, ..budget(10, Window::Hour) });
    let hour = Window::Hour.at(at(NOON), &Zone::default());
    let asked = UsageRow { number: 1, waiting: Amount(10), ..row(0, 0, 10) };
    of_user(&mut ledger, 1, asked).unwrap();
    of_user(&mut ledger, 1, UsageRow { number: 2, window: hour, ..row(0, 10, 0) });
    let accounts = |ledger: &Ledger| ledger.check().iter().map(|row| row.accounts).sum::<u64>();
    assert_eq!(accounts(&ledger), 1);
    ledger.report(when(NOON + 3_600_000), &[]);
    assert_eq!(accounts(&ledger), 0);
}

#[test]
fn accounts_looked_at_a_few_at_a_time_are_those_looked_at_at_once() {
    let mut ledger = ledger_with(10, Window::Total);
    let of_users = Scope::EachUser("acme".parse().unwrap(), None);
    ledger.set_budget(&Budget { scope: of_users, ..budget(10, Window::Total) });
    let other = BudgetId(BUDGET.0 + 1);
    ledger.set_budget(&Budget { id: other, ..budget(10, Window::Total) });
    for user in 1..=7 {
        of_user(&mut ledger, user, UsageRow { number: 1, waiting: Amount(user), ..row(0, 0, 10) }).unwrap();
    }
    let asked = UsageRow { budget: other, number: 1, waiting: Amount(2), ..row(0, 0, 2) };
    ledger.report(when(NOON), &[(name("a"), report(FIRST, asked))]);
    let (all, leases): (_, Vec<_>) = (ledger.check(), ledger.leases().collect());
    assert_eq!((all.len(), all.iter().map(|row| row.accounts).sum::<u64>(), leases.len()), (2, 8, 8));
    for most in 1..=9 {
        let (mut check, mut listing) = (Check::default(), Listing::default());
        while !ledger.check_on(&mut check, most) {}
        while !ledger.list_on(&mut listing, most) {}
        assert_eq!((check.rows(), listing.rows), (all.clone(), leases.clone()), "{most}");
    }
    let of_three: Vec<_> = ledger.leases_of(BUDGET.of_user(3)).collect();
    assert_eq!(of_three, leases.iter().filter(|lease| lease.user == 3).cloned().collect::<Vec<_>>());
    assert_eq!(ledger.standing(BUDGET.of_user(3)).map(|row| row.outstanding), Some(of_three[0].unspent));
}

fn of_user(ledger: &mut Ledger, user: u64, row: UsageRow) -> Option<GrantRow> {
    let row = UsageRow { budget: BUDGET.of_user(user), ..row };
    let grants = ledger.report(when(NOON), &[(name("a"), report(FIRST, row))]);
    grants.into_iter().flat_map(|(_edge, grants)| grants.rows).next()
}

pub(super) fn ledger_with(limit: u64, window: Window) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.set_budget(&budget(limit, window));
    for edge in ["a", "b"] {
        ledger.register(&name(edge), 1, None, None);
    }
    ledger
}

pub(super) fn budget(limit: u64, window: Window) -> Budget {
    Budget {
        id: BUDGET,
        name: name("daily"),
        scope: Scope::Key(name("key")),
        unit: Unit::Requests,
        window,
        zone: Zone::default(),
        limit: Amount(limit),
        mode: Mode::Strict,
        thresholds: Vec::new(),
        horizon_ms: 60_000,
    }
}

pub(super) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn at(ms: u64) -> WallMs {
    WallMs::from_millis(ms)
}

pub(super) fn row(spent: u64, returned: u64, want: u64) -> UsageRow {
    row_of(spent, returned, want)
}

fn row_of(spent: u64, returned: u64, want: u64) -> UsageRow {
    UsageRow {
        budget: BUDGET,
        window: WindowId(0),
        spent: Amount(spent),
        returned: Amount(returned),
        want: Amount(want),
        waiting: Amount::ZERO,
        number: 0,
        forgotten: false,
    }
}

/// Noon, and the log's clock in step with it.
pub(super) fn when(ms: u64) -> (WallMs, LogMs) {
    (at(ms), LogMs(ms - NOON))
}

pub(super) fn report(incarnation: Incarnation, row: UsageRow) -> Report {
    Report { era: Era(0), incarnation, rows: vec![row] }
}

fn ask(ledger: &mut Ledger, edge: &str, now: u64, row: UsageRow) -> GrantRow {
    let grants = ledger.report(when(now), &[(name(edge), report(FIRST, row))]);
    let (_edge, grants) = grants.into_iter().find(|(to, _grants)| *to == name(edge)).unwrap();
    grants.rows.into_iter().next().unwrap()
}

pub(super) fn batch(first: u64, charges: &[(u64, u64)]) -> ReceiptBatch {
    let receipt = |(amount, overrun): &(u64, u64)| Receipt {
        request: RequestId(1),
        kind: ReceiptKind::Call,
        at: at(NOON),
        tenant: "acme".parse().unwrap(),
        app: name("app"),
        key: name("key"),
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
        charges: vec![Charge {
            budget: BUDGET,
            window: WindowId(0),
            amount: Amount(*amount),
            overrun: Amount(*overrun),
        }],
    };
    ReceiptBatch { incarnation: FIRST, first, receipts: charges.iter().map(receipt).collect() }
}

/// The one row of a total, which must balance.
pub(super) fn balanced(ledger: &Ledger) -> LedgerRow {
    let rows = ledger.check();
    assert!(rows.iter().all(|row| row.balanced), "{rows:?}");
    rows.into_iter().next().unwrap()
}

proptest! {
    /// Two edges ask, spend what they have when they like, and tell it late or never; the auditor sees true time. No span
    /// of the budget's length has more than its limit.
    #[test]
    fn no_span_of_a_rolling_budget_spends_more_than_its_limit(
        steps in prop::collection::vec((0u64..4_000, 0usize..2, 0u64..60, any::<bool>(), any::<bool>()), 1..120),
    ) {
        const LIMIT: u64 = 100;
        const SPAN_MS: u64 = 10_000;
        let mut ledger = ledger_with(LIMIT, Window::Rolling { seconds: 10 });
        ledger.register(&name("b"), 1, None, None);
        let (mut now, mut edges) = (NOON, [(0u64, 0u64); 2]);
        let mut spent: Vec<(u64, u64)> = Vec::new();
        for (pause, which, wish, spends, tells) in steps {
            now += pause;
            let edge = ["a", "b"][which];
            let (granted, used) = &mut edges[which];
            if spends {
                let amount = wish.min(*granted - *used);
                *used += amount;
                spent.push((now, amount));
            }
            if tells {
                let asked = UsageRow { waiting: Amount(wish), ..row(*used, 0, wish) };
                let grants = ledger.report(when(now), &[(name(edge), report(FIRST, asked))]);
                for (to, grants) in &grants {
                    let of = usize::from(*to == name("b"));
                    edges[of].0 = edges[of].0.max(grants.rows[0].granted.0);
                }
            }
        }
        for (from, _) in &spent {
            let within = spent.iter().filter(|(at, _)| at >= from && at - from <= SPAN_MS);
            let sum: u64 = within.map(|(_, amount)| amount).sum();
            prop_assert!(sum <= LIMIT, "{sum}");
        }
        prop_assert!(ledger.check().iter().all(|row| row.balanced));
    }
}
