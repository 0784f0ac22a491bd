//! The healed mesh serves: a fresh call at every edge, a fresh write and a read of it (simulation.md §6.4 L3, L5).

use super::{Violation, violation};
use crate::evidence::Evidence;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let wrong = evidence.fresh.iter().filter_map(|(what, wrong)| Some((what, wrong.as_ref()?)));
    wrong.map(|(what, wrong)| violation("fresh", None, format!("{what}: {wrong}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::evidence;

    #[test]
    fn a_fresh_call_that_fails_is_found() {
        let mut evidence = evidence();
        evidence.fresh.push(("a call at edge-us".into(), Some("503".into())));
        assert_eq!(judge(&evidence)[0].what, "a call at edge-us: 503");
    }
}
