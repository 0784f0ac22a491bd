//! Whether a call may be made now: the limits of the node, the tenant, the application, the key and the model, then its
//! budgets.
//!
//! What a call takes is a guard: dropping it gives the place back, and a hold that is dropped settles at its full
//! amount. Limits are this node's own and work without central; budgets are asked last, since what they hold others
//! cannot spend.

use std::sync::Arc;

use base::{Amount, BudgetId, Mono, Name, Tokens};
use edge_core::limits::{Ask, Refused};
use edge_core::plan::{Candidate, Links};
use edge_core::retry::IN_LINE;
use egress::{Lack, Waiter};
use http::HeaderValue;
use wire::catalog::Budget;

use crate::call::Edge;
use crate::convert::Call;
use crate::hall::{Passed, Way};
use crate::identity::Caller;
use crate::ingress::Arrival;
pub(crate) use crate::passes::Level;
use crate::passes::{Allowance, Limited, Passes, Wish};
use crate::payers::Payer;
use crate::purse::{Billed, Hold, Refusal};
use crate::routing::Route;
use crate::snapshot::SharedGate;
use crate::thresholds;

/// Why a call may not be made now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// A limit.
    Limit(Box<Limited>),
    /// A budget does not pay: which one, when it is one of several, and what the call may need of it at most.
    Budget(Refusal, Option<(Arc<Budget>, Amount)>),
}

impl Denied {
    /// The budget that does not pay.
    pub(crate) fn budget(&self) -> Option<Name> {
        match self {
            Self::Budget(_why, Some((budget, _most))) => Some(budget.name.clone()),
            Self::Budget(_, None) | Self::Limit(_) => None,
        }
    }

    /// The limit that does not let the call pass, as records name it.
    pub(crate) fn limit(&self) -> Option<String> {
        let Self::Limit(_) = self else { return None };
        let (level, what) = self.level_and_want();
        Some(format!("{level}.{what}"))
    }

    /// The level that refuses, and what is short there.
    pub(crate) fn level_and_want(&self) -> (&'static str, &'static str) {
        match self {
            Self::Limit(limited) if limited.crowded.is_some() => (limited.level.as_str(), "queue"),
            Self::Limit(limited) => (limited.level.as_str(), want(limited.refused)),
            Self::Budget(Refusal::StorageFull, _) | Self::Budget(_, None) => (Level::Node.as_str(), CREDIT),
            Self::Budget(why, Some((budget, _most))) => {
                let what = match why {
                    Refusal::Exceeded { .. } | Refusal::Reached { .. } => "budget",
                    Refusal::Unavailable { .. } | Refusal::Slow { .. } | Refusal::StorageFull => CREDIT,
                };
                (budget.scope.level(), what)
            }
        }
    }
}

/// Credit that is, or may be, elsewhere.
const CREDIT: &str = "credit";

const fn want(refused: Refused) -> &'static str {
    match refused {
        Refused::Rate(per, _when) => per.as_str(),
        Refused::Concurrency => "concurrency",
        Refused::Streams => "streams",
    }
}

/// Everything a call took before it may be made.
#[derive(Debug)]
pub(crate) struct Permit {
    /// Taken out when it is settled.
    pub(crate) hold: Option<Hold>,
    pub(crate) asks: Vec<(BudgetId, Amount)>,
    pub(crate) payers: Vec<Payer>,
    /// What its caller is told of its budgets.
    pub(crate) notices: Vec<HeaderValue>,
    /// The tightest rates of its caller, as they stood when it was admitted.
    pub(crate) allowance: Allowance,
    /// Behind the gates of the node, the tenant, the application and the key.
    places: Passes,
    /// Behind that of the model that was tried last, or will be first.
    model: Option<Passes>,
}

impl Permit {
    /// Whether it had to wait for credit.
    pub(crate) fn waited(&self) -> bool {
        self.hold.as_ref().is_some_and(Hold::waited)
    }

