//! Forgetting: receipts after some time, their hourly sums after a longer one, in small steps.
//!
//! Receipts are forgotten in the order of the log, so that "all up to here" says what another store can still get as
//! receipts and what only as sums.

use base::{Revision, WallMs};

use crate::exchange::sums_of;
use crate::parcel::first_held;
use crate::store::{Known, entry_of, first_place, save};
use crate::sums::number;
use crate::{HOUR_MS, Store, StoreError};

/// Receipts, or sums, that one step forgets; one entry's receipts are never torn apart.
const STEP: i64 = 2_000;

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Receipts whose entry was proposed at this time or later.
    pub receipts_from: WallMs,
    /// Hours that began at this time or later, and hours that a receipt came into since. Sums are kept at least as long
    /// as receipts, whatever stands here.
    pub hours_from: WallMs,
    /// Receipts that are kept longer.
    pub held: Option<Held>,
}

/// Receipts that somebody has not taken yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Those behind this place.
    pub after: u64,
    /// Of them those whose entry was proposed at this time or later.
    pub from: WallMs,
}

impl Store {
    /// Forgets one step of what need not be kept. Gives back whether there may be more.
    ///
    /// # Errors
    /// [`StoreError`]: the store is as it was.
    pub fn prune(&mut self, keep: &Keep) -> Result<bool, StoreError> {
        let receipts = self.prune_receipts(number(keep.receipts_from.as_millis()), keep.held)?;
        let hours = self.prune_hours(keep.hours_from.min(keep.receipts_from))?;
        Ok(receipts || hours)
    }

    fn prune_receipts(&mut self, from: i64, held: Option<Held>) -> Result<bool, StoreError> {
        let transaction = self.connection.0.transaction()?;
        let place = |sql: &str, parameter: i64| -> Result<Option<i64>, StoreError> {
            Ok(transaction.query_row(sql, [parameter], |row| row.get(0))?)
        };
        let step = "SELECT max(place) FROM (SELECT place FROM receipts ORDER BY place LIMIT ?)";
        let Some(last) = place(step, STEP)? else { return Ok(false) };
        let mut upto = entry_of(last).min(self.coverage.whole());
        let behind = first_place(Revision(upto.0.saturating_add(1)));
        let kept = transaction.query_row(
            "SELECT min(place) FROM receipts WHERE place < ? AND taken >= ?",
            [behind, from],
            |row| row.get::<_, Option<i64>>(0),
        )?;
        let held = match held {
            Some(Held { after, from }) => {
                first_held(&transaction, (number(after), behind, number(from.as_millis())))?
            }
            None => None,
        };
        for kept in [kept, held].into_iter().flatten() {
            upto = upto.min(Revision(entry_of(kept).0.saturating_sub(1)));
        }
        let behind = first_place(Revision(upto.0.saturating_add(1)));
        // No further than receipts go: who took all of them has lost nothing.
        let Some(last) = place("SELECT max(place) FROM receipts WHERE place < ?", behind)? else {
            return Ok(false);
        };
        upto = entry_of(last);
        if upto <= self.pruned {
            return Ok(false);
        }
        sums_of(&transaction, behind)?.write(&transaction, "base")?;
        let gone = transaction.execute("DELETE FROM receipts WHERE place < ?", [behind])?;
        save(&transaction, &self.coverage, upto)?;
        transaction.commit()?;
        self.pruned = upto;
        Ok(gone > 0)
    }

    fn prune_hours(&mut self, from: WallMs) -> Result<bool, StoreError> {
        let (hour, last) = (number(from.as_millis() / HOUR_MS), number(from.as_millis()));
        let transaction = self.connection.0.transaction()?;
        let mut gone = 0;
        for table in ["hours", "base"] {
            let delete = format!(
                "DELETE FROM {table} WHERE (hour, dims) IN
                 (SELECT hour, dims FROM {table} WHERE hour < ? AND last < ? LIMIT ?)"
            );
            gone += transaction.execute(&delete, (hour, last, STEP))?;
        }
        if gone > 0 {
            transaction.execute(
                "DELETE FROM dims WHERE id IN (SELECT id FROM dims WHERE NOT EXISTS
                 (SELECT 1 FROM hours WHERE hours.dims = dims.id) AND NOT EXISTS
                 (SELECT 1 FROM incoming WHERE incoming.dims = dims.id) LIMIT ?)",
                [STEP],
            )?;
        }
        transaction.commit()?;
        if gone > 0 {
            self.known = Known::default();
        }
        Ok(gone > 0)
    }
}
