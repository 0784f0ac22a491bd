//! Why a call was refused.

use axum::Json;
use axum::extract::State;
use base::RequestId;
use central_core::State as Replicated;
use wire::catalog::Budget;
use wire::control::NodeAddr;
use wire::refusal::{Refusal, Stood};

use super::reads::standing;
use super::refused::Refused;
use super::taken::Named;
use super::{Answer, Shared, api};
use crate::explain::Searched;

pub(super) async fn refusal(State(door): Shared, Named(request): Named<String>) -> Answer<api::Refusal> {
    let request: RequestId =
        request.parse().map_err(|error| Refused::bad_request(format!("{request:?}: {error}")))?;
    door.consensus.read_index().await?;
    let Searched { found, silent, answered } = door.overview.refusal(request).await;
    match found {
        Some((edge, refusal)) => Ok(Json(door.consensus.read(|state| explained(state, &edge, refusal)))),
        None if silent.is_empty() => Err(Refused::not_found(format!(
            "none of the {answered} edges remembers that it refused {request}; each keeps its last 4,096 refusals until it \
             is restarted, and a call that was made has a receipt"
        ))),
        None => {
            let silent: Vec<String> = silent.iter().map(ToString::to_string).collect();
            Err(Refused::unavailable(format!(
                "{answered} edges do not remember that they refused {request}, and these do not answer: {}",
                silent.join(", ")
            )))
        }
    }
}

fn explained(state: &Replicated, edge: &NodeAddr, refusal: Refusal) -> api::Refusal {
    api::Refusal {
        request: refusal.request.to_string(),
        at: refusal.at,
        edge: edge.name.clone(),
        region: edge.region.clone(),
        tenant: refusal.tenant,
        app: refusal.app,
        key: refusal.key,
        asked: refusal.asked,
        code: refusal.code,
        message: refusal.told,
        limit: refusal.limit,
        budget: refusal.budget,
        attached: refusal.attached,
        budgets: refusal.budgets.into_iter().map(|stood| budget(state, stood)).collect(),
    }
}

fn budget(state: &Replicated, stood: Stood) -> api::RefusalBudget {
    let is_it = |budget: &&Budget| budget.id == stood.account.budget();
    let configured = state.catalog().budgets.values().find(is_it);
    let user = stood.account.user();
    api::RefusalBudget {
        budget: stood.name,
        user: (user != 0).then(|| format!("{user:016x}")),
        unit: configured.map(|budget| budget.unit),
        needed: stood.needed,
        free: stood.free,
        held: stood.held,
        said: stood.said.map(|said| api::RefusalSaid {
            limit: said.limit,
            spent: said.spent,
            remaining: said.left,
            ms_before: said.ms_before,
        }),
        now: configured.map(|budget| standing(state.ledger(), budget, stood.account)),
    }
}
