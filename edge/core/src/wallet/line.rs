//! One budget at this edge: the open window's account, those that close, and what central last said of the budget.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Amount, BudgetId, Incarnation, Mono, WindowId};
use wire::catalog::{Budget, Mode};
use wire::ledger::{GrantRow, UsageRow, WindowState};

use super::account::Account;
use super::demand::Demand;
use super::journal::{Mark, Record};
use super::recalls::Recalls;
use super::waiting::Lacks;
use super::{FRESH, IDLE, Part, Stands, TICK, Why};

/// A closing window's row is repeated this often until central says that it is settled.
const REPEAT: Duration = Duration::from_secs(1);

/// How many calls of the largest a ceiling runs ahead of use: of a budget with one account, and of a user's account. A crash is
/// charged up to the ceiling, and a user has few calls to share that among.
const CALLS_AHEAD: (u64, u64) = (4, 1);

/// One budget.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// As configured; `None` once removed.
    terms: Option<Terms>,
    open: Option<(WindowId, Account)>,
    closing: BTreeMap<WindowId, Account>,
    /// The newest window that central closed.
    closed: Option<WindowId>,
    pub(super) demand: Demand,
    pub(super) waiting: Lacks,
    pub(super) recalls: Recalls,
    facts: Option<Facts>,
    target: Amount,
    /// When a row without a window was last sent, and what it asked for.
    introduced: Option<(Mono, Amount)>,
    /// Its number, while nothing that answers it came back: central may have granted what nobody here knows of.
    unanswered: Option<u64>,
    /// What calls without credit may have cost since central last spoke of it.
    uncovered: Amount,
    /// No ceiling is raised any more.
    resting: bool,
    /// The number that its first row had, and that of the last. An end user's line may have been here before, and forgotten:
    /// what central says of rows before the first is no news.
    numbers: (u64, u64),
}

#[derive(Debug, PartialEq, Eq)]
struct Terms {
    limit: Amount,
    horizon: Duration,
    /// The most that may be made without credit while central is silent; `None`: nothing ever is.
    overdraft: Option<Amount>,
    /// Calls that may take credit before the journal is asked again.
    calls_ahead: u64,
}

/// What central last said of the open window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What may be spent in the window.
    pub limit: Amount,
    /// What was spent.
    pub spent: Amount,
    /// What may still be granted.
    pub left: Amount,
    /// When.
    pub at: Mono,
}

impl Line {
    /// A line whose rows are numbered from here on.
    pub(super) fn numbered(first: u64) -> Self {
        Self { numbers: (first, first), ..Self::default() }
    }

    /// Whether nothing would be lost with it. Soft calls in progress hold nothing.
    pub(super) fn is_forgettable(&self, now: Mono) -> bool {
        let idle =
            self.demand.is_idle(now, IDLE) && self.waiting.least().is_none() && self.unanswered.is_none();
        let settled = self.uncovered == Amount::ZERO && self.closing.values().all(|account| account.settled);
        idle && settled && self.open().is_none_or(|(_window, account)| account.is_forgettable())
    }

    /// What central is told when it is forgotten, if it knows of it, and the number after that.
    pub(super) fn farewell(&self, budget: BudgetId) -> (Option<UsageRow>, u64) {
        let number = self.numbers.1.saturating_add(1);
        let row = self.open().map(|(window, _account)| UsageRow {
            number,
            forgotten: true,
            ..row(budget, window, &Account::default(), Amount::ZERO, Amount::ZERO)
        });
        (row, number.saturating_add(1))
    }

    pub(super) fn install(&mut self, budget: &Budget) {
        let horizon = Duration::from_millis(u64::from(budget.horizon_ms));
        let overdraft = match budget.mode {
            Mode::Strict => None,
            Mode::Soft { overdraft } => Some(overdraft),
        };
        let calls_ahead = if budget.is_each_users() { CALLS_AHEAD.1 } else { CALLS_AHEAD.0 };
        let terms = Some(Terms { limit: budget.limit, horizon, overdraft, calls_ahead });
        if self.terms != terms {
            // What central said belongs to the old terms.
            (self.terms, self.facts) = (terms, None);
        }
    }

    pub(super) fn remove(&mut self) {
        self.terms = None;
        self.close_open();
    }

