//! How a member without a log begins: it founds the group with the others, joins one that waits for it, or refuses
//! because it is a member whose disk was lost. Such a member must not come back as itself: it promised to remember
//! what it acknowledged and whom it voted for.
//!
//! Until that is decided it answers no question of Raft.

use std::collections::BTreeMap;

use base::NodeId;
use wire::control::NodeAddr;

use super::protocol::{Known, LeaderAnswer, LeaderQuestion};
use super::types::Place;
use super::{Consensus, PAUSE};

/// Whether this member takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// It is not decided.
    Asks,
    /// It does.
    Takes,
    /// It must not; in words.
    Refuses(String),
}

/// What the answers so far mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ask,
    Found,
    Join,
    Refuse,
    Leave,
}

/// One member that knows of a group outweighs any number that do not; a group is founded when a majority of its first
/// members, this one included, knows of none.
fn judge(answers: &[Option<Known>], first_members: usize) -> Verdict {
    let count = |wanted: Known| answers.iter().filter(|answer| **answer == Some(wanted)).count();
    if count(Known::Left) > 0 {
        Verdict::Leave
    } else if count(Known::Lost) > 0 {
        Verdict::Refuse
    } else if count(Known::Newcomer) > 0 {
        Verdict::Join
    } else if (count(Known::NoGroup) + 1) * 2 > first_members {
        Verdict::Found
    } else {
        Verdict::Ask
    }
}

impl Consensus {
    /// What this member knows of `id`.
    pub(super) async fn known(&self, id: NodeId) -> Known {
        let (lost, named) = self.read(|state| {
            let registry = state.registry();
            (registry.joined.contains(&id), registry.members.contains_key(&id))
        });
        let member = named || self.standing().members.iter().any(|member| member.id == id);
        match self.raft().is_initialized().await {
            _any if lost && !member => Known::Left,
            _any if lost => Known::Lost,
            Ok(true) => Known::Newcomer,
            Ok(false) | Err(_) => Known::NoGroup,
        }
    }

    /// Decides, for a member without a log.
    pub(super) async fn decide_part(self) {
        let me = self.shared.options.id;
        let first = &self.shared.options.first_members;
        let verdict = loop {
            let mut answers = Vec::new();
            for (id, node) in first.iter().filter(|(id, _)| **id != me) {
                answers.push(self.ask_known(*id, node, me).await);
            }
            match judge(&answers, first.len()) {
                Verdict::Ask => self.host().sleep(PAUSE).await,
                decided => break decided,
            }
        };
        match verdict {
            Verdict::Refuse => self.refuse_part(),
            Verdict::Leave => self.leave(),
            Verdict::Found => self.found().await,
            Verdict::Join | Verdict::Ask => {
                self.shared.part.send_replace(Part::Takes);
            }
        }
    }

    pub(super) fn refuse_part(&self) {
        let why = format!(
            "member {} was seen to hold a log and has none: its disk was lost or wiped. Remove it from the group and \
             add this node as a member with a new number",
            self.shared.options.id
        );
        tracing::error!("{why}");
        self.shared.part.send_replace(Part::Refuses(why));
    }

    fn leave(&self) {
        let why = format!(
            "this node was removed from central, and member {} does not come back: to use the node again, empty its \
             data directory and add it as a member with a new number",
            self.shared.options.id
        );
        self.shared.part.send_replace(Part::Refuses(why));
    }

    /// Nobody tells a member that it was removed: the others no longer speak to it. One without a leader asks.
    pub(super) async fn ask_whether_removed(&self) {
        let standing = self.standing();
        if standing.leader.is_some() && !self.is_leaving() {
            return;
        }
        let others: Vec<_> = self.others();
        let asked = others.iter().map(|(id, node)| self.ask_known(*id, node, standing.id));
        if futures_util::future::join_all(asked).await.contains(&Some(Known::Left)) {
            self.leave();
        }
    }

    /// Members as far as is known, from the log and from the state: a removal may be the last thing that the log says.
    pub(super) fn others(&self) -> Vec<(NodeId, NodeAddr)> {
        let me = self.shared.options.id;
        let mut members = self.read(|state| state.registry().members.clone());
        members.extend(self.standing().members.into_iter().map(|member| (member.id, member.node)));
        members.into_iter().filter(|(id, _node)| *id != me).collect()
    }

    async fn ask_known(&self, id: NodeId, node: &NodeAddr, about: NodeId) -> Option<Known> {
        let within = self.shared.timing.append_deadline();
        match self.ask(id, node, LeaderQuestion::Known(about), within).await {
            Ok(LeaderAnswer::Known(known)) => Some(known),
            Ok(_other) => None,
            Err(_unreachable) => None,
        }
    }

    async fn found(&self) {
        self.shared.part.send_replace(Part::Takes);
        let members = self.shared.options.first_members.iter().map(|(id, node)| (id.0, Place(node.clone())));
        let members: BTreeMap<u64, Place> = members.collect();
        // It fails when another founder was faster, which is as good.
        if let Err(error) = self.raft().initialize(members).await {
            tracing::debug!(%error, "another member founded the group");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_founded_by_a_majority_and_a_lost_disk_is_never_overlooked() {
        let (none, newcomer, lost) = (Some(Known::NoGroup), Some(Known::Newcomer), Some(Known::Lost));
        assert_eq!(judge(&[], 1), Verdict::Found);
        assert_eq!(judge(&[None, None], 3), Verdict::Ask);
        assert_eq!(judge(&[none, None], 3), Verdict::Found);
        assert_eq!(judge(&[none, newcomer], 3), Verdict::Join);
        assert_eq!(judge(&[newcomer, lost], 3), Verdict::Refuse);
        assert_eq!(judge(&[none, Some(Known::Left)], 3), Verdict::Leave);
    }
}
