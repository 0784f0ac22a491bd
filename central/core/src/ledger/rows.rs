//! The ledger as an operator checks it: one row per budget and window, each of which must balance.

use std::collections::BTreeMap;
use std::ops::Bound;

use base::{Amount, BudgetId, Name, Unit, WindowId};
use serde::{Deserialize, Serialize};

use super::account::{Account, narrow};
use super::edges::Edge;
use super::{Book, Ledger, Slot};

/// One budget's window, in the budget's unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerRow {
    /// Which budget.
    pub budget: BudgetId,
    /// Its name.
    pub name: Name,
    /// What it counts.
    pub unit: Unit,
    /// Which window.
    pub window: WindowId,
    /// Accounts that are summed here: one, or one per end user who was seen.
    pub accounts: u64,
    /// Whether grants may still come of it.
    pub open: bool,
    /// What may be spent in the window.
    pub limit: Amount,
    /// ΣG: everything ever granted.
    pub granted: u128,
    /// ΣR: everything ever returned.
    pub returned: u128,
    /// Charges of applied receipts.
    pub receipts: Amount,
    /// What ended incarnations may have spent beyond their receipts.
    pub crash: Amount,
    /// Settled at edges, receipts on their way.
    pub settling: Amount,
    /// Held by calls in progress, or available, at edges that live.
    pub outstanding: Amount,
    /// Neither settled nor returned by incarnations that ended without a last word, or left when the window was sealed.
    pub orphaned: Amount,
    /// What lost lives of edges may have spent, and no receipt or last word told of; counts as spent.
    pub written_off: Amount,
    /// Costs beyond holds, and what refunded edges spent all the same; charged before any new grant.
    pub overrun: Amount,
    /// What operators charged, less what they credited.
    pub corrected: i128,
    /// All that counts as spent.
    pub spent: Amount,
    /// What may still be granted.
    pub left: Amount,
    /// Whether ΣG − ΣR = receipts + crash + settling + outstanding + orphaned + written off, exactly.
    pub balanced: bool,
}

/// Where a look at all accounts goes on.
pub(super) type Cursor = (BudgetId, Slot);

/// A look at all accounts that others may interrupt: each account is whole, and between two of them the ledger may change.
#[derive(Clone, Debug, Default)]
pub struct Check {
    after: Option<Cursor>,
    /// By budget and window, the accounts of all users together.
    rows: BTreeMap<(BudgetId, WindowId), LedgerRow>,
}

impl Check {
    /// Every budget's windows that are kept, oldest first.
    #[must_use]
    pub fn rows(self) -> Vec<LedgerRow> {
        self.rows.into_values().collect()
    }

    fn add(&mut self, row: LedgerRow) {
        match self.rows.get_mut(&(row.budget, row.window)) {
            Some(sum) => sum.add(&row),
            None => drop(self.rows.insert((row.budget, row.window), row)),
        }
    }
}

impl Ledger {
    /// Every budget's windows that are kept, oldest first.
    #[must_use]
    pub fn check(&self) -> Vec<LedgerRow> {
        let mut check = Check::default();
        self.check_on(&mut check, usize::MAX);
        check.rows()
    }

    /// Looks at `most` accounts more; whether that were the last.
    pub fn check_on(&self, check: &mut Check, most: usize) -> bool {
        let (mut looked, mut after) = (0, check.after);
        for (cursor, book, account) in self.accounts_after(check.after).take(most) {
            let (_budget, (_user, window)) = cursor;
            let open = book.open(self.now) == Some(window);
            check.add(row(book, window, open, account, &self.edges));
            (looked, after) = (looked + 1, Some(cursor));
        }
        check.after = after;
        looked < most
    }

    /// All accounts, or those after one.
    pub(super) fn accounts_after(
        &self,
        after: Option<Cursor>,
    ) -> impl Iterator<Item = (Cursor, &Book, &Account)> {
        let (first, slot) = after.unzip();
        let books = self.books.range(first.unwrap_or_default()..);
        books.flat_map(move |(id, book)| {
            let from = match slot {
                Some(slot) if first == Some(*id) => Bound::Excluded(slot),
                Some(_) | None => Bound::Unbounded,
            };
            book.accounts
                .range((from, Bound::Unbounded))
                .map(move |(slot, account)| ((*id, *slot), book, account))
        })
    }
}

impl Ledger {
    /// The open window of one account: a budget's own, or an end user's. `None`: nobody asked for credit in it yet.
    #[must_use]
    pub fn standing(&self, account: BudgetId) -> Option<LedgerRow> {
        let book = self.books.get(&account.budget())?;
        let window = book.open(self.now)?;
        let standing = book.accounts.get(&(account.user(), window))?;
        Some(row(book, window, true, standing, &self.edges))
    }
}

impl LedgerRow {
    fn add(&mut self, other: &Self) {
        let parts = [
            (&mut self.limit, other.limit),
            (&mut self.receipts, other.receipts),
            (&mut self.crash, other.crash),
            (&mut self.settling, other.settling),
            (&mut self.outstanding, other.outstanding),
            (&mut self.orphaned, other.orphaned),
            (&mut self.written_off, other.written_off),
            (&mut self.overrun, other.overrun),
            (&mut self.spent, other.spent),
            (&mut self.left, other.left),
        ];
        for (sum, part) in parts {
            *sum = sum.saturating_add(part);
        }
        self.accounts = self.accounts.saturating_add(other.accounts);
        self.granted = self.granted.saturating_add(other.granted);
        self.returned = self.returned.saturating_add(other.returned);
        self.corrected = self.corrected.saturating_add(other.corrected);
        self.balanced &= other.balanced;
    }
}

fn row(
    book: &Book,
    window: WindowId,
    open: bool,
    account: &Account,
    edges: &BTreeMap<Name, Edge>,
) -> LedgerRow {
    let totals = account.totals;
    let (mut settling, mut outstanding, mut orphaned, mut written_off) =
        (0u128, 0u128, totals.unsettled, 0u128);
    for (holding, holder) in &account.holders {
        settling += u128::from(holder.spent.0 - holder.receipts.0);
        let unspent = u128::from(holder.unspent().0);
        let lives = edges.get(&holding.edge).is_some_and(|edge| edge.may_spend(holding.incarnation));
        let place = match (lives, holder.lost) {
            (true, _) => &mut outstanding,
            (false, true) => &mut written_off,
            (false, false) => &mut orphaned,
        };
        *place += unspent;
    }
    let parts = totals.receipts + totals.crash + settling + outstanding + orphaned + written_off;
    LedgerRow {
        budget: book.budget.id,
        name: book.budget.name.clone(),
        unit: book.budget.unit,
        window,
        accounts: 1,
        open,
        limit: book.budget.limit,
        granted: totals.granted,
        returned: totals.returned,
        receipts: narrow(totals.receipts),
        crash: narrow(totals.crash),
        settling: narrow(settling),
        outstanding: narrow(outstanding),
        orphaned: narrow(orphaned),
        written_off: narrow(written_off),
        overrun: narrow(totals.overrun),
        corrected: totals.corrected,
        spent: account.spent(),
        left: if open { account.pool(account.limit(&book.budget)) } else { Amount::ZERO },
        balanced: totals.granted.checked_sub(totals.returned) == Some(parts),
    }
}
