//! One budget's window: its holders and its sums.
//!
//! The sums are kept beside the holders, by double entry, so that a check of one against the other finds a mistake.

use std::collections::BTreeMap;

use base::{Amount, Incarnation, Name, WallMs};
use serde::{Deserialize, Serialize};
use wire::catalog::Budget;

use super::roll::{Minted, Roll};
use crate::LogMs;

/// Who holds credit: one life of an edge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Holding {
    pub(super) edge: Name,
    pub(super) incarnation: Incarnation,
}

impl Holding {
    pub(super) fn new(edge: &Name, incarnation: Incarnation) -> Self {
        Self { edge: edge.clone(), incarnation }
    }
}

/// Counters of one holder; `spent + returned ≤ granted`, each only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holder {
    pub(super) granted: Amount,
    pub(super) spent: Amount,
    pub(super) returned: Amount,
    /// Charges of applied receipts; at most `spent`.
    pub(super) receipts: Amount,
    /// Credit it would like to have unspent.
    pub(super) want: Amount,
    /// What its waiting call lacks.
    pub(super) waiting: Amount,
    /// What a waiting call of it last lacked, though it may have got it since.
    pub(super) piece: Amount,
    /// The ledger's time when it last asked.
    pub(super) heard: WallMs,
    /// What it was last told to keep.
    pub(super) keep: Option<Amount>,
    /// The highest number of its rows.
    pub(super) number: u64,
    /// An operator said that it never spends again; what it has counts as spent.
    pub(super) lost: bool,
    /// What came back by an operator's word; part of `returned`.
    pub(super) refunded: Amount,
    /// What receipts told of beyond the credit that was left after that; an overrun.
    debt: Amount,
    /// Its edge forgot it: it goes once its receipts are here.
    pub(super) forgotten: bool,
}

impl Holder {
    /// Whether all that it got is spent or given back, and every receipt is here.
    const fn is_settled(&self) -> bool {
        self.unspent().0 == 0 && self.spent.0 == self.receipts.0
    }

    /// Credit that it neither settled nor returned, as far as it said.
    pub(super) const fn unspent(&self) -> Amount {
        self.granted.saturating_sub(self.returned).saturating_sub(self.spent)
    }
}

/// Sums over all holders that ever were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Totals {
    pub(super) granted: u128,
    pub(super) returned: u128,
    pub(super) receipts: u128,
    pub(super) crash: u128,
    /// Costs beyond holds.
    pub(super) overrun: u128,
    /// Credit that was never settled when the window was sealed; counts as spent.
    pub(super) unsettled: u128,
    /// What operators charged beside all this, less what they credited.
    pub(super) corrected: i128,
}

impl Totals {
    /// As far as is known, with what lost holders may have spent, and corrections.
    fn spent(&self, holders: &BTreeMap<Holding, Holder>) -> u128 {
        let lost = holders.values().filter(|holder| holder.lost);
        let written_off: u128 = lost.map(|holder| u128::from(holder.unspent().0)).sum();
        (self.settled(holders) + written_off).saturating_add_signed(self.corrected)
    }

    fn settled(&self, holders: &BTreeMap<Holding, Holder>) -> u128 {
        let settling: u128 = holders.values().map(|h| u128::from(h.spent.0 - h.receipts.0)).sum();
        settling + self.receipts + self.crash + self.overrun + self.unsettled
    }
}

/// One budget's window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Account {
    pub(super) totals: Totals,
    pub(super) holders: BTreeMap<Holding, Holder>,
    sealed: bool,
    /// What came free so far, where it does so as time passes.
    minted: Option<Minted>,
}

impl Account {
    pub(super) const fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Whether every holder settled all.
    pub(super) fn is_settled(&self) -> bool {
        self.holders.values().all(Holder::is_settled)
    }

    /// A holder's edge knows nothing of it any more: its sums stay, and it goes as soon as it can.
    pub(super) fn forget(&mut self, holding: &Holding, number: u64) {
        let Some(holder) = self.holders.get_mut(holding).filter(|holder| number > holder.number) else {
            return;
        };
        (holder.number, holder.forgotten) = (number, true);
        (holder.want, holder.waiting) = (Amount::ZERO, Amount::ZERO);
        self.drop_forgotten(holding);
    }

    fn drop_forgotten(&mut self, holding: &Holding) {
        if self.holders.get(holding).is_some_and(|holder| holder.forgotten && holder.is_settled()) {
            self.holders.remove(holding);
            if self.holders.is_empty() {
                // An emptied map keeps its memory.
                self.holders = BTreeMap::new();
            }
        }
    }

    /// What may have been granted in all.
    pub(super) fn limit(&self, budget: &Budget) -> u128 {
        self.minted.map_or_else(|| budget.limit.0.into(), |minted| minted.total)
    }

