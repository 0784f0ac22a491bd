use stateright::{Checker, HasDiscoveries, Model};

use super::world::{Broken, NO_OVERSPENDING, NOTHING_STRANDED, Protocol};

/// Two units, and one crash, which may empty a disk.
const SHARED: Protocol =
    Protocol { broken: None, limit: 2, crashes: 1, disk_losses: 1, granted: 2, messages: 2, rows: 1 };
/// One unit, and two crashes, one of which may empty a disk.
const CRASHING: Protocol = Protocol { limit: 1, crashes: 2, ..SHARED };

/// Two units, no crash, and whole conversations: asks, rows that want nothing, and asks again.
const TALKING: Protocol = Protocol { crashes: 0, disk_losses: 0, messages: 3, rows: 3, ..SHARED };

#[test]
fn credit_that_is_shared_is_not_overspent_and_comes_back() {
    holds(SHARED, 675_402);
}

#[test]
fn crashes_overspend_nothing_and_strand_nothing() {
    holds(CRASHING, 800_306);
}

#[test]
fn whatever_is_asked_and_lost_in_a_session_comes_back() {
    holds(TALKING, 215_096);
}

#[test]
fn reclaiming_at_expiry_spends_what_was_spent_but_not_told() {
    fails(Protocol { broken: Some(Broken::ReclaimAtExpiry), crashes: 0, ..CRASHING }, NO_OVERSPENDING);
}

#[test]
fn grants_that_are_summed_count_twice_when_repeated() {
    fails(Protocol { broken: Some(Broken::GrantsSummed), crashes: 0, ..CRASHING }, NO_OVERSPENDING);
}

#[test]
fn a_return_told_before_it_is_durable_is_spent_again_after_a_crash() {
    fails(Protocol { broken: Some(Broken::ReturnTooEarly), crashes: 1, ..CRASHING }, NO_OVERSPENDING);
}

#[test]
fn holds_beyond_the_durable_ceiling_are_forgotten_in_a_crash() {
    fails(Protocol { broken: Some(Broken::CeilingIgnored), crashes: 1, ..CRASHING }, NO_OVERSPENDING);
}

#[test]
fn a_grant_sent_before_its_entry_commits_is_granted_to_another_too() {
    let broken = Some(Broken::GrantBeforeCommit);
    fails(Protocol { broken, crashes: 0, messages: 3, ..CRASHING }, NO_OVERSPENDING);
}

#[test]
fn a_last_word_sent_before_the_end_is_durable_is_not_the_last() {
    fails(Protocol { broken: Some(Broken::LastWordTooEarly), ..CRASHING }, NO_OVERSPENDING);
}

#[test]
fn an_edge_that_does_not_ask_again_strands_what_it_never_heard_of() {
    fails(Protocol { broken: Some(Broken::SilentWhenIdle), crashes: 0, ..CRASHING }, NOTHING_STRANDED);
}

#[test]
fn an_answer_to_an_earlier_row_taken_for_the_last_strands_what_the_last_brought() {
    let broken = Some(Broken::AnswersUnnumbered);
    fails(Protocol { broken, limit: 1, ..TALKING }, NOTHING_STRANDED);
}

#[test]
fn an_ask_that_counts_though_a_later_row_asked_for_nothing_strands_what_it_brings() {
    let broken = Some(Broken::LateAsksCount);
    fails(Protocol { broken, limit: 1, messages: 4, ..TALKING }, NOTHING_STRANDED);
}

#[test]
fn credit_of_a_life_that_the_journal_does_not_know_never_comes_back() {
    fails(Protocol { broken: Some(Broken::LifeNotNoted), crashes: 1, ..CRASHING }, NOTHING_STRANDED);
}

fn holds(protocol: Protocol, states: usize) {
    let checker = protocol.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    assert_eq!(
        checker.unique_state_count(),
        states,
        "the package's documentation says how many states there are"
    );
}

fn fails(protocol: Protocol, property: &'static str) {
    let found = HasDiscoveries::AnyOf([property].into());
    protocol.checker().finish_when(found).spawn_bfs().join().assert_any_discovery(property);
}
