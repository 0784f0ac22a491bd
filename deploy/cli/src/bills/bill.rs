//! A provider's bill: which days or hours, which models, which keys, and what the provider counted.

use std::collections::{BTreeMap, BTreeSet};

use settings::Fault;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::sheet::{self, Cell};

/// Lines that one bill may have.
const MAX_LINES: usize = 1_000_000;
/// Mistakes that are told of one bill.
const MAX_FAULTS: usize = 20;
/// Decimals of a dollar that are kept: nano-dollars.
const DECIMALS: usize = 9;
const HOUR_S: i64 = 3_600;
const DAY_S: i64 = 24 * HOUR_S;

/// The parts of time that a bill has lines of, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grain {
    /// Hours.
    Hour,
    /// Days.
    Day,
}

impl Grain {
    /// As the usage API calls it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    const fn seconds(self) -> i64 {
        match self {
            Self::Hour => HOUR_S,
            Self::Day => DAY_S,
        }
    }

    /// The number since 1970 of the one that begins at an instant (RFC 3339) or day.
    ///
    /// # Errors
    /// What is wrong, and the mend.
    pub(crate) fn read(self, text: &str) -> Result<i64, String> {
        const EXPECTED: &str =
            "is no time; write a day such as 2026-01-31 or an hour such as 2026-01-31T13:00:00Z";
        let whole = if text.contains('T') { text.to_owned() } else { format!("{text}T00:00:00Z") };
        let at = OffsetDateTime::parse(&whole, &Rfc3339).map_err(|_bad| format!("{text:?} {EXPECTED}"))?;
        if at.nanosecond() != 0 || at.unix_timestamp().rem_euclid(self.seconds()) != 0 {
            let part = if self == Self::Day { "a day" } else { "an hour" };
            return Err(format!("{text:?} is not the start of {part} in UTC"));
        }
        Ok(at.unix_timestamp().div_euclid(self.seconds()))
    }

    /// The start of one, as [`Self::read`] reads it.
    pub(crate) fn text(self, number: i64) -> String {
        let start = OffsetDateTime::from_unix_timestamp(number.saturating_mul(self.seconds())).ok();
        let text = start.and_then(|start| start.format(&Rfc3339).ok()).unwrap_or_else(|| number.to_string());
        match self {
            Self::Hour => text,
            Self::Day => text.split('T').next().unwrap_or_default().to_owned(),
        }
    }
}

/// What a bill counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    /// Calls.
    Requests,
    /// Input tokens, cached ones included.
    Input,
    /// Input tokens that were not read from a cache.
    Uncached,
    /// Input tokens that were.
    Cached,
    /// Output tokens.
    Output,
    /// Nano-dollars.
    Cost,
}

impl Figure {
    const ALL: [Self; 6] =
        [Self::Requests, Self::Input, Self::Uncached, Self::Cached, Self::Output, Self::Cost];

    /// The column's name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Input => "input_tokens",
            Self::Uncached => "uncached_input_tokens",
            Self::Cached => "cached_tokens",
            Self::Output => "output_tokens",
            Self::Cost => "cost",
        }
    }
}

/// A figure of a bill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Value {
    /// How much, in the figure's unit.
    pub(crate) amount: u64,
    /// How far the true amount may be from it: costs are written with few digits.
    pub(crate) slack: u64,
}

impl Value {
    pub(super) fn add(&mut self, more: Self) {
        self.amount = self.amount.saturating_add(more.amount);
        self.slack = self.slack.saturating_add(more.slack);
    }
}

/// What a line is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subject {
    /// The day or hour, counted from 1970.
    pub(crate) at: i64,
    /// The model.
    pub(crate) model: String,
    /// The provider's key, where the bill tells it.
    pub(crate) key: Option<String>,
}

/// What a bill says of one subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Billed {
    /// The file's lines that say it.
    pub(crate) lines: Vec<u32>,
    /// What it says; what it leaves empty is not here.
    pub(crate) figures: BTreeMap<Figure, Value>,
}

/// A bill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bill {
    /// What its lines are of.
    pub(crate) grain: Grain,
    /// Whether it tells keys.
    pub(crate) keyed: bool,
    /// What it counts.
    pub(crate) figures: Vec<Figure>,
    /// Its lines.
    pub(crate) lines: BTreeMap<Subject, Billed>,
}

