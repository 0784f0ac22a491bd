//! `portolan ledger check`: for each budget and window, what was granted and not returned against where it went.

use base::{Amount, Unit};
use central::admin::api::{Ledger, LedgerRow};
use serde_json::{Value, json};

use super::status::{amount, window};
use crate::admin::Admin;
use crate::failure::{Exit, Failure, Outcome};
use crate::out;

pub(super) async fn check(admin: &Admin, as_json: bool) -> Outcome {
    let ledger: Ledger = admin.get("/v1/ledger").await?;
    if as_json {
        let rows: Vec<_> = ledger.rows.iter().map(row).collect();
        super::json(&json!({ "balanced": ledger.balanced, "rows": rows }))?;
    } else {
        show(&ledger);
    }
    if ledger.balanced {
        return Ok(());
    }
    let what = "the ledger does not balance: granted − returned ≠ receipts + crash charges + settling + at edges + written off";
    Err(Failure::new(Exit::Unsound, what).mend("keep the logs of every central node and report it"))
}

fn show(ledger: &Ledger) {
    let heading = [
        "budget",
        "window",
        "limit",
        "granted",
        "returned",
        "receipts",
        "crash",
        "settling",
        "at edges",
        "orphaned",
        "written off",
        "overrun",
        "corrected",
        "left",
        "",
    ];
    let mut table = out::Table::new(&heading);
    for row in &ledger.rows {
        let of = |value: Amount| amount(row.unit, value.0.into());
        table.row(vec![
            row.budget.to_string(),
            window(row.window),
            of(row.limit),
            amount(row.unit, row.granted),
            amount(row.unit, row.returned),
            of(row.receipts),
            of(row.crash),
            of(row.settling),
            of(row.outstanding),
            of(row.orphaned),
            of(row.written_off),
            of(row.overrun),
            signed(row.unit, row.corrected),
            of(row.left),
            if row.balanced { "balances" } else { "DOES NOT BALANCE" }.to_owned(),
        ]);
    }
    if table.is_empty() {
        return out::line("nothing was granted from any budget yet");
    }
    out::raw(&table.text(0));
}

fn signed(unit: Unit, value: i128) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", amount(unit, value.unsigned_abs()))
}

fn row(row: &LedgerRow) -> Value {
    json!({
        "id": row.id,
        "name": row.budget,
        "unit": row.unit,
        "window": row.window,
        "open": row.open,
        "limit": row.limit,
        "granted": row.granted,
        "returned": row.returned,
        "receipts": row.receipts,
        "crash": row.crash,
        "settling": row.settling,
        "at_edges": row.outstanding,
        "orphaned": row.orphaned,
        "written_off": row.written_off,
        "overrun": row.overrun,
        "corrected": row.corrected,
        "left": row.left,
        "balanced": row.balanced,
    })
}
