//! Totals by any dimensions.

use std::collections::BTreeMap;

use base::{UserHash, WallMs};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::dimensions::{self, Dimensions};
use crate::store::user_number;
use crate::sums::{self, number};
use crate::{Dimension, HOUR_MS, StoreError, Total, View};

/// Groups that one question may have.
const MAX_GROUPS: usize = 100_000;
/// Sums that one question may look at; some seconds' work.
const MAX_SUMS: usize = 5_000_000;
const HOURS_A_DAY: i64 = 24;

/// Which receipts count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those of calls that ended at this time or later.
    pub since: Option<WallMs>,
    /// Those of calls that ended before this time.
    pub until: Option<WallMs>,
    /// Those with these values, each of another dimension; times are not among them. Empty means: none.
    pub equal: Vec<(Dimension, String)>,
    /// Those of this end user.
    pub user: Option<UserHash>,
}

impl Filter {
    pub(crate) fn fits(&self, dims: &Dimensions) -> bool {
        self.equal.iter().all(|(dimension, value)| dims.text(*dimension) == value)
    }
}

/// What totals are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// The dimensions to take them apart by; none: one total.
    pub by: Vec<Dimension>,
    /// Of which receipts. Times count in whole hours: `since` back to its hour's start, `until` on to its hour's end.
    pub filter: Filter,
    /// Groups after this one; `None`: from the first.
    pub after: Option<Vec<String>>,
    /// Groups to give at most.
    pub limit: usize,
}

/// Totals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Groups in the order of their values.
    pub groups: Vec<Group>,
    /// Whether more follow.
    pub more: bool,
    /// They come from receipts, and those that central took before this time are forgotten.
    pub kept_from: Option<WallMs>,
}

/// The total of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its value in each dimension asked for, empty where there is none; an hour or day is the count of them since 1970,
    /// ten digits long.
    pub values: Vec<String>,
    /// The total.
    pub total: Total,
}

impl View {
    /// Totals of what the store has.
    ///
    /// # Errors
    /// [`StoreError::TooMuch`], or what the database says.
    pub fn totals(&self, question: &Question) -> Result<Totals, StoreError> {
        let dims = fitting(&self.0, &question.filter)?;
        let mut groups: BTreeMap<Vec<String>, Total> = BTreeMap::new();
        let first = question.filter.since.map_or(i64::MIN, |since| number(since.as_millis() / HOUR_MS));
        let end = question.filter.until.map_or(i64::MAX, |until| number(until.as_millis().div_ceil(HOUR_MS)));
        let user = question.filter.user.map(user_number);
        let unit = user.map_or(1, |_user| number(HOUR_MS));
        let (first, end) = (first.saturating_mul(unit), end.saturating_mul(unit));
        let mut select = self.0.prepare(&match user {
            None => format!(
                "SELECT hour, dims, {} FROM hours WHERE hour >= ?1 AND hour < ?2 AND ?4 IS NULL LIMIT ?3",
                sums::COLUMNS
            ),
            Some(_user) => format!(
                "SELECT at / {HOUR_MS}, dims, {} FROM receipts JOIN dims ON dims.id = receipts.dims
                 WHERE user = ?4 AND at >= ?1 AND at < ?2 LIMIT ?3",
                sums::OF_RECEIPT
            ),
        })?;
        let (mut rows, mut seen) = (select.query((first, end, number(MAX_SUMS as u64 + 1), user))?, 0);
        while let Some(row) = rows.next()? {
            seen += 1;
            let Some(dims) = dims.get(&row.get(1)?) else { continue };
            let hour: i64 = row.get(0)?;
            let values = question.by.iter().map(|by| value(*by, dims, hour)).collect();
            groups.entry(values).or_default().add(&Total::read(row, 2)?);
            if seen > MAX_SUMS {
                return Err(StoreError::TooMuch { what: "hourly totals", most: MAX_SUMS });
            }
            if groups.len() > MAX_GROUPS {
                return Err(StoreError::TooMuch { what: "groups", most: MAX_GROUPS });
            }
        }
        let mut totals = page(groups, question);
        if user.is_some() {
            totals.kept_from = kept_from(&self.0)?;
        }
        Ok(totals)
    }
}

/// From when on there are receipts, where some were forgotten.
fn kept_from(connection: &Connection) -> Result<Option<WallMs>, StoreError> {
    let first = connection.query_row(
        "SELECT min(place), taken FROM receipts WHERE (SELECT pruned FROM meta) > 0",
        (),
        |row| row.get::<_, Option<i64>>(1),
    )?;
    Ok(first.map(|taken| WallMs::from_millis(taken.unsigned_abs())))
}

fn page(groups: BTreeMap<Vec<String>, Total>, question: &Question) -> Totals {
    let behind = groups.into_iter().filter(|(values, _total)| Some(values) > question.after.as_ref());
    let mut groups: Vec<Group> = behind
        .take(question.limit.saturating_add(1))
        .map(|(values, total)| Group { values, total })
        .collect();
    let more = groups.len() > question.limit;
    groups.truncate(question.limit);
    Totals { groups, more, kept_from: None }
}

fn value(by: Dimension, dims: &Dimensions, hour: i64) -> String {
    match by {
        Dimension::Hour => format!("{hour:010}"),
        Dimension::Day => format!("{:010}", hour.div_euclid(HOURS_A_DAY)),
        other => dims.text(other).to_owned(),
    }
}

/// The combinations of dimensions that fit, by number.
pub(crate) fn fitting(
    connection: &Connection,
    filter: &Filter,
) -> Result<BTreeMap<i64, Dimensions>, StoreError> {
    let mut select = connection.prepare(&format!("SELECT id, {} FROM dims", dimensions::COLUMNS))?;
    let (mut rows, mut fitting) = (select.query(())?, BTreeMap::new());
    while let Some(row) = rows.next()? {
        let dims = Dimensions::read(row, 1)?;
        if filter.fits(&dims) {
            fitting.insert(row.get(0)?, dims);
        }
    }
    Ok(fitting)
}
