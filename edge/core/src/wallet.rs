//! The credit an edge holds, and which calls it pays for.
//!
//! Decided here, told the time and in each budget's unit: whether a call may take a hold under all of its budgets at
//! once, whether it waits for credit or is refused, how much credit to ask central for and how much to give back. The
//! law it keeps, per (incarnation, budget, window), at every instant and on whatever the disk holds after a crash:
//!
//! ```text
//! spent + held ≤ durable ceiling ≤ granted − returned
//! ```
//!
//! A ceiling counts only once it is durable, and is raised ahead of use, so that a call rarely waits for a disk. Credit
//! given back cannot be spent from the moment of the decision, and is reported only once the decision is durable. The
//! wallet does no I/O: the shell makes [`Record`]s durable in the order given and says so by [`Wallet::written`], and
//! carries reports and grants to and from central in any order, any number of times.

mod account;
mod central;
mod demand;
mod journal;
mod line;
mod recalls;
mod users;
mod waiting;

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Amount, BudgetId, Era, Incarnation, Mono, Name, WindowId};
use wire::catalog::Budget;
use wire::ledger::Charge;

use account::Account;
pub use journal::{Mark, Record, Recovered};
pub use line::Facts;
use line::Line;
pub use recalls::Recalls;
use users::Users;
use waiting::Waiting;

/// How often demand is measured and counters are reported when nothing presses.
pub const TICK: Duration = Duration::from_millis(250);
/// Without demand for this long, all unused credit goes back. With a tick and a grant's latency it is elsewhere within 2 s.
const IDLE: Duration = Duration::from_millis(1_500);
/// Central's last answer is believed for this long when it says that nothing is left.
const FRESH: Duration = Duration::from_secs(1);
/// A call waits for credit this long at the least and at the most.
const WAIT: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(1));
/// Calls waiting for credit at once; more are refused as if they had waited.
const WAITERS: usize = 10_000;

/// All credit of one edge.
#[derive(Debug, Default)]
pub struct Wallet {
    era: Era,
    /// New holds are taken under it.
    current: Option<Incarnation>,
    /// The current one was taken up from the journal: part of what counts as spent may never have been.
    adopted: bool,
    /// That the current one began is durable, so that credit which comes now is never forgotten with its life.
    noted: bool,
    /// The highest incarnation known.
    last: Option<Incarnation>,
    /// Whether a session with central stands.
    attached: bool,
    /// By budget, or by end user's account of one.
    lines: BTreeMap<BudgetId, Line>,
    users: Users,
    /// Earlier incarnations, until central closed them.
    former: BTreeMap<Incarnation, Life>,
    waiting: Waiting,
    latency: Latency,
    /// Records the shell has not yet taken.
    outbox: Vec<Record>,
    /// Something should be reported before the next tick.
    urgent: bool,
    #[cfg(test)]
    mutant: Option<Mutant>,
}

/// An incarnation under which no new hold is taken.
#[derive(Debug, Default)]
struct Life {
    accounts: BTreeMap<(BudgetId, WindowId), Account>,
    /// A record that it never spends again is durable, so that its last word may be sent.
    over: bool,
}

/// How long a grant takes from report to arrival.
#[derive(Clone, Copy, Debug)]
struct Latency {
    mean: Duration,
    measured: bool,
    asked: Option<Mono>,
}

impl Default for Latency {
    fn default() -> Self {
        Self { mean: Duration::from_millis(200), measured: false, asked: None }
    }
}

/// A hold under each of a call's budgets. It must be settled exactly once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a hold that is not settled stays charged"]
pub struct Held {
    incarnation: Option<Incarnation>,
    parts: Vec<Part>,
}

/// How a budget stands at this edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stands {
    /// Credit that no call holds.
    pub free: Amount,
    /// Credit that calls hold.
    pub held: Amount,
    /// What central said of it last.
    pub said: Option<Facts>,
}

