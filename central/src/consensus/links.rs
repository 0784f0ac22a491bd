//! The links between members: kept up before they are needed, for an election waits for no handshake, and measured.

use std::time::Duration;

use base::Name;
use wire::control::NodeAddr;

use super::contact::to_majority;
use super::round_trips::{self, RoundTrips};
use super::{Consensus, Verdict};

/// Between two looks at the links.
const LOOK: Duration = Duration::from_secs(1);

impl Consensus {
    /// Keeps a link to each other member, and keeps what is measured on them, until this member stops.
    pub(super) async fn keep_links(self) {
        let mut measured = RoundTrips::default();
        let (mut written, mut told) = (self.shared.measured, None);
        loop {
            tokio::select! {
                biased;
                _why = self.stopped() => return,
                () = self.host().sleep(LOOK) => {}
            }
            let others = self.others();
            // A leader's heartbeats dial by themselves.
            for (_id, node) in others.iter().filter(|_other| !self.leads()) {
                self.shared.consensus.prepare(node);
            }
            let round_trips = self.shared.consensus.rtts();
            self.look_at_majority(&round_trips).await;
            let is_member = |name: &Name| others.iter().any(|(_id, node)| node.name == *name);
            measured.add(round_trips, is_member);
            let Some((node, longest)) = measured.longest() else { continue };
            self.judge(node, longest, &mut told);
            if round_trips::differs(written, longest) {
                match round_trips::write(self.host(), &self.shared.options.dir, longest).await {
                    Ok(()) => written = Some(longest),
                    Err(error) => tracing::debug!(%error, "the measured round trip cannot be written down"),
                }
            }
        }
    }

    /// A leader whose heartbeats cannot be answered in time hands over.
    async fn look_at_majority(&self, round_trips: &[(Name, Duration)]) {
        let to = |node: &NodeAddr| {
            round_trips.iter().find(|(name, _)| *name == node.name).map(|(_, round_trip)| *round_trip)
        };
        let standing = self.standing();
        let voters = standing.members.iter().filter(|member| member.votes && member.id != standing.id);
        let majority = to_majority(voters.map(|member| to(&member.node)).collect());
        let too_far =
            majority.is_some_and(|round_trip| self.shared.timing.judge(round_trip) == Verdict::Unworkable);
        let gives_up = self.shared.contact.lock().looked(too_far && self.leads(), self.host().now());
        if gives_up {
            self.hand_over("its heartbeats cannot be answered in time").await;
        }
    }

    fn judge(&self, node: &Name, longest: Duration, told: &mut Option<Verdict>) {
        let verdict = self.shared.timing.judge(longest);
        if told.replace(verdict) == Some(verdict) {
            return;
        }
        let (rtt_ms, heartbeat_ms) = (longest.as_millis(), self.shared.timing.heartbeat.as_millis());
        match verdict {
            Verdict::Good => {
                tracing::info!(%node, rtt_ms, heartbeat_ms, "round trips between members fit");
            }
            Verdict::Tight => {
                tracing::warn!(
                    %node,
                    rtt_ms,
                    heartbeat_ms,
                    "round trips leave heartbeats little room; a restart of this member adapts to them"
                );
            }
            Verdict::Unworkable => {
                tracing::error!(
                    %node,
                    rtt_ms,
                    heartbeat_ms,
                    "a round trip exceeds the heartbeat: an idle leader accepts nothing; restart this member to adapt"
                );
            }
        }
    }
}
