//! `portolan budgets`: what is left of each budget, and corrections.

use base::{Amount, Name, Unit, WindowId};
use central::admin::api::{BudgetAccount, Budgets, Correction, Decided};
use settings::decimal;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::decisions::told;
use super::status::{amount, utc, window};
use crate::admin::Admin;
use crate::args::Correct;
use crate::failure::{Exit, Failure, Outcome};
use crate::out;

pub(super) async fn show(admin: &Admin, only: Option<&Name>, as_json: bool) -> Outcome {
    let mut budgets: Budgets = admin.get("/v1/budgets").await?;
    budgets.budgets.retain(|row| only.is_none_or(|name| row.budget == *name));
    if let Some(name) = only.filter(|_| budgets.budgets.is_empty()) {
        return Err(no_budget(name));
    }
    if as_json {
        return super::json(&budgets);
    }
    let heading =
        ["budget", "pays for", "window", "limit", "spent", "at edges", "remaining", "debt", "held by"];
    let mut table = out::Table::new(&heading);
    for row in &budgets.budgets {
        table.row(cells(row));
    }
    if table.is_empty() {
        out::line("no budgets");
    } else {
        out::raw(&table.text(0));
    }
    Ok(())
}

fn cells(row: &BudgetAccount) -> Vec<String> {
    let of = |value: Amount| amount(row.unit, value.0.into());
    let holders = row.holders.iter().filter(|holder| holder.held > Amount::ZERO);
    let holders: Vec<_> = holders.map(|holder| format!("{} {}", holder.edge, of(holder.held))).collect();
    let span = row.until.map_or_else(|| window(row.since), |end| format!("until {}", utc(end.as_millis())));
    vec![
        row.budget.to_string(),
        row.scope.clone(),
        span,
        if row.accounts > 1 { format!("{} × {}", row.accounts, of(row.limit)) } else { of(row.limit) },
        of(row.spent),
        of(row.held),
        of(row.remaining),
        of(row.debt),
        holders.join(", "),
    ]
}

pub(super) async fn correct(admin: &Admin, asked: &Correct) -> Outcome {
    let budgets: Budgets = admin.get("/v1/budgets").await?;
    let known = budgets.budgets.iter().find(|row| row.budget == asked.budget);
    let unit = known.map(|row| row.unit).ok_or_else(|| no_budget(&asked.budget))?;
    let of = |text: &Option<String>| text.as_deref().map(|text| quantity(unit, text)).transpose();
    let correction = Correction {
        reason: asked.reason.clone(),
        user: asked.user.clone(),
        window: asked.window.as_deref().map(start).transpose()?,
        charge: of(&asked.charge)?,
        credit: of(&asked.credit)?,
        id: asked.id.clone(),
    };
    let path = format!("/v1/budgets/{}/corrections", asked.budget);
    let decided: Decided = admin.post(&path, &correction).await?;
    told(&decided);
    Ok(())
}

fn no_budget(name: &Name) -> Failure {
    Failure::new(Exit::Refused, format!("no budget {name}")).mend("`portolan budgets` lists them")
}

fn usage(what: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, what)
}

/// An amount in the budget's unit; money in dollars.
fn quantity(unit: Unit, text: &str) -> Result<Amount, Failure> {
    match unit {
        Unit::NanoUsd => decimal::dollars(text).map(|money| Amount(money.0)).map_err(usage),
        Unit::Tokens | Unit::InputTokens | Unit::OutputTokens | Unit::Requests => {
            text.parse().map(Amount).map_err(|_bad| usage(format!("{text:?} is no whole number")))
        }
    }
}

/// A window by its start: as JSON tells it, or as an instant.
fn start(text: &str) -> Result<WindowId, Failure> {
    let instant = || {
        let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        u64::try_from(at.unix_timestamp()).ok()?.checked_mul(1_000)
    };
    text.parse()
        .ok()
        .or_else(instant)
        .map(WindowId)
        .ok_or_else(|| usage(format!("{text:?} is no window; write its start, such as 2026-01-31T00:00:00Z")))
}
