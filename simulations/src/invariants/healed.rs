//! When all faults are over, the mesh is whole again within the scenario's time: one leader that all central nodes know,
//! every edge attached with the last configuration (simulation.md §6.4 L1, L2).

use super::{Violation, violation};
use crate::evidence::Evidence;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let most = evidence.facts.converge_within;
    match evidence.converged {
        Some(took) if took <= most => Vec::new(),
        Some(took) => {
            vec![violation("healed", None, format!("whole again after {took:?}, at most {most:?}"))]
        }
        None => {
            let last: Vec<_> = evidence.history.observations.iter().rev().take(3).collect();
            vec![violation("healed", None, format!("never whole again; last seen: {last:?}"))]
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::invariants::samples::evidence;

    #[test]
    fn a_mesh_that_heals_late_or_never_is_found() {
        for converged in [None, Some(Duration::from_secs(11))] {
            let evidence = Evidence { converged, ..evidence() };
            assert_eq!(judge(&evidence).len(), 1, "{converged:?}");
        }
    }
}
