//! Changes of who is a member of central.

use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use base::{NodeId, Role};
use wire::control::NodeAddr;

use super::refused::Refused;
use super::taken::{Named, Whole};
use super::{Answer, By, Door, Operator, Shared, api, parsed};
use crate::consensus::{MemberChange, MemberError};

/// How long a new member may take to catch up while the operator waits.
const CATCH_UP: Duration = Duration::from_secs(20);

/// Between two looks whether it has.
const LOOK: Duration = Duration::from_millis(200);

pub(super) async fn list(State(door): Shared) -> Json<api::Members> {
    Json(door.overview.members().await)
}

pub(super) async fn add(State(door): Shared, Extension(by): By, Whole(body): Whole) -> Answer<api::Members> {
    let new: api::AddMember = parsed(&body)?;
    let done = door.add(&new).await;
    audit(&by, "add member", &format!("{} as {}", new.name, new.id), &done);
    done?;
    Ok(list(State(door)).await)
}

pub(super) async fn remove(
    State(door): Shared,
    Extension(by): By,
    Named(id): Named<u64>,
) -> Answer<api::Members> {
    let done = door.consensus.change_members(MemberChange::Remove(NodeId(id))).await.map_err(Refused::from);
    audit(&by, "remove member", &id.to_string(), &done);
    done?;
    Ok(list(State(door)).await)
}

pub(super) async fn transfer(
    State(door): Shared,
    Extension(by): By,
    Whole(body): Whole,
) -> Answer<api::Members> {
    let api::Transfer { to } = parsed(&body)?;
    let done = door.consensus.change_members(MemberChange::Transfer(to)).await.map_err(Refused::from);
    audit(&by, "transfer leadership", &to.to_string(), &done);
    done?;
    Ok(list(State(door)).await)
}

fn audit(by: &Operator, action: &str, what: &str, done: &Result<(), Refused>) {
    let by = &by.0;
    match done {
        Ok(()) => tracing::info!(target: "audit", by, action, what, "done"),
        Err(refused) => tracing::warn!(target: "audit", by, action, what, why = refused.message(), "refused"),
    }
}

impl Door {
    /// First without a vote, then, once it has the log, with one.
    async fn add(&self, new: &api::AddMember) -> Result<(), Refused> {
        let addr = NodeAddr {
            name: new.name.clone(),
            role: Role::Central,
            region: new.region.clone(),
            mesh: new.mesh,
        };
        self.consensus.change_members(MemberChange::AddLearner(new.id, addr)).await?;
        let vote = match new.replaces {
            Some(old) => MemberChange::Replace { old, new: new.id },
            None => MemberChange::Promote(new.id),
        };
        let until = self.host.now() + CATCH_UP;
        loop {
            match self.consensus.change_members(vote.clone()).await {
                Err(MemberError::Lagging { .. }) if self.host.now() < until => {
                    self.host.sleep(LOOK).await;
                }
                Err(lagging @ MemberError::Lagging { .. }) => {
                    let message =
                        format!("{lagging}. It follows the log without a vote; ask again to give it one");
                    return Err(Refused::unavailable(message));
                }
                done => return done.map_err(Refused::from),
            }
        }
    }
}
