//! `portolan leases`: which edge holds how much of which budget.

use base::Amount;
use central::admin::api::{LeaseRow, Leases};

use super::status::{amount, window};
use crate::admin::Admin;
use crate::args;
use crate::failure::Outcome;
use crate::out;

pub(super) async fn leases(admin: &Admin, asked: &args::Leases) -> Outcome {
    let mut leases: Leases = admin.get("/v1/leases").await?;
    leases.rows.retain(|row| {
        asked.budget.as_ref().is_none_or(|name| row.budget.as_str() == name)
            && asked.edge.as_ref().is_none_or(|name| row.edge.as_str() == name)
            && (asked.all || row.unspent > Amount::ZERO || row.waiting > Amount::ZERO)
    });
    if asked.report.json {
        return super::json(&leases);
    }
    let heading = [
        "budget",
        "window",
        "edge",
        "life",
        "granted",
        "spent",
        "returned",
        "at the edge",
        "wants",
        "waiting",
        "",
    ];
    let mut table = out::Table::new(&heading);
    for row in &leases.rows {
        table.row(cells(row));
    }
    if table.is_empty() {
        out::line("no edge holds credit, and none waits for some");
    } else {
        out::raw(&table.text(0));
    }
    Ok(())
}

fn cells(row: &LeaseRow) -> Vec<String> {
    let of = |value: Amount| amount(row.unit, value.0.into());
    vec![
        match &row.user {
            Some(user) => format!("{} of user {user}", row.budget),
            None => row.budget.to_string(),
        },
        window(row.window),
        row.edge.to_string(),
        row.incarnation.to_string(),
        of(row.granted),
        of(row.spent),
        of(row.returned),
        of(row.unspent),
        of(row.want),
        of(row.waiting),
        standing(row).to_owned(),
    ]
}

const fn standing(row: &LeaseRow) -> &'static str {
    match (row.lives, row.lost, row.refunded.0 > 0) {
        (true, _, _) => "",
        (false, true, false) => "lost, written off",
        (false, true, true) => "lost, refunded",
        (false, false, _) => "ended without a last word",
    }
}
