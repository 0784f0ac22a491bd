//! What one node's store gives another's that lacks it: receipts of a range of entries, or, of entries whose receipts
//! are forgotten, the hourly sums.

use std::sync::Arc;

use base::{Amount, BudgetId, Name, NanoUsd, RequestId, Revision, Tokens, UserHash, WallMs, WindowId};
use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};
use wire::ledger::{Charge, Receipt, Usage};

use crate::dimensions::{self, Dimensions};
use crate::store::{coverage, entry_of, first_place, save};
use crate::sums::{self, Sums, number};
use crate::{Batch, Span, Store, StoreError, Total, View};

/// Receipts on a page; one entry's are never torn apart.
const MAX_RECEIPTS: usize = 2_000;
/// Sums on a page.
const MAX_HOURS: usize = 4_000;

/// Part of what was asked for; never empty-handed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Page {
    /// All receipts of some entries.
    Receipts {
        /// Of which.
        span: Span,
        /// Entries with receipts, in order.
        batches: Vec<Batch>,
    },
    /// Sums of the receipts of all entries up to `pruned`, which are forgotten.
    Hours {
        /// The last such entry.
        pruned: Revision,
        /// Whether these are the first of these sums.
        first: bool,
        /// Sums.
        rows: Vec<HourRow>,
        /// From where to go on; `None`: these were the last.
        next: Option<Progress>,
    },
}

/// Sums of one hour and combination of dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HourRow {
    /// Hours since 1970.
    pub hour: i64,
    /// When the last of the receipts was taken.
    pub last: WallMs,
    /// Of what.
    pub dimensions: Dimensions,
    /// The sums.
    pub total: Total,
}

/// How far a copy of sums is; it means something to the store that gave it, until that store forgets more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pruned: Revision,
    hour: i64,
    dims: i64,
}

impl View {
    /// What another store needs to have the receipts of the entries in `span`, or the first part of it.
    ///
    /// # Errors
    /// [`StoreError::Lacks`] when this store lacks the first of them itself.
    pub fn export(&self, span: Span, after: Option<Progress>) -> Result<Page, StoreError> {
        let transaction = self.0.unchecked_transaction()?;
        let (coverage, pruned) = coverage(&transaction)?;
        if pruned > span.after {
            return hours(&transaction, pruned, after);
        }
        let gap = coverage.missing.iter().find(|gap| gap.upto > span.after);
        let upto = gap.map_or(coverage.head, |gap| gap.after).min(span.upto);
        if upto <= span.after {
            return Err(StoreError::Lacks(span.after.0));
        }
        receipts(&transaction, Span::new(span.after, upto))
    }
}

impl Store {
    /// Takes a page of another store. Gives back how to ask for the rest of the sums; `None` when the page stands for
    /// itself.
    ///
    /// # Errors
    /// [`StoreError`]: the store is as it was.
    pub fn import(&mut self, page: &Page) -> Result<Option<Progress>, StoreError> {
        match page {
            Page::Receipts { span, batches } => {
                self.append(*span, batches)?;
                Ok(None)
            }
            Page::Hours { pruned, first: _, rows: _, next: _ } if *pruned <= self.pruned => Ok(None),
            Page::Hours { pruned, first, rows, next } => {
                let staged = self.stage(*first, rows);
                let adopted = staged.and_then(|()| match next {
                    Some(_more) => Ok(()),
                    None => self.adopt(*pruned),
                });
                if adopted.is_err() {
                    self.known = crate::store::Known::default();
                }
                adopted.map(|()| *next)
            }
        }
    }

    fn stage(&mut self, first: bool, rows: &[HourRow]) -> Result<(), StoreError> {
        let transaction = self.connection.0.transaction()?;
        if first {
            transaction.execute("DELETE FROM incoming", ())?;
        }
        let mut staged = Sums::default();
        for row in rows {
            let dims = self.known.dims(&transaction, row.dimensions.clone())?;
            staged.add_cell((row.hour, dims), &row.total, number(row.last.as_millis()));
        }
        staged.write(&transaction, "incoming")?;
        transaction.commit()?;
        Ok(())
    }

