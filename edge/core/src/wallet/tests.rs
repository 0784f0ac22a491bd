use std::collections::BTreeMap;
use std::time::Duration;

use base::{Amount, BudgetId, Era, Incarnation, Mono, Unit, WindowId};
use wire::calendar::Zone;
use wire::catalog::{Budget, Mode, Scope, Window};
use wire::control::Welcome;
use wire::ledger::{GrantRow, Grants, WindowState};

use super::{Decision, Held, Recalls, Record, Recovered, Wallet, Why};

const ONE: BudgetId = BudgetId(1);
const TWO: BudgetId = BudgetId(2);
const FIRST: Incarnation = Incarnation(1);
const START: Mono = Mono::from_nanos(1_000);

#[test]
fn a_call_takes_from_all_its_budgets_or_from_none() {
    let mut wallet = wallet();
    grant(&mut wallet, ONE, 100);
    grant(&mut wallet, TWO, 10);
    let asks = [(ONE, Amount(20)), (TWO, Amount(20))];
    assert!(matches!(wallet.ask(&asks, START), Decision::Wait { .. }));
    let held = held(&mut wallet, &[(ONE, Amount(100))]);
    drop(wallet.settle(held, &[]));
    wallet.granted(&grants(row(TWO, 20)), START);
    flush(&mut wallet);
    assert!(wallet.decided()[0].1.is_ok());
}

#[test]
fn a_hold_settles_at_its_cost_and_the_rest_is_available_again() {
    let mut wallet = wallet();
    grant(&mut wallet, ONE, 100);
    let first = held(&mut wallet, &[(ONE, Amount(100))]);
    let settled = wallet.settle(first, &[(ONE, Amount(30))]);
    assert_eq!(settled.charges[0].amount, Amount(30));
    let second = held(&mut wallet, &[(ONE, Amount(70))]);
    let beyond = wallet.settle(second, &[(ONE, Amount(75))]);
    assert_eq!((beyond.charges[0].amount, beyond.charges[0].overrun), (Amount(70), Amount(5)));
}

#[test]
fn a_budget_named_twice_is_held_for_the_sum_and_nothing_needs_no_hold() {
    let mut wallet = wallet();
    grant(&mut wallet, ONE, 100);
    let twice = wallet.ask(&[(ONE, Amount(60)), (ONE, Amount(60))], START);
    assert!(matches!(twice, Decision::Wait { .. }));
    let free = held(&mut wallet, &[(TWO, Amount::ZERO)]);
    assert!(Wallet::parts(&free).is_empty());
}

#[test]
fn a_call_waits_for_credit_and_is_refused_at_once_when_none_can_come() {
    let mut wallet = wallet();
    let Decision::Wait { id, until } = wallet.ask(&[(ONE, Amount(5))], START) else { panic!("it waits") };
    assert_eq!(until.since(START), Duration::from_secs(1), "nothing was measured yet");
    let report = wallet.report(START).unwrap();
    assert_eq!((report.rows[0].window, report.rows[0].waiting), (WindowId(0), Amount(5)));

    let nothing = GrantRow { spent: Amount(1_000), left: Amount::ZERO, exhausted: true, ..row(ONE, 0) };
    wallet.granted(&grants(nothing), START);
    let refused = wallet.give_up(id).unwrap();
    assert_eq!(refused.why, Why::Exceeded { limit: Amount(1_000), spent: Amount(1_000), waited: true });
    let Decision::Refused(at_once) = wallet.ask(&[(ONE, Amount(5))], START) else { panic!("it is refused") };
    assert_eq!(at_once.why, Why::Exceeded { limit: Amount(1_000), spent: Amount(1_000), waited: false });
    // The verdict does not outlive its freshness: the window may have rolled.
    let later = START + Duration::from_secs(2);
    assert!(matches!(wallet.ask(&[(ONE, Amount(5))], later), Decision::Wait { .. }));
}