/// The hold under one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which budget.
    pub budget: BudgetId,
    /// The window that granted the credit.
    pub window: WindowId,
    /// How much is held.
    pub amount: Amount,
}

/// What a settled hold came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The incarnation whose spool takes the receipt; `None` while central never gave one.
    pub incarnation: Option<Incarnation>,
    /// What each budget paid; budgets that paid nothing are left out.
    pub charges: Vec<Charge>,
}

/// A waiting call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitId(u64);

/// The answer to a call that asks for a hold.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// It has all it asked for.
    Held(Held),
    /// It waits; [`Wallet::decided`] or, at `until`, [`Wallet::give_up`] has the answer.
    Wait {
        /// Its place.
        id: WaitId,
        /// When to give up.
        until: Mono,
    },
    /// It may not spend.
    Refused(Refused),
}

/// Why a call gets no hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The first budget that cannot pay.
    pub budget: BudgetId,
    /// Why it cannot.
    pub why: Why,
}

/// Why a budget cannot pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Not enough is left of it.
    Exceeded {
        /// What may be spent in the window.
        limit: Amount,
        /// What is known to be spent.
        spent: Amount,
        /// Whether the call waited for credit.
        waited: bool,
    },
    /// Central could not be asked, or knows no such budget.
    Unavailable,
    /// Credit is there, but no ceiling that covers it could be made durable.
    Journal,
}

impl Wallet {
    /// A wallet that knows what the journal proved; its incarnations are former until [`Wallet::adopt`].
    #[must_use]
    pub fn new(recovered: Recovered) -> Self {
        let mut wallet = Self { last: recovered.last(), ..Self::default() };
        for (incarnation, life) in recovered.into_lives() {
            wallet.former.insert(incarnation, life);
        }
        wallet
    }

    /// Takes the budgets of a new configuration. Budgets that are gone give their credit back.
    pub fn install(&mut self, budgets: &BTreeMap<Name, Budget>) {
        let wanted: BTreeMap<BudgetId, &Budget> =
            budgets.values().map(|budget| (budget.id, budget)).collect();
        for (id, line) in &mut self.lines {
            match wanted.get(&id.budget()) {
                Some(budget) => line.install(budget),
                None => line.remove(),
            }
        }
        self.users.install(wanted.values().copied());
        for (id, budget) in wanted.into_iter().filter(|(_id, budget)| !budget.is_each_users()) {
            self.lines.entry(id).or_default().install(budget);
        }
        self.settle_down();
    }

    /// Each budget's open window: credit granted and not returned, spent, held; of end users who are not forgotten.
    pub fn standing(&self) -> impl Iterator<Item = (BudgetId, [Amount; 3])> {
        let mut sums: BTreeMap<BudgetId, [Amount; 3]> = BTreeMap::new();
        for (id, line) in &self.lines {
            let Some((_window, account)) = line.open() else { continue };
            let kept = account.unspent().saturating_add(account.spent());
            let sum = sums.entry(id.budget()).or_default();
            for (sum, part) in sum.iter_mut().zip([kept, account.spent(), account.held()]) {
                *sum = sum.saturating_add(part);
            }
        }
        sums.into_iter()
    }

    /// The share of a budget that is spent, in thousandths, its limit and what is spent, as far as central said.
    #[must_use]
    pub fn used(&self, budget: BudgetId) -> Option<(u64, Amount, Amount)> {
        self.lines.get(&budget)?.used()
    }

    /// How a budget's open window stands here. `None`: it is not configured, or of a user who is not remembered.
    #[must_use]
    pub fn stands(&self, budget: BudgetId) -> Option<Stands> {
        Some(self.lines.get(&budget)?.stands())
    }

    /// Asks for a hold of each amount, all or none. Decides at once, and never waits itself. What costs nothing needs
    /// no hold; a budget named twice is held for the sum.
    pub fn ask(&mut self, asks: &[(BudgetId, Amount)], now: Mono) -> Decision {
        if is_plain(asks) { self.ask_plain(asks, now) } else { self.ask_plain(&plain(asks), now) }
    }

