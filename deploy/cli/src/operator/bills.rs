//! `portolan bills check`: a provider's bill against what central's receipts add up to.

use std::collections::BTreeMap;

use base::Name;
use central::admin::api::{Catalog, UsageReport};
use serde_json::{Value, json};
use settings::{decimal, list_faults};
use usage_store::Dimension;

use super::usage::{self, Query};
use crate::admin::Admin;
use crate::args::{BillsCheck, Format};
use crate::bills::{
    Bill, Columns, Counted, Difference, Figure, Grain, Line, Names, State, Subject, Tolerance, reconcile,
};
use crate::failure::{Exit, Failure, Outcome};
use crate::{files, out};

/// Largest file, in bytes.
const LARGEST: u64 = 64 * 1024 * 1024;
/// Days, or hours, that one question to central covers; it answers a bounded number of groups.
const SLICE: i64 = 24;

/// A bill and what was counted of the same times, the end not included.
struct Compared {
    bill: Bill,
    since: i64,
    until: i64,
    /// Lines of the file before and behind these times.
    outside: usize,
    lines: Vec<Line>,
}

pub(super) async fn check(admin: &Admin, asked: &BillsCheck) -> Outcome {
    let text = files::read_within(&asked.file, LARGEST)?;
    let columns = Columns {
        renamed: pairs(&asked.column)?.into_iter().map(|(ours, theirs)| (theirs, ours)).collect(),
        ignored: asked.ignore.iter().cloned().collect(),
    };
    let file = asked.file.display().to_string();
    let bill = Bill::read(&file, &text, &columns).map_err(|faults| {
        Failure::new(Exit::Invalid, format!("this bill cannot be read:\n{}", list_faults(&faults)))
    })?;
    let names = names(admin, &asked.provider, pairs(&asked.model)?).await?;
    let compared = compare(admin, asked, bill, &names).await?;
    match asked.format() {
        Format::Json => super::json(&compared.json(asked))?,
        Format::Csv => out::raw(&compared.table(csv_cells, csv_heading).csv()),
        Format::Table => compared.show(),
    }
    let wrong = compared.lines.iter().filter(|line| line.state != State::Agrees).count();
    if wrong == 0 {
        return Ok(());
    }
    let what = format!("{wrong} of {} lines do not agree", compared.lines.len());
    Err(Failure::new(Exit::Unsound, what).mend(
        "`portolan receipts --provider NAME --since TIME --until TIME` lists the calls; `portolan budgets correct` charges or credits a budget",
    ))
}

/// `A=B` of options.
fn pairs(given: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let pair = |text: &String| {
        let split = text.split_once('=').map(|(one, other)| (one.to_owned(), other.to_owned()));
        split.ok_or_else(|| Failure::new(Exit::Usage, format!("{text:?} is not of the form NAME=NAME")))
    };
    given.iter().map(pair).collect()
}

/// How the catalog calls the provider's models.
async fn names(admin: &Admin, provider: &Name, given: BTreeMap<String, String>) -> Result<Names, Failure> {
    let Catalog { catalog, .. } = admin.get("/v1/catalog").await?;
    let all = |kind: &str| catalog.get(kind).and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |object: &Value, field: &str| object.get(field).and_then(Value::as_str).map(str::to_owned);
    if !all("providers").iter().any(|one| text(one, "name").as_deref() == Some(provider.as_str())) {
        out::remark(format!(
            "no provider {provider} is configured now; models are looked for by the names that they had here"
        ));
    }
    let ours =
        all("models").into_iter().filter(|one| text(one, "provider").as_deref() == Some(provider.as_str()));
    let theirs = ours.filter_map(|one| {
        let name = text(&one, "name")?;
        Some((name.clone(), text(&one, "upstream_model").unwrap_or(name)))
    });
    Ok(Names::new(theirs.collect(), given))
}

