//! Elections, as a member drives them: it hears leaders and candidates, and stands when it is due ([`Candidacy`]).

use base::Mono;
use openraft::async_runtime::WatchReceiver as _;

use super::candidacy::Candidacy;
use super::types::{LogId, Vote};
use super::{Consensus, StorageState};

impl Consensus {
    /// Stands for election whenever this member is due, until it stops.
    pub(super) async fn stand_when_due(self) {
        loop {
            if self.leads() {
                self.candidacy(Candidacy::leader_heard);
            }
            let now = self.host().now();
            let due = self.due();
            if due > now {
                tokio::select! {
                    biased;
                    _why = self.stopped() => return,
                    () = self.shared.hurry.notified() => {}
                    () = self.host().sleep_until(due) => {}
                }
                continue;
            }
            let term = self.raft().metrics().borrow_watched().current_term;
            tracing::debug!(term, "standing for election");
            self.candidacy(|candidacy, now| candidacy.stands(now, term));
            if self.raft().trigger().elect(true).await.is_err() {
                return;
            }
        }
    }

    /// A message of a leader arrived. One of an earlier term leads no more.
    pub(super) fn leader_spoke(&self, vote: &Vote) {
        let is_current = *vote >= self.raft().metrics().borrow_watched().vote;
        if is_current {
            self.candidacy(Candidacy::leader_heard);
        }
    }

    /// Another member asked for a vote and has entries up to `theirs`; ours go up to `ours`.
    pub(super) fn vote_asked(&self, granted: bool, theirs: Option<LogId>, ours: Option<LogId>) {
        if granted {
            self.candidacy(Candidacy::supported);
        } else if ours > theirs && self.candidacy(Candidacy::knows_more) {
            self.shared.hurry.notify_one();
        }
    }

    /// Whether the leader that this member knows ought to have been heard by now.
    pub(super) fn is_leader_silent(&self) -> bool {
        self.candidacy(|candidacy, now| candidacy.is_leader_silent(now))
    }

    /// When this member stands; after a while it looks again when it may not.
    fn due(&self) -> Mono {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let voters = || membership.voter_ids().filter(|id| Some(*id) != metrics.current_leader);
        let votes = membership.voter_ids().any(|id| id == metrics.id);
        let alone = membership.voter_ids().count() == 1;
        let before = voters().filter(|id| *id < metrics.id).count();
        let before = u32::try_from(before).unwrap_or(u32::MAX);
        let again = self.host().now() + self.shared.timing.lease();
        let leads = metrics.current_leader == Some(metrics.id);
        // Without room for its own vote it would only keep others from standing.
        let can_write = *self.shared.storage.borrow() == StorageState::Good;
        if votes && !leads && can_write { self.shared.candidacy.lock().due(before, alone) } else { again }
    }

    fn candidacy<T>(&self, change: impl FnOnce(&mut Candidacy, Mono) -> T) -> T {
        let now = self.host().now();
        change(&mut self.shared.candidacy.lock(), now)
    }
}