/// What the heading of the file calls our columns, and which of its columns are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    /// Our names by the file's.
    pub(crate) renamed: BTreeMap<String, String>,
    /// Passed over.
    pub(crate) ignored: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Column {
    Time,
    Model,
    Key,
    Figure(Figure),
}

impl Bill {
    /// Reads a file's text; `file` stands in front of mistakes.
    ///
    /// # Errors
    /// Every mistake, the first twenty of them.
    pub(crate) fn read(file: &str, text: &str, columns: &Columns) -> Result<Self, Vec<Fault>> {
        let mut reading = Reading { file, found: Vec::new(), decimals: 0 };
        let rows = match sheet::rows(text) {
            Ok(rows) => rows,
            Err(broken) => {
                reading.add((broken.line, broken.column), "", broken.what);
                return Err(reading.found);
            }
        };
        let Some((heading, rows)) = rows.split_first() else {
            reading.add((1, 1), "", "is empty; the first line names the columns");
            return Err(reading.found);
        };
        let Some(heading) = Heading::read(heading, columns, &mut reading) else { return Err(reading.found) };
        if rows.len() > MAX_LINES {
            reading.add((1, 1), "", format!("has more than {MAX_LINES} lines; split it"));
            return Err(reading.found);
        }
        let bill = heading.lines(rows, &mut reading);
        if reading.found.is_empty() { Ok(bill) } else { Err(reading.found) }
    }
}

/// What the first line says.
struct Heading {
    grain: Grain,
    /// `None`: passed over.
    columns: Vec<(String, Option<Column>)>,
}

impl Heading {
    fn read(cells: &[Cell], given: &Columns, reading: &mut Reading<'_>) -> Option<Self> {
        let (mut columns, mut seen, mut grain) = (Vec::new(), BTreeSet::new(), None);
        for cell in cells {
            if given.ignored.contains(&cell.text) {
                columns.push((cell.text.clone(), None));
                continue;
            }
            let name = given.renamed.get(&cell.text).unwrap_or(&cell.text);
            let figure = Figure::ALL.into_iter().find(|figure| figure.as_str() == name);
            let column = match name.as_str() {
                "day" | "hour" => {
                    grain = Some(if name == "day" { Grain::Day } else { Grain::Hour });
                    Some(Column::Time)
                }
                "model" => Some(Column::Model),
                "key" => Some(Column::Key),
                _other => figure.map(Column::Figure),
            };
            match column {
                None => {
                    let figures: Vec<_> = Figure::ALL.iter().map(|figure| figure.as_str()).collect();
                    let what = format!(
                        "no such column; there are day or hour, model, key, {}; say what it is with --column NAME={}, or --ignore {}",
                        figures.join(", "),
                        cell.text,
                        cell.text
                    );
                    reading.of(cell, &cell.text, what);
                }
                Some(column) if !seen.insert(column) => reading.of(cell, name, "stands here twice"),
                Some(_first) => {}
            }
            columns.push((name.clone(), column));
        }
        for (column, what) in [(Column::Time, "day, or hour,"), (Column::Model, "model")] {
            if !seen.contains(&column) {
                reading.add((1, 1), "", format!("a column {what} is required"));
            }
        }
        if !seen.iter().any(|column| matches!(column, Column::Figure(_))) {
            reading.add((1, 1), "", "no column counts anything: requests, tokens or cost");
        }
        grain.filter(|_| reading.found.is_empty()).map(|grain| Self { grain, columns })
    }

    fn lines(&self, rows: &[Vec<Cell>], reading: &mut Reading<'_>) -> Bill {
        let mut figures: Vec<Figure> = self
            .columns
            .iter()
            .filter_map(|(_name, column)| match column {
                Some(Column::Figure(figure)) => Some(*figure),
                Some(Column::Time | Column::Model | Column::Key) | None => None,
            })
            .collect();
        figures.sort_unstable();
        let keyed = self.columns.iter().any(|(_name, column)| *column == Some(Column::Key));
        let mut bill = Bill { grain: self.grain, keyed, figures, lines: BTreeMap::new() };
        for row in rows {
            let Some(first) = row.first() else { continue };
            if row.len() != self.columns.len() {
                let what = format!("has {} cells, but the heading has {}", row.len(), self.columns.len());
                reading.of(first, "", what);
                continue;
            }
            let Some((subject, billed)) = self.line(row, keyed, reading) else { continue };
            if let Some(earlier) = bill.lines.get(&subject).and_then(|billed| billed.lines.first()) {
                let what = format!(
                    "says the same time, model and key as line {earlier}; sum them up, or leave one out"
                );
                reading.of(first, "", what);
                continue;
            }
            bill.lines.insert(subject, billed);
        }
        let slack = slack(reading.decimals);
        for cost in bill.lines.values_mut().filter_map(|billed| billed.figures.get_mut(&Figure::Cost)) {
            cost.slack = slack;
        }
        bill
    }

