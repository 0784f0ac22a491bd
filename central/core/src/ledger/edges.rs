//! Incarnations of an edge: which is current, which still owe receipts or a last word, which processes were superseded.

use std::collections::BTreeMap;

use base::Incarnation;
use serde::{Deserialize, Serialize};
use wire::ledger::FinalReport;

use super::Registered;

/// Superseded processes remembered, so that one which missed the message cannot take its identity back.
const GONE_KEPT: usize = 32;

/// One edge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Edge {
    boot: u64,
    current: Incarnation,
    gone: Vec<u64>,
    /// Incarnations not closed. One that is not here was closed, or never was.
    spools: BTreeMap<Incarnation, Spool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Spool {
    /// Receipts applied, which is the position of the next.
    next: u64,
    last_word: Option<FinalReport>,
    /// An operator said that it never spends again.
    lost: bool,
    /// The highest number under which it forgot an end user: rows below it of a user who is not known say nothing.
    forgot: u64,
}

impl Edge {
    pub(super) fn register(
        &mut self,
        boot: u64,
        resume: Option<Incarnation>,
        last: Option<Incarnation>,
    ) -> Registered {
        if self.gone.contains(&boot) {
            return Registered::Superseded;
        }
        let known = self.current != Incarnation::default();
        let same = known && boot == self.boot;
        let resumes = known && resume == Some(self.current);
        let superseded = (known && !same).then_some(self.boot);
        if let Some(old) = superseded {
            self.gone.push(old);
            let over = self.gone.len().saturating_sub(GONE_KEPT);
            self.gone.drain(..over);
        }
        self.boot = boot;
        if !(self.may_spend(self.current) && (same || resumes)) {
            self.begin_above(resume.max(last).unwrap_or_default());
        }
        Registered::Welcome { incarnation: self.current, superseded }
    }

    fn begin_above(&mut self, known_to_edge: Incarnation) {
        self.current = Incarnation(self.current.max(known_to_edge).0.saturating_add(1));
        self.spools.insert(self.current, Spool::default());
    }

    /// Whether grants may go to this incarnation.
    pub(super) fn may_spend(&self, incarnation: Incarnation) -> bool {
        let spool = self.spools.get(&incarnation);
        incarnation == self.current && spool.is_some_and(|spool| spool.last_word.is_none() && !spool.lost)
    }

    pub(super) fn forgot(&self, incarnation: Incarnation) -> u64 {
        self.spools.get(&incarnation).map_or(0, |spool| spool.forgot)
    }

    pub(super) fn forget(&mut self, incarnation: Incarnation, number: u64) {
        if let Some(spool) = self.spools.get_mut(&incarnation) {
            spool.forgot = spool.forgot.max(number);
        }
    }

    /// Marks lives that are not closed as lost: this one, or all. Returns which.
    pub(super) fn lose(&mut self, only: Option<Incarnation>) -> Vec<Incarnation> {
        let chosen = self.spools.iter_mut().filter(|(life, _spool)| only.is_none_or(|only| only == **life));
        chosen
            .map(|(life, spool)| {
                spool.lost = true;
                *life
            })
            .collect()
    }

    /// The process whose life is lost, and which is not told yet of another.
    pub(super) fn unseated(&self) -> Option<u64> {
        self.spools.get(&self.current).filter(|spool| spool.lost).map(|_spool| self.boot)
    }

    pub(super) fn is_open(&self, incarnation: Incarnation) -> bool {
        self.spools.contains_key(&incarnation)
    }

    /// Whether this incarnation was once given and has ended.
    pub(super) fn is_closed(&self, incarnation: Incarnation) -> bool {
        incarnation <= self.current && !self.is_open(incarnation)
    }

    /// Takes `len` receipts from position `first`. Returns the next position expected and how many were known already.
    pub(super) fn advance(&mut self, incarnation: Incarnation, first: u64, len: usize) -> (u64, usize) {
        let end = first.saturating_add(len as u64);
        let Some(spool) = self.spools.get_mut(&incarnation) else {
            // Closed, so that all its receipts were applied.
            return (end, len);
        };
        if first > spool.next {
            return (spool.next, len);
        }
        let mut known = usize::try_from(spool.next - first).unwrap_or(usize::MAX).min(len);
        if base::mutant!(ReceiptsTwice) {
            known = 0;
        }
        spool.next = spool.next.max(end);
        (spool.next, known)
    }

    pub(super) fn last_word(&mut self, report: &FinalReport) {
        if let Some(spool) = self.spools.get_mut(&report.incarnation) {
            spool.last_word.get_or_insert_with(|| report.clone());
        }
    }

    /// Removes and returns the last word of an incarnation whose receipts are all applied.
    pub(super) fn take_finished(&mut self, incarnation: Incarnation) -> Option<FinalReport> {
        let spool = self.spools.get(&incarnation)?;
        let whole = spool.last_word.as_ref().is_some_and(|word| spool.next >= word.receipts);
        if !whole {
            return None;
        }
        self.spools.remove(&incarnation)?.last_word
    }
}
