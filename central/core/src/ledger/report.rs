//! Reports in, grants out: counters are merged, each budget that was asked is shared once, and every row is answered.

use std::collections::{BTreeMap, BTreeSet};

use base::{Amount, BudgetId, Incarnation, Name, WallMs, WindowId};
use wire::catalog::Window;
use wire::ledger::{GrantRow, Grants, Report, UsageRow, WindowState};

use super::account::{Account, Holding};
use super::share::{Claim, share};
use super::{Book, Edge, Ledger, Slot};
use crate::LogMs;

/// An ask older than this gets nothing; edges repeat theirs four times a second while it stands.
const STALE_MS: u64 = 2_000;

/// Rows to answer, by holder.
type Answers = BTreeMap<(Name, Incarnation), BTreeSet<(BudgetId, WindowId)>>;

impl Ledger {
    /// Merges edges' counters and grants what they ask for, all together, at the entry's time. The answers go to edges
    /// that reported and to edges that must give credit back.
    pub fn report(
        &mut self,
        (at, clock): (WallMs, LogMs),
        reports: &[(Name, Report)],
    ) -> Vec<(Name, Grants)> {
        self.advance(at, clock);
        let mut answers = Answers::new();
        let mut asked = BTreeSet::new();
        for (edge, report) in reports {
            self.hear(edge, report, &mut answers, &mut asked);
        }
        for budget in asked {
            if let Some(book) = self.books.get_mut(&budget.budget()) {
                book.distribute(budget, (self.now, self.clock), &self.edges, &mut answers);
            }
        }
        answers.into_iter().map(|((edge, incarnation), rows)| self.answer(edge, incarnation, &rows)).collect()
    }

    fn hear(&mut self, edge: &Name, report: &Report, answers: &mut Answers, asked: &mut BTreeSet<BudgetId>) {
        let Some(of) = self.edges.get(edge).filter(|of| of.is_open(report.incarnation)) else { return };
        if report.era != self.era {
            return;
        }
        let holding = Holding::new(edge, report.incarnation);
        let may_ask = of.may_spend(report.incarnation);
        let forgot = of.forgot(report.incarnation);
        let rows = answers.entry((edge.clone(), report.incarnation)).or_default();
        let named: BTreeSet<_> = report.rows.iter().map(|row| (row.budget, row.window)).collect();
        for row in &report.rows {
            let (user, now) = (row.budget.user(), self.now);
            let Some(book) = self.book_of(row.budget) else { continue };
            let known = book.merge(&holding, row);
            if row.forgotten {
                book.forget(&holding, row);
                continue;
            }
            let is_late = |open| user != 0 && row.number < forgot && !book.knows((user, open), &holding);
            let open =
                book.open(now).filter(|open| may_ask && book.has_room((user, *open)) && !is_late(*open));
            if known || row.window != WindowId(0) || book.removed {
                rows.insert((row.budget, row.window));
            }
            // A row of a window that ended asks for the one that is open, unless that has a row of its own.
            let first = row.window == WindowId(0) && !known;
            let asks = first || row.want > Amount::ZERO || row.waiting > Amount::ZERO;
            if let Some(open) = open
                && (row.window == open || (asks && !named.contains(&(row.budget, open))))
            {
                book.claim((user, open), &holding, row, now);
                rows.insert((row.budget, open));
            }
            // The answer to an ask may have been lost that brought credit of the window after.
            if let Some(open) = open.filter(|open| book.knows((user, *open), &holding)) {
                rows.insert((row.budget, open));
            }
            asked.insert(row.budget);
            book.forget_settled(now, (user, row.window));
        }
        let farewells = report.rows.iter().filter(|row| row.forgotten);
        if let (Some(last), Some(of)) = (farewells.map(|row| row.number).max(), self.edges.get_mut(edge)) {
            of.forget(report.incarnation, last);
        }
    }

    fn answer(
        &self,
        edge: Name,
        incarnation: Incarnation,
        rows: &BTreeSet<(BudgetId, WindowId)>,
    ) -> (Name, Grants) {
        let holding = Holding::new(&edge, incarnation);
        let row = |(budget, window): &(BudgetId, WindowId)| {
            let book = self.books.get(&budget.budget())?;
            Some(book.answer(*budget, *window, self.now, &holding, &self.edges))
        };
        let rows = rows.iter().filter_map(row).collect();
        (edge, Grants { era: self.era, incarnation, rows })
    }
}

impl Book {
    /// Merges a row's counters; whether its holder is known in its window.
    fn merge(&mut self, holding: &Holding, row: &UsageRow) -> bool {
        let Some(account) = self.accounts.get_mut(&(row.budget.user(), row.window)) else { return false };
        // Counters only rise, so that a row before one that was heard says nothing; and it may be of a time before its user was
        // forgotten, whose counters began anew.
        let is_old = |number: u64| row.budget.user() != 0 && row.number < number;
        if account.holders.get(holding).is_some_and(|holder| is_old(holder.number)) {
            return true;
        }
        account.merge(holding, row.spent, row.returned);
        let Some(holder) = account.holders.get_mut(holding) else { return false };
        if !row.forgotten {
            holder.number = holder.number.max(row.number);
        }
        true
    }

