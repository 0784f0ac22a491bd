//! `portolan explain-refusal`: which edge refused a call and why, how its budgets stood there, and how they are now.

use base::{Amount, RequestId, Unit};
use central::admin::api::{Refusal, RefusalBudget};

use super::status::{amount, utc};
use crate::admin::Admin;
use crate::failure::Outcome;
use crate::out;

pub(super) async fn explain(admin: &Admin, request: RequestId, as_json: bool) -> Outcome {
    let refusal: Refusal = admin.get(&format!("/v1/refusals/{request}")).await?;
    if as_json {
        return super::json(&refusal);
    }
    for line in lines(&refusal) {
        out::line(&line);
    }
    if !refusal.budgets.is_empty() {
        out::raw(&table(&refusal.budgets).text(0));
    }
    for line in refusal.budgets.iter().filter_map(would_pass) {
        out::line(&line);
    }
    Ok(())
}

fn lines(refusal: &Refusal) -> Vec<String> {
    let Refusal { edge, region, tenant, app, key, .. } = refusal;
    let asked = refusal.asked.as_ref().map(|asked| format!(" for {asked}")).unwrap_or_default();
    let central = if refusal.attached { "" } else { ", which was out of touch with central" };
    let at = utc(refusal.at.as_millis());
    let mut lines = vec![
        format!("{at}: {edge} ({region}){central}, refused a call{asked} of {tenant}/{app}, key {key}"),
        format!("{}: {}", refusal.code.as_str(), refusal.message),
    ];
    lines.extend(refusal.limit.as_ref().map(|limit| format!("limit: {limit}, of this edge alone")));
    lines.extend(refusal.budget.as_ref().map(|budget| format!("budget: {budget}")));
    lines
}

fn table(budgets: &[RefusalBudget]) -> out::Table {
    let heading =
        ["budget", "needed", "free there", "held there", "spent, then", "spent, now", "limit", "remaining"];
    let mut table = out::Table::new(&heading);
    for row in budgets {
        let of = |value: Amount| amount(row.unit.unwrap_or(Unit::Requests), value.0.into());
        let name = match &row.user {
            Some(user) => format!("{} of user {user}", row.budget),
            None => row.budget.to_string(),
        };
        let now = row.now.as_ref();
        table.row(vec![
            name,
            of(row.needed),
            of(row.free),
            of(row.held),
            row.said.map(|said| of(said.spent)).unwrap_or_default(),
            now.map(|now| of(now.spent)).unwrap_or_default(),
            now.map(|now| of(now.limit)).unwrap_or_default(),
            now.map(|now| of(now.remaining)).unwrap_or_default(),
        ]);
    }
    table
}

/// What one of its budgets says to the same call now.
fn would_pass(row: &RefusalBudget) -> Option<String> {
    let Some(now) = &row.now else { return Some(format!("{} is not configured any more", row.budget)) };
    let of = |value: Amount| amount(now.unit, value.0.into());
    let elsewhere: Vec<String> = now
        .holders
        .iter()
        .filter(|holder| holder.held > Amount::ZERO)
        .map(|holder| format!("{} {}", holder.edge, of(holder.held)))
        .collect();
    if row.needed <= now.remaining {
        return None;
    }
    let until =
        now.until.map(|end| format!("; it starts anew at {}", utc(end.as_millis()))).unwrap_or_default();
    let credit = if elsewhere.is_empty() {
        "no edge holds credit of it".to_owned()
    } else {
        format!("edges hold credit of it: {}", elsewhere.join(", "))
    };
    Some(format!("{}: less remains than the call needed, and {credit}{until}", row.budget))
}