#[test]
fn credit_on_its_way_back_to_central_is_no_reason_to_refuse_at_once() {
    let mut wallet = wallet();
    grant(&mut wallet, ONE, 1_000);
    let recall = GrantRow { keep: Some(Amount::ZERO), ..row(ONE, 1_000) };
    wallet.granted(&grants(recall), START);
    flush(&mut wallet);
    assert!(matches!(wallet.ask(&[(ONE, Amount(5))], START), Decision::Wait { .. }));
    let recalls = wallet.take_recalls();
    assert_eq!(recalls, BTreeMap::from([(ONE, Recalls { times: 1, credit: Amount(1_000) })]));
    wallet.granted(&grants(recall), START);
    assert_eq!(wallet.take_recalls(), BTreeMap::new(), "it was asked before, and what it gave is counted");
}

#[test]
fn without_an_answer_from_central_a_budget_is_unavailable_not_exceeded() {
    let mut wallet = wallet();
    let Decision::Wait { id, .. } = wallet.ask(&[(ONE, Amount(5))], START) else { panic!("it waits") };
    assert_eq!(wallet.give_up(id).unwrap().why, Why::Unavailable);
    // Nor is it exceeded when central said that there is enough, and then fell silent.
    wallet.granted(&grants(GrantRow { spent: Amount(600), left: Amount(400), ..row(ONE, 0) }), START);
    let Decision::Wait { id, .. } = wallet.ask(&[(ONE, Amount(5))], START) else { panic!("it waits") };
    assert_eq!(wallet.give_up(id).unwrap().why, Why::Unavailable);
}

#[test]
fn a_ceiling_counts_only_once_it_is_durable() {
    let mut wallet = wallet();
    assert!(matches!(wallet.ask(&[(ONE, Amount(5))], START), Decision::Wait { .. }));
    wallet.granted(&grants(row(ONE, 100)), START);
    assert!(wallet.decided().is_empty());
    flush(&mut wallet);
    assert!(wallet.decided()[0].1.is_ok());
}

#[test]
fn idle_credit_goes_back_but_is_told_only_once_durable() {
    let mut wallet = wallet();
    grant(&mut wallet, ONE, 100);
    drop(wallet.report(START));
    let idle = START + Duration::from_secs(3);
    wallet.tick(idle);
    assert_eq!(wallet.report(idle).map_or(Amount::ZERO, |report| report.rows[0].returned), Amount::ZERO);
    flush(&mut wallet);
    assert!(wallet.is_urgent());
    assert_eq!(wallet.report(idle).unwrap().rows[0].returned, Amount(100));
}

#[test]
fn an_ask_that_nobody_answered_is_told_again_though_nobody_wants_credit_any_more() {
    let mut wallet = wallet();
    let Decision::Wait { id, .. } = wallet.ask(&[(ONE, Amount(5))], START) else { panic!("it waits") };
    assert_eq!(wallet.report(START).unwrap().rows[0].waiting, Amount(5));
    // Central grants, and its answer is lost with the session; the call gives up and no other comes.
    assert!(wallet.give_up(id).is_some());
    wallet.detached();
    wallet.welcome(&Welcome { level: 1, era: Era(0), incarnation: FIRST });
    let idle = START + Duration::from_secs(10);
    wallet.tick(idle);
    let told = wallet.report(idle).unwrap();
    assert_eq!((told.rows[0].budget, told.rows[0].waiting), (ONE, Amount::ZERO));
    assert_eq!(wallet.report(idle), None, "once a second is enough");
    let later = idle + Duration::from_secs(1);
    assert!(wallet.report(later).is_some());

    wallet.granted(&grants(row(ONE, 5)), later);
    wallet.tick(later);
    flush(&mut wallet);
    assert_eq!(wallet.report(later).unwrap().rows[0].returned, Amount(5));
}

