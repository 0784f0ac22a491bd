//! After load and faults, tasks and byte streams are back where they were, but for connections that stay open for reuse
//! (simulation.md §6.4 P1, L5): some to peers, and from each node to each model server as many as it once had requests
//! there at the same time, which it keeps for a while. A leak of one per call or per reconnect is far above the slack.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Mono;

use super::{Violation, violation};
use crate::evidence::Evidence;

/// Connections to peers and upstreams that stay open have some tasks each.
const TASKS: usize = 40;
/// The same for their streams, in the whole world.
const STREAMS: usize = 40;
/// A connection is a request's before the server has it, and some time after it was answered: on a busy machine, for real.
const AROUND: Duration = Duration::from_millis(500);

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let kept = at_once(evidence);
    for (name, (before, after)) in &evidence.tasks {
        if *after > before + TASKS + kept {
            found.push(violation("baseline", None, format!("{name} had {before} tasks and has {after}")));
        }
    }
    let (before, after) = evidence.streams;
    if after > before + STREAMS + kept {
        found.push(violation("baseline", None, format!("{before} byte streams were open, now {after}")));
    }
    found
}

/// The most requests for which each node had connections to each model server at the same time, of all together.
fn at_once(evidence: &Evidence) -> usize {
    let mut changes: BTreeMap<_, Vec<(Mono, bool)>> = BTreeMap::new();
    for served in &evidence.history.served {
        let of = changes.entry((&served.server, &served.by)).or_default();
        of.push((served.asked, true));
        of.extend(served.ended.map(|ended| (ended + AROUND * 2, false)));
    }
    let most = |mut changes: Vec<(Mono, bool)>| {
        changes.sort_unstable();
        let mut open = 0_usize;
        let open = changes.into_iter().map(|(_at, is_new)| {
            open = if is_new { open + 1 } else { open.saturating_sub(1) };
            open
        });
        open.max().unwrap_or(0)
    };
    changes.into_values().map(most).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{evidence, served};

    #[test]
    fn leaks_are_found() {
        let mut evidence = evidence();
        evidence.tasks.insert("edge-eu".into(), (50, 92));
        evidence.streams = (10, 52);
        assert_eq!(judge(&evidence).len(), 2);
        // A second request at the same time may leave a connection behind.
        evidence.history.served.push(served());
        assert_eq!(judge(&evidence), []);
    }
}
