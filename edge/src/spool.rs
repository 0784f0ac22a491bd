//! Receipts from the call's end until central has applied them: kept in order per incarnation, sent only once durable,
//! forgotten once acknowledged.
//!
//! Decided here: each receipt's position, which receipts may be sent, and which part of the log may go. A position is
//! given once; it is sent only when a crash can no longer take it back. Receipts of calls that ended before central
//! gave the edge any incarnation wait under incarnation 0 and are taken over by the first one.

mod disk;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::Incarnation;
use serde::{Deserialize, Serialize};
use wire::ledger::{Receipt, ReceiptBatch};

pub(crate) use disk::SpoolLog;

/// Holds receipts until an incarnation takes them over. Central never gives it.
const UNASSIGNED: Incarnation = Incarnation(0);
/// Receipts kept at once; beyond, no call is admitted.
const MOST: usize = 1_000_000;

/// A log record. The enum grows at its end only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Entry {
    /// A receipt at its position.
    Receipt {
        /// Whose spool.
        incarnation: Incarnation,
        /// Where in it.
        position: u64,
        /// The receipt.
        receipt: Arc<Receipt>,
    },
    /// Receipts before `next` are applied for ever.
    Acked {
        /// Whose spool.
        incarnation: Incarnation,
        /// The first that may not be applied.
        next: u64,
    },
    /// Unassigned receipts belong to this incarnation, the one at position 0 at position `base`.
    Assigned {
        /// Whose they are.
        incarnation: Incarnation,
        /// Where the first of them goes.
        base: u64,
    },
    /// The incarnation is closed for ever.
    Closed {
        /// Which.
        incarnation: Incarnation,
    },
}

/// All receipts that central has not acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Spool {
    tracks: BTreeMap<Incarnation, Track>,
    /// Entries not yet handed to the log.
    pending: Vec<Entry>,
    /// Entries ever made, and how many of them are durable.
    made: u64,
    durable: u64,
    /// For batches of entries in the log: the first entry's number, and a log number not above its record's.
    floors: VecDeque<(u64, u64)>,
    kept: usize,
}

/// One incarnation's receipts.
#[derive(Debug, Default)]
struct Track {
    acked: u64,
    next: u64,
    items: VecDeque<Item>,
}

#[derive(Debug)]
struct Item {
    receipt: Arc<Receipt>,
    /// The entry that must be durable before it may be sent.
    due: u64,
    /// The entry that holds it.
    logged: u64,
}

impl Spool {
    /// Takes a receipt; `None`: no incarnation yet.
    pub(crate) fn push(&mut self, incarnation: Option<Incarnation>, receipt: Arc<Receipt>) {
        let incarnation = incarnation.unwrap_or(UNASSIGNED);
        let track = self.tracks.entry(incarnation).or_default();
        let position = track.next;
        self.add(Entry::Receipt { incarnation, position, receipt });
    }

    /// This incarnation is the first; receipts that waited for one are its.
    pub(crate) fn assign(&mut self, incarnation: Incarnation) {
        let track = self.tracks.entry(incarnation).or_default();
        let base = track.next;
        if self.tracks.get(&UNASSIGNED).is_some_and(|waiting| !waiting.items.is_empty()) {
            self.add(Entry::Assigned { incarnation, base });
        }
    }

    /// Receipts before `next` are applied.
    pub(crate) fn acked(&mut self, incarnation: Incarnation, next: u64) {
        if self.tracks.get(&incarnation).is_some_and(|track| track.acked < next.min(track.next)) {
            self.add(Entry::Acked { incarnation, next });
        }
    }

    /// The incarnation is closed for ever.
    pub(crate) fn closed(&mut self, incarnation: Incarnation) {
        if self.tracks.contains_key(&incarnation) {
            self.add(Entry::Closed { incarnation });
        }
    }

    /// Receipts to send next, from `from` on, at most `most` of them; only durable ones.
    pub(crate) fn batch(&self, incarnation: Incarnation, from: u64, most: usize) -> Option<ReceiptBatch> {
        let track = self.tracks.get(&incarnation).filter(|_track| incarnation != UNASSIGNED)?;
        let first = from.max(track.acked);
        let skip = usize::try_from(first - track.acked).unwrap_or(usize::MAX);
        let durable = track.items.iter().skip(skip).take_while(|item| item.due < self.durable);
        let receipts: Vec<Receipt> = durable.take(most).map(|item| Receipt::clone(&item.receipt)).collect();
        (!receipts.is_empty()).then_some(ReceiptBatch { incarnation, first, receipts })
    }

    /// Incarnations that have receipts to send, and the first position each would send from.
    pub(crate) fn incarnations(&self) -> impl Iterator<Item = (Incarnation, u64)> {
        let sending = self.tracks.iter().filter(|(incarnation, _track)| **incarnation != UNASSIGNED);
        sending.map(|(incarnation, track)| (*incarnation, track.acked))
    }