#[test]
fn an_ask_is_told_until_central_heard_it_though_it_answered_an_earlier_one() {
    let mut wallet = wallet();
    grant(&mut wallet, ONE, 10);
    let first = wallet.report(START).unwrap().rows[0];
    let Decision::Wait { id, .. } = wallet.ask(&[(ONE, Amount(50))], START) else { panic!("it waits") };
    let asked = wallet.report(START).unwrap().rows[0];
    assert!(asked.number > first.number && asked.waiting == Amount(40));
    // Central grants, and its answer is lost; the one to the first row is late, and the call gives up.
    wallet.granted(&grants(GrantRow { heard: first.number, ..row(ONE, 10) }), START);
    assert!(wallet.give_up(id).is_some());
    let mut now = START + Duration::from_secs(3);
    wallet.tick(now);
    flush(&mut wallet);
    let last = wallet.report(now).unwrap().rows[0];
    assert!(last.number > asked.number && last.waiting == Amount::ZERO);
    for _second in 0..3 {
        now = now + Duration::from_secs(1);
        assert_eq!(wallet.report(now).map(|report| report.rows), Some(vec![last]), "nobody answered");
    }
    wallet.granted(&grants(GrantRow { heard: last.number, heard_returned: Amount(10), ..row(ONE, 50) }), now);
    wallet.tick(now);
    flush(&mut wallet);
    assert_eq!(wallet.report(now).unwrap().rows[0].returned, Amount(50), "what was stranded goes back");
}

#[test]
fn nothing_is_told_before_the_journal_knows_that_the_incarnation_began() {
    let mut wallet = Wallet::new(Recovered::default());
    wallet.install(&budgets());
    wallet.welcome(&Welcome { level: 1, era: Era(0), incarnation: FIRST });
    assert!(matches!(wallet.ask(&[(ONE, Amount(5))], START), Decision::Wait { .. }));
    assert_eq!(wallet.report(START), None);
    flush(&mut wallet);
    assert!(wallet.is_urgent());
    assert_eq!(wallet.report(START).unwrap().rows[0].waiting, Amount(5));
}

#[test]
fn a_soft_budget_pays_without_credit_and_counts_it_beside() {
    let mut wallet = wallet();
    wallet.install(&soft(Amount(10)));
    let unheard = held(&mut wallet, &[(ONE, Amount(7))]);
    let told = wallet.settle(unheard, &[(ONE, Amount(5))]).charges;
    assert_eq!((told[0].amount, told[0].overrun, told[0].window), (Amount::ZERO, Amount(5), WindowId::OPEN));
    assert!(wallet.is_urgent(), "it asks for credit all the same");

    // Nothing is left, says central, and calls go on: whether they may is for thresholds to say.
    let nothing = GrantRow { spent: Amount(1_000), left: Amount::ZERO, exhausted: true, ..row(ONE, 0) };
    wallet.granted(&grants(nothing), START);
    assert_eq!(wallet.used(ONE), Some((1_000, Amount(1_000), Amount(1_000))));
    let beyond = held(&mut wallet, &[(ONE, Amount(700))]);
    let told = wallet.settle(beyond, &[(ONE, Amount(700))]).charges;
    assert_eq!((told[0].amount, told[0].overrun, told[0].window), (Amount::ZERO, Amount(700), WindowId(0)));
}

#[test]
fn while_central_is_silent_a_soft_budget_is_overdrawn_only_so_far() {
    let mut wallet = wallet();
    wallet.install(&soft(Amount(10)));
    wallet.detached();
    drop(held(&mut wallet, &[(ONE, Amount(6))]));
    let Decision::Refused(refused) = wallet.ask(&[(ONE, Amount(6))], START) else { panic!("it is refused") };
    assert_eq!(refused.why, Why::Unavailable);
    drop(held(&mut wallet, &[(ONE, Amount(4))]));
    assert!(matches!(wallet.ask(&[(ONE, Amount(1))], START), Decision::Refused(_)));
    wallet.welcome(&Welcome { level: 1, era: Era(0), incarnation: FIRST });
    drop(held(&mut wallet, &[(ONE, Amount(50))]));
    // A strict budget beside it is asked as ever.
    assert!(matches!(wallet.ask(&[(ONE, Amount(1)), (TWO, Amount(1))], START), Decision::Wait { .. }));
}

