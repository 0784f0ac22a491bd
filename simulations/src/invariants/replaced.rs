//! A member of central that was lost for good is replaced once a majority can decide that (docs/commands.md "Changing
//! central's members"): by the time that the healed mesh has served on, its successor has its vote.

use super::{Violation, violation};
use crate::evidence::Evidence;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let lost = evidence.history.struck.iter().filter(|struck| struck.what == "replace");
    let lost: usize = lost.map(|struck| struck.machines.len()).sum();
    let ends: Vec<_> = evidence.history.operated.iter().filter(|done| done.what == "replace").collect();
    let done = ends.iter().filter(|done| done.failed.is_none()).count();
    if done < lost {
        vec![violation("replaced", None, format!("{lost} members were lost, {done} were replaced: {ends:?}"))]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Operated;
    use crate::invariants::samples::{at, evidence, struck};

    #[test]
    fn a_lost_member_without_a_successor_is_found() {
        let mut evidence = evidence();
        evidence.history.struck.push(struck("replace", "central-eu", 1_000));
        assert_eq!(judge(&evidence).len(), 1);
        let (machine, failed) = ("central-eu-2".to_owned(), None);
        evidence.history.operated.push(Operated { at: at(2_000), what: "replace", machine, failed });
        assert_eq!(judge(&evidence), []);
    }
}
