//! `portolan receipts`: the bills of single calls.

use base::Unit;
use central::admin::api::{ReceiptRow, Receipts};
use usage_store::Dimension;

use super::status::{amount, utc};
use super::usage::{Query, missing};
use crate::admin::Admin;
use crate::args::{self, Chosen, Format};
use crate::failure::{Exit, Failure, Outcome};
use crate::out;

/// Receipts asked for at once.
const PAGE: usize = 1_000;

/// The values of a receipt that its line shows.
const SHOWN: [Dimension; 9] = [
    Dimension::Tenant,
    Dimension::App,
    Dimension::Key,
    Dimension::Scenario,
    Dimension::Model,
    Dimension::Region,
    Dimension::ServedBy,
    Dimension::Outcome,
    Dimension::Code,
];

pub(super) async fn show(admin: &Admin, asked: &args::Receipts) -> Outcome {
    let mut question = Query::of(&asked.chosen);
    if let Some(request) = &asked.request {
        question.put("request", request);
    }
    let found = ask(admin, &question, &asked.chosen).await?;
    if found.missing_entries > 0 {
        out::remark(missing(found.missing_entries));
    }
    if found.receipts.is_empty() && asked.request.is_some() {
        let what = "central has no receipt of that request";
        return Err(Failure::new(Exit::Refused, what).mend(
            "a receipt arrives up to a second after its call ended; calls that were refused have none",
        ));
    }
    match asked.chosen.format() {
        Format::Json => return super::json(&found),
        Format::Csv => out::raw(&table(&found.receipts, |cost| cost.to_string()).csv()),
        Format::Table if found.receipts.is_empty() => out::line("no receipts"),
        Format::Table => {
            out::raw(&table(&found.receipts, |cost| amount(Unit::NanoUsd, cost.into())).text(0));
        }
    }
    Ok(())
}

/// Asks page by page.
async fn ask(admin: &Admin, question: &Query, chosen: &Chosen) -> Result<Receipts, Failure> {
    let mut whole = Receipts { missing_entries: 0, receipts: Vec::new(), next: None };
    loop {
        let mut page = question.clone();
        let more = chosen.limit.saturating_sub(whole.receipts.len());
        page.put("limit", &more.clamp(1, PAGE).to_string());
        if let Some(cursor) = &whole.next {
            page.put("cursor", cursor);
        }
        let found: Receipts = admin.get(&page.path("/v1/receipts")).await?;
        whole.missing_entries = whole.missing_entries.max(found.missing_entries);
        whole.receipts.extend(found.receipts);
        whole.next = found.next;
        if whole.next.is_none() || whole.receipts.len() >= chosen.limit {
            return Ok(whole);
        }
    }
}

fn table(receipts: &[ReceiptRow], money: impl Fn(u64) -> String) -> out::Table {
    let shown = SHOWN.iter().map(|one| one.as_str());
    let heading: Vec<&str> = ["ended", "request", "edge", "user"]
        .into_iter()
        .chain(shown)
        .chain(["input", "output", "cost"])
        .collect();
    let mut table = out::Table::new(&heading);
    for receipt in receipts {
        let who = [utc(receipt.at.as_millis()), receipt.request.clone(), receipt.edge.to_string()];
        let user = receipt.user.clone().unwrap_or_default();
        let values = SHOWN.iter().map(|one| receipt.values.get(one).cloned().flatten().unwrap_or_default());
        let sums = [receipt.input.0.to_string(), receipt.output.0.to_string(), money(receipt.cost.0)];
        table.row(who.into_iter().chain([user]).chain(values).chain(sums).collect());
    }
    table
}