async fn compare(admin: &Admin, asked: &BillsCheck, bill: Bill, names: &Names) -> Result<Compared, Failure> {
    let read = |text: &Option<String>| text.as_deref().map(|text| bill.grain.read(text)).transpose();
    let wrong = |what| Failure::new(Exit::Usage, what);
    let (since, until) = (read(&asked.since).map_err(wrong)?, read(&asked.until).map_err(wrong)?);
    let first = bill.lines.first_key_value().map(|(subject, _billed)| subject.at);
    let last = bill.lines.last_key_value().map(|(subject, _billed)| subject.at.saturating_add(1));
    let (Some(since), Some(until)) = (since.or(first), until.or(last)) else {
        return Err(wrong("the bill has no lines; say of which time with --since and --until".to_owned()));
    };
    if until <= since {
        return Err(wrong("--until must lie behind --since".to_owned()));
    }
    let before = bill.lines.len();
    let mut bill = bill;
    bill.lines.retain(|subject, _billed| (since..until).contains(&subject.at));
    let outside = before.saturating_sub(bill.lines.len());
    let bill = bill.named(names);
    let counted = counted(admin, asked, &bill, names, (since, until)).await?;
    let lines = reconcile(&bill, &counted, asked.tolerance);
    Ok(Compared { bill, since, until, outside, lines })
}

/// What central counted of the provider's calls. Calls that failed before their first byte are billed by nobody.
async fn counted(
    admin: &Admin,
    asked: &BillsCheck,
    bill: &Bill,
    names: &Names,
    (since, until): (i64, i64),
) -> Result<BTreeMap<Subject, Counted>, Failure> {
    let grain = bill.grain;
    let instant = |at: i64| match grain {
        Grain::Hour => grain.text(at),
        Grain::Day => format!("{}T00:00:00Z", grain.text(at)),
    };
    let (mut counted, mut from) = (BTreeMap::<Subject, Counted>::new(), since);
    while from < until {
        let to = from.saturating_add(SLICE).min(until);
        let mut question = Query::default();
        question.put("by", &format!("{},model,provider_key,outcome", grain.as_str()));
        question.put("provider", asked.provider.as_str());
        question.put("since", &instant(from));
        question.put("until", &instant(to));
        add(&mut counted, bill, names, usage::ask(admin, &question, usize::MAX).await?)?;
        from = to;
    }
    Ok(counted)
}

fn add(
    counted: &mut BTreeMap<Subject, Counted>,
    bill: &Bill,
    names: &Names,
    report: UsageReport,
) -> Result<(), Failure> {
    let time = if bill.grain == Grain::Day { Dimension::Day } else { Dimension::Hour };
    for mut row in report.rows {
        let mut value = |by| row.values.remove(&by).flatten().unwrap_or_default();
        if value(Dimension::Outcome) == "failed" {
            continue;
        }
        let at = bill.grain.read(&value(time)).map_err(Failure::failed)?;
        let model = names.of_ours(&value(Dimension::Model));
        let key = bill.keyed.then(|| value(Dimension::ProviderKey));
        counted.entry(Subject { at, model, key }).or_default().add(&row.total);
    }
    Ok(())
}

impl Compared {
    fn count(&self, state: State) -> usize {
        self.lines.iter().filter(|line| line.state == state).count()
    }

    /// Each figure of all lines together.
    fn totals(&self) -> BTreeMap<Figure, Difference> {
        let mut totals = BTreeMap::<Figure, Difference>::new();
        for (figure, one) in self.lines.iter().flat_map(|line| &line.figures) {
            let total = totals.entry(*figure).or_default();
            total.billed = total.billed.saturating_add(one.billed);
            total.counted = total.counted.saturating_add(one.counted);
        }
        totals
    }

    fn json(&self, asked: &BillsCheck) -> Value {
        let Tolerance(millionths) = asked.tolerance;
        let states: BTreeMap<&str, usize> =
            State::ALL.into_iter().map(|state| (state.as_str(), self.count(state))).collect();
        json!({
            "provider": asked.provider,
            "by": self.bill.grain.as_str(),
            "since": self.bill.grain.text(self.since),
            "until": self.bill.grain.text(self.until),
            "tolerance_millionths": millionths,
            "lines_outside": self.outside,
            "states": states,
            "totals": figures_json(&self.totals()),
            "rows": self.lines.iter().map(|line| json!({
                "state": line.state.as_str(),
                "lines": line.lines,
                self.bill.grain.as_str(): self.bill.grain.text(line.subject.at),
                "model": line.subject.model,
                "key": line.subject.key,
                "estimated": line.estimated,
                "figures": figures_json(&line.figures),
            })).collect::<Vec<_>>(),
        })
    }

