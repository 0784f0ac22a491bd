//! Reading all accounts of the ledger, of which budgets with an account for each end user may have a million, without
//! holding up the log: a few at a time. Each account is read whole.

use central_core::ledger::{Check, LeaseRow, LedgerRow, Listing};

use crate::consensus::Consensus;

/// Accounts read under one lock: some hundred microseconds.
const AT_ONCE: usize = 1_000;

/// Every budget's windows that are kept, oldest first.
pub(crate) async fn rows(consensus: &Consensus) -> Vec<LedgerRow> {
    let mut check = Check::default();
    while !consensus.read(|state| state.ledger().check_on(&mut check, AT_ONCE)) {
        tokio::task::yield_now().await;
    }
    check.rows()
}

/// All credit that is out, and who asks for some.
pub(crate) async fn leases(consensus: &Consensus) -> Vec<LeaseRow> {
    let mut listing = Listing::default();
    while !consensus.read(|state| state.ledger().list_on(&mut listing, AT_ONCE)) {
        tokio::task::yield_now().await;
    }
    listing.rows
}
