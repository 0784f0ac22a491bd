//! After load and faults, tasks and byte streams are back where they were, but for connections that stay open for reuse
//! (simulation.md §6.4 P1, L5). A leak of one per call or per reconnect is far above the slack.

use super::{Violation, violation};
use crate::evidence::Evidence;

/// Connections to peers and upstreams that stay open have some tasks each.
const TASKS: usize = 40;
/// The same for their streams, in the whole world.
const STREAMS: usize = 40;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (name, (before, after)) in &evidence.tasks {
        if *after > before + TASKS {
            found.push(violation("baseline", None, format!("{name} had {before} tasks and has {after}")));
        }
    }
    let (before, after) = evidence.streams;
    if after > before + STREAMS {
        found.push(violation("baseline", None, format!("{before} byte streams were open, now {after}")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::evidence;

    #[test]
    fn leaks_are_found() {
        let mut evidence = evidence();
        evidence.tasks.insert("edge-eu".into(), (50, 91));
        evidence.streams = (10, 51);
        assert_eq!(judge(&evidence).len(), 2);
    }
}