    /// Lets more come free, as much as `clock` tells.
    pub(super) fn mint(&mut self, limit: Amount, seconds: u32, clock: LogMs) {
        // What a lost holder has may yet be spent, at a time that nobody here learns.
        let spent = self.totals.settled(&self.holders);
        self.minted = Some(Minted::next(self.minted, Roll { limit, seconds }, spent, clock));
    }

    /// Credit that may be granted under `limit`.
    pub(super) fn pool(&self, limit: u128) -> Amount {
        narrow(limit.saturating_sub(self.taken()))
    }

    /// By how much grants exceed `limit`.
    pub(super) fn excess(&self, limit: u128) -> Amount {
        narrow(self.taken().saturating_sub(limit))
    }

    fn taken(&self) -> u128 {
        let out = self.totals.granted.saturating_sub(self.totals.returned);
        out.saturating_add(self.totals.overrun).saturating_add_signed(self.totals.corrected)
    }

    /// Spent as far as is known: settled at edges, crash charges, overruns, what was never settled or is written off, and
    /// corrections.
    pub(super) fn spent(&self) -> Amount {
        narrow(self.totals.spent(&self.holders))
    }

    /// Grants more to a holder. The caller keeps within [`Self::pool`].
    pub(super) fn grant(&mut self, holding: &Holding, more: Amount) {
        let Some(holder) = self.holders.get_mut(holding) else { return };
        // A counter that would overflow grants nothing more; the next incarnation starts anew.
        let Some(granted) = holder.granted.checked_add(more) else { return };
        holder.granted = granted;
        self.totals.granted += u128::from(more.0);
    }

    /// Merges what a holder says it spent and returned. Counters that no lawful edge sends are ignored.
    pub(super) fn merge(&mut self, holding: &Holding, spent: Amount, returned: Amount) {
        let Some(holder) = self.holders.get_mut(holding) else { return };
        let (spent, mut returned) = (spent.max(holder.spent), returned.max(holder.returned));
        if base::mutant!(ReturnsSummed) {
            returned = returned.saturating_add(holder.returned);
        }
        if spent.checked_add(returned).is_none_or(|sum| sum > holder.granted) {
            return;
        }
        self.totals.returned += u128::from(returned.0 - holder.returned.0);
        (holder.spent, holder.returned) = (spent, returned);
    }

    /// Applies one receipt's charge. What its credit does not cover counts as an overrun.
    pub(super) fn charge(&mut self, holding: &Holding, amount: Amount, overrun: Amount) {
        let covered = match self.holders.get_mut(holding) {
            Some(holder) => {
                let room = holder.granted.saturating_sub(holder.returned).saturating_sub(holder.receipts);
                let covered = amount.min(room);
                holder.receipts = holder.receipts.saturating_add(covered);
                holder.spent = holder.spent.max(holder.receipts);
                if holder.refunded > Amount::ZERO {
                    holder.debt = holder.debt.saturating_add(amount.saturating_sub(covered));
                }
                covered
            }
            None => {
                let covered = amount.min(narrow(self.totals.unsettled));
                self.totals.unsettled -= u128::from(covered.0);
                covered
            }
        };
        self.drop_forgotten(holding);
        self.totals.receipts += u128::from(covered.0);
        self.totals.overrun += u128::from(amount.0 - covered.0) + u128::from(overrun.0);
    }

    /// Ends a holder that spent at most `said`: the rest is returned, what its receipts do not cover is charged.
    /// Returns that crash charge, and what is owed of credit that was refunded and spent all the same.
    pub(super) fn close(&mut self, holding: &Holding, said: Amount) -> (Amount, Amount) {
        let Some(holder) = self.holders.remove(holding) else { return (Amount::ZERO, Amount::ZERO) };
        let room = holder.granted.saturating_sub(holder.returned);
        let mut spent = said.max(holder.spent).min(room);
        if base::mutant!(CrashForgotten) {
            spent = holder.receipts;
        }
        let crash = spent.saturating_sub(holder.receipts);
        self.totals.returned += u128::from(room.0 - spent.0);
        self.totals.crash += u128::from(crash.0);
        let owed = said.saturating_sub(room).min(holder.refunded).saturating_sub(holder.debt);
        self.totals.overrun += u128::from(owed.0);
        (crash, owed)
    }

    /// Ends the window's settlements: what no receipt covers counts as spent.
    pub(super) fn seal(&mut self) {
        for holder in std::mem::take(&mut self.holders).into_values() {
            let open = holder.granted.saturating_sub(holder.returned).saturating_sub(holder.receipts);
            self.totals.unsettled += u128::from(open.0);
        }
        self.sealed = true;
    }
}

pub(super) fn narrow(amount: u128) -> Amount {
    Amount(u64::try_from(amount).unwrap_or(u64::MAX))
}