    pub(super) const fn is_configured(&self) -> bool {
        self.terms.is_some()
    }

    pub(super) fn open(&self) -> Option<(WindowId, &Account)> {
        self.open.as_ref().map(|(window, account)| (*window, account))
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.accounts().all(|(_window, account)| account.held() == Amount::ZERO)
    }

    pub(super) fn accounts(&self) -> impl Iterator<Item = (WindowId, &Account)> {
        let open = self.open.iter().map(|(window, account)| (*window, account));
        open.chain(self.closing.iter().map(|(window, account)| (*window, account)))
    }

    fn account(&mut self, window: WindowId) -> Option<&mut Account> {
        match &mut self.open {
            Some((open, account)) if *open == window => Some(account),
            Some(_) | None => self.closing.get_mut(&window),
        }
    }

    fn available(&self) -> Amount {
        self.open().map_or(Amount::ZERO, |(_window, account)| account.available())
    }

    /// Whether nothing central could grant makes room for `amount`, as far as its last answer tells.
    pub(super) fn is_hopeless(&self, amount: Amount, now: Mono) -> bool {
        // What goes back just now comes into the pool, whatever central's last answer said of that.
        let own =
            |(_window, account): (WindowId, &Account)| account.unspent().saturating_add(account.returning());
        let unspent = self.open().map_or(Amount::ZERO, own);
        match (&self.facts, &self.terms) {
            (Some(facts), _) if now.since(facts.at) < FRESH => amount > unspent.saturating_add(facts.left),
            (_, Some(terms)) => amount > terms.limit.max(unspent),
            (_, None) => true,
        }
    }

    /// Whether central may be able to give what a call of `amount` lacks.
    pub(super) fn can_hope_for(&self, amount: Amount) -> bool {
        self.facts.is_none_or(|facts| amount.saturating_sub(self.available()) <= facts.left)
    }

    /// Whether a call that waits lacks credit here, and central may be able to give it.
    pub(super) fn bars(&self, amount: Amount) -> bool {
        amount > self.available() && self.can_hope_for(amount)
    }

    /// Asks once more when calls still wait though central answered, and it may have more. Whether it does.
    pub(super) fn ask_again(&mut self) -> bool {
        let again = self.waiting.least().is_some_and(|least| self.bars(least));
        match &mut self.open {
            // One ask is under way already.
            Some((_window, account)) if account.asking => false,
            Some((_window, account)) if again => {
                account.told = None;
                true
            }
            Some(_) | None => false,
        }
    }

    pub(super) fn lacks_only_ceiling(&self, amount: Amount) -> bool {
        self.available() >= amount
    }

    pub(super) const fn was_answered(&self) -> bool {
        self.facts.is_some()
    }

    /// Whether credit is there for the smallest of the calls that wait.
    pub(super) fn may_serve(&self) -> bool {
        let usable = self.open().map_or(Amount::ZERO, |(_window, account)| account.usable());
        self.waiting.least().is_some_and(|least| least <= usable)
    }

    pub(super) fn exceeded(&self, waited: bool) -> Why {
        let (limit, said) = match (&self.facts, &self.terms) {
            (Some(facts), _) => (facts.limit, facts.spent),
            (None, Some(terms)) => (terms.limit, Amount::ZERO),
            (None, None) => (Amount::ZERO, Amount::ZERO),
        };
        // Central may not have heard yet of what was spent here.
        let here = self.open().map_or(Amount::ZERO, |(_window, account)| account.spent());
        Why::Exceeded { limit, spent: said.max(here), waited }
    }