    fn line(&self, row: &[Cell], keyed: bool, reading: &mut Reading<'_>) -> Option<(Subject, Billed)> {
        let before = reading.found.len();
        let mut subject = Subject { at: 0, model: String::new(), key: keyed.then(String::new) };
        let mut billed =
            Billed { lines: row.first().map(|cell| cell.line).into_iter().collect(), ..Billed::default() };
        for ((name, column), cell) in self.columns.iter().zip(row) {
            let read = match column {
                None => Ok(()),
                Some(Column::Time) => self.grain.read(&cell.text).map(|at| subject.at = at),
                Some(Column::Model) if cell.text.is_empty() => Err("is empty".to_owned()),
                Some(Column::Model) => {
                    subject.model.clone_from(&cell.text);
                    Ok(())
                }
                Some(Column::Key) => {
                    subject.key = Some(cell.text.clone());
                    Ok(())
                }
                Some(Column::Figure(_)) if cell.text.is_empty() => Ok(()),
                Some(Column::Figure(figure)) => {
                    let amount = match figure {
                        Figure::Cost => dollars(&cell.text).map(|(amount, decimals)| {
                            reading.decimals = reading.decimals.max(decimals);
                            amount
                        }),
                        _count => count(&cell.text),
                    };
                    amount.map(|amount| {
                        billed.figures.insert(*figure, Value { amount, slack: 0 });
                    })
                }
            };
            if let Err(what) = read {
                reading.of(cell, name, what);
            }
        }
        (reading.found.len() == before).then_some((subject, billed))
    }
}

/// A count of calls or tokens.
fn count(text: &str) -> Result<u64, String> {
    let amount = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    amount.ok_or_else(|| format!("{text:?} is not a whole number; write digits only"))
}

/// An amount of dollars in nano-dollars, what is smaller rounded, and its decimals.
fn dollars(text: &str) -> Result<(u64, usize), String> {
    let wrong = || format!("{text:?} is not an amount of dollars; write digits such as 12 or 0.15");
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if !digits(whole) || !digits(fraction) {
        return Err(wrong());
    }
    let kept: String = fraction.chars().chain(std::iter::repeat('0')).take(DECIMALS).collect();
    let whole: u128 = whole.parse().map_err(|_large| wrong())?;
    let nano: u128 = kept.parse().map_err(|_large| wrong())?;
    let up = u128::from(fraction.as_bytes().get(DECIMALS).is_some_and(|digit| *digit >= b'5'));
    let total = whole.saturating_mul(1_000_000_000).saturating_add(nano).saturating_add(up);
    let largest = |_large| format!("{text} exceeds the largest amount, $18446744073.70");
    let decimals = text.split_once('.').map_or(0, |(_whole, fraction)| fraction.len());
    Ok((u64::try_from(total).map_err(largest)?, decimals))
}

/// How far a cost may be from the true one when a bill's costs have so many decimals: half of the last one's unit.
fn slack(decimals: usize) -> u64 {
    let zeros = u32::try_from(DECIMALS.saturating_sub(decimals)).unwrap_or_default();
    10_u64.saturating_pow(zeros).div_ceil(2)
}

/// What is found in a file besides its lines.
struct Reading<'a> {
    file: &'a str,
    /// Mistakes.
    found: Vec<Fault>,
    /// Most decimals of a cost.
    decimals: usize,
}

impl Reading<'_> {
    fn of(&mut self, cell: &Cell, field: &str, what: impl Into<String>) {
        self.add((cell.line, cell.column), field, what);
    }

    fn add(&mut self, (line, column): (u32, u32), field: &str, what: impl Into<String>) {
        if self.found.len() < MAX_FAULTS {
            let (file, field) = (self.file.to_owned(), field.to_owned());
            self.found.push(Fault { file, line, column, field, what: what.into() });
        }
    }
}
