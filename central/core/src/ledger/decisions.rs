//! What operators decide about credit: an edge is lost, a budget's account is corrected.
//!
//! A decision is one entry of the log and is kept with who made it, when, why, and what it came to. Repeated under its
//! number it changes nothing, so that it may be asked for until an answer comes.
//!
//! A life that is lost gets nothing more. What it may have spent and did not tell counts as spent; nothing of it is
//! granted again, so that the law holds whether or not the edge still runs. A refund gives that credit back on the
//! operator's word. If the edge comes back all the same, its receipts and its last word go against what was written off;
//! beyond it, after a refund, they are a debt that comes before any new grant. Nothing is charged twice.

use std::collections::BTreeMap;

use base::{Amount, BudgetId, Incarnation, Name, UserHash, WallMs, WindowId};
use serde::{Deserialize, Serialize};
use wire::catalog::{Budget, Window};

use super::account::{Account, Holding};
use super::{Book, Ledger};

/// Decisions that are remembered, the latest ones.
const KEPT: usize = 10_000;

/// What an operator decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Of the operator's choice, for this decision alone.
    pub id: String,
    /// Who, as the certificate names them.
    pub by: String,
    /// Why, in the operator's words.
    pub reason: String,
    /// What.
    pub what: Verdict,
}

/// Which account changes, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// An edge never spends again what it holds.
    Lost {
        /// Which edge.
        edge: Name,
        /// Which life of it; `None`: all.
        life: Option<Incarnation>,
        /// Whether what it did not tell as spent is granted again, instead of counting as spent.
        refund: bool,
    },
    /// More, or less, was spent than receipts say.
    Correct {
        /// Of which budget.
        budget: Name,
        /// In which window; `None`: the open one.
        window: Option<WindowId>,
        /// By how much, in the budget's unit.
        amount: Amount,
        /// Less was spent.
        credit: bool,
    },
    /// The same of one end user's account of a budget.
    CorrectUser {
        /// Of which budget.
        budget: Name,
        /// Whose account.
        user: UserHash,
        /// In which window; `None`: the open one.
        window: Option<WindowId>,
        /// By how much, in the budget's unit.
        amount: Amount,
        /// Less was spent.
        credit: bool,
    },
}

/// A decision, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// The ledger's time then.
    pub at: WallMs,
    /// What was decided.
    pub decision: Decision,
    /// The accounts that it changed.
    pub rows: Vec<DecidedRow>,
}

/// What a decision changed of one budget and window, the accounts of all its users together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedRow {
    /// Which budget, or whose account of it when one end user's was corrected.
    pub budget: BudgetId,
    /// Which window.
    pub window: WindowId,
    /// Whose credit; `None` in a correction.
    pub life: Option<Incarnation>,
    /// How much was written off, refunded, charged or credited, in the budget's unit.
    pub amount: Amount,
}

/// Why a decision changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Undecided {
    /// No such edge ever registered.
    #[error("no edge {0} ever registered")]
    NoEdge(Name),
    /// No such budget is configured.
    #[error("no budget {0}")]
    NoBudget(Name),
    /// Nothing was ever granted of that window.
    #[error("nothing was granted of that window, or it is no longer kept")]
    NoWindow,
    /// A rolling budget needs no correction: what was spent comes free by itself.
    #[error("a rolling budget is not corrected: what was spent comes free as time passes")]
    Rolling,
    /// Each end user has an account, and none was named.
    #[error(
        "each user has an account of that budget; it is not corrected as a whole, but one user's at a time"
    )]
    EachUsers,
    /// The edge has no such life, or it has ended and all of it is settled.
    #[error("{0} has no life {1} that is not settled")]
    NoLife(Name, Incarnation),
    /// More would be credited than was spent.
    #[error("only {} is spent in that window, in the budget's unit; no more can be credited", .0.0)]
    TooMuch(Amount),
    /// An end user was named, and the budget has one account.
    #[error("that budget has one account, and none of each user")]
    NotEachUsers,
    /// No more users can have an account.
    #[error("as many users as it can have an account of that budget already")]
    Full,
}

impl Ledger {
    /// The decisions that are remembered, the latest last.
    pub fn decided(&self) -> impl DoubleEndedIterator<Item = &Decided> {
        self.decided.iter()
    }

    /// A budget that is configured, or was.
    #[must_use]
    pub fn budget(&self, id: BudgetId) -> Option<&Budget> {
        self.books.get(&id.budget()).map(|book| &book.budget)
    }