/// A wallet with a budget of which each user has an account.
fn each() -> Wallet {
    let mut budgets = budgets();
    for budget in budgets.values_mut().filter(|budget| budget.id == ONE) {
        budget.scope = Scope::EachUser("acme".parse().unwrap(), None);
    }
    let mut wallet = wallet();
    wallet.install(&budgets);
    flush(&mut wallet);
    wallet
}

#[test]
fn a_user_is_forgotten_once_nothing_would_be_lost_and_begins_again_where_central_says() {
    let mut wallet = each();
    let ann = ONE.of_user(7);
    grant(&mut wallet, ann, 10);
    let paid = held(&mut wallet, &[(ann, Amount(4))]);
    drop(wallet.settle(paid, &[(ann, Amount(4))]));
    let mut now = START + Duration::from_secs(3);
    wallet.tick(now);
    flush(&mut wallet);
    let last = wallet.report(now).unwrap().rows[0];
    assert_eq!((last.budget, last.spent, last.returned), (ann, Amount(4), Amount(6)));
    wallet.tick(now);
    assert_eq!(wallet.users(), 1, "central has not heard");
    let late = grants(row(ann, 10));
    let heard =
        GrantRow { heard: last.number, heard_spent: Amount(4), heard_returned: Amount(6), ..row(ann, 10) };
    wallet.granted(&grants(heard), now);
    wallet.tick(now);
    assert_eq!(wallet.users(), 0);
    let farewell = wallet.report(now).unwrap().rows[0];
    assert!(farewell.forgotten && farewell.number > last.number);

    now = now + Duration::from_secs(1);
    assert!(matches!(wallet.ask(&[(ann, Amount(5))], now), Decision::Wait { .. }));
    let first = wallet.report(now).unwrap().rows[0];
    assert!(first.number > farewell.number && first.spent == Amount::ZERO);
    wallet.granted(&late, now);
    flush(&mut wallet);
    assert!(wallet.decided().is_empty(), "what central said of rows before counts no more");
    wallet.granted(&grants(GrantRow { heard: first.number, granted: Amount(15), ..heard }), now);
    flush(&mut wallet);
    assert!(wallet.decided()[0].1.is_ok());
    assert!(!matches!(wallet.ask(&[(ann, Amount(1))], now), Decision::Held(_)), "five of fifteen were left");
}

#[test]
fn what_the_journal_proves_of_a_user_is_spent_while_central_is_away() {
    let mut wallet = each();
    let ann = ONE.of_user(7);
    let mut journal = vec![Record::Began(FIRST)];
    drop(wallet.ask(&[(ann, Amount(1))], START));
    wallet.granted(&grants(row(ann, 100)), START);
    journal.extend(flush(&mut wallet));

    let mut again = Wallet::new(Recovered::read(journal));
    let mut budgets = budgets();
    for budget in budgets.values_mut().filter(|budget| budget.id == ONE) {
        budget.scope = Scope::EachUser("acme".parse().unwrap(), None);
    }
    again.install(&budgets);
    assert!(again.adopt());
    flush(&mut again);
    assert!(matches!(again.ask(&[(ann, Amount(50))], START), Decision::Wait { .. }), "for its ceiling only");
    flush(&mut again);
    assert!(again.decided()[0].1.is_ok());
    assert!(!matches!(again.ask(&[(ONE.of_user(8), Amount(1))], START), Decision::Held(_)));
}

