//! Receipts one by one: those of a request, or those that fit a filter, newest first.

use base::{Name, RequestId, WallMs};
use serde::{Deserialize, Serialize};
use wire::ledger::Receipt;

use crate::exchange::{Found, select};
use crate::question::{Filter, fitting};
use crate::store::user_number;
use crate::sums::number;
use crate::{StoreError, View};

/// Receipts that one listing looks at; then it says from where to go on.
const MAX_SEEN: usize = 100_000;

/// Which receipts are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Those of calls that fit.
    pub filter: Filter,
    /// Those behind this one.
    pub after: Option<Mark>,
    /// How many at most.
    pub limit: usize,
}

/// A receipt's place in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// When its call ended.
    pub at: WallMs,
    /// Its place in the log.
    pub place: i64,
}

/// Receipts, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Receipts and the edges that wrote them.
    pub receipts: Vec<(Name, Receipt)>,
    /// From where to go on; `None`: there are no more.
    pub next: Option<Mark>,
}

impl View {
    /// The receipts of a request: one for each call that took a hold.
    ///
    /// # Errors
    /// What the database says.
    pub fn receipts_of(&self, request: RequestId, limit: usize) -> Result<Vec<(Name, Receipt)>, StoreError> {
        let sql = format!("{} WHERE request = ? ORDER BY place LIMIT ?", select());
        let mut select = self.0.prepare(&sql)?;
        let (mut rows, mut receipts) =
            (select.query((request.0.to_be_bytes(), number(limit as u64)))?, Vec::new());
        while let Some(row) = rows.next()? {
            let found = Found::read(row)?;
            receipts.push((found.edge, found.receipt));
        }
        Ok(receipts)
    }

    /// The receipts that fit, newest first. A page may hold fewer than asked for, and still not be the last.
    ///
    /// # Errors
    /// What the database says.
    pub fn list(&self, listing: &Listing) -> Result<Listed, StoreError> {
        let dims = fitting(&self.0, &listing.filter)?;
        let bound = |at: Option<WallMs>, none: i64| at.map_or(none, |at| number(at.as_millis()));
        let (since, until) = (bound(listing.filter.since, 0), bound(listing.filter.until, i64::MAX));
        let after =
            listing.after.map_or((i64::MAX, i64::MAX), |mark| (number(mark.at.as_millis()), mark.place));
        let user = listing.filter.user.map(user_number);
        let of_user = user.map_or("?7 IS NULL", |_user| "user = ?7");
        let mut marks = self.0.prepare(&format!(
            "SELECT at, place, dims FROM receipts WHERE at >= ? AND at < ? AND at <= ? AND (at, place) < (?, ?)
             AND {of_user} ORDER BY at DESC, place DESC LIMIT ?6"
        ))?;
        let mut read = self.0.prepare(&format!("{} WHERE place = ?", select()))?;
        let seen = number(MAX_SEEN as u64);
        let mut rows = marks.query((since, until, after.0, after.0, after.1, seen, user))?;
        let (mut listed, mut seen, mut last) = (Listed::default(), 0, None);
        while let Some(row) = rows.next()? {
            if listed.receipts.len() >= listing.limit {
                listed.next = last;
                return Ok(listed);
            }
            let (at, place): (i64, i64) = (row.get(0)?, row.get(1)?);
            seen += 1;
            last = Some(Mark { at: WallMs::from_millis(at.unsigned_abs()), place });
            if dims.contains_key(&row.get(2)?) {
                let mut one = read.query([place])?;
                if let Some(row) = one.next()? {
                    let found = Found::read(row)?;
                    listed.receipts.push((found.edge, found.receipt));
                }
            }
        }
        listed.next = last.filter(|_more| seen >= MAX_SEEN);
        Ok(listed)
    }
}
