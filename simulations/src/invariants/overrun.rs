//! No call costs more than was held for it: model servers here never tell more than the bound that a hold rests on, so
//! that an overrun is credit that nobody had (design.md §4: "a hold is an upper bound"; "overruns are counted apart").

use super::{Violation, violation};
use crate::evidence::Evidence;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let at_the_end = evidence.ledger.iter().map(|ledger| (None, ledger));
    let seen = evidence.history.ledgers.iter().map(|(at, ledger)| (Some(*at), ledger));
    let rows = seen.chain(at_the_end).flat_map(|(at, ledger)| ledger.rows.iter().map(move |row| (at, row)));
    let is_soft = |name: &str| evidence.level(name).is_some_and(|level| level.soft);
    let over = rows.filter(|(_at, row)| row.overrun.0 > 0 && !is_soft(row.budget.as_str()));
    over.map(|(at, row)| violation("overrun", at, format!("spent without credit: {row:?}"))).take(1).collect()
}

#[cfg(test)]
mod tests {
    use base::Amount;

    use super::*;
    use crate::invariants::samples::evidence;

    #[test]
    fn what_is_spent_without_credit_is_found() {
        let mut evidence = evidence();
        evidence.ledger.as_mut().unwrap().rows[0].overrun = Amount(1);
        assert_eq!(judge(&evidence).len(), 1);
    }
}
