//! The calls that this edge refused last, kept in memory for operators who ask why. Only known callers' calls are kept, so
//! that nobody unknown pushes them out.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{Code, RequestId, Role};
use mesh::{Connection, MeshError, Receiver, Sender};
use seam::Lock;
use wire::frame::Kind;
use wire::refusal::Refusal;

use crate::identity::Caller;
use crate::ingress::Arrival;
use crate::record::Known;
use crate::rejection::Rejection;

/// Refusals kept; the oldest goes first. One takes less than a kilobyte, and a few bytes for each budget of the call.
const KEPT: usize = 4_096;

/// The last refusals. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals {
    kept: Arc<Lock<VecDeque<Refusal>>>,
}

impl Refusals {
    /// Keeps the refusal of a known caller's call.
    pub(crate) fn keep(
        &self,
        (arrival, caller): (&Arrival, &Caller),
        known: &Known,
        rejection: &Rejection,
        attached: bool,
    ) {
        if rejection.code() == Code::CallerGone {
            return;
        }
        let principal = caller.principal();
        let refusal = Refusal {
            request: arrival.request,
            at: arrival.at,
            tenant: principal.tenant.clone(),
            app: principal.app.clone(),
            key: principal.key.clone(),
            asked: known.asked.clone(),
            code: rejection.code(),
            told: rejection.message().to_owned(),
            limit: known.limit.clone(),
            budget: known.budget.clone(),
            attached,
            budgets: known.stood.clone(),
        };
        self.push(refusal);
    }

    fn push(&self, refusal: Refusal) {
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(refusal);
    }

    fn find(&self, request: RequestId) -> Option<Refusal> {
        self.kept.lock().iter().rev().find(|refusal| refusal.request == request).cloned()
    }

    /// Answers a central node that asks for one refusal.
    pub(crate) async fn answer(
        &self,
        connection: &Connection,
        mut sender: Sender,
        mut receiver: Receiver,
    ) -> Result<(), MeshError> {
        if connection.peer().role != Role::Central {
            tracing::warn!(peer = %connection.peer(), "a node that is not central asked for a refusal");
            return Ok(());
        }
        let request: RequestId = receiver.expect(Kind::RPC_REQUEST).await?;
        sender.send(Kind::RPC_REPLY, &self.find(request)).await?;
        sender.finish()
    }
}

#[cfg(test)]
mod tests {
    use base::WallMs;

    use super::*;

    fn refusal(request: RequestId) -> Refusal {
        Refusal {
            request,
            at: WallMs::default(),
            tenant: "acme".parse().unwrap(),
            app: "chat".parse().unwrap(),
            key: "k1".parse().unwrap(),
            asked: None,
            code: Code::RateLimited,
            told: String::new(),
            limit: None,
            budget: None,
            attached: true,
            budgets: Vec::new(),
        }
    }

    #[test]
    fn the_last_refusals_are_remembered_and_no_more() {
        let refusals = Refusals::default();
        let request = |at: usize| RequestId(at.try_into().unwrap());
        (0..=KEPT).for_each(|at| refusals.push(refusal(request(at))));
        assert_eq!(refusals.find(request(0)), None);
        assert_eq!(refusals.find(request(1)), Some(refusal(request(1))));
        assert_eq!(refusals.find(request(KEPT)), Some(refusal(request(KEPT))));
        assert_eq!(refusals.kept.lock().len(), KEPT);
    }
}
