//! Changes of who is a member of central.

use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use base::{NodeId, Role};
use mesh::{Expect, Purpose};
use wire::control::NodeAddr;

use super::refused::Refused;
use super::taken::{Named, Whole};
use super::{Answer, By, Door, Operator, Shared, api, parsed};
use crate::consensus::{MemberChange, MemberError};

/// How long a new member may take to catch up while the operator waits.
const CATCH_UP: Duration = Duration::from_secs(20);

/// How long a new member is dialled before it is told that nobody answers there; it may just be starting.
const DIAL: Duration = Duration::from_secs(4);

/// How long a new leader may take to take over.
const TAKE_OVER: Duration = Duration::from_secs(5);

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
    let done = door.transfer(to).await;
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
    /// A number is given for ever: not to a node that is not there. A member that was seen before is not asked.
    async fn answers(&self, id: NodeId, node: &NodeAddr) -> Result<(), Refused> {
        let known = self.consensus.read(|state| {
            let registry = state.registry();
            registry.joined.contains(&id) || registry.members.contains_key(&id)
        });
        let endpoint = self.overview.links.endpoint();
        let until = self.host.now() + DIAL;
        if known {
            return Ok(());
        }
        loop {
            match endpoint.connect(node.mesh, &Expect::node(node), Purpose::Calls).await {
                Ok(_connection) => return Ok(()),
                Err(_starting) if self.host.now() < until => self.host.sleep(LOOK).await,
                Err(error) => {
                    return Err(Refused::conflict(format!(
                        "{} was not added and nothing was changed: {error}. Check --mesh-address, and that the node runs there",
                        node.name
                    )));
                }
            }
        }
    }

    /// Hands leadership over, and waits until the new leader leads.
    async fn transfer(&self, to: NodeId) -> Result<(), Refused> {
        self.consensus.change_members(MemberChange::Transfer(to)).await?;
        let leads = async {
            while self.consensus.standing().leader != Some(to) {
                self.host.sleep(LOOK / 10).await;
            }
        };
        self.host.timeout(TAKE_OVER, leads).await.map_err(|_late| {
            Refused::conflict(format!(
                "member {to} did not take over within {} s; look at `portolan members list`, and ask again",
                TAKE_OVER.as_secs()
            ))
        })
    }

    /// First without a vote, then, once it has the log, with one.
    async fn add(&self, new: &api::AddMember) -> Result<(), Refused> {
        let addr = NodeAddr {
            name: new.name.clone(),
            role: Role::Central,
            region: new.region.clone(),
            mesh: new.mesh,
        };
        self.answers(new.id, &addr).await?;
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
                    let id = new.id;
                    return Err(Refused::conflict(format!(
                        "{lagging}. It follows the log without a vote: ask again to give it one, or take it out with \
                         `portolan members remove {id}` (its number is then not given again)"
                    )));
                }
                done => return done.map_err(Refused::from),
            }
        }
    }
}
