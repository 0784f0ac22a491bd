//! `portolan usage`: calls, tokens and cost, by who made them and of which model.

use base::Unit;
use central::admin::api::UsageRow;

use super::status::amount;
use crate::admin::Admin;
use crate::failure::Outcome;
use crate::out;

/// In place of the model on rows of credit that was charged for a crash.
const CRASH: &str = "(crash charges)";

pub(super) async fn show(admin: &Admin, as_json: bool) -> Outcome {
    let rows: Vec<UsageRow> = admin.get("/v1/usage").await?;
    if as_json {
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
            amount(Unit::NanoUsd, row.cost.0.into()),
        ]);
    }
    if table.is_empty() {
        out::line("nothing was used yet");
    } else {
        out::raw(&table.text(0));
    }
    Ok(())
}
