//! The books balance whenever they are seen: granted less returned is settled, charged, on its way or outstanding; and at
//! the end nothing is on its way any more (design.md §4; simulation.md §6.4 L4).

use super::{Violation, violation};
use crate::evidence::Evidence;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, ledger) in &evidence.history.ledgers {
        if !ledger.balanced || ledger.rows.iter().any(|row| !row.balanced) {
            found.push(violation("balanced", Some(*at), format!("the books do not balance: {ledger:?}")));
        }
    }
    match &evidence.ledger {
        None => found.push(violation("balanced", None, "nobody told the books at the end")),
        Some(ledger) => {
            if !ledger.balanced {
                found.push(violation("balanced", None, format!("the books do not balance: {ledger:?}")));
            }
            for row in ledger.rows.iter().filter(|row| row.settling.0 > 0 || row.orphaned.0 > 0) {
                found.push(violation("balanced", None, format!("something is still on its way: {row:?}")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use base::Amount;

    use super::*;
    use crate::invariants::samples::evidence;

    #[test]
    fn books_that_do_not_balance_or_settle_are_found() {
        let mut unbalanced = evidence();
        unbalanced.ledger.as_mut().unwrap().balanced = false;
        assert_eq!(judge(&unbalanced).len(), 1);
        let mut unsettled = evidence();
        unsettled.ledger.as_mut().unwrap().rows[0].settling = Amount(1);
        assert_eq!(judge(&unsettled).len(), 1);
        assert_eq!(judge(&Evidence { ledger: None, ..evidence() }).len(), 1);
    }
}
