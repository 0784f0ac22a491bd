//! Receipts in the order of the log, for those who take them on: cut by places, so that the same cut is the same receipts at
//! every store.

use base::{Name, Revision, WallMs};
use rusqlite::Connection;
use wire::ledger::Receipt;

use crate::exchange::{Found, select};
use crate::store::{coverage, entry_of, first_place};
use crate::sums::number;
use crate::{StoreError, View};

/// What a receipt weighs beside its charges: bytes of it as text, rounded up.
const WEIGHT: usize = 1_024;
/// What a charge weighs.
const CHARGE: usize = 128;

/// How large a parcel may be; one receipt always fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Receipts.
    pub receipts: usize,
    /// Bytes of them as text, about.
    pub bytes: usize,
}

/// Receipts between two places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parcel {
    /// Behind this place.
    pub after: u64,
    /// Up to this place.
    pub upto: u64,
    /// All receipts between, in order.
    pub receipts: Vec<Placed>,
    /// Receipts up to this place are forgotten here.
    pub forgotten: u64,
}

/// A receipt and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its place.
    pub place: u64,
    /// When central took it.
    pub taken: WallMs,
    /// The edge that wrote it.
    pub edge: Name,
    /// The receipt.
    pub receipt: Receipt,
}

impl View {
    /// Receipts behind the place `after`: up to `upto`, or else as many as fit. One that holds none ends where it began.
    ///
    /// # Errors
    /// [`StoreError::Lacks`] when this store lacks receipts of that range itself.
    pub fn parcel(&self, after: u64, upto: Option<u64>, bounds: Bounds) -> Result<Parcel, StoreError> {
        let transaction = self.0.unchecked_transaction()?;
        let (coverage, pruned) = coverage(&transaction)?;
        let whole = last_place(coverage.whole());
        if upto.is_some_and(|upto| number(upto) > whole) {
            return Err(StoreError::Lacks(coverage.whole().0));
        }
        // One more than fit tells whether the last one's entry ends with it.
        let most = if upto.is_some() { usize::MAX } else { bounds.receipts.saturating_add(1) };
        let sql = format!("{} WHERE place > ? AND place <= ? ORDER BY place LIMIT ?", select());
        let mut select = transaction.prepare(&sql)?;
        let end = upto.map_or(whole, number);
        let mut rows = select.query((number(after), end, number(most as u64)))?;
        let (mut receipts, mut weight, mut next) = (Vec::<Placed>::new(), 0_usize, None);
        while let Some(row) = rows.next()? {
            let Found { place, taken, edge, receipt } = Found::read(row)?;
            weight = weight.saturating_add(WEIGHT + CHARGE.saturating_mul(receipt.charges.len()));
            let full = receipts.len() >= bounds.receipts || weight > bounds.bytes;
            if upto.is_none() && full && !receipts.is_empty() {
                next = Some(place);
                break;
            }
            receipts.push(Placed { place: place.unsigned_abs(), taken, edge, receipt });
        }
        let last = receipts.last().map_or(after, |placed| end_of(placed.place, next));
        let forgotten = if pruned.0 == 0 { 0 } else { last_place(pruned).unsigned_abs() };
        Ok(Parcel { after, upto: upto.unwrap_or(last), receipts, forgotten })
    }

    /// How many receipts there are behind a place, counted up to `most`.
    ///
    /// # Errors
    /// What the database says.
    pub fn behind(&self, after: u64, most: u64) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM receipts WHERE place > ? LIMIT ?)";
        let count: i64 = self.0.query_row(sql, (number(after), number(most)), |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }
}

/// The entry of a place.
#[must_use]
pub fn entry(place: u64) -> Revision {
    entry_of(number(place))
}

/// Where a parcel ends whose last receipt is at `last`: at its entry's end, unless the `next` one is of the same entry.
fn end_of(last: u64, next: Option<i64>) -> u64 {
    let of = entry_of(number(last));
    if next.map(entry_of) == Some(of) { last } else { last_place(of).unsigned_abs() }
}

/// The last place of an entry.
fn last_place(of: Revision) -> i64 {
    first_place(Revision(of.0.saturating_add(1))).saturating_sub(1)
}

/// The first receipt behind `after`, before `behind`, that was taken at `from` or later.
pub(crate) fn first_held(
    connection: &Connection,
    (after, behind, from): (i64, i64, i64),
) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT min(place) FROM receipts WHERE place > ? AND place < ? AND taken >= ?";
    Ok(connection.query_row(sql, (after, behind, from), |row| row.get(0))?)
}
