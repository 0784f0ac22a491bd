//! Who holds credit, as an operator looks at it: one row per budget, window and life of an edge.

use base::{Amount, BudgetId, Incarnation, Name, Unit, WallMs, WindowId};

use super::account::Account;
use super::rows::Cursor;
use super::{Book, Ledger};

/// Credit of one budget's window at one life of an edge, in the budget's unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRow {
    /// Which budget.
    pub budget: BudgetId,
    /// Its name.
    pub name: Name,
    /// What it counts.
    pub unit: Unit,
    /// The end user's hash; 0 of a budget that has one account.
    pub user: u64,
    /// Which window.
    pub window: WindowId,
    /// The edge.
    pub edge: Name,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Whether that life may still get credit; one that may not and holds some keeps it charged until the window ends.
    pub lives: bool,
    /// Whether an operator said that it never spends again: what is unspent counts as spent.
    pub lost: bool,
    /// What came back by an operator's word; part of `returned`.
    pub refunded: Amount,
    /// Everything granted to it.
    pub granted: Amount,
    /// What it said it spent.
    pub spent: Amount,
    /// What it gave back.
    pub returned: Amount,
    /// Held by its calls, or available to them, as far as it said.
    pub unspent: Amount,
    /// What it would like to have unspent.
    pub want: Amount,
    /// What its waiting call lacks.
    pub waiting: Amount,
    /// When it last asked, by the ledger's time; the first instant: never.
    pub heard: WallMs,
}

/// A look at all credit that others may interrupt: each account is whole, and between two of them the ledger may change.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    after: Option<Cursor>,
    /// What was found so far, by budget, user and window.
    pub rows: Vec<LeaseRow>,
}

impl Ledger {
    /// All credit that is out, and who asks for some, by budget, user and window.
    pub fn leases(&self) -> impl Iterator<Item = LeaseRow> {
        self.accounts_after(None).flat_map(|(cursor, book, account)| self.holders(cursor, book, account))
    }

    /// Who holds credit of one account, in any window.
    pub fn leases_of(&self, account: BudgetId) -> impl Iterator<Item = LeaseRow> {
        let (id, user) = (account.budget(), account.user());
        let book = self.books.get(&id).into_iter();
        let accounts = book.flat_map(move |book| {
            let windows = book
                .accounts
                .range((user, WindowId::default())..)
                .take_while(move |(slot, _)| slot.0 == user);
            windows.map(move |(slot, account)| (*slot, book, account))
        });
        accounts.flat_map(move |(slot, book, account)| self.holders((id, slot), book, account))
    }

    /// Looks at `most` accounts more; whether that were the last.
    pub fn list_on(&self, listing: &mut Listing, most: usize) -> bool {
        let (mut looked, mut after) = (0, listing.after);
        for (cursor, book, account) in self.accounts_after(listing.after).take(most) {
            listing.rows.extend(self.holders(cursor, book, account));
            (looked, after) = (looked + 1, Some(cursor));
        }
        listing.after = after;
        looked < most
    }

    fn holders<'a>(
        &'a self,
        (_budget, (user, window)): Cursor,
        book: &'a Book,
        account: &'a Account,
    ) -> impl Iterator<Item = LeaseRow> + 'a {
        account.holders.iter().map(move |(holding, holder)| LeaseRow {
            budget: book.budget.id,
            name: book.budget.name.clone(),
            unit: book.budget.unit,
            user,
            window,
            edge: holding.edge.clone(),
            incarnation: holding.incarnation,
            lives: self.edges.get(&holding.edge).is_some_and(|edge| edge.may_spend(holding.incarnation)),
            lost: holder.lost,
            refunded: holder.refunded,
            granted: holder.granted,
            spent: holder.spent,
            returned: holder.returned,
            unspent: holder.unspent(),
            want: holder.want,
            waiting: holder.waiting,
            heard: holder.heard,
        })
    }
}