    /// Receipts ever written under an incarnation, once all of them are durable.
    pub(crate) fn count(&self, incarnation: Incarnation) -> Option<u64> {
        let Some(track) = self.tracks.get(&incarnation) else { return Some(0) };
        let durable = track.items.back().is_none_or(|item| item.due < self.durable);
        durable.then_some(track.next)
    }

    /// Receipts and marks kept because central has not acknowledged them.
    pub(crate) const fn kept(&self) -> usize {
        self.kept
    }

    /// Whether nothing is kept that central has not acknowledged.
    pub(crate) const fn is_empty(&self) -> bool {
        self.kept == 0
    }

    /// Whether no more receipts should come.
    pub(crate) const fn is_full(&self) -> bool {
        self.kept >= MOST
    }

    /// Whether entries wait for the log.
    pub(crate) const fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Up to `most` entries for the log, in order.
    pub(crate) fn take_pending(&mut self, most: usize) -> Vec<Entry> {
        let rest = self.pending.split_off(most.min(self.pending.len()));
        std::mem::replace(&mut self.pending, rest)
    }

    /// The next `count` entries are durable; none of their records has a number below `floor`.
    pub(crate) fn written(&mut self, count: usize, floor: u64) {
        self.floors.push_back((self.durable, floor));
        self.durable = self.durable.saturating_add(count as u64);
    }

    /// The log may forget what is below this number, once [`Spool::image`] is in it.
    pub(crate) fn floor(&self) -> Option<u64> {
        let fronts = self.tracks.values().filter_map(|track| track.items.front());
        let oldest = fronts.map(|item| item.logged).min().unwrap_or(self.durable);
        let before = self.floors.partition_point(|(first, _floor)| *first <= oldest);
        self.floors.get(before.checked_sub(1)?).map(|(_first, floor)| *floor)
    }

    /// Forgets where records that were purged lay.
    pub(crate) fn purged(&mut self, floor: u64) {
        let old = self.floors.partition_point(|(_first, of)| *of < floor);
        self.floors.drain(..old);
    }

    /// What the log must hold beside the receipts that are kept.
    pub(crate) fn image(&self) -> Vec<Entry> {
        self.incarnations().map(|(incarnation, next)| Entry::Acked { incarnation, next }).collect()
    }

    /// Makes an entry: its effect now, its record when the log takes it.
    fn add(&mut self, entry: Entry) {
        self.apply(&entry, self.made);
        self.made = self.made.saturating_add(1);
        self.pending.push(entry);
    }

    /// Replays an entry that the log holds, in the record of this number.
    fn replay(&mut self, entry: &Entry, seq: u64) {
        self.apply(entry, self.made);
        self.made = self.made.saturating_add(1);
        self.written(1, seq);
    }

    fn apply(&mut self, entry: &Entry, number: u64) {
        match entry {
            Entry::Receipt { incarnation, position, receipt } => {
                let item = Item { receipt: Arc::clone(receipt), due: number, logged: number };
                let track = self.tracks.entry(*incarnation).or_default();
                self.kept += track.put(*position, item);
            }
            Entry::Acked { incarnation, next } => {
                let track = self.tracks.entry(*incarnation).or_default();
                self.kept = self.kept.saturating_sub(track.forget(*next));
            }
            Entry::Assigned { incarnation, base } => self.take_over(*incarnation, *base, number),
            Entry::Closed { incarnation } => {
                let gone = self.tracks.remove(incarnation).map_or(0, |track| track.items.len());
                self.kept = self.kept.saturating_sub(gone);
            }
        }
    }

    fn take_over(&mut self, incarnation: Incarnation, base: u64, number: u64) {
        let Some(waiting) = self.tracks.remove(&UNASSIGNED) else { return };
        let track = self.tracks.entry(incarnation).or_default();
        let mut position = base.saturating_add(waiting.acked);
        for item in waiting.items {
            track.put(position, Item { due: number, ..item });
            position = position.saturating_add(1);
        }
    }
}

impl Track {
    /// Puts an item at its position; one that is acknowledged or known is left out. Returns how many were put.
    fn put(&mut self, position: u64, item: Item) -> usize {
        if position > self.next && self.items.is_empty() {
            // What came before was acknowledged and purged.
            (self.acked, self.next) = (position, position);
        }
        if position != self.next {
            return 0;
        }
        self.next = self.next.saturating_add(1);
        self.items.push_back(item);
        1
    }

    /// Forgets what is before `next`. Returns how many items went.
    fn forget(&mut self, next: u64) -> usize {
        let mut gone = 0;
        while self.acked < next && self.items.pop_front().is_some() {
            self.acked += 1;
            gone += 1;
        }
        if self.items.is_empty() && self.next < next {
            (self.acked, self.next) = (next, next);
        }
        gone
    }
}

#[cfg(test)]
pub(crate) mod tests;