    /// Puts the staged sums in the place of everything up to `pruned`.
    fn adopt(&mut self, pruned: Revision) -> Result<(), StoreError> {
        let covered = self.coverage.with(&Span::new(Revision(0), pruned));
        let transaction = self.connection.0.transaction()?;
        transaction.execute_batch(
            "DELETE FROM hours; DELETE FROM base;
             INSERT INTO base SELECT * FROM incoming; INSERT INTO hours SELECT * FROM incoming;
             DELETE FROM incoming;",
        )?;
        let behind = first_place(Revision(pruned.0.saturating_add(1)));
        transaction.execute("DELETE FROM receipts WHERE place < ?", [behind])?;
        sums_of(&transaction, i64::MAX)?.write(&transaction, "hours")?;
        save(&transaction, &covered, pruned)?;
        transaction.commit()?;
        (self.coverage, self.pruned) = (covered, pruned);
        Ok(())
    }
}

/// The sums of all receipts before the place `until`.
pub(crate) fn sums_of(connection: &Connection, until: i64) -> Result<Sums, StoreError> {
    let mut select = connection.prepare(&format!(
        "SELECT at, dims, taken, {} FROM receipts JOIN dims ON dims.id = receipts.dims WHERE place < ?",
        sums::OF_RECEIPT
    ))?;
    let (mut sums, mut rows) = (Sums::default(), select.query([until])?);
    while let Some(row) = rows.next()? {
        let at: i64 = row.get(0)?;
        sums.add(at.unsigned_abs(), row.get(1)?, &Total::read(row, 3)?, row.get(2)?);
    }
    Ok(sums)
}

fn hours(connection: &Connection, pruned: Revision, after: Option<Progress>) -> Result<Page, StoreError> {
    let after = after.filter(|after| after.pruned == pruned);
    let (hour, dims) = after.map_or((i64::MIN, 0), |after| (after.hour, after.dims));
    let mut select = connection.prepare(&format!(
        "SELECT hour, dims, last, {}, {} FROM base JOIN dims ON dims.id = base.dims
         WHERE (hour, dims) > (?, ?) ORDER BY hour, dims LIMIT ?",
        sums::COLUMNS,
        dimensions::COLUMNS
    ))?;
    let mut rows = select.query((hour, dims, number(MAX_HOURS as u64)))?;
    let (mut found, mut last) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        let (hour, dims, taken): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        last = Some(Progress { pruned, hour, dims });
        let (total, dimensions) = (Total::read(row, 3)?, Dimensions::read(row, 10)?);
        found.push(HourRow { hour, last: WallMs::from_millis(taken.unsigned_abs()), dimensions, total });
    }
    let next = last.filter(|_more| found.len() >= MAX_HOURS);
    Ok(Page::Hours { pruned, first: after.is_none(), rows: found, next })
}

fn receipts(connection: &Connection, span: Span) -> Result<Page, StoreError> {
    let mut select =
        connection.prepare(&format!("{} WHERE place >= ? AND place < ? ORDER BY place", select()))?;
    let behind = |revision: Revision| first_place(Revision(revision.0.saturating_add(1)));
    let mut rows = select.query([behind(span.after), behind(span.upto)])?;
    let mut entries = Entries::default();
    while let Some(row) = rows.next()? {
        let found = Found::read(row)?;
        let of = entry_of(found.place);
        if entries.count >= MAX_RECEIPTS && entries.last != Some(of) {
            entries.close();
            let upto = Revision(of.0.saturating_sub(1));
            return Ok(Page::Receipts { span: Span::new(span.after, upto), batches: entries.batches });
        }
        entries.push(of, found);
    }
    entries.close();
    Ok(Page::Receipts { span, batches: entries.batches })
}