    fn ask_plain(&mut self, asks: &[(BudgetId, Amount)], now: Mono) -> Decision {
        self.meet(asks);
        if let Some(refused) = self.refuse_at_once(asks, now) {
            return Decision::Refused(refused);
        }
        for (id, amount) in asks {
            if let Some(line) = self.lines.get_mut(id) {
                line.demand.asked(*amount, now);
            }
        }
        if !self.is_barred(asks)
            && let Some(parts) = self.fit(asks)
        {
            return Decision::Held(self.take(asks, parts));
        }
        if self.waiting.len() >= WAITERS {
            return Decision::Refused(self.why(asks, true));
        }
        if base::mutant!(TakeNotUndone) {
            self.take_some(asks);
        }
        let until = now + self.patience(asks);
        let id = self.waiting.push(asks);
        for (budget, amount) in asks {
            if let Some(line) = self.lines.get_mut(budget) {
                line.waiting.add(*amount);
                line.plan(*budget, self.current, &mut self.outbox);
            }
        }
        self.urgent = true;
        Decision::Wait { id, until }
    }

    /// Settles a hold at what the call cost under each budget; a budget not named paid nothing. What exceeds the hold
    /// is an overrun.
    pub fn settle(&mut self, held: Held, actual: &[(BudgetId, Amount)]) -> Settled {
        let incarnation = held.incarnation.or(self.current);
        let mut charges = Vec::with_capacity(held.parts.len());
        for part in &held.parts {
            let cost = actual
                .iter()
                .find(|(id, _cost)| *id == part.budget)
                .map_or(Amount::ZERO, |(_id, cost)| *cost);
            let amount = cost.min(part.amount);
            self.settle_part(held.incarnation, part, amount);
            let overrun = cost.saturating_sub(part.amount);
            let is_dropped = !charges.is_empty() && base::mutant!(SecondChargeDropped);
            if cost > Amount::ZERO && !is_dropped {
                charges.push(Charge { budget: part.budget, window: part.window, amount, overrun });
            }
        }
        if held.parts.iter().any(|part| self.lines.get(&part.budget).is_some_and(Line::may_serve)) {
            self.serve();
        }
        Settled { incarnation, charges }
    }

    /// Answers to calls that waited.
    pub fn decided(&mut self) -> Vec<(WaitId, Result<Held, Refused>)> {
        self.waiting.take_decided()
    }

    /// Ends a wait at its deadline, or early. `None` when the answer is there already, or was taken.
    pub fn give_up(&mut self, id: WaitId) -> Option<Refused> {
        let waiter = self.waiting.remove(id)?;
        let refused = self.why(&waiter.asks, true);
        self.no_longer_waits(&waiter.asks);
        Some(refused)
    }

    /// Measures demand, returns surplus and raises ceilings. Call it each [`TICK`].
    pub fn tick(&mut self, now: Mono) {
        let latency = self.latency.mean;
        for line in self.lines.values_mut() {
            line.tick(now, latency);
            if self.attached {
                line.give_back_surplus(now);
            }
        }
        self.settle_down();
        if self.attached {
            self.forget(now);
        }
    }

    /// Whether something should be reported before the next tick.
    #[must_use]
    pub const fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Whether a session with central stands.
    #[must_use]
    pub const fn is_attached(&self) -> bool {
        self.attached
    }