    /// Makes a decision, once.
    ///
    /// # Errors
    /// When it fits nothing; nothing is changed then.
    pub fn decide(&mut self, at: WallMs, decision: &Decision) -> Result<Decided, Undecided> {
        if let Some(known) = self.decided.iter().find(|decided| decided.decision.id == decision.id) {
            return Ok(known.clone());
        }
        let rows = match &decision.what {
            Verdict::Lost { edge, life, refund } => self.lose(edge, *life, *refund)?,
            Verdict::Correct { budget, window, amount, credit } => {
                vec![self.correct((budget, None), *window, (*amount, *credit))?]
            }
            Verdict::CorrectUser { budget, user, window, amount, credit } => {
                vec![self.correct((budget, Some(*user)), *window, (*amount, *credit))?]
            }
        };
        let decided = Decided { at: self.now.max(at), decision: decision.clone(), rows };
        self.decided.push_back(decided.clone());
        if self.decided.len() > KEPT {
            self.decided.pop_front();
        }
        Ok(decided)
    }

    /// The process that speaks for an edge, when its life is lost: it must register anew.
    #[must_use]
    pub fn unseated(&self, edge: &Name) -> Option<u64> {
        self.edges.get(edge).and_then(super::Edge::unseated)
    }

    fn lose(
        &mut self,
        edge: &Name,
        life: Option<Incarnation>,
        refund: bool,
    ) -> Result<Vec<DecidedRow>, Undecided> {
        let of = self.edges.get_mut(edge).ok_or_else(|| Undecided::NoEdge(edge.clone()))?;
        let lives = of.lose(life);
        if let Some(none) = life.filter(|_named| lives.is_empty()) {
            return Err(Undecided::NoLife(edge.clone(), none));
        }
        let mut rows = Vec::new();
        for incarnation in lives {
            let holding = Holding::new(edge, incarnation);
            for (id, book) in &mut self.books {
                let mut windows: BTreeMap<WindowId, Amount> = BTreeMap::new();
                for ((_user, window), account) in &mut book.accounts {
                    let amount = account.lose(&holding, refund);
                    if amount > Amount::ZERO {
                        let sum = windows.entry(*window).or_default();
                        *sum = sum.saturating_add(amount);
                    }
                }
                let life = Some(incarnation);
                rows.extend(windows.into_iter().map(|(window, amount)| DecidedRow {
                    budget: *id,
                    window,
                    life,
                    amount,
                }));
            }
        }
        Ok(rows)
    }

    fn correct(
        &mut self,
        (budget, user): (&Name, Option<UserHash>),
        window: Option<WindowId>,
        change: (Amount, bool),
    ) -> Result<DecidedRow, Undecided> {
        let (id, book) = self
            .books
            .iter_mut()
            .find(|(_id, book)| !book.removed && book.budget.name == *budget)
            .ok_or_else(|| Undecided::NoBudget(budget.clone()))?;
        let user = user.map_or(0, |user| user.0);
        let window = book.correct(self.now, user, window, change)?;
        Ok(DecidedRow { budget: id.of_user(user), window, life: None, amount: change.0 })
    }
}

impl Book {
    fn correct(
        &mut self,
        now: WallMs,
        user: u64,
        window: Option<WindowId>,
        (amount, credit): (Amount, bool),
    ) -> Result<WindowId, Undecided> {
        if matches!(self.budget.window, Window::Rolling { .. }) {
            return Err(Undecided::Rolling);
        }
        match (self.budget.is_each_users(), user) {
            (true, 0) => return Err(Undecided::EachUsers),
            (false, 1..) => return Err(Undecided::NotEachUsers),
            (true, 1..) | (false, 0) => {}
        }
        let open = self.budget.window_at(now);
        let window = window.unwrap_or(open);
        let fresh = Account::default();
        let spent = self.accounts.get(&(user, window)).unwrap_or(&fresh).spent();
        if window != open && !self.accounts.contains_key(&(user, window)) {
            return Err(Undecided::NoWindow);
        }
        if credit && amount > spent {
            return Err(Undecided::TooMuch(spent));
        }
        if !self.has_room((user, window)) {
            return Err(Undecided::Full);
        }
        self.accounts.entry((user, window)).or_default().correct(amount, credit);
        Ok(window)
    }
}

impl Account {
    /// A holder never spends again; what it did not tell as spent counts so from now on, or comes back. How much that is,
    /// beyond what was decided before.
    fn lose(&mut self, holding: &Holding, refund: bool) -> Amount {
        let Some(holder) = self.holders.get_mut(holding) else { return Amount::ZERO };
        let before = std::mem::replace(&mut holder.lost, true);
        let unspent = holder.unspent();
        if !refund {
            return if before { Amount::ZERO } else { unspent };
        }
        holder.returned = holder.returned.saturating_add(unspent);
        holder.refunded = holder.refunded.saturating_add(unspent);
        self.totals.returned += u128::from(unspent.0);
        unspent
    }

    fn correct(&mut self, amount: Amount, credit: bool) {
        let amount = i128::from(amount.0);
        self.totals.corrected += if credit { -amount } else { amount };
    }
}

#[cfg(test)]
mod tests;
