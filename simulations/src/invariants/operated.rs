//! A member of central that was lost for good is replaced once a majority can decide that (docs/commands.md "Changing
//! central's members"): by the time that the healed mesh has served on, its successor has its vote. So is the level of
//! messages raised that every central node knows.

use super::{Violation, violation};
use crate::evidence::Evidence;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    ["replace", "raise_level"].into_iter().filter_map(|what| undone(evidence, what)).collect()
}

fn undone(evidence: &Evidence, what: &str) -> Option<Violation> {
    let asked = evidence.history.struck.iter().filter(|struck| struck.what == what);
    let asked: usize = asked.map(|struck| struck.machines.len()).sum();
    let ends: Vec<_> = evidence.history.operated.iter().filter(|done| done.what == what).collect();
    let done = ends.iter().filter(|done| done.failed.is_none()).count();
    (done < asked)
        .then(|| violation("operated", None, format!("{what}: {asked} asked for, {done} done: {ends:?}")))
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