    /// Whether no hold is open under any incarnation.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let lines = self.lines.values().all(Line::is_quiet);
        lines && self.former.values().all(Life::is_quiet)
    }

    /// The parts of a hold.
    #[must_use]
    pub fn parts(held: &Held) -> &[Part] {
        &held.parts
    }

    /// How long a call waits for credit. A budget that central never spoke of yet has no measured latency.
    fn patience(&self, asks: &[(BudgetId, Amount)]) -> Duration {
        let (least, most) = WAIT;
        let measured =
            |(budget, _amount): &(BudgetId, Amount)| self.lines.get(budget).is_some_and(Line::was_answered);
        let known = self.attached && self.latency.measured && asks.iter().all(measured);
        if known { (self.latency.mean * 3 / 2).clamp(least, most) } else { most }
    }

    /// A refusal that no grant could change, as far as central's last answer tells.
    fn refuse_at_once(&mut self, asks: &[(BudgetId, Amount)], now: Mono) -> Option<Refused> {
        for (budget, amount) in asks {
            let Some(line) = self.lines.get_mut(budget).filter(|line| line.is_configured()) else {
                return Some(Refused { budget: *budget, why: Why::Unavailable });
            };
            if line.is_soft() {
                if self.attached || line.bears(*amount, false) {
                    continue;
                }
                line.demand.noticed(now);
                return Some(Refused { budget: *budget, why: Why::Unavailable });
            }
            if line.is_hopeless(*amount, now) {
                // Keep asking central, so that a new window or a raised limit is seen.
                line.demand.noticed(now);
                return Some(Refused { budget: *budget, why: line.exceeded(false) });
            }
        }
        None
    }

    /// What a hold takes, when all of it is there.
    fn fit(&self, asks: &[(BudgetId, Amount)]) -> Option<Vec<Part>> {
        asks.iter().map(|(budget, amount)| self.part(*budget, *amount)).collect()
    }

    /// Takes what is there of a hold that is not there as a whole: a planted fault.
    fn take_some(&mut self, asks: &[(BudgetId, Amount)]) {
        for (budget, amount) in asks {
            let is_there = self.part(*budget, *amount).is_some_and(|part| part.amount == *amount);
            if let Some(line) = self.lines.get_mut(budget).filter(|_line| is_there) {
                line.take(*amount);
            }
        }
    }

    /// Takes what is there.
    fn take(&mut self, asks: &[(BudgetId, Amount)], parts: Vec<Part>) -> Held {
        let incarnation = self.current.filter(|_current| !parts.is_empty());
        for part in &parts {
            let Some(line) = self.lines.get_mut(&part.budget) else { continue };
            line.take(part.amount);
            if part.amount == Amount::ZERO {
                line.uncover(asked(asks, part.budget));
                self.urgent = true;
            }
            line.plan(part.budget, self.current, &mut self.outbox);
        }
        Held { incarnation, parts }
    }

    /// Whether an earlier call waits under one of these budgets and may hope.
    fn is_barred(&self, asks: &[(BudgetId, Amount)]) -> bool {
        let bars =
            |line: &Line| !line.is_soft() && line.waiting.largest().is_some_and(|largest| line.bars(largest));
        asks.iter().any(|(budget, _amount)| self.lines.get(budget).is_some_and(bars))
    }

    fn part(&self, budget: BudgetId, amount: Amount) -> Option<Part> {
        let line = self.lines.get(&budget)?;
        let open = line.open();
        if let Some((window, account)) = open
            && self.usable(account) >= amount
        {
            return Some(Part { budget, window, amount });
        }
        let window = open.map_or(WindowId::OPEN, |(window, _account)| window);
        line.bears(amount, self.attached).then_some(Part { budget, window, amount: Amount::ZERO })
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "a test's variant looks at its planted fault")]
    fn usable(&self, account: &Account) -> Amount {
        account.usable()
    }

    #[cfg(test)]
    fn usable(&self, account: &Account) -> Amount {
        match self.mutant {
            Some(Mutant::IgnoreCeiling) => account.available(),
            Some(Mutant::ReportReturnsEarly) | None => account.usable(),
        }
    }

    fn settle_part(&mut self, incarnation: Option<Incarnation>, part: &Part, charge: Amount) {
        if incarnation == self.current {
            if let Some(line) = self.lines.get_mut(&part.budget) {
                line.settle(part, charge);
                line.plan(part.budget, self.current, &mut self.outbox);
            }
            return;
        }
        let life = incarnation.and_then(|incarnation| self.former.get_mut(&incarnation));
        if let Some(account) = life.and_then(|life| life.accounts.get_mut(&(part.budget, part.window))) {
            account.settle(part.amount, charge);
        }
    }

    /// Gives credit to calls that wait, in their order, as far as it goes. A call that still waits lets smaller ones
    /// pass only when central cannot give it what it lacks.
    fn serve(&mut self) {
        let mut barred = Vec::new();
        let mut queue = self.waiting.take_queue();
        queue.retain(|id, waiter| {
            let first = waiter.asks.iter().all(|(budget, _amount)| !barred.contains(budget));
            if first && let Some(parts) = self.fit(&waiter.asks) {
                // What it takes is no longer waited for, or the ceiling would be raised for it twice.
                self.no_longer_waits(&waiter.asks);
                let held = self.take(&waiter.asks, parts);
                self.waiting.decide(*id, Ok(held));
                return false;
            }
            for (budget, amount) in &waiter.asks {
                if self.lines.get(budget).is_some_and(|line| !line.is_soft() && line.bars(*amount)) {
                    barred.push(*budget);
                }
            }
            true
        });
        self.waiting.put_back(queue);
    }

    fn no_longer_waits(&mut self, asks: &[(BudgetId, Amount)]) {
        for (budget, amount) in asks {
            if let Some(line) = self.lines.get_mut(budget) {
                line.waiting.remove(*amount);
            }
        }
    }

    /// Serves who waits, then gives back what must go, then plans records.
    fn settle_down(&mut self) {
        self.serve();
        for (id, line) in &mut self.lines {
            line.give_back_recalled();
            line.plan(*id, self.current, &mut self.outbox);
        }
    }

    fn why(&self, asks: &[(BudgetId, Amount)], waited: bool) -> Refused {
        let short = asks.iter().find(|(budget, amount)| self.part(*budget, *amount).is_none());
        let Some((budget, amount)) = short.or_else(|| asks.first()) else {
            return Refused { budget: BudgetId::default(), why: Why::Unavailable };
        };
        let why = match self.lines.get(budget) {
            Some(line) if line.lacks_only_ceiling(*amount) => Why::Journal,
            Some(line) if self.attached && !line.can_hope_for(*amount) => line.exceeded(waited),
            // Central said that there is enough, and did not give it: its leader may be lost.
            Some(_) | None => Why::Unavailable,
        };
        Refused { budget: *budget, why }
    }
}