#[test]
fn a_crash_costs_a_user_with_one_call_at_a_time_two_holds_at_most() {
    let mut wallet = each();
    let ann = ONE.of_user(7);
    drop(wallet.ask(&[(ann, Amount(10))], START));
    wallet.granted(&grants(row(ann, 900)), START);
    let mut journal = vec![Record::Began(FIRST)];
    journal.extend(flush(&mut wallet));
    let mut calls: Vec<Held> = wallet.decided().into_iter().map(|(_id, answer)| answer.unwrap()).collect();
    let mut spent = 0;
    for charge in [4, 10, 0, 10, 10, 1, 10, 10] {
        journal.extend(flush(&mut wallet));
        let after = Wallet::new(Recovered::read(journal.iter().copied()));
        let charged = after.former.values().flat_map(|life| life.accounts.values()).next().unwrap().spent().0;
        assert!((spent + 10..=spent + 20).contains(&charged), "{charged} of a call of 10 after {spent}");
        drop(wallet.settle(calls.pop().unwrap(), &[(ann, Amount(charge))]));
        spent += charge;
        journal.extend(flush(&mut wallet));
        // The next call needs no disk.
        calls.push(held(&mut wallet, &[(ann, Amount(10))]));
    }
}

#[test]
fn users_beyond_a_bound_are_refused_and_idle_ones_take_no_memory() {
    let mut wallet = each();
    for user in 1..=100_000 {
        let Decision::Wait { id, .. } = wallet.ask(&[(ONE.of_user(user), Amount(1))], START) else {
            panic!("it waits")
        };
        assert!(wallet.give_up(id).is_some());
    }
    let more = wallet.ask(&[(ONE.of_user(200_000), Amount(1))], START);
    assert!(matches!(more, Decision::Refused(super::Refused { why: Why::Unavailable, .. })));
    assert_eq!(wallet.users(), 100_000);
    wallet.tick(START + Duration::from_secs(3));
    assert_eq!(wallet.users(), 0);
}

fn soft(overdraft: Amount) -> BTreeMap<base::Name, Budget> {
    let mut budgets = budgets();
    for budget in budgets.values_mut().filter(|budget| budget.id == ONE) {
        budget.mode = Mode::Soft { overdraft };
    }
    budgets
}

#[test]
fn a_window_that_closed_settles_and_gives_back_while_the_next_one_pays() {
    let mut wallet = wallet();
    grant(&mut wallet, ONE, 100);
    let old = held(&mut wallet, &[(ONE, Amount(40))]);
    wallet.granted(&grants(GrantRow { state: WindowState::Closed, ..row(ONE, 100) }), START);
    wallet.granted(&grants(GrantRow { window: WindowId(7), ..row(ONE, 50) }), START);
    flush(&mut wallet);
    assert_eq!(wallet.report(START).unwrap().rows[1].returned, Amount(60));
    let new = held(&mut wallet, &[(ONE, Amount(50))]);
    assert_eq!(wallet.settle(old, &[(ONE, Amount(40))]).charges[0].window, WindowId(0));
    assert_eq!(wallet.settle(new, &[(ONE, Amount(50))]).charges[0].window, WindowId(7));
}

#[test]
fn after_a_crash_everything_below_the_ceiling_counts_as_spent() {
    let mut wallet = wallet();
    let mut journal = vec![Record::Began(FIRST)];
    drop(wallet.ask(&[(ONE, Amount(1))], START));
    wallet.granted(&grants(row(ONE, 100)), START);
    journal.extend(flush(&mut wallet));
    let ceiling = journal.iter().rev().find_map(|record| match record {
        Record::Mark(mark) => Some(mark.ceiling),
        Record::Began(_) | Record::Over(_) | Record::Closed(_) => None,
    });

    let mut again = Wallet::new(Recovered::read(journal.iter().copied()));
    again.install(&budgets());
    assert!(again.adopt());
    assert_eq!(
        again.to_resume(),
        None,
        "the charge for what may have been spent falls due when central is back"
    );
    flush(&mut again);
    let rest = Amount(100 - ceiling.unwrap().0);
    assert!(matches!(again.ask(&[(ONE, rest)], START), Decision::Wait { .. }), "for its ceiling only");
    flush(&mut again);
    assert!(again.decided()[0].1.is_ok());
    assert!(!matches!(again.ask(&[(ONE, Amount(1))], START), Decision::Held(_)));

    // Had central given it a new incarnation, the old one's last word would be its ceiling.
    let mut registered = Wallet::new(Recovered::read(journal));
    registered.welcome(&Welcome { level: 1, era: Era(0), incarnation: Incarnation(2) });
    assert!(registered.finals().is_empty(), "the new incarnation is not durable yet");
    flush(&mut registered);
    assert_eq!(registered.finals()[0].rows, [(ONE, WindowId(0), ceiling.unwrap())]);
}

