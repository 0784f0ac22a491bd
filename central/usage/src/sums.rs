//! Sums of receipts, by hour and combination of dimensions.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};
use wire::ledger::{Receipt, ReceiptKind};

use crate::{HOUR_MS, StoreError};

/// What receipts sum up to. Sums stop at the largest number that the database can hold, 2⁶³ − 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    /// Calls settled.
    pub calls: u64,
    /// Attempts made for them.
    pub attempts: u64,
    /// Calls whose tokens are our bound because the upstream reported none.
    pub estimated: u64,
    /// Input tokens, cached ones included.
    pub input: u64,
    /// Input tokens that came from upstreams' caches.
    pub cached_input: u64,
    /// Output tokens.
    pub output: u64,
    /// What they cost, in nano-dollars.
    pub cost: u64,
}

/// The columns of [`Total`], in the order in which they are written and read.
pub(crate) const COLUMNS: &str = "calls, attempts, estimated, input, cached_input, output, cost";

/// The same of one receipt that is joined with its dimensions.
pub(crate) const OF_RECEIPT: &str = "kind = 'call', attempts, estimated, input, cached_input, output, cost";

const MOST: u64 = i64::MAX.unsigned_abs();

impl Total {
    pub(crate) fn of(receipt: &Receipt) -> Self {
        Self {
            calls: u64::from(receipt.kind == ReceiptKind::Call),
            attempts: receipt.attempts.into(),
            estimated: receipt.estimated.into(),
            input: receipt.usage.input.0.min(MOST),
            cached_input: receipt.usage.cached_input.0.min(MOST),
            output: receipt.usage.output.0.min(MOST),
            cost: receipt.cost.0.min(MOST),
        }
    }

    pub(crate) fn add(&mut self, more: &Self) {
        let sum = |one: u64, other: u64| one.saturating_add(other).min(MOST);
        self.calls = sum(self.calls, more.calls);
        self.attempts = sum(self.attempts, more.attempts);
        self.estimated = sum(self.estimated, more.estimated);
        self.input = sum(self.input, more.input);
        self.cached_input = sum(self.cached_input, more.cached_input);
        self.output = sum(self.output, more.output);
        self.cost = sum(self.cost, more.cost);
    }

    fn columns(&self) -> [i64; 7] {
        [self.calls, self.attempts, self.estimated, self.input, self.cached_input, self.output, self.cost]
            .map(number)
    }

    pub(crate) fn read(row: &Row<'_>, first: usize) -> Result<Self, StoreError> {
        let at = |column: usize| -> Result<u64, StoreError> {
            Ok(row.get::<_, i64>(first + column)?.unsigned_abs())
        };
        Ok(Self {
            calls: at(0)?,
            attempts: at(1)?,
            estimated: at(2)?,
            input: at(3)?,
            cached_input: at(4)?,
            output: at(5)?,
            cost: at(6)?,
        })
    }
}

/// A number as the database holds it: the largest it can when it does not fit.
pub(crate) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A sum's hour and the number of its dimensions.
type Cell = (i64, i64);

/// Sums that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Sums(BTreeMap<Cell, (Total, i64)>);

impl Sums {
    /// Adds what ended at `at` and was applied at `taken`, both in milliseconds.
    pub(crate) fn add(&mut self, at: u64, dims: i64, total: &Total, taken: i64) {
        self.add_cell((number(at / HOUR_MS), dims), total, taken);
    }

    pub(crate) fn add_cell(&mut self, cell: Cell, total: &Total, taken: i64) {
        let (sum, last) = self.0.entry(cell).or_default();
        sum.add(total);
        *last = (*last).max(taken);
    }

    /// Adds them to what `table` holds.
    pub(crate) fn write(&self, connection: &Connection, table: &str) -> Result<(), StoreError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let add = |column: &str| {
            format!(
                "{column} = CASE WHEN {column} > {MOST} - excluded.{column} THEN {MOST} ELSE {column} + excluded.{column} END"
            )
        };
        let adding: Vec<String> = COLUMNS.split(", ").map(add).collect();
        let mut put = connection.prepare_cached(&format!(
            "INSERT INTO {table} (hour, dims, last, {COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT (hour, dims) DO UPDATE SET last = max(last, excluded.last), {}",
            adding.join(", ")
        ))?;
        for ((hour, dims), (total, last)) in &self.0 {
            let [calls, attempts, estimated, input, cached, output, cost] = total.columns();
            put.execute((hour, dims, last, calls, attempts, estimated, input, cached, output, cost))?;
        }
        Ok(())
    }
}