fn asked(asks: &[(BudgetId, Amount)], budget: BudgetId) -> Amount {
    asks.iter().find(|(id, _amount)| *id == budget).map_or(Amount::ZERO, |(_id, amount)| *amount)
}

/// Whether every amount is positive and every budget named once, in ascending order.
fn is_plain(asks: &[(BudgetId, Amount)]) -> bool {
    asks.iter().all(|(_budget, amount)| *amount > Amount::ZERO)
        && asks.is_sorted_by(|(one, _amount), (other, _amount_too)| one < other)
}

fn plain(asks: &[(BudgetId, Amount)]) -> Vec<(BudgetId, Amount)> {
    let mut sums = BTreeMap::new();
    for (budget, amount) in asks.iter().filter(|(_budget, amount)| *amount > Amount::ZERO) {
        let sum: &mut Amount = sums.entry(*budget).or_default();
        *sum = sum.saturating_add(*amount);
    }
    sums.into_iter().collect()
}

impl Life {
    fn is_quiet(&self) -> bool {
        self.accounts.values().all(|account| account.held() == Amount::ZERO)
    }
}

/// Faults planted in tests, each of which the law's checker must find.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    IgnoreCeiling,
    ReportReturnsEarly,
}

#[cfg(test)]
mod economy;
#[cfg(test)]
mod law;
#[cfg(test)]
mod tests;