    /// Whether calls are made without credit, too.
    pub(super) fn is_soft(&self) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.overdraft.is_some())
    }

    /// Whether a call of `amount` may be made without credit. While central speaks, what it says is spent decides
    /// elsewhere; while it is silent, a bound does.
    pub(super) fn bears(&self, amount: Amount, attached: bool) -> bool {
        let overdraft = self.terms.as_ref().and_then(|terms| terms.overdraft);
        overdraft.is_some_and(|most| attached || self.uncovered.saturating_add(amount) <= most)
    }

    /// A call of `amount` is made without credit.
    pub(super) fn uncover(&mut self, amount: Amount) {
        self.uncovered = self.uncovered.saturating_add(amount);
    }

    /// The share of the limit that is spent, in thousandths, as far as central said.
    pub(super) fn used(&self) -> Option<(u64, Amount, Amount)> {
        let facts = self.facts?;
        let share = u128::from(facts.spent.0) * 1_000 / u128::from(facts.limit.0.max(1));
        Some((u64::try_from(share).unwrap_or(u64::MAX), facts.limit, facts.spent))
    }

    /// How it stands.
    pub(super) fn stands(&self) -> Stands {
        let (free, held) = self
            .open()
            .map_or((Amount::ZERO, Amount::ZERO), |(_window, account)| (account.available(), account.held()));
        Stands { free, held, said: self.facts }
    }

    pub(super) fn take(&mut self, amount: Amount) {
        if let Some((_window, account)) = &mut self.open {
            account.take(amount);
        }
    }

    pub(super) fn settle(&mut self, part: &Part, charge: Amount) {
        self.demand.charged(charge);
        let recalled = match self.account(part.window) {
            Some(account) => {
                account.settle(part.amount, charge);
                account.keep.is_some()
            }
            None => false,
        };
        let closing = self.closing.contains_key(&part.window);
        if closing || (recalled && self.waiting.least().is_none()) {
            self.give_back_recalled();
        }
    }

    /// Measures demand and sets the target.
    pub(super) fn tick(&mut self, now: Mono, latency: Duration) {
        self.demand.tick(now);
        self.aim(now, latency);
    }

    /// Sets the target by what is known now.
    fn aim(&mut self, now: Mono, latency: Duration) {
        let Some(terms) = &self.terms else { return };
        let (limit, left) = self.facts.map_or((terms.limit, terms.limit), |facts| (facts.limit, facts.left));
        self.target = if self.demand.is_idle(now, IDLE) {
            Amount::ZERO
        } else {
            self.demand.target(latency, limit, left, terms.horizon)
        };
    }

    /// Gives back what nobody needs. While central is away nothing: what is held back then may not come again.
    pub(super) fn give_back_surplus(&mut self, now: Mono) {
        let idle = self.demand.is_idle(now, IDLE);
        let target = self.target;
        let waits = self.waiting.least().is_some();
        let Some((_window, account)) = &mut self.open else { return };
        let available = account.available();
        if idle {
            account.give_back(available);
        } else if !waits && available.0 > scaled(target, 16) {
            account.give_back(Amount(available.0 - scaled(target, 12)));
        }
    }

    /// Gives back what central asked for, and all that no call holds of windows that closed.
    pub(super) fn give_back_recalled(&mut self) {
        for account in self.closing.values_mut() {
            account.give_back(account.available());
        }
        if let Some((_window, account)) = &mut self.open
            && let Some(keep) = account.keep
        {
            // Calls here that wait only for their ceiling come before calls elsewhere.
            let idle = account.available().saturating_sub(self.waiting.fitting(account.available()));
            let amount = account.unspent().saturating_sub(keep).min(idle);
            account.give_back(amount);
            self.recalls.gave(amount);
        }
    }

    /// Makes the records that are due: ceilings ahead of use, returns, grants.
    pub(super) fn plan(&mut self, budget: BudgetId, current: Option<Incarnation>, outbox: &mut Vec<Record>) {
        let Some(incarnation) = current else { return };
        let goal = self.goal();
        let open = self.open.iter_mut().map(|(window, account)| (*window, account, goal));
        let closing = self.closing.iter_mut().map(|(window, account)| (*window, account, Amount::ZERO));
        for (window, account, goal) in open.chain(closing) {
            if let Some(level) = account.next_level(goal) {
                outbox.push(Record::Mark(Mark::new(incarnation, (budget, window), level)));
            }
        }
    }

    /// Makes records that prove exactly what was used.
    pub(super) fn rest(&mut self, budget: BudgetId, incarnation: Incarnation, outbox: &mut Vec<Record>) {
        self.resting = true;
        let open = self.open.iter_mut().map(|(window, account)| (*window, account));
        let closing = self.closing.iter_mut().map(|(window, account)| (*window, account));
        for (window, account) in open.chain(closing) {
            if let Some(level) = account.last_level() {
                outbox.push(Record::Mark(Mark::new(incarnation, (budget, window), level)));
            }
        }
    }

    fn goal(&self) -> Amount {
        let Some((_window, account)) = self.open() else { return Amount::ZERO };
        let calls = self.terms.as_ref().map_or(CALLS_AHEAD.0, |terms| terms.calls_ahead);
        let (ahead, least) = self.demand.ahead(calls);
        let waits = self.waiting.least().is_some();
        if self.resting || (!waits && account.usable() >= least) {
            return Amount::ZERO;
        }
        account.used().saturating_add(ahead).saturating_add(self.waiting.sum())
    }

    /// Takes central's word. Whether the row concerned anything this edge has or wants.
    pub(super) fn granted(&mut self, row: &GrantRow, now: Mono) {
        if row.heard < self.numbers.0 && self.account(row.window).is_none() {
            return;
        }
        self.uncovered = Amount::ZERO;
        let open = row.state == WindowState::Open;
        if self.account(row.window).is_none() {
            self.open_or_keep(row, open);
        } else if open && self.open.is_none() && self.terms.is_some() {
            // A budget that was removed and came back.
            self.open = self.closing.remove(&row.window).map(|account| (row.window, account));
        }
        // Of a budget that was removed here, central may yet grant what was asked for.
        let answers = |asked: u64| row.heard >= asked || row.granted == Amount::ZERO;
        let kept = open && self.account(row.window).is_none();
        self.unanswered = self.unanswered.filter(|asked| kept || !answers(*asked));
        let mut begun = false;
        if let Some(account) = self.account(row.window) {
            account.grant(row.granted);
            begun = std::mem::replace(&mut account.keep, row.keep).is_none() && row.keep.is_some();
            account.heard(row.heard, row.heard_returned);
            account.asking = false;
        }
        let is_open = self.open.as_ref().is_some_and(|(window, _account)| *window == row.window);
        if is_open && open {
            self.facts = Some(Facts { limit: row.limit, spent: row.spent, left: row.left, at: now });
            if begun {
                self.recalls.begun();
            }
        } else if is_open {
            self.close_open();
        }
        if let Some(account) = self.account(row.window) {
            account.settled = row.state == WindowState::Settled && account.unspent() == Amount::ZERO;
        }
        self.forget_settled();
    }

    /// A window this edge did not know: the open one, or one whose credit must go back.
    fn open_or_keep(&mut self, row: &GrantRow, open: bool) {
        let newer = self.open.as_ref().is_none_or(|(window, _account)| row.window > *window)
            && self.closed.is_none_or(|window| row.window > window || row.window == WindowId(0));
        if open && newer && self.terms.is_some() {
            self.close_open();
            self.open = Some((row.window, Account::known(row.heard_spent, row.heard_returned)));
        } else if row.granted > Amount::ZERO && row.state != WindowState::Settled {
            let account = Account::known(row.heard_spent, row.heard_returned);
            self.closing.insert(row.window, account);
        }
    }

    fn close_open(&mut self) {
        if let Some((window, account)) = self.open.take() {
            self.closing.insert(window, account);
            self.closed = self.closed.max(Some(window));
            self.facts = None;
        }
    }

    /// Forgets settled windows before the open one, which can never open again.
    fn forget_settled(&mut self) {
        if let Some((open, _account)) = &self.open {
            let open = *open;
            self.closing.retain(|window, account| !account.settled || *window > open);
        }
    }

    /// Rows that changed, ask for something, or are due again. A row without a window is numbered from `number` on.
    pub(super) fn rows(
        &mut self,
        (budget, number): (BudgetId, u64),
        (now, latency): (Mono, Duration),
        rows: &mut Vec<UsageRow>,
    ) {
        self.aim(now, latency);
        let want = self.want();
        let waiting = self.lack();
        let busy = !self.demand.is_idle(now, IDLE);
        if let Some((window, account)) = &mut self.open {
            let asks = want > account.unspent() || waiting > Amount::ZERO;
            let row = row(budget, *window, account, want, waiting);
            let row = account.number(row, &mut self.numbers.1);
            rows.extend(due(account, row, now, (asks || busy).then_some(TICK)));
        } else if self.introduces(busy, want, now) {
            let first = row(budget, WindowId(0), &Account::default(), want, waiting);
            // A number of its own: what central said before it is no answer.
            self.numbers.1 = self.numbers.1.saturating_add(1).max(number);
            (self.introduced, self.unanswered) = (Some((now, want)), Some(self.numbers.1));
            rows.push(UsageRow { number: self.numbers.1, ..first });
        }
        for (window, account) in self.closing.iter_mut().filter(|(_window, account)| !account.settled) {
            let row = row(budget, *window, account, Amount::ZERO, Amount::ZERO);
            let row = account.number(row, &mut self.numbers.1);
            rows.extend(due(account, row, now, Some(REPEAT)));
        }
    }

    /// Whether a row without a window is due: calls want credit, or an earlier one may have brought some that never came.
    fn introduces(&self, busy: bool, want: Amount, now: Mono) -> bool {
        let Some((at, asked)) = self.introduced else {
            return self.unanswered.is_some() || (self.terms.is_some() && busy);
        };
        let since = now.since(at);
        let asks = busy && (since >= TICK || asked != want);
        (self.terms.is_some() && asks) || (self.unanswered.is_some() && since >= REPEAT)
    }

    /// Credit to have unspent, holds included.
    fn want(&self) -> Amount {
        let (held, available) = self
            .open()
            .map_or((Amount::ZERO, Amount::ZERO), |(_window, account)| (account.held(), account.available()));
        let recalled = self.open().is_some_and(|(_window, account)| account.keep.is_some());
        if self.waiting.least().is_some() {
            let target = if recalled { Amount::ZERO } else { self.target };
            return held.saturating_add(self.waiting.sum()).saturating_add(target);
        }
        let enough = recalled || available.0 >= scaled(self.target, 6);
        held.saturating_add(if enough { available } else { self.target })
    }

    /// What the waiting call that lacks least lacks.
    fn lack(&self) -> Amount {
        self.waiting.least().map_or(Amount::ZERO, |least| least.saturating_sub(self.available()))
    }

    /// The session ended: everything is to be told again.
    pub(super) fn detached(&mut self) {
        self.introduced = None;
        let open = self.open.iter_mut().map(|(_window, account)| account);
        for account in open.chain(self.closing.values_mut()) {
            (account.told, account.asking) = (None, false);
        }
    }

    pub(super) fn written(&mut self, window: WindowId, level: super::account::Level) -> bool {
        let Some(account) = self.account(window) else { return false };
        let before = account.returned_durably();
        account.written(level);
        account.returned_durably() > before
    }

    /// The accounts, for an incarnation that becomes a former one.
    pub(super) fn take_accounts(&mut self) -> BTreeMap<WindowId, Account> {
        let mut accounts = std::mem::take(&mut self.closing);
        accounts.extend(self.open.take());
        (self.closed, self.facts, self.introduced, self.unanswered) = (None, None, None, None);
        accounts
    }

    /// Takes up an account of an incarnation that becomes the current one. The newest window is the open one.
    pub(super) fn adopt(&mut self, window: WindowId, account: Account) {
        if self.terms.is_some() && self.open.as_ref().is_none_or(|(open, _account)| window > *open) {
            self.close_open();
            self.open = Some((window, account));
        } else {
            self.closing.insert(window, account);
        }
    }
}

fn row(budget: BudgetId, window: WindowId, account: &Account, want: Amount, waiting: Amount) -> UsageRow {
    let (spent, returned) = (account.spent(), account.returned_durably());
    UsageRow { budget, window, spent, returned, want, waiting, number: 0, forgotten: false }
}

/// The row, when it differs from what was told, is to be repeated, or was told and not heard in time.
fn due(account: &mut Account, row: UsageRow, now: Mono, repeat: Option<Duration>) -> Option<UsageRow> {
    let (told, since) = match account.told {
        Some((told, at)) => (told == row, now.since(at)),
        None => (false, Duration::ZERO),
    };
    let overdue = since >= REPEAT && !account.is_heard();
    if told && !overdue && repeat.is_none_or(|after| since < after) {
        return None;
    }
    account.asking |= row.waiting > Amount::ZERO;
    account.told = Some((row, now));
    Some(row)
}

/// `amount` times `tenths` / 10.
const fn scaled(amount: Amount, tenths: u64) -> u64 {
    (amount.0 / 10).saturating_mul(tenths).saturating_add(amount.0 % 10 * tenths / 10)
}
