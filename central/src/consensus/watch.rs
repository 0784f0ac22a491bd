//! What a member watches over by itself: that the state names the members the log has, that a leader whose disk is full
//! hands over, and that a stopped member is noticed.

use std::collections::BTreeSet;
use std::time::Duration;

use base::{NodeId, Revision};
use openraft::async_runtime::WatchReceiver as _;

use central_core::Command;

use super::first::Part;
use super::machine::revision;
use super::{Consensus, StorageState};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);

pub(super) fn start(member: &Consensus) {
    let (names, looks) = (member.clone(), member.clone());
    drop(member.host().spawn("raft-end", member.clone().await_end()));
    drop(member.host().spawn("raft-members", async move { names.keep_names().await }));
    drop(member.host().spawn("raft-looks", async move { looks.keep_looking().await }));
    drop(member.host().spawn("raft-links", member.clone().keep_links()));
    drop(member.host().spawn("raft-walls", member.clone().keep_walls()));
    drop(member.host().spawn("raft-elect", member.clone().stand_when_due()));
}

impl Consensus {
    /// Waits until this member stops by itself, and says why: a failed disk, an entry of a newer build, a fault.
    pub async fn stopped(&self) -> String {
        let mut end = self.shared.end.subscribe();
        match end.wait_for(Option::is_some).await.map(|why| why.clone()) {
            Ok(Some(why)) => why,
            Ok(None) | Err(_) => "the consensus ended".to_owned(),
        }
    }

    /// Tells the end to all who wait for it, who would else wake at every change of the metrics.
    async fn await_end(self) {
        let why = self.end_seen().await;
        self.shared.end.send_replace(Some(why));
    }

    async fn end_seen(&self) -> String {
        // The server's metrics end with it and change seldom; the others, which hold its fault, change with every entry.
        let (metrics, mut server) = (self.raft().metrics(), self.raft().server_metrics());
        let mut storage = self.storage();
        let mut part = self.shared.part.subscribe();
        loop {
            if let StorageState::Failed(why) = &*storage.borrow_and_update() {
                return why.clone();
            }
            if let Part::Refuses(why) = &*part.borrow_and_update() {
                return why.clone();
            }
            let fault = || metrics.borrow_watched().running_state.as_ref().err().map(ToString::to_string);
            if let Some(fault) = fault() {
                return fault;
            }
            let changed = async {
                tokio::select! {
                    biased;
                    changed = storage.changed() => changed.is_ok(),
                    changed = part.changed() => changed.is_ok(),
                    changed = server.changed() => changed.is_ok(),
                }
            };
            if !changed.await {
                return fault().unwrap_or_else(|| "the consensus ended".to_owned());
            }
        }
    }

    /// While this node leads, the state knows the members that the log has, and who of them was seen to hold a log.
    async fn keep_names(&self) {
        let (mut metrics, mut server) = (self.raft().metrics(), self.raft().server_metrics());
        let mut led = None;
        // All metrics change with every entry; the server's alone, which do not say who holds a log, once nothing is left to tell.
        while if self.leads() && !self.is_told() { metrics.changed().await } else { server.changed().await }
            .is_ok()
        {
            let term = self.leads().then(|| metrics.borrow_watched().current_term);
            if term != led
                && let Some(term) = term
            {
                tracing::info!(term, "this member leads");
            }
            led = term;
            if !self.leads() || self.is_named() {
                continue;
            }
            let members = self.standing().members;
            let nodes = members.iter().map(|member| (member.id, member.node.clone())).collect();
            let holding = members.iter().filter(|member| member.matched > Some(Revision(0)));
            let joined: BTreeSet<NodeId> = holding.map(|member| member.id).collect();
            let (named, known) = self.read(|state| {
                let registry = state.registry();
                (registry.members == nodes, registry.joined.is_superset(&joined))
            });
            // Tried again at the next change when it fails, by whoever leads then.
            if !named {
                drop(self.propose_here(Command::SetMembers(nodes), self.patience()).await);
            }
            if !known {
                drop(self.propose_here(Command::Joined(joined), self.patience()).await);
            }
        }
    }

    /// Whether nothing is left to tell the state until the members change: it knows of each that it holds a log, too.
    fn is_told(&self) -> bool {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let mut members = metrics.membership_config.membership().nodes();
        self.is_named()
            && self.read(|state| members.all(|(id, _place)| state.registry().joined.contains(&NodeId(*id))))
    }

    /// Whether the state knows all that [`Consensus::keep_names`] would tell it.
    fn is_named(&self) -> bool {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        self.read(|state| {
            let registry = state.registry();
            let mut nodes = membership.nodes();
            let named = membership.nodes().count() == registry.members.len()
                && nodes.all(|(id, place)| registry.members.get(&NodeId(*id)) == Some(&place.0));
            let holds = |id: &u64| {
                let matched = metrics.replication.as_ref().and_then(|matched| matched.get(id).copied());
                matched.map(revision) > Some(Revision(0))
            };
            named
                && membership.nodes().all(|(id, _place)| !holds(id) || registry.joined.contains(&NodeId(*id)))
        })
    }

    async fn keep_looking(&self) {
        loop {
            tokio::select! {
                biased;
                // A member that ended lets go of its log at once.
                _why = self.stopped() => return,
                () = self.host().sleep(LOOK) => {}
            }
            self.ask_whether_removed().await;
            if *self.storage().borrow() == StorageState::Full && self.leads() {
                self.hand_over("the disk here is full").await;
            }
        }
    }
}