    /// Passes the gate of the model that is tried next; of a model that was tried before it, the call was one of no tokens.
    ///
    /// # Errors
    /// [`Limited`] says when.
    pub(crate) fn enter(&mut self, wish: Wish, now: Mono) -> Result<(), Box<Limited>> {
        if self.model.as_ref().is_some_and(|model| model.is_behind(&wish.gate)) {
            return Ok(());
        }
        let (next, _allowance) = self.places.also(&[wish], now)?;
        if let Some(mut before) = self.model.replace(next) {
            before.settle(0);
        }
        Ok(())
    }

    /// The call was made, and was one of so many tokens.
    pub(crate) fn settle(&mut self, tokens: Tokens) {
        self.places.settle(tokens.0);
        if let Some(model) = &mut self.model {
            model.settle(tokens.0);
        }
    }
}

/// Lets a call pass, or says why not and when. Models whose own limits or budgets refuse are left out of its route while
/// others are left.
///
/// # Errors
/// [`Denied`]; nothing stays taken then.
pub(crate) async fn admit(
    edge: &Edge,
    arrival: &Arrival,
    caller: &Caller,
    call: &mut Call,
    route: &mut Route,
) -> Result<Permit, Denied> {
    let passed = pass(edge, arrival, caller, route).await.map_err(Denied::Limit)?;
    let Passed { passes: mut places, allowance, over } = passed;
    route.leave_out_models(&over);
    let model = Some(places.split(Level::Model));
    let (hold, asks, notices) = pay(edge, arrival, caller, call, route).await?;
    let payers = route.payers().to_vec();
    Ok(Permit { hold: Some(hold), asks, payers, notices, allowance, places, model })
}

/// Has a call pass its limits. A stream waits for others to end, where that is all that it needs.
async fn pass(
    edge: &Edge,
    arrival: &Arrival,
    caller: &Caller,
    route: &Route,
) -> Result<Passed, Box<Limited>> {
    let (links, now) = (edge.dispatcher.links(), edge.host.now());
    let passed = edge.hall.pass(ways(edge, caller, route, &links), now);
    match passed {
        Err(limited) if route.stream() && limited.is_over_by_then() => {
            let principal = caller.principal();
            let waiter = Waiter {
                tenant: principal.tenant.clone(),
                weight: principal.weight,
                priority: principal.priority.max(arrival.behalf.priority),
                until: now + IN_LINE,
                lack: Lack::default(),
            };
            let ways = ways(edge, caller, route, &links).collect();
            edge.hall.wait(waiter, ways, limited).await
        }
        Ok(_) | Err(_) => passed,
    }
}

/// The models to which a call may go, in order, and what it asks for on the way to each. Where none can be reached, it asks
/// for the rest all the same.
fn ways<'a>(
    edge: &'a Edge,
    caller: &'a Caller,
    route: &'a Route,
    links: &'a Links,
) -> impl Iterator<Item = Way> + 'a {
    let (mut before, mut ended) = (Vec::new(), false);
    std::iter::from_fn(move || {
        let model = if ended { None } else { route.first(links, &before) };
        if ended || (model.is_none() && !before.is_empty()) {
            return None;
        }
        ended = model.is_none();
        before.extend(model.as_ref().map(|model| model.index));
        let wishes = wishes(edge, caller, route, model.as_deref());
        Some(Way { model: model.map(|model| model.index), wishes })
    })
}

/// What a call asks of each gate, in the order of their levels. It entered the node's when it arrived; more is known now.
fn wishes(edge: &Edge, caller: &Caller, route: &Route, model: Option<&Candidate>) -> Vec<Wish> {
    let principal = caller.principal();
    let ask = Ask { enters: true, stream: route.stream(), tokens: route.likely_tokens() };
    let wish = |level, gate: &SharedGate, ask| Wish { level, gate: Arc::clone(gate), ask };
    let mut wishes = vec![
        wish(Level::Node, &edge.gate, Ask { enters: false, ..ask }),
        wish(Level::Tenant, &principal.tenant_gate, ask),
        wish(Level::App, &principal.app_gate, ask),
        wish(Level::Key, &principal.key_gate, ask),
    ];
    wishes.extend(model.and_then(|model| of_model(caller, route, model)));
    wishes
}