    fn knows(&self, slot: Slot, holding: &Holding) -> bool {
        self.accounts.get(&slot).is_some_and(|account| account.holders.contains_key(holding))
    }

    fn forget(&mut self, holding: &Holding, row: &UsageRow) {
        if let Some(account) = self.accounts.get_mut(&(row.budget.user(), row.window)) {
            account.forget(holding, row.number);
        }
    }

    /// Notes what a holder wants, unless a later row said otherwise.
    fn claim(&mut self, slot: Slot, holding: &Holding, row: &UsageRow, now: WallMs) {
        let account = self.accounts.entry(slot).or_default();
        let holder = account.holders.entry(holding.clone()).or_default();
        if row.number < holder.number {
            return;
        }
        (holder.number, holder.forgotten) = (row.number, false);
        (holder.want, holder.waiting, holder.heard) = (row.want, row.waiting, now);
        if row.waiting > Amount::ZERO {
            holder.piece = row.waiting;
        }
    }

    /// Shares the open window's pool among all that asked lately.
    fn distribute(
        &mut self,
        id: BudgetId,
        (now, clock): (WallMs, LogMs),
        edges: &BTreeMap<Name, Edge>,
        answers: &mut Answers,
    ) {
        let Some(window) = self.open(now) else { return };
        let Some(account) = self.accounts.get_mut(&(id.user(), window)) else { return };
        if let Window::Rolling { seconds } = self.budget.window {
            account.mint(self.budget.limit, seconds, clock);
        }
        let limit = account.limit(&self.budget);
        let (holdings, claims): (Vec<Holding>, Vec<Claim>) = account
            .holders
            .iter()
            .filter(|(holding, _holder)| is_live(holding, edges))
            .map(|(holding, holder)| {
                let fresh = now.as_millis() <= holder.heard.as_millis().saturating_add(STALE_MS);
                let (want, waiting, piece) = (holder.want, holder.waiting, holder.piece);
                (holding.clone(), Claim { unspent: holder.unspent(), want, waiting, piece, fresh })
            })
            .unzip();
        let mut pool = account.pool(limit);
        if base::mutant!(LapsedCreditGranted) {
            let lapsed = account.holders.iter().filter(|(holding, _holder)| !is_live(holding, edges));
            pool = lapsed.fold(pool, |pool, (_holding, holder)| pool.saturating_add(holder.unspent()));
        }
        let awards = share(pool, account.excess(limit), &claims);
        for (holding, award) in holdings.iter().zip(awards) {
            account.grant(holding, award.grant);
            let Some(holder) = account.holders.get_mut(holding) else { continue };
            if award.grant >= holder.waiting {
                holder.waiting = Amount::ZERO;
            }
            if award.grant > Amount::ZERO || award.keep != holder.keep {
                holder.keep = award.keep;
                let whom = (holding.edge.clone(), holding.incarnation);
                answers.entry(whom).or_default().insert((id, window));
            }
        }
    }

    fn answer(
        &self,
        budget: BudgetId,
        window: WindowId,
        now: WallMs,
        holding: &Holding,
        edges: &BTreeMap<Name, Edge>,
    ) -> GrantRow {
        let nothing = Account::default();
        let account = self.accounts.get(&(budget.user(), window)).unwrap_or(&nothing);
        let holder = account.holders.get(holding).copied().unwrap_or_default();
        let open = self.open(now) == Some(window);
        let state = match (open, holder.unspent() > Amount::ZERO) {
            (true, _) => WindowState::Open,
            (false, true) => WindowState::Closed,
            (false, false) => WindowState::Settled,
        };
        let limit = self.budget.limit;
        let left =
            if open { account.attainable(account.limit(&self.budget), holding, edges) } else { Amount::ZERO };
        GrantRow {
            budget,
            window,
            granted: holder.granted,
            heard: holder.number,
            heard_spent: holder.spent,
            heard_returned: holder.returned,
            state,
            keep: holder.keep,
            limit,
            spent: account.spent(),
            left,
            exhausted: left == Amount::ZERO,
        }
    }
}

impl Account {
    /// Most that could still come to `holding`: the pool and what others may give back.
    fn attainable(&self, limit: u128, holding: &Holding, edges: &BTreeMap<Name, Edge>) -> Amount {
        let others =
            self.holders.iter().filter(|(other, _holder)| *other != holding && is_live(other, edges));
        others.fold(self.pool(limit), |sum, (_other, holder)| sum.saturating_add(holder.unspent()))
    }
}

fn is_live(holding: &Holding, edges: &BTreeMap<Name, Edge>) -> bool {
    edges.get(&holding.edge).is_some_and(|edge| edge.may_spend(holding.incarnation))
}
