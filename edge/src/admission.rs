//! Whether a call may be made now: the node's, the tenant's and the key's limits, then its budgets.
//!
//! What a call takes is a guard: dropping it gives the place back, and a hold that is dropped settles at its full
//! amount. Limits are this node's own and work without central; budgets are asked last, since what they hold others
//! cannot spend.

use std::sync::Arc;

use base::{Amount, BudgetId, Mono, Name};
use edge_core::limits::Refused;
use http::HeaderValue;
use wire::catalog::{Budget, Scope};

use crate::convert::Call;
use crate::identity::Caller;
use crate::ingress::Arrival;
use crate::payers::Payer;
use crate::purse::{Billed, Hold, Purse, Refusal};
use crate::routing::Route;
use crate::snapshot::SharedGate;
use crate::thresholds;

/// Whose limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The node's own.
    Node,
    /// The tenant's.
    Tenant,
    /// The key's.
    Key,
}

/// Why a call may not be made now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// A limit, and when it lets the call pass.
    Limit(Level, Refused),
    /// A budget does not pay: which one, when it is one of several, and what the call may need of it at most.
    Budget(Refusal, Option<(Arc<Budget>, Amount)>),
}

impl Denied {
    /// The budget that does not pay.
    pub(crate) fn budget(&self) -> Option<Name> {
        match self {
            Self::Budget(_why, Some((budget, _most))) => Some(budget.name.clone()),
            Self::Budget(_, None) | Self::Limit(..) => None,
        }
    }

    /// The limit that does not let the call pass, as records name it.
    pub(crate) fn limit(&self) -> Option<String> {
        let Self::Limit(..) = self else { return None };
        let (level, what) = self.level_and_want();
        Some(format!("{level}.{what}"))
    }

    /// The level that refuses, and what is short there.
    pub(crate) fn level_and_want(&self) -> (&'static str, &'static str) {
        match self {
            Self::Limit(level, refused) => (level.as_str(), want(*refused)),
            Self::Budget(Refusal::StorageFull, _) | Self::Budget(_, None) => (Level::Node.as_str(), CREDIT),
            Self::Budget(why, Some((budget, _most))) => {
                let what = match why {
                    Refusal::Exceeded { .. } | Refusal::Reached { .. } => "budget",
                    Refusal::Unavailable { .. } | Refusal::Slow { .. } | Refusal::StorageFull => CREDIT,
                };
                (budget_level(&budget.scope), what)
            }
        }
    }
}

/// Credit that is, or may be, elsewhere.
const CREDIT: &str = "credit";

impl Level {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Tenant => "tenant",
            Self::Key => "key",
        }
    }
}

const fn want(refused: Refused) -> &'static str {
    match refused {
        Refused::Rate(_when) => "requests_per_s",
        Refused::Concurrency => "concurrency",
        Refused::Streams => "streams",
    }
}

const fn budget_level(scope: &Scope) -> &'static str {
    match scope {
        Scope::Tenant(_) => "tenant",
        Scope::App(..) => "app",
        Scope::Key(_) => "key",
        Scope::Scenario(..) => "scenario",
        Scope::Model(..) => "model",
        Scope::Provider(_) => "provider",
        Scope::EachUser(..) => "user",
    }
}

/// A place behind a gate; given back on drop.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: SharedGate,
    stream: bool,
}

impl Pass {
    /// Passes a gate.
    ///
    /// # Errors
    /// [`Refused`] says when.
    pub(crate) fn take(gate: &SharedGate, now: Mono, stream: bool) -> Result<Self, Refused> {
        gate.lock().enter(now, stream)?;
        Ok(Self { gate: SharedGate::clone(gate), stream })
    }

    /// The call turned out to be a stream.
    ///
    /// # Errors
    /// [`Refused`] when there are too many.
    fn becomes_stream(&mut self) -> Result<(), Refused> {
        self.gate.lock().becomes_stream()?;
        self.stream = true;
        Ok(())
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.lock().leave(self.stream);
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
    _tenant: Pass,
    _key: Pass,
}

impl Permit {
    /// Whether it had to wait for credit.
    pub(crate) fn waited(&self) -> bool {
        self.hold.as_ref().is_some_and(Hold::waited)
    }
}

/// Lets a call pass, or says why not and when. Models whose own budgets are exhausted are left out of its route while others
/// are left.
///
/// # Errors
/// [`Denied`]; nothing stays taken then.
pub(crate) async fn admit(
    arrival: &mut Arrival,
    caller: &Caller,
    call: &Call,
    route: &mut Route,
    purse: &Purse,
    now: Mono,
) -> Result<Permit, Denied> {
    let principal = caller.principal();
    let stream = route.stream();
    if stream {
        arrival.pass.becomes_stream().map_err(|refused| Denied::Limit(Level::Node, refused))?;
    }
    let tenant = Pass::take(&principal.tenant_gate, now, stream)
        .map_err(|refused| Denied::Limit(Level::Tenant, refused))?;
    let key =
        Pass::take(&principal.key_gate, now, stream).map_err(|refused| Denied::Limit(Level::Key, refused))?;
    let (hold, asks, notices) = loop {
        let reached = thresholds::reached(route.payers(), principal, purse);
        if let Some(refused) = reached.refused {
            if route.leave_out(refused.budget) {
                continue;
            }
            let thresholds::Refused { budget: id, limit, spent } = refused;
            let short = short(id, route.payers(), &route.asks());
            return Err(Denied::Budget(Refusal::Reached { budget: id, limit, spent }, short));
        }
        route.economize(call, reached.economy);
        let billed = Billed {
            tenant: principal.tenant.clone(),
            app: principal.app.clone(),
            key: principal.key.clone(),
            region: route.region().clone(),
        };
        let asks = route.asks();
        match purse.hold(arrival.request, billed, &asks).await {
            Ok(hold) => break (hold, asks, reached.notices),
            Err(refusal) if budget(&refusal).is_some_and(|id| route.leave_out(id)) => {}
            Err(refusal) => {
                let short = budget(&refusal).and_then(|id| short(id, route.payers(), &asks));
                return Err(Denied::Budget(refusal, short));
            }
        }
    };
    let payers = route.payers().to_vec();
    Ok(Permit { hold: Some(hold), asks, payers, notices, _tenant: tenant, _key: key })
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
