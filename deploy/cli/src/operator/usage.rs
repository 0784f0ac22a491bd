//! `portolan usage`: calls, tokens and cost, since the mesh began or as asked for.

use base::Unit;
use central::admin::api::{UsageGroup, UsageReport, UsageRow};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::status::{amount, utc};
use crate::admin::Admin;
use crate::args::{Chosen, Format, Usage};
use crate::failure::{Failure, Outcome};
use crate::out;

/// In place of the model on rows of credit that was charged for a crash.
const CRASH: &str = "(crash charges)";
/// Rows asked for at once.
const PAGE: usize = 10_000;

pub(super) async fn show(admin: &Admin, asked: &Usage) -> Outcome {
    let mut question = Query::of(&asked.chosen);
    if !asked.by.is_empty() {
        question.put("by", &asked.by.join(","));
    }
    let format = asked.chosen.format();
    if question.is_empty() {
        return since_the_beginning(admin, format).await;
    }
    let report = ask(admin, &question, asked.chosen.limit).await?;
    if report.missing_entries > 0 {
        out::remark(missing(report.missing_entries));
    }
    if let Some(from) = report.kept_from {
        let from = utc(from.as_millis());
        out::remark(format!(
            "a user's totals come from receipts; those that came before {from} are forgotten"
        ));
    }
    match format {
        Format::Json => super::json(&report),
        Format::Csv => {
            out::raw(&table(&report, |cost| cost.to_string()).csv());
            Ok(())
        }
        Format::Table => {
            if report.rows.is_empty() {
                out::line("nothing was used");
            } else {
                out::raw(&table(&report, |cost| amount(Unit::NanoUsd, cost.into())).text(0));
            }
            Ok(())
        }
    }
}

/// What to say where receipts are missing.
pub(super) fn missing(entries: u64) -> String {
    format!("the node that answered lacks the receipts of {entries} log entries; they are not in this")
}

/// Asks page by page.
pub(super) async fn ask(admin: &Admin, question: &Query, limit: usize) -> Result<UsageReport, Failure> {
    let mut whole: Option<UsageReport> = None;
    loop {
        let have = whole.as_ref().map_or(0, |report| report.rows.len());
        let mut page = question.clone();
        page.put("limit", &limit.saturating_sub(have).clamp(1, PAGE).to_string());
        if let Some(cursor) = whole.as_ref().and_then(|report| report.next.as_deref()) {
            page.put("cursor", cursor);
        }
        let mut report: UsageReport = admin.get(&page.path("/v1/usage")).await?;
        if let Some(before) = whole.take() {
            report.rows = before.rows.into_iter().chain(report.rows).collect();
        }
        if report.next.is_none() || report.rows.len() >= limit {
            return Ok(report);
        }
        whole = Some(report);
    }
}

fn table(report: &UsageReport, money: impl Fn(u64) -> String) -> out::Table {
    let sums = ["calls", "attempts", "estimated", "input", "cached_input", "output", "cost"];
    let heading: Vec<&str> = report.by.iter().map(|by| by.as_str()).chain(sums).collect();
    let mut table = out::Table::new(&heading);
    for UsageGroup { values, total } in &report.rows {
        let values = report.by.iter().map(|by| values.get(by).cloned().flatten().unwrap_or_default());
        let sums =
            [total.calls, total.attempts, total.estimated, total.input, total.cached_input, total.output];
        let sums = sums.into_iter().map(|sum| sum.to_string());
        table.row(values.chain(sums).chain([money(total.cost)]).collect());
    }
    table
}

async fn since_the_beginning(admin: &Admin, format: Format) -> Outcome {
    let rows: Vec<UsageRow> = admin.get("/v1/usage").await?;
    if format == Format::Json {
        return super::json(&rows);
    }
    let mut table = out::Table::new(&["tenant", "app", "key", "model", "calls", "input", "output", "cost"]);
    for row in rows {
        table.row(vec![
            row.tenant.to_string(),
            row.app.to_string(),
            row.key.to_string(),
            row.model.map_or_else(|| CRASH.to_owned(), |model| model.to_string()),
            row.calls.to_string(),
            row.input.0.to_string(),
            row.output.0.to_string(),
            match format {
                Format::Csv => row.cost.0.to_string(),
                Format::Table | Format::Json => amount(Unit::NanoUsd, row.cost.0.into()),
            },
        ]);
    }
    match format {
        Format::Csv => out::raw(&table.csv()),
        Format::Table | Format::Json if table.is_empty() => out::line("nothing was used yet"),
        Format::Table | Format::Json => out::raw(&table.text(0)),
    }
    Ok(())
}

/// Parameters behind a path.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(String);

impl Query {
    /// Those that choose calls.
    pub(super) fn of(chosen: &Chosen) -> Self {
        let given = [
            ("since", &chosen.since),
            ("until", &chosen.until),
            ("tenant", &chosen.tenant),
            ("app", &chosen.app),
            ("key", &chosen.key),
            ("scenario", &chosen.scenario),
            ("user", &chosen.user),
            ("model", &chosen.model),
            ("provider", &chosen.provider),
            ("provider_key", &chosen.provider_key),
            ("region", &chosen.region),
            ("outcome", &chosen.outcome),
        ];
        let mut query = Self::default();
        for (name, value) in given {
            if let Some(value) = value {
                query.put(name, value);
            }
        }
        if chosen.partial {
            query.put("partial", "true");
        }
        query
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn put(&mut self, name: &str, value: &str) {
        let join = if self.0.is_empty() { "?" } else { "&" };
        self.0 = format!("{}{join}{name}={}", self.0, utf8_percent_encode(value, NON_ALPHANUMERIC));
    }

    pub(super) fn path(&self, path: &str) -> String {
        format!("{path}{}", self.0)
    }
}
