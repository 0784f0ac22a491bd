//! The comparison: each line of a bill against what was counted, and what was counted against the bill.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde::Serialize;
use usage_store::Total;

use super::bill::{Bill, Billed, Figure, Subject, Value};

/// Millionths in one percent.
const PERCENT: u64 = 10_000;
const WHOLE: u128 = 1_000_000;

/// By how much a figure may differ from what was counted, in millionths of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tolerance(pub(crate) u64);

impl FromStr for Tolerance {
    type Err = String;

    /// Reads percent, such as `0.5`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "must be percent between 0 and 100 with at most four decimals, such as 0.5".to_owned();
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 4 {
            return Err(wrong());
        }
        let millionths = format!("{whole}{fraction:0<4}").parse().map_err(|_large| wrong())?;
        if millionths > 100 * PERCENT { Err(wrong()) } else { Ok(Self(millionths)) }
    }
}

/// What was counted of one subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted(pub(crate) Total);

impl Counted {
    pub(crate) fn add(&mut self, more: &Total) {
        let Total { calls, attempts, estimated, input, cached_input, output, cost } = more;
        let sum = &mut self.0;
        sum.calls = sum.calls.saturating_add(*calls);
        sum.attempts = sum.attempts.saturating_add(*attempts);
        sum.estimated = sum.estimated.saturating_add(*estimated);
        sum.input = sum.input.saturating_add(*input);
        sum.cached_input = sum.cached_input.saturating_add(*cached_input);
        sum.output = sum.output.saturating_add(*output);
        sum.cost = sum.cost.saturating_add(*cost);
    }

    /// How much of a figure.
    pub(crate) const fn of(&self, figure: Figure) -> u64 {
        match figure {
            Figure::Requests => self.0.calls,
            Figure::Input => self.0.input,
            Figure::Uncached => self.0.input.saturating_sub(self.0.cached_input),
            Figure::Cached => self.0.cached_input,
            Figure::Output => self.0.output,
            Figure::Cost => self.0.cost,
        }
    }
}

/// What came of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Every figure that the bill tells agrees.
    Agrees,
    /// Some figure does not.
    Differs,
    /// There were calls, and the bill has none.
    NotBilled,
    /// The bill has calls, and there were none.
    NotOurs,
}

impl State {
    pub(crate) const ALL: [Self; 4] = [Self::Agrees, Self::Differs, Self::NotBilled, Self::NotOurs];

    /// For people.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "differs",
            Self::NotBilled => "not billed",
            Self::NotOurs => "not ours",
        }
    }
}

/// A figure of a bill, and ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// What the bill says.
    pub(crate) billed: u64,
    /// What was counted.
    pub(crate) counted: u64,
    /// Whether the two agree.
    pub(crate) agrees: bool,
}

impl Difference {
    /// How much more the bill says.
    pub(crate) fn more(&self) -> i128 {
        i128::from(self.billed) - i128::from(self.counted)
    }

    /// The same in percent of what was counted, with two decimals, cut off; `None` where nothing was.
    pub(crate) fn percent(&self) -> Option<String> {
        let hundredths = (self.more() * 10_000).checked_div(i128::from(self.counted))?;
        let sign = if self.more() < 0 { '-' } else { '+' };
        let size = hundredths.unsigned_abs();
        Some(format!("{sign}{}.{:02}", size / 100, size % 100))
    }
}

/// One subject of a bill, or of what was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) subject: Subject,
    pub(crate) state: State,
    /// The file's lines; none when it is not billed.
    pub(crate) lines: Vec<u32>,
    /// Of the figures that the bill tells.
    pub(crate) figures: BTreeMap<Figure, Difference>,
    /// Calls of ours whose tokens are a bound because the provider reported none.
    pub(crate) estimated: u64,
}

/// Compares a bill with what was counted of the same times.
pub(crate) fn reconcile(
    bill: &Bill,
    counted: &BTreeMap<Subject, Counted>,
    tolerance: Tolerance,
) -> Vec<Line> {
    let subjects: BTreeSet<&Subject> = bill.lines.keys().chain(counted.keys()).collect();
    let line = |subject: &Subject| line(bill, subject, counted.get(subject), tolerance);
    subjects.into_iter().filter_map(line).collect()
}

/// `None`: nothing was counted that the bill would tell.
fn line(bill: &Bill, subject: &Subject, counted: Option<&Counted>, tolerance: Tolerance) -> Option<Line> {
    let ours = counted.copied().unwrap_or_default();
    let billed = bill.lines.get(subject);
    let figure = |figure: &Figure| {
        let told = match billed {
            Some(Billed { figures, .. }) => *figures.get(figure)?,
            None => Value::default(),
        };
        Some((*figure, compared(told, *figure, &ours, tolerance)))
    };
    let figures: BTreeMap<Figure, Difference> = bill.figures.iter().filter_map(figure).collect();
    let nothing = |of: fn(&Difference) -> u64| figures.values().all(|figure| of(figure) == 0);
    let state = match billed {
        None if nothing(|figure| figure.counted) => return None,
        None => State::NotBilled,
        Some(_) if counted.is_none() && !nothing(|figure| figure.billed) => State::NotOurs,
        Some(_) if figures.values().all(|figure| figure.agrees) => State::Agrees,
        Some(_) => State::Differs,
    };
    let lines = billed.map(|billed| billed.lines.clone()).unwrap_or_default();
    Some(Line { subject: subject.clone(), state, lines, figures, estimated: ours.0.estimated })
}

/// Costs of ours are rounded up to a nano-dollar, each call's by itself.
fn compared(told: Value, figure: Figure, ours: &Counted, Tolerance(tolerance): Tolerance) -> Difference {
    let counted = ours.of(figure);
    let slack = match figure {
        Figure::Cost => told.slack.saturating_add(ours.0.calls),
        Figure::Requests | Figure::Input | Figure::Uncached | Figure::Cached | Figure::Output => 0,
    };
    let apart = told.amount.abs_diff(counted);
    let tolerated = u128::from(apart) * WHOLE <= u128::from(tolerance) * u128::from(counted);
    Difference { billed: told.amount, counted, agrees: apart <= slack || tolerated }
}
