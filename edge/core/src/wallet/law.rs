//! The law of budgets, checked by an auditor that knows nothing of the ledger: wallets and the ledger run over a network
//! that loses, repeats and reorders, with crashes (with and without the disk), restarts without central, windows that
//! roll, clocks that step back and limits that change. Five planted faults must each be found by the auditor alone.

mod auditor;
mod node;
mod world;

use world::{Fault, World};

const STEPS: u32 = 600;

#[test]
fn no_budget_is_overspent_whatever_fails() {
    for seed in 0..1_000 {
        World::new(seed, None).run(STEPS).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
}

#[test]
fn the_auditor_finds_credit_reclaimed_at_expiry() {
    assert_found(Fault::ReclaimAtExpiry);
}

#[test]
fn the_auditor_finds_grants_sent_as_deltas() {
    assert_found(Fault::DeltaGrants);
}

#[test]
fn the_auditor_finds_returns_reported_before_they_are_durable() {
    assert_found(Fault::ReturnNotDurable);
}

#[test]
fn the_auditor_finds_spending_beyond_the_durable_ceiling() {
    assert_found(Fault::IgnoreCeiling);
}

#[test]
fn the_auditor_finds_grants_sent_before_they_are_committed() {
    assert_found(Fault::GrantBeforeCommit);
}

fn assert_found(fault: Fault) {
    let found = (0..1_000).find_map(|seed| World::new(seed, Some(fault)).run(2 * STEPS).err());
    let found = found.unwrap_or_else(|| panic!("{fault:?} went unnoticed"));
    assert!(found.starts_with("overspent"), "{fault:?} was found otherwise: {found}");
}
