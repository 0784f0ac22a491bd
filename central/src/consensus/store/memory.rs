//! The Raft log as it is in memory, and what of the write-ahead log is still needed for it.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use base::NodeId;
use openraft::EntryPayload;

use super::records::Change;
use crate::consensus::types::{LogEntry, LogId, Vote};

/// A Raft log. Entries are gapless from the first after the purged one.
#[derive(Debug, Default)]
pub(super) struct Memory {
    owner: Option<NodeId>,
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    entries: BTreeMap<u64, LogEntry>,
    /// Where the write-ahead log holds each entry that is durable.
    places: BTreeMap<u64, u64>,
}

impl Memory {
    /// Takes a change from the write-ahead log, whose number there is `seq`.
    pub(super) fn replay(&mut self, change: Change, seq: u64) {
        let index = match &change {
            Change::Entry(entry) => Some(entry.log_id.index),
            _other => None,
        };
        self.apply(change);
        if let Some(index) = index {
            self.placed(index, seq);
        }
    }

    pub(super) fn apply(&mut self, change: Change) {
        match change {
            Change::Owner(id) => self.owner = Some(id),
            Change::Vote(vote) => self.vote = Some(vote),
            Change::Entry(entry) => self.append(entry),
            Change::Truncate(last) => self.truncate(last),
            Change::Purge(last) => self.purge(last),
            Change::Committed(last) => self.committed = last,
        }
    }

    /// Records from before a purge may still be there when the log is replayed: what they append is given up already,
    /// and the truncation that followed one may be gone.
    fn append(&mut self, entry: LogEntry) {
        let index = entry.log_id.index;
        if self.purged.is_some_and(|purged| purged.index >= index) {
            return;
        }
        drop(self.entries.split_off(&index));
        drop(self.places.split_off(&index));
        self.entries.insert(index, entry);
    }

    fn truncate(&mut self, last: Option<LogId>) {
        let first_gone = last.map_or(0, |last| last.index + 1);
        drop(self.entries.split_off(&first_gone));
        drop(self.places.split_off(&first_gone));
    }

    fn purge(&mut self, last: LogId) {
        if self.purged.is_some_and(|purged| purged.index >= last.index) {
            return;
        }
        self.entries = self.entries.split_off(&(last.index + 1));
        self.places = self.places.split_off(&(last.index + 1));
        self.purged = Some(last);
    }

    /// The entry at `index` is durable at `place`.
    pub(super) fn placed(&mut self, index: u64, place: u64) {
        if self.entries.contains_key(&index) {
            self.places.insert(index, place);
        }
    }

    /// The place of the first entry that is durable.
    pub(super) fn first_place(&self) -> Option<u64> {
        self.places.first_key_value().map(|(_, place)| *place)
    }

    /// Entries in `range`, at most about `bytes` of them but at least one.
    pub(super) fn read(&self, range: impl RangeBounds<u64>, bytes: usize) -> Vec<LogEntry> {
        let mut entries = Vec::new();
        let mut left = bytes;
        for entry in self.entries.range(range).map(|(_, entry)| entry) {
            let size = size(entry);
            if !entries.is_empty() && size > left {
                break;
            }
            left = left.saturating_sub(size);
            entries.push(entry.clone());
        }
        entries
    }

    pub(super) const fn owner(&self) -> Option<NodeId> {
        self.owner
    }

    pub(super) const fn vote(&self) -> Option<Vote> {
        self.vote
    }

    /// What is known to be committed; no more than the log proves.
    pub(super) fn committed(&self) -> Option<LogId> {
        let known = |last: &LogId| self.entries.get(&last.index).is_some_and(|entry| entry.log_id == *last);
        self.committed.filter(known)
    }

    pub(super) const fn purged(&self) -> Option<LogId> {
        self.purged
    }

    pub(super) fn last(&self) -> Option<LogId> {
        self.entries.last_key_value().map(|(_, entry)| entry.log_id).or(self.purged)
    }

    pub(super) fn is_pristine(&self) -> bool {
        self.vote.is_none() && self.last().is_none()
    }
}

fn size(entry: &LogEntry) -> usize {
    match &entry.payload {
        EntryPayload::Blank => 0,
        EntryPayload::Normal(proposal) => proposal.len(),
        // A few nodes' names and addresses.
        EntryPayload::Membership(_) => 1_024,
    }
}