/// Receipts in the order of the log, on their way to become batches.
#[derive(Default)]
struct Entries {
    batches: Vec<Batch>,
    last: Option<Revision>,
    taken: WallMs,
    receipts: Vec<(Name, Receipt)>,
    count: usize,
}

impl Entries {
    fn push(&mut self, of: Revision, found: Found) {
        if self.last != Some(of) {
            self.close();
            (self.last, self.taken) = (Some(of), found.taken);
        }
        self.receipts.push((found.edge, found.receipt));
        self.count += 1;
    }

    fn close(&mut self) {
        let Some(revision) = self.last.take() else { return };
        let receipts = Arc::new(std::mem::take(&mut self.receipts));
        self.batches.push(Batch { revision, taken: self.taken, receipts });
    }
}

/// A receipt as it was found.
pub(crate) struct Found {
    pub(crate) place: i64,
    pub(crate) taken: WallMs,
    pub(crate) edge: Name,
    pub(crate) receipt: Receipt,
}

/// The beginning of a statement whose rows [`Found::read`] understands.
pub(crate) fn select() -> String {
    format!(
        "SELECT place, taken, at, request, edges.name, attempts, estimated, input, cached_input, output, cost, charges,
         cache_write, audio_input, reasoning, audio_output, images, busy_ms, price_from, user, {} FROM receipts JOIN dims ON dims.id = receipts.dims JOIN edges ON edges.id = receipts.edge",
        dimensions::COLUMNS
    )
}

impl Found {
    pub(crate) fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let whole = |at: usize| -> Result<u64, StoreError> { Ok(row.get::<_, i64>(at)?.unsigned_abs()) };
        let edge: String = row.get(4)?;
        let edge = edge.parse().map_err(|_bad| StoreError::Damaged(format!("{edge:?} is no edge's name")))?;
        let dims = Dimensions::read(row, 20)?;
        let charges: String = row.get(11)?;
        let usage = Usage {
            input: Tokens(whole(7)?),
            cached_input: Tokens(whole(8)?),
            cache_write: Tokens(whole(12)?),
            audio_input: Tokens(whole(13)?),
            output: Tokens(whole(9)?),
            reasoning: Tokens(whole(14)?),
            audio_output: Tokens(whole(15)?),
            images: row.get(16)?,
            busy_ms: row.get(17)?,
        };
        let (price_from, user): (Option<i64>, Option<i64>) = (row.get(18)?, row.get(19)?);
        let receipt = Receipt {
            request: RequestId(u128::from_be_bytes(row.get(3)?)),
            kind: dims.kind,
            at: WallMs::from_millis(whole(2)?),
            tenant: dims.tenant,
            app: dims.app,
            key: dims.key,
            scenario: dims.scenario,
            user: user.map(|user| UserHash(user.cast_unsigned())),
            model: dims.model,
            operation: dims.operation,
            region: dims.region,
            served_by: dims.served_by,
            provider: dims.provider,
            provider_key: dims.provider_key,
            attempts: row.get(5)?,
            usage,
            estimated: row.get(6)?,
            price_from: price_from.map(|from| WallMs::from_millis(from.unsigned_abs())),
            cost: NanoUsd(whole(10)?),
            outcome: dims.outcome,
            code: dims.code,
            charges: charges_of(&charges)?,
        };
        Ok(Self { place: row.get(0)?, taken: WallMs::from_millis(whole(1)?), edge, receipt })
    }
}

fn charges_of(text: &str) -> Result<Vec<Charge>, StoreError> {
    let read: Result<Vec<(u128, u64, u64, u64)>, _> = serde_json::from_str(text);
    let read = read.map_err(|error| StoreError::Damaged(format!("charges cannot be read: {error}")))?;
    let charge = |(budget, window, amount, overrun)| Charge {
        budget: BudgetId(budget),
        window: WindowId(window),
        amount: Amount(amount),
        overrun: Amount(overrun),
    };
    Ok(read.into_iter().map(charge).collect())
}
