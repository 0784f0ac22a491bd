//! `portolan leases lost` and `portolan ledger decisions`: what operators decide about credit.

use base::{Incarnation, Name};
use central::admin::api::{Action, Decided, DecidedRow, Decisions, Lost};

use super::status::{amount, utc, window};
use crate::admin::Admin;
use crate::failure::Outcome;
use crate::out;

pub(super) async fn lost(admin: &Admin, edge: &Name, asked: &Lost) -> Outcome {
    let decided: Decided = admin.post(&format!("/v1/edges/{edge}/lost"), asked).await?;
    told(&decided);
    Ok(())
}

pub(super) fn asked(reason: &str, refund: bool, life: Option<u32>, id: Option<String>) -> Lost {
    Lost { reason: reason.to_owned(), refund, life: life.map(Incarnation), id }
}

pub(super) async fn list(admin: &Admin, as_json: bool) -> Outcome {
    let decisions: Decisions = admin.get("/v1/decisions").await?;
    if as_json {
        return super::json(&decisions);
    }
    let mut table = out::Table::new(&["when", "by", "what", "budget", "window", "amount", "why", "id"]);
    for decided in &decisions.decisions {
        let what = what(decided);
        let start = [utc(decided.at.as_millis()), decided.by.clone(), what];
        let end = [decided.reason.clone(), decided.id.clone()];
        let nothing = ["nothing", "", ""].map(str::to_owned);
        let rows: Vec<_> = decided.rows.iter().map(account).collect();
        let rows = if rows.is_empty() { vec![nothing] } else { rows };
        for row in rows {
            table.row([start.as_slice(), &row, &end].concat());
        }
    }
    if table.is_empty() {
        out::line("nothing was decided yet");
    } else {
        out::raw(&table.text(0));
    }
    Ok(())
}

/// Tells what a decision came to.
pub(super) fn told(decided: &Decided) {
    out::line(format_args!("{} (decision {})", what(decided), decided.id));
    if decided.rows.is_empty() {
        out::line("no account changed");
    }
    for row in &decided.rows {
        let [budget, window, amount] = account(row);
        out::line(format_args!("  {amount} of {budget}, {window}"));
    }
}

fn what(decided: &Decided) -> String {
    let edge = decided.edge.as_ref().map(Name::as_str).unwrap_or_default();
    match decided.action {
        Action::WriteOff => format!("{edge} is lost: written off"),
        Action::Refund => format!("{edge} is lost: refunded"),
        Action::Charge => "charged".to_owned(),
        Action::Credit => "credited".to_owned(),
    }
}

fn account(row: &DecidedRow) -> [String; 3] {
    let whose = row.user.as_ref().map(|user| format!(", user {user}")).unwrap_or_default();
    [format!("{}{whose}", row.budget), window(row.window), amount(row.unit, row.amount.0.into())]
}
