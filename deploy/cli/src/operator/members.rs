//! `portolan members`: who votes, and changes of it.

use std::net::SocketAddr;

use base::{Name, NodeId, RegionName};
use central::admin::api::{AddMember, Members, Transfer};

use super::status::members_table;
use crate::admin::Admin;
use crate::failure::Outcome;
use crate::out;

pub(super) async fn list(admin: &Admin, as_json: bool) -> Outcome {
    let members: Members = admin.get("/v1/members").await?;
    if as_json {
        return super::json(&members);
    }
    show(&members);
    Ok(())
}

pub(super) const fn added(
    id: u64,
    name: Name,
    region: RegionName,
    mesh: SocketAddr,
    replaces: Option<u64>,
) -> AddMember {
    let replaces = match replaces {
        Some(id) => Some(NodeId(id)),
        None => None,
    };
    AddMember { id: NodeId(id), name, region, mesh, replaces }
}

pub(super) async fn add(admin: &Admin, new: &AddMember) -> Outcome {
    show(&admin.post("/v1/members", new).await?);
    Ok(())
}

pub(super) async fn remove(admin: &Admin, id: u64) -> Outcome {
    show(&admin.delete(&format!("/v1/members/{id}")).await?);
    Ok(())
}

pub(super) async fn transfer(admin: &Admin, to: u64) -> Outcome {
    show(&admin.post("/v1/members/transfer", &Transfer { to: NodeId(to) }).await?);
    Ok(())
}

fn show(members: &Members) {
    let leader = members.members.iter().find(|member| Some(member.id) == members.leader);
    out::raw(&members_table(&members.members, leader.map(|member| &member.name)).text(0));
}
