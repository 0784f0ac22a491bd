//! When no call is in progress any more, all credit comes back: a hold that stays behind keeps it from everybody else
//! (design.md §4 "surplus returns by itself"; simulation.md §6.4 L4, L5). Edges that no heal reaches keep theirs.

use super::{Violation, violation};
use crate::evidence::Evidence;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    if !evidence.facts.broken.is_empty() {
        return Vec::new();
    }
    let rows = evidence.ledger.iter().flat_map(|ledger| &ledger.rows);
    let left = rows.filter(|row| row.outstanding.0 > 0);
    left.map(|row| violation("held", None, format!("credit that nobody uses did not come back: {row:?}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use base::Amount;

    use super::*;
    use crate::invariants::samples::evidence;

    #[test]
    fn credit_that_stays_out_is_found() {
        let mut evidence = evidence();
        evidence.ledger.as_mut().unwrap().rows[0].outstanding = Amount(1);
        assert_eq!(judge(&evidence).len(), 1);
        evidence.facts.broken.insert("edge-eu".into());
        assert_eq!(judge(&evidence), []);
    }
}
