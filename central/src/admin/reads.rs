//! What operators may look at.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use base::{Amount, BudgetId, WindowId};
use central_core::ledger::{LeaseRow, Ledger, LedgerRow};
use central_core::{State as Replicated, files};

use wire::catalog::Budget;

use super::{Answer, Shared, api};
use crate::{books, status};

pub(super) async fn status(State(door): Shared) -> Json<api::Status> {
    Json(door.overview.status().await)
}

pub(super) async fn catalog(State(door): Shared) -> Answer<api::Catalog> {
    door.consensus.read_index().await?;
    let (catalog, credentials) =
        door.consensus.read(|state| (state.shared_catalog(), state.credentials().keys().cloned().collect()));
    Ok(Json(api::Catalog { epoch: catalog.epoch, catalog: files::export(&catalog), credentials }))
}

pub(super) async fn epochs(State(door): Shared) -> Answer<Vec<api::EpochRow>> {
    door.consensus.read_index().await?;
    let rows = door.consensus.read(|state: &Replicated| {
        let records = state.history().records().rev();
        records
            .map(|record| api::EpochRow {
                epoch: record.epoch,
                at: record.at,
                by: record.by.clone(),
                note: record.note.clone(),
                changes: record.forward.len(),
            })
            .collect()
    });
    Ok(Json(rows))
}

pub(super) async fn ledger(State(door): Shared) -> Answer<api::Ledger> {
    door.consensus.read_index().await?;
    let rows = books::rows(&door.consensus).await;
    Ok(Json(api::Ledger {
        balanced: rows.iter().all(|row| row.balanced),
        rows: rows.into_iter().map(ledger_row).collect(),
    }))
}

fn ledger_row(row: LedgerRow) -> api::LedgerRow {
    api::LedgerRow {
        id: row.budget,
        budget: row.name,
        unit: row.unit,
        window: row.window,
        accounts: row.accounts,
        open: row.open,
        limit: row.limit,
        granted: row.granted,
        returned: row.returned,
        receipts: row.receipts,
        crash: row.crash,
        settling: row.settling,
        outstanding: row.outstanding,
        orphaned: row.orphaned,
        written_off: row.written_off,
        overrun: row.overrun,
        corrected: row.corrected,
        left: row.left,
        balanced: row.balanced,
    }
}

pub(super) async fn budgets(State(door): Shared) -> Answer<api::Budgets> {
    door.consensus.read_index().await?;
    let rows = books::rows(&door.consensus).await.into_iter();
    let open: BTreeMap<_, _> = rows.filter(|row| row.open).map(|row| (row.budget, row)).collect();
    let mut holders: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for lease in books::leases(&door.consensus).await {
        if lease.granted > lease.returned {
            let of: &mut Vec<api::BudgetHolder> = holders.entry((lease.budget, lease.window)).or_default();
            add(of, holder(lease));
        }
    }
    let budgets = door.consensus.read(|state| {
        let ledger = state.ledger();
        let account = |budget: &Budget| {
            let row = open.get(&budget.id);
            let since = row.map_or_else(|| budget.window_at(ledger.now()), |row| row.window);
            account(budget, since, row, holders.remove(&(budget.id, since)).unwrap_or_default())
        };
        state.catalog().budgets.values().map(account).collect()
    });
    Ok(Json(api::Budgets { budgets }))
}

/// One account of a budget: its own, or an end user's.
pub(super) fn standing(ledger: &Ledger, budget: &Budget, account_id: BudgetId) -> api::BudgetAccount {
    let row = ledger.standing(account_id);
    let since = row.as_ref().map_or_else(|| budget.window_at(ledger.now()), |row| row.window);
    let is_open = |lease: &LeaseRow| lease.window == since && lease.granted > lease.returned;
    let holders = ledger.leases_of(account_id).filter(is_open).map(holder).collect();
    api::BudgetAccount { accounts: 1, ..account(budget, since, row.as_ref(), holders) }
}

fn account(
    budget: &Budget,
    since: WindowId,
    row: Option<&LedgerRow>,
    holders: Vec<api::BudgetHolder>,
) -> api::BudgetAccount {
    let of = |part: fn(&LedgerRow) -> Amount| row.map(part).unwrap_or_default();
    let untouched = if budget.is_each_users() { Amount::ZERO } else { budget.limit };
    api::BudgetAccount {
        budget: budget.name.clone(),
        scope: status::scope(&budget.scope),
        unit: budget.unit,
        window: budget.window,
        since,
        until: budget.window_end(since),
        accounts: row.map_or_else(|| u64::from(!budget.is_each_users()), |row| row.accounts),
        limit: budget.limit,
        spent: of(|row| row.spent),
        held: of(|row| row.outstanding.saturating_add(row.orphaned)),
        // A window that nobody asked for yet has all of its limit.
        remaining: row.map_or(untouched, |row| row.left),
        debt: of(|row| row.overrun),
        written_off: of(|row| row.written_off),
        corrected: row.map(|row| row.corrected).unwrap_or_default(),
        holders,
    }
}

/// Adds what a life holds; of each user's accounts, all together.
fn add(holders: &mut Vec<api::BudgetHolder>, more: api::BudgetHolder) {
    match holders.iter_mut().find(|known| (&known.edge, known.life) == (&more.edge, more.life)) {
        Some(known) => {
            known.granted = known.granted.saturating_add(more.granted);
            known.held = known.held.saturating_add(more.held);
        }
        None => holders.push(more),
    }
}

fn holder(lease: LeaseRow) -> api::BudgetHolder {
    api::BudgetHolder {
        edge: lease.edge,
        life: lease.incarnation,
        granted: lease.granted.saturating_sub(lease.returned),
        held: if lease.lost { Amount::ZERO } else { lease.unspent },
        lives: lease.lives,
    }
}

pub(super) async fn leases(State(door): Shared) -> Answer<api::Leases> {
    door.consensus.read_index().await?;
    let rows = books::leases(&door.consensus).await.into_iter().map(lease_row).collect();
    Ok(Json(api::Leases { rows }))
}

fn lease_row(row: LeaseRow) -> api::LeaseRow {
    api::LeaseRow {
        budget: row.name,
        unit: row.unit,
        user: (row.user != 0).then(|| format!("{:016x}", row.user)),
        window: row.window,
        edge: row.edge,
        incarnation: row.incarnation,
        lives: row.lives,
        lost: row.lost,
        refunded: row.refunded,
        granted: row.granted,
        spent: row.spent,
        returned: row.returned,
        unspent: row.unspent,
        want: row.want,
        waiting: row.waiting,
        heard: row.heard,
    }
}

pub(super) async fn metrics(State(door): Shared, headers: http::HeaderMap) -> Response {
    std::future::ready(crate::node::exposition(&door.metrics, &headers)).await
}
