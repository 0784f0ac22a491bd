//! What central acknowledged is never lost, and no read is older than what was acknowledged before it began
//! (simulation.md §6.4 R2; issue 3 §4). A write without an answer may be in force or not; a refused one never is.

use std::collections::BTreeSet;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::WriteOutcome;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let writes = &evidence.history.writes;
    let acked = writes.iter().filter_map(|write| match write.outcome {
        WriteOutcome::Acked(epoch) => Some((write, epoch)),
        WriteOutcome::Refused(_) | WriteOutcome::Unknown(_) => None,
    });
    let acked: Vec<_> = acked.collect();
    let refused: BTreeSet<u64> = writes
        .iter()
        .filter(|write| matches!(write.outcome, WriteOutcome::Refused(_)))
        .map(|write| write.serial)
        .collect();
    let mut found = Vec::new();
    for read in &evidence.history.reads {
        let before = acked.iter().filter(|(write, _)| write.ended.is_some_and(|ended| ended <= read.started));
        for (write, epoch) in before {
            if read.epoch < *epoch || !read.serials.contains(&write.serial) {
                let (serial, node) = (write.serial, &read.node);
                let what = format!(
                    "{node} read epoch {} without serial {serial}, acknowledged as epoch {epoch}",
                    read.epoch
                );
                found.push(violation("acknowledged", Some(read.ended), what));
            }
        }
        for serial in read.serials.intersection(&refused) {
            let what = format!("{} read serial {serial}, which was refused", read.node);
            found.push(violation("acknowledged", Some(read.ended), what));
        }
        for serial in read.serials.iter().filter(|serial| **serial >= writes.len() as u64) {
            let what = format!("{} read serial {serial}, which nobody wrote", read.node);
            found.push(violation("acknowledged", Some(read.ended), what));
        }
    }
    if let Some(serials) = &evidence.serials {
        let lost = acked.iter().filter(|(write, _)| !serials.contains(&write.serial));
        found.extend(lost.map(|(write, epoch)| {
            let what = format!("serial {}, acknowledged as epoch {epoch}, is lost at the end", write.serial);
            violation("acknowledged", None, what)
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::evidence;

    #[test]
    fn a_lost_write_and_a_read_from_the_past_are_found() {
        let mut lost = evidence();
        lost.serials = Some(BTreeSet::new());
        assert!(judge(&lost)[0].what.contains("lost"));
        let mut old = evidence();
        old.history.reads[0].epoch = 1;
        assert!(judge(&old)[0].what.contains("read epoch 1"));
    }

    #[test]
    fn a_refused_write_in_force_is_found_and_an_unknown_one_may_be() {
        let mut spoiled = evidence();
        spoiled.history.writes[0].outcome = WriteOutcome::Unknown(String::new());
        assert_eq!(judge(&spoiled), []);
        spoiled.history.writes[0].outcome = WriteOutcome::Refused(String::new());
        assert!(judge(&spoiled)[0].what.contains("refused"));
    }
}