    fn table(
        &self,
        cells: impl Fn(Option<&Difference>, Figure) -> Vec<String>,
        heading: impl Fn(Figure) -> Vec<String>,
    ) -> out::Table {
        let figures = &self.bill.figures;
        let mut first = vec!["state".to_owned(), "line".to_owned(), self.bill.grain.as_str().to_owned()];
        first.extend(["model", "key", "estimated"].map(str::to_owned));
        first.extend(figures.iter().flat_map(|figure| heading(*figure)));
        let mut table = out::Table::new(&first.iter().map(String::as_str).collect::<Vec<_>>());
        for line in &self.lines {
            let numbers: Vec<_> = line.lines.iter().map(ToString::to_string).collect();
            let mut row = vec![
                line.state.as_str().to_owned(),
                numbers.join(" "),
                self.bill.grain.text(line.subject.at),
                line.subject.model.clone(),
                line.subject.key.clone().unwrap_or_default(),
                line.estimated.to_string(),
            ];
            row.extend(figures.iter().flat_map(|figure| cells(line.figures.get(figure), *figure)));
            table.row(row);
        }
        table
    }

    fn show(&self) {
        if self.lines.is_empty() {
            out::line("nothing is billed and nothing was counted");
        } else {
            out::raw(&self.table(shown_cells, |figure| vec![figure.as_str().to_owned()]).text(0));
        }
        for (figure, total) in self.totals() {
            out::line(format!("{}: {}", figure.as_str(), shown(&total, figure)));
        }
        let states = State::ALL.map(|state| format!("{} {}", self.count(state), state.as_str()));
        out::line(states.join(", "));
        if self.outside > 0 {
            out::remark(format!("{} lines of the bill lie outside the time asked for", self.outside));
        }
    }
}

fn figures_json(figures: &BTreeMap<Figure, Difference>) -> Value {
    let of = |(figure, one): (&Figure, &Difference)| {
        let value = json!({
            "billed": one.billed,
            "counted": one.counted,
            "more": i64::try_from(one.more()).unwrap_or(i64::MAX),
            "percent": one.percent(),
        });
        (figure.as_str().to_owned(), value)
    };
    Value::Object(figures.iter().map(of).collect())
}

fn csv_heading(figure: Figure) -> Vec<String> {
    ["billed", "counted", "more", "percent"].map(|part| format!("{}_{part}", figure.as_str())).into()
}

fn csv_cells(one: Option<&Difference>, _figure: Figure) -> Vec<String> {
    let Some(one) = one else { return vec![String::new(); 4] };
    vec![
        one.billed.to_string(),
        one.counted.to_string(),
        one.more().to_string(),
        one.percent().unwrap_or_default(),
    ]
}

fn shown_cells(one: Option<&Difference>, figure: Figure) -> Vec<String> {
    vec![one.map(|one| shown(one, figure)).unwrap_or_default()]
}

/// What is billed; where that is not what was counted, what was, and the difference.
fn shown(one: &Difference, figure: Figure) -> String {
    let amount = |amount: u64| match figure {
        Figure::Cost => format!("${}", decimal::text(base::NanoUsd(amount))),
        _count => amount.to_string(),
    };
    if one.more() == 0 {
        return amount(one.billed);
    }
    let sign = if one.more() < 0 { '-' } else { '+' };
    let apart = amount(one.billed.abs_diff(one.counted));
    let percent = one.percent().map(|percent| format!(", {percent} %")).unwrap_or_default();
    format!("{} for {} ({sign}{apart}{percent})", amount(one.billed), amount(one.counted))
}
