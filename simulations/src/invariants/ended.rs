//! No node ends by itself, unless its disk failed: then it must, and says so (design.md §5 "the node says what it cannot
//! do").

use super::{Violation, violation};
use crate::evidence::Evidence;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for ended in &evidence.ended {
        let name = ended.split(':').next().unwrap_or_default();
        if evidence.struck(name, &["disk"]).next().is_none() {
            found.push(violation("ended", None, ended.clone()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{evidence, struck};

    #[test]
    fn a_node_that_gives_up_is_found_unless_its_disk_failed() {
        let mut evidence = evidence();
        evidence.ended.push("central-eu: gave up".into());
        assert_eq!(judge(&evidence).len(), 1);
        evidence.history.struck.push(struck("disk", "central-eu", 1));
        assert_eq!(judge(&evidence), []);
    }
}