/// Has a request that is no call, and asks no model, pass the limits of rate of whoever sends it.
///
/// # Errors
/// [`Denied`] says why not.
pub(crate) fn look(edge: &Edge, caller: &Caller) -> Result<(Passes, Allowance), Denied> {
    let principal = caller.principal();
    let wish = |level, gate: &SharedGate| Wish {
        level,
        gate: Arc::clone(gate),
        ask: Ask { enters: true, ..Ask::default() },
    };
    let wishes = [
        wish(Level::Tenant, &principal.tenant_gate),
        wish(Level::App, &principal.app_gate),
        wish(Level::Key, &principal.key_gate),
    ];
    let (mut passes, allowance) =
        Passes::take(&edge.hall, &wishes, edge.host.now()).map_err(Denied::Limit)?;
    passes.settle(0);
    Ok((passes, allowance))
}

/// What a call asks of the gate of one of its route's models.
pub(crate) fn of_model(caller: &Caller, route: &Route, model: &Candidate) -> Option<Wish> {
    let gate = caller.snapshot().model_gate(&model.model.name)?;
    let tokens = route.bound(model)?.likely_tokens();
    let ask = Ask { enters: true, stream: route.stream(), tokens };
    Some(Wish { level: Level::Model, gate: Arc::clone(gate), ask })
}

/// What its budgets hold for a call, each with how much, and what its caller is told of them.
type Paid = (Hold, Vec<(BudgetId, Amount)>, Vec<HeaderValue>);

/// Has every budget hold the most that a call may need.
async fn pay(
    edge: &Edge,
    arrival: &Arrival,
    caller: &Caller,
    call: &mut Call,
    route: &mut Route,
) -> Result<Paid, Denied> {
    let (purse, principal) = (&edge.purse, caller.principal());
    loop {
        let reached = thresholds::reached(call, route.payers(), principal, purse);
        if let Some(refused) = reached.refused {
            if route.leave_out(refused.budget) {
                continue;
            }
            let thresholds::Refused { budget: id, limit, spent, feature } = refused;
            let short = short(id, route.payers(), &route.asks());
            return Err(Denied::Budget(Refusal::Reached { budget: id, limit, spent, feature }, short));
        }
        call.turn_off(&reached.economy.off);
        route.economize(call, &reached.economy);
        let billed = Billed {
            tenant: principal.tenant.clone(),
            app: principal.app.clone(),
            key: principal.key.clone(),
            scenario: edge.scenarios.told(
                &principal.tenant,
                arrival.behalf.scenario.as_ref(),
                edge.host.now(),
            ),
            user: arrival.behalf.named_user(),
            region: route.region().clone(),
        };
        let asks = route.asks();
        match purse.hold(arrival.request, billed, &asks).await {
            Ok(hold) => return Ok((hold, asks, reached.notices)),
            Err(refusal) if budget(&refusal).is_some_and(|id| route.leave_out(id)) => {}
            Err(refusal) => {
                let short = budget(&refusal).and_then(|id| short(id, route.payers(), &asks));
                return Err(Denied::Budget(refusal, short));
            }
        }
    }
}

/// A budget, and what the call may need of it at most.
fn short(id: BudgetId, payers: &[Payer], asks: &[(BudgetId, Amount)]) -> Option<(Arc<Budget>, Amount)> {
    let payer = payers.iter().find(|payer| payer.id() == id)?;
    let (_budget, most) = asks.iter().find(|(asked, _most)| *asked == id)?;
    Some((Arc::clone(&payer.budget), *most))
}

/// The budget that does not pay.
const fn budget(refusal: &Refusal) -> Option<BudgetId> {
    match refusal {
        Refusal::Exceeded { budget, .. }
        | Refusal::Reached { budget, .. }
        | Refusal::Unavailable { budget }
        | Refusal::Slow { budget } => Some(*budget),
        Refusal::StorageFull => None,
    }
}
