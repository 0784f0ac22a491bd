//! Who may spend what: credit granted to edges, returned by them, settled by receipts, and what crashes cost.
//!
//! Decided here, from log entries alone and in each budget's unit: how much credit an edge gets, which receipts are new,
//! and what an incarnation that ended owes. The law, per budget and window, at every entry:
//!
//! ```text
//! ΣG − ΣR + overrun + corrections ≤ limit when anything is granted    (a lowered limit stops grants until it fits)
//! ΣG − ΣR = Σ receipts + crash charges + held or available at edges + written off   (exactly; `Ledger::check` shows it)
//! ```
//!
//! Credit leaves a budget when its grant is applied and comes back only by the word of the incarnation that holds it.
//! Nothing here expires: an edge that never answers keeps its credit charged until the window ends, or an operator
//! decides otherwise. Counters are
//! cumulative and merged by maximum, so that loss, duplication and reordering do no harm. No clock is read; the time of
//! an entry chooses windows only, and the ledger's time never goes back.

mod account;
mod decisions;
mod edges;
mod leases;
mod report;
mod roll;
mod rows;
mod share;

use std::collections::{BTreeMap, VecDeque};

use base::{BudgetId, Era, Incarnation, Name, WallMs, WindowId};
use serde::{Deserialize, Serialize};
use wire::catalog::Budget;
use wire::ledger::{Charge, FinalReport, Receipt, ReceiptBatch};

use crate::LogMs;
use account::{Account, Holding};
pub use decisions::{Decided, DecidedRow, Decision, Undecided, Verdict};
use edges::Edge;
pub use leases::{LeaseRow, Listing};
pub use rows::{Check, LedgerRow};

/// How long a window that ended still takes settlements into account before what is unsettled counts as spent.
const SEAL_AFTER_MS: u64 = 24 * 3_600_000;
/// Sealed windows kept for [`Ledger::check`], per budget.
const SEALED_KEPT: usize = 8;
const SWEEP_EACH_MS: u64 = 3_600_000;
/// Accounts of a budget that each end user has one of. Who comes beyond that gets no credit.
const USERS: usize = 1_000_000;

/// Every budget's accounts and every edge's incarnations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    era: Era,
    /// The latest time of any entry; never goes back.
    now: WallMs,
    /// The log's clock; never goes back.
    clock: LogMs,
    /// Hours since 1970 at the last sweep of old windows.
    swept: u64,
    books: BTreeMap<BudgetId, Book>,
    edges: BTreeMap<Name, Edge>,
    /// What operators decided, the latest last.
    decided: VecDeque<Decided>,
}

/// One budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Book {
    budget: Budget,
    /// Removed from the configuration: grants nothing, settles what it granted, and keeps what was spent.
    removed: bool,
    accounts: BTreeMap<Slot, Account>,
}

/// Which account of a budget: an end user's by its hash, or with 0 the only one; and its window.
type Slot = (u64, WindowId);

/// The answer to a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// The process may spend under this incarnation.
    Welcome {
        /// Under which.
        incarnation: Incarnation,
        /// The process that spoke for the edge before and must stop now.
        superseded: Option<u64>,
    },
    /// A newer process spoke for this edge already; this one must stop.
    Superseded,
}

/// What became of a batch of receipts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken<'a> {
    /// Position of the next receipt expected of that incarnation.
    pub next: u64,
    /// Receipts applied by this batch, never applied before.
    pub fresh: &'a [Receipt],
    /// Set when the batch completed an incarnation that had given its last word.
    pub closed: Option<Closed>,
}

/// An incarnation that ended for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Which.
    pub incarnation: Incarnation,
    /// What it may have spent beyond its receipts; charged. Empty when the message is repeated.
    pub crash: Vec<Charge>,
}

impl Ledger {
    /// Adds a budget or changes its limit. Its number stands for one unit and one kind of window for ever.
    pub fn set_budget(&mut self, budget: &Budget) {
        let fresh = || Book { budget: budget.clone(), removed: false, accounts: BTreeMap::new() };
        let book = self.books.entry(budget.id).or_insert_with(fresh);
        book.budget.clone_from(budget);
        book.removed = false;
    }

    /// Grants nothing more of a budget. What was granted is settled; what was spent is remembered.
    pub fn remove_budget(&mut self, id: BudgetId) {
        if let Some(book) = self.books.get_mut(&id) {
            book.removed = true;
        }
    }

    /// An edge's process asks under which incarnation to spend. `boot` is the process's random number, `resume` the
    /// incarnation it already spends under, `last` the highest in its journal. A process that was superseded stays so.
    pub fn register(
        &mut self,
        edge: &Name,
        boot: u64,
        resume: Option<Incarnation>,
        last: Option<Incarnation>,
    ) -> Registered {
        self.edges.entry(edge.clone()).or_default().register(boot, resume, last)
    }