#[test]
fn a_process_that_ends_in_good_order_is_charged_only_what_it_spent() {
    let mut wallet = wallet();
    let mut journal = vec![Record::Began(FIRST)];
    grant(&mut wallet, ONE, 100);
    let held = held(&mut wallet, &[(ONE, Amount(10))]);
    drop(wallet.settle(held, &[(ONE, Amount(3))]));
    flush(&mut wallet);
    wallet.rest();
    journal.extend(flush(&mut wallet));
    assert!(!matches!(wallet.ask(&[(ONE, Amount(1))], START), Decision::Held(_)));

    let mut again = Wallet::new(Recovered::read(journal));
    again.welcome(&Welcome { level: 1, era: Era(0), incarnation: Incarnation(2) });
    flush(&mut again);
    assert_eq!(again.finals()[0].rows, [(ONE, WindowId(0), Amount(3))]);
}

fn wallet() -> Wallet {
    let mut wallet = Wallet::new(Recovered::default());
    wallet.install(&budgets());
    wallet.welcome(&Welcome { level: 1, era: Era(0), incarnation: FIRST });
    flush(&mut wallet);
    wallet
}

fn budgets() -> BTreeMap<base::Name, Budget> {
    let budget = |id: BudgetId| Budget {
        id,
        name: format!("budget-{id}").parse().unwrap(),
        scope: Scope::Key("key".parse().unwrap()),
        unit: Unit::Requests,
        window: Window::Total,
        zone: Zone::default(),
        limit: Amount(1_000),
        mode: Mode::Strict,
        thresholds: Vec::new(),
        horizon_ms: 60_000,
    };
    [ONE, TWO].map(|id| (budget(id).name, budget(id))).into()
}

fn row(budget: BudgetId, granted: u64) -> GrantRow {
    GrantRow {
        budget,
        window: WindowId(0),
        granted: Amount(granted),
        heard: 0,
        heard_spent: Amount::ZERO,
        heard_returned: Amount::ZERO,
        state: WindowState::Open,
        keep: None,
        limit: Amount(1_000),
        spent: Amount::ZERO,
        left: Amount(1_000 - granted),
        exhausted: false,
    }
}

fn grants(row: GrantRow) -> Grants {
    Grants { era: Era(0), incarnation: FIRST, rows: vec![row] }
}

/// Credit that a call asked for and did not use.
fn grant(wallet: &mut Wallet, budget: BudgetId, granted: u64) {
    drop(wallet.ask(&[(budget, Amount(granted))], START));
    wallet.granted(&grants(row(budget, granted)), START);
    flush(wallet);
    for (_id, answer) in wallet.decided() {
        drop(answer.map(|held| wallet.settle(held, &[])));
    }
    flush(wallet);
}

fn flush(wallet: &mut Wallet) -> Vec<Record> {
    let mut written = Vec::new();
    loop {
        let records = wallet.records();
        if records.is_empty() {
            return written;
        }
        for record in &records {
            wallet.written(record);
        }
        written.extend(records);
    }
}

fn held(wallet: &mut Wallet, asks: &[(BudgetId, Amount)]) -> Held {
    match wallet.ask(asks, START) {
        Decision::Held(held) => held,
        other => panic!("{other:?}"),
    }
}
