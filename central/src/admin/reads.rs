//! What operators may look at.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use central_core::ledger::{LeaseRow, LedgerRow};
use central_core::{State as Replicated, files};

use super::{Answer, Shared, api};

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
    let rows = door.consensus.read(|state| state.ledger().check());
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
        open: row.open,
        limit: row.limit,
        granted: row.granted,
        returned: row.returned,
        receipts: row.receipts,
        crash: row.crash,
        settling: row.settling,
        outstanding: row.outstanding,
        orphaned: row.orphaned,
        overrun: row.overrun,
        left: row.left,
        balanced: row.balanced,
    }
}

pub(super) async fn leases(State(door): Shared) -> Answer<api::Leases> {
    door.consensus.read_index().await?;
    let rows = door.consensus.read(|state| state.ledger().leases().map(lease_row).collect());
    Ok(Json(api::Leases { rows }))
}

fn lease_row(row: LeaseRow) -> api::LeaseRow {
    api::LeaseRow {
        budget: row.name,
        unit: row.unit,
        window: row.window,
        edge: row.edge,
        incarnation: row.incarnation,
        lives: row.lives,
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
