//! The last epochs, as steps forward and back, so that an edge can be brought forward by a delta and the configuration
//! can go back to what it was.

use std::collections::VecDeque;

use base::{Epoch, Stamp, WallMs};
use serde::{Deserialize, Serialize};
use wire::catalog::{Catalog, Change, Object};

use crate::KeyOf;

/// Epochs kept for rollback. A step holds only what it changed, so that this many are small.
pub const KEPT_EPOCHS: usize = 64;

/// How one epoch came about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// Which epoch.
    pub epoch: Epoch,
    /// When it was made.
    pub stamp: Stamp,
    /// The proposer's wall clock.
    pub at: WallMs,
    /// Who asked.
    pub by: String,
    /// Why.
    pub note: String,
    /// From the epoch before to this one.
    pub forward: Vec<Change>,
    /// From this one to the epoch before.
    pub back: Vec<Change>,
}

/// The epochs kept, oldest first, without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    records: VecDeque<EpochRecord>,
}

impl History {
    /// The epochs kept, oldest first.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &EpochRecord> {
        self.records.iter()
    }

    /// The changes from epoch `have` to the newest; `None` when `have` is too old (or not ours).
    #[must_use]
    pub fn since(&self, have: Epoch) -> Option<Vec<Change>> {
        if have == self.newest() {
            return Some(Vec::new());
        }
        let next = Epoch(have.0.checked_add(1)?);
        let start = self.records.iter().position(|record| record.epoch == next)?;
        Some(self.records.iter().skip(start).flat_map(|record| record.forward.iter().cloned()).collect())
    }

    /// The epoch in force.
    #[must_use]
    pub fn newest(&self) -> Epoch {
        self.records.back().map_or(Epoch(0), |record| record.epoch)
    }

    /// The oldest epoch whose content can be made again.
    #[must_use]
    pub fn oldest(&self) -> Epoch {
        Epoch(self.records.front().map_or(0, |record| record.epoch.0.saturating_sub(1)))
    }

    /// The content of epoch `to`, going back from `newest`; `None` when it is not kept.
    #[must_use]
    pub fn content(&self, newest: &Catalog, to: Epoch) -> Option<Catalog> {
        if to > newest.epoch || to < self.oldest() {
            return None;
        }
        let mut catalog = newest.clone();
        for record in self.records.iter().rev().take_while(|record| record.epoch > to) {
            record.back.iter().cloned().for_each(|change| catalog.apply(change));
        }
        catalog.epoch = to;
        Some(catalog)
    }

    /// Whether any epoch kept mentions a provider's key.
    #[must_use]
    pub fn mentions(&self, of: &KeyOf) -> bool {
        self.records.iter().flat_map(|record| record.back.iter()).any(|change| match change {
            Change::Put(Object::Provider(provider)) => {
                provider.name == of.provider && provider.has_key(&of.key)
            }
            Change::Put(_) | Change::Remove(_) => false,
        })
    }

    pub(crate) fn push(&mut self, record: EpochRecord) {
        self.records.push_back(record);
        while self.records.len() > KEPT_EPOCHS {
            self.records.pop_front();
        }
    }
}