    /// Applies the receipts of a batch that are new. A batch behind a gap changes nothing.
    pub fn receipts<'a>(&mut self, edge: &Name, batch: &'a ReceiptBatch) -> Taken<'a> {
        let Some(of) = self.edges.get_mut(edge) else {
            return Taken { next: 0, fresh: &[], closed: None };
        };
        let (next, known) = of.advance(batch.incarnation, batch.first, batch.receipts.len());
        let fresh = batch.receipts.get(known..).unwrap_or(&[]);
        for charge in fresh.iter().flat_map(|receipt| &receipt.charges) {
            self.charge(edge, batch.incarnation, charge);
        }
        Taken { next, fresh, closed: self.finish(edge, batch.incarnation) }
    }

    /// An incarnation's last word. It is closed once all its receipts are applied; closing again is harmless.
    pub fn close(&mut self, edge: &Name, report: &FinalReport) -> Option<Closed> {
        let of = self.edges.get_mut(edge)?;
        if of.is_closed(report.incarnation) {
            return Some(Closed { incarnation: report.incarnation, crash: Vec::new() });
        }
        of.last_word(report);
        self.finish(edge, report.incarnation)
    }

    /// The log's clock, as of the last entry that told it.
    #[must_use]
    pub const fn clock(&self) -> LogMs {
        self.clock
    }

    /// The ledger's time: the latest time of any entry.
    #[must_use]
    pub const fn now(&self) -> WallMs {
        self.now
    }

    fn charge(&mut self, edge: &Name, incarnation: Incarnation, charge: &Charge) {
        let now = self.now;
        let window = match charge.window {
            WindowId::OPEN => {
                let Some(book) = self.book_of(charge.budget) else { return };
                let open = book.budget.window_at(now);
                if !book.has_room((charge.budget.user(), open)) {
                    return;
                }
                book.accounts.entry((charge.budget.user(), open)).or_default();
                open
            }
            told => told,
        };
        if let Some(account) = self.account(charge.budget, window) {
            account.charge(&Holding::new(edge, incarnation), charge.amount, charge.overrun);
        }
        if let Some(book) = self.book_of(charge.budget) {
            book.forget_settled(now, (charge.budget.user(), window));
        }
    }

    /// The book of an account, when the budget is of that kind.
    fn book_of(&mut self, account: BudgetId) -> Option<&mut Book> {
        let each = account.user() != 0;
        self.books.get_mut(&account.budget()).filter(|book| book.budget.is_each_users() == each)
    }

    fn account(&mut self, budget: BudgetId, window: WindowId) -> Option<&mut Account> {
        self.book_of(budget)?.accounts.get_mut(&(budget.user(), window))
    }

    /// Closes an incarnation whose last word is here and whose receipts are all applied.
    fn finish(&mut self, edge: &Name, incarnation: Incarnation) -> Option<Closed> {
        let report = self.edges.get_mut(edge)?.take_finished(incarnation)?;
        let spent: BTreeMap<_, _> =
            report.rows.iter().map(|(budget, window, spent)| ((*budget, *window), *spent)).collect();
        let holding = Holding::new(edge, incarnation);
        let mut crash = Vec::new();
        for (id, book) in &mut self.books {
            for ((user, window), account) in &mut book.accounts {
                let id = id.of_user(*user);
                let said = spent.get(&(id, *window)).copied().unwrap_or_default();
                let (amount, overrun) = account.close(&holding, said);
                if amount > base::Amount::ZERO || overrun > base::Amount::ZERO {
                    crash.push(Charge { budget: id, window: *window, amount, overrun });
                }
            }
        }
        Some(Closed { incarnation, crash })
    }

    /// Moves the ledger's time on, never back, and once an hour seals and forgets old windows.
    fn advance(&mut self, at: WallMs, clock: LogMs) {
        self.now = self.now.max(at);
        self.clock = self.clock.max(clock);
        if base::mutant!(WindowReopened) {
            self.now = at;
        }
        let hour = self.now.as_millis() / SWEEP_EACH_MS;
        if hour != self.swept {
            self.swept = hour;
            for book in self.books.values_mut() {
                book.sweep(self.now);
            }
        }
    }
}

impl Book {
    /// The window that may be granted from; `None` once the budget is removed.
    fn open(&self, now: WallMs) -> Option<WindowId> {
        (!self.removed).then(|| self.budget.window_at(now))
    }

    /// Whether another account may be kept.
    fn has_room(&self, slot: Slot) -> bool {
        slot.0 == 0 || self.accounts.len() < USERS || self.accounts.contains_key(&slot)
    }

    /// A user's account of a window that ended is forgotten once all of it is settled.
    fn forget_settled(&mut self, now: WallMs, (user, window): Slot) {
        let over = user != 0 && self.open(now) != Some(window);
        if over && self.accounts.get(&(user, window)).is_some_and(Account::is_settled) {
            self.accounts.remove(&(user, window));
        }
    }

    fn sweep(&mut self, now: WallMs) {
        let budget = &self.budget;
        let over = |window: WindowId| {
            budget
                .window_end(window)
                .is_some_and(|end| now.as_millis() >= end.as_millis().saturating_add(SEAL_AFTER_MS))
        };
        for ((_user, window), account) in &mut self.accounts {
            if over(*window) {
                account.seal();
            }
        }
        if self.budget.is_each_users() {
            let open = self.open(now);
            return self.accounts.retain(|(user, window), account| {
                let over = *user != 0 && open != Some(*window);
                !(account.is_sealed() || (over && account.is_settled()))
            });
        }
        while self.accounts.values().filter(|account| account.is_sealed()).count() > SEALED_KEPT {
            self.accounts.pop_first();
        }
    }
}

#[cfg(test)]
mod tests;
