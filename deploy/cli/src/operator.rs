//! The operator's commands: each a client of central's admin API.

mod bills;
mod budgets;
pub(crate) mod catalog;
mod decisions;
mod leases;
mod ledger;
mod members;
mod receipts;
mod refusal;
pub(crate) mod status;
mod usage;

use std::future::Future;
use std::path::Path;

use base::RequestId;
use mesh::Credentials;
use seam::Host;
use serde::{Deserialize, Serialize};

use crate::admin::Admin;
use crate::args::{self, Bills, Keys, Ledger, Reach, Report};
use crate::failure::{Exit, Failure, Outcome};
use crate::up::tell::FACTS;
use crate::{files, node, out};

/// Of a mesh's facts, what operators need.
#[derive(Deserialize)]
struct Facts {
    admin: Vec<String>,
    operator: std::path::PathBuf,
}

pub(crate) fn status(report: &Report) -> Outcome {
    with(&report.reach, |admin| async move { status::show(&admin, report.json).await })
}

pub(crate) fn plan(files: &args::Files, reach: &Reach) -> Outcome {
    with(reach, |admin| async move { catalog::plan(&admin, files).await })
}

pub(crate) fn apply(files: &args::Files, note: &str, base: Option<u64>, reach: &Reach) -> Outcome {
    with(reach, |admin| async move { catalog::apply(&admin, files, note, base).await })
}

pub(crate) fn get(kind: Option<&str>, name: Option<&str>, report: &Report) -> Outcome {
    with(&report.reach, |admin| async move { catalog::get(&admin, kind, name, report.json).await })
}

pub(crate) fn epochs(report: &Report) -> Outcome {
    with(&report.reach, |admin| async move { catalog::epochs(&admin, report.json).await })
}

pub(crate) fn rollback(epoch: u64, reach: &Reach) -> Outcome {
    with(reach, |admin| async move { catalog::rollback(&admin, epoch).await })
}

pub(crate) fn keys(command: &Keys) -> Outcome {
    let Keys::Revoke { name, reach } = command;
    with(reach, |admin| async move { catalog::revoke(&admin, name).await })
}

pub(crate) fn ledger(command: &Ledger) -> Outcome {
    match command {
        Ledger::Check(report) => {
            with(&report.reach, |admin| async move { ledger::check(&admin, report.json).await })
        }
        Ledger::Decisions(report) => {
            with(&report.reach, |admin| async move { decisions::list(&admin, report.json).await })
        }
    }
}

pub(crate) fn leases(asked: &args::Leases) -> Outcome {
    if let Some(args::LeasesCommand::Lost { edge, refund, life, reason, id, reach }) = &asked.command {
        let lost = decisions::asked(reason, *refund, *life, id.clone());
        return with(reach, |admin| async move { decisions::lost(&admin, edge, &lost).await });
    }
    with(&asked.report.reach, |admin| async move { leases::leases(&admin, asked).await })
}

pub(crate) fn budgets(asked: &args::Budgets) -> Outcome {
    if let Some(args::BudgetsCommand::Correct(correct)) = &asked.command {
        return with(&correct.reach, |admin| async move { budgets::correct(&admin, correct).await });
    }
    let (only, report) = (asked.budget.as_ref(), &asked.report);
    with(&report.reach, |admin| async move { budgets::show(&admin, only, report.json).await })
}

pub(crate) fn usage(asked: &args::Usage) -> Outcome {
    with(&asked.chosen.report.reach, |admin| async move { usage::show(&admin, asked).await })
}

pub(crate) fn receipts(asked: &args::Receipts) -> Outcome {
    with(&asked.chosen.report.reach, |admin| async move { receipts::show(&admin, asked).await })
}

pub(crate) fn bills(command: &Bills) -> Outcome {
    let Bills::Check(asked) = command;
    with(&asked.report.reach, |admin| async move { bills::check(&admin, asked).await })
}

pub(crate) fn explain_refusal(request: RequestId, report: &Report) -> Outcome {
    with(&report.reach, |admin| async move { refusal::explain(&admin, request, report.json).await })
}

pub(crate) fn level(to: u16, reach: &Reach) -> Outcome {
    with(reach, |admin| async move { catalog::raise_level(&admin, to).await })
}

pub(crate) fn members(command: args::Members) -> Outcome {
    match command {
        args::Members::List(report) => {
            with(&report.reach, |admin| async move { members::list(&admin, report.json).await })
        }
        args::Members::Add { id, name, region, mesh_address, replaces, reach } => {
            let new = members::added(id, name, region, mesh_address, replaces);
            with(&reach, |admin| async move { members::add(&admin, &new).await })
        }
        args::Members::Remove { id, reach } => {
            with(&reach, |admin| async move { members::remove(&admin, id).await })
        }
        args::Members::Transfer { to, reach } => {
            with(&reach, |admin| async move { members::transfer(&admin, to).await })
        }
    }
}

/// Runs `work` with a client of the mesh that `reach` names.
fn with<F: Future<Output = Outcome>>(reach: &Reach, work: impl FnOnce(Admin) -> F) -> Outcome {
    node::block_on(async {
        let host = Host::real();
        let (nodes, credentials) = resolve(reach)?;
        let credentials = load(&host, &credentials).await?;
        work(Admin::new(&host, &nodes, &credentials)?).await
    })
}

fn resolve(reach: &Reach) -> Result<(Vec<String>, std::path::PathBuf), Failure> {
    if let Some(dir) = &reach.mesh {
        let path = dir.join(FACTS);
        let text = files::read(&path)
            .map_err(|failure| failure.mend("name the directory of a running `portolan up` with --mesh"))?;
        let facts: Facts = serde_json::from_str(&text)
            .map_err(|error| Failure::new(Exit::Invalid, format!("{}: {error}", path.display())))?;
        return Ok((facts.admin, facts.operator));
    }
    match &reach.credentials {
        Some(credentials) if !reach.admin.is_empty() => Ok((reach.admin.clone(), credentials.clone())),
        Some(_) | None => Err(Failure::failed("which mesh?").mend(
            "add --mesh DIR for a mesh of `portolan up`, or --admin HOST:PORT,… and --credentials DIR",
        )),
    }
}

async fn load(host: &Host, dir: &Path) -> Result<Credentials, Failure> {
    const MEND: &str = "make credentials with `portolan pki issue --role operator`";
    let credentials =
        Credentials::load(host, dir).await.map_err(|error| Failure::failed(error).mend(MEND))?;
    let identity = credentials.identity();
    if identity.role != base::Role::Operator {
        let what = format!("{} holds the certificate of {identity}, who is no operator", dir.display());
        return Err(Failure::new(Exit::Refused, what).mend(MEND));
    }
    Ok(credentials)
}

/// Writes an answer for programs.
fn json(answer: &impl Serialize) -> Outcome {
    out::line(serde_json::to_string_pretty(answer).map_err(Failure::failed)?);
    Ok(())
}
