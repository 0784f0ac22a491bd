//! Where a call may go: what its name stands for, what each of its models can cost at most, and the walk over them.
//!
//! Pure but for one view that a task refreshes: which links stand and how long they take. Asked again after each
//! failure.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use base::{Amount, BudgetId, ModelName, Name, RegionName};
use edge_core::bound::{Bound, Lacks};
use edge_core::plan::{Attempt, Candidate, Culprit, Links, Plan};
use seam::{Host, Stop};
use wire::catalog::{Budget, Operation};

use crate::convert::Call;
use crate::identity::Caller;
use crate::snapshot::Snapshots;

/// How often links are looked at when nothing changed: a broken one is known from its calls at once anyway.
const LOOK: Duration = Duration::from_millis(500);

/// Why a call has nowhere to go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoRoute {
    /// Nothing has the name.
    #[error("no such model")]
    Unknown,
    /// The key may not ask for it.
    #[error("the key may not ask for the model")]
    Forbidden,
    /// None of its models offers the operation.
    #[error("the model does not offer {}", .0.as_str())]
    Unsupported(Operation),
    /// A strict budget pays and none of its models has a bound.
    #[error("nothing bounds what budget {budget} would pay for {model}")]
    Unbounded {
        /// Which budget.
        budget: Name,
        /// The model that comes first.
        model: ModelName,
        /// What it lacks.
        lacks: Lacks,
    },
}

impl NoRoute {
    /// The budget that refused.
    pub(crate) const fn budget(&self) -> Option<&Name> {
        match self {
            Self::Unbounded { budget, .. } => Some(budget),
            Self::Unknown | Self::Forbidden | Self::Unsupported(_) => None,
        }
    }
}

/// The walk of one call, and what its budgets must hold.
#[derive(Debug)]
pub(crate) struct Route {
    plan: Plan,
    /// Models that may be used, and their bounds.
    bounds: Vec<(usize, Bound)>,
    asks: Vec<(BudgetId, Amount)>,
    stream: bool,
    region: RegionName,
}

/// Finds where a call may go. `drawn` is a random number.
///
/// # Errors
/// [`NoRoute`] says why it may go nowhere.
pub(crate) fn route(caller: &Caller, call: &Call, home: &RegionName, drawn: u64) -> Result<Route, NoRoute> {
    let offer = caller.snapshot().offer(call.model()).ok_or(NoRoute::Unknown)?;
    if !caller.principal().may_ask(call.model()) {
        return Err(NoRoute::Forbidden);
    }
    let budgets = &caller.principal().budgets;
    let (operation, size) = (call.operation(), call.size());
    let offered: Vec<_> = offer
        .candidates()
        .filter(|candidate| candidate.model.operations.contains(&operation))
        .map(|candidate| {
            let bound = Bound::of(&size, operation, &candidate.model, !budgets.is_empty());
            (candidate, bound)
        })
        .collect();
    if offered.is_empty() {
        return Err(NoRoute::Unsupported(operation));
    }
    if let Some(refused) = unbounded(&offered, budgets) {
        return Err(refused);
    }
    let offered = offered.into_iter().map(|(candidate, bound)| (candidate.index, bound)).collect();
    let (bounds, asks) = bounded(offered, budgets);
    let plan = Plan::new(Arc::clone(offer), operation, drawn);
    Ok(Route { plan, bounds, asks, stream: call.stream(), region: home.clone() })
}

/// A bound by the number of its model.
type Bounds = Vec<(usize, Bound)>;

/// Those models that every budget can bound, and the most that each budget would pay whichever of them serves.
fn bounded(offered: Bounds, budgets: &[Budget]) -> (Bounds, Vec<(BudgetId, Amount)>) {
    let bounds: Bounds =
        offered.into_iter().filter(|(_, bound)| unpayable(bound, budgets).is_none()).collect();
    let most = |budget: &Budget| bounds.iter().filter_map(|(_, bound)| bound.amount(budget.unit)).max();
    let asks = budgets.iter().filter_map(|budget| Some((budget.id, most(budget)?))).collect();
    (bounds, asks)
}

/// A budget that has no bound to hold.
fn unpayable<'b>(bound: &Bound, budgets: &'b [Budget]) -> Option<&'b Budget> {
    budgets.iter().find(|budget| bound.amount(budget.unit).is_none())
}

/// Why no model can be paid for, told by the first.
fn unbounded(offered: &[(&Arc<Candidate>, Bound)], budgets: &[Budget]) -> Option<NoRoute> {
    if offered.iter().any(|(_, bound)| unpayable(bound, budgets).is_none()) {
        return None;
    }
    let (candidate, bound) = offered.first()?;
    let budget = unpayable(bound, budgets)?;
    let (model, lacks) = (candidate.model.name.clone(), bound.lacks(budget.unit, &candidate.model));
    Some(NoRoute::Unbounded { budget: budget.name.clone(), model, lacks })
}

impl Route {
    /// What each budget must hold.
    pub(crate) fn asks(&self) -> &[(BudgetId, Amount)] {
        &self.asks
    }

    /// Whether an event stream was asked for.
    pub(crate) const fn stream(&self) -> bool {
        self.stream
    }

    /// The region that took the call.
    pub(crate) const fn region(&self) -> &RegionName {
        &self.region
    }

    /// The next attempt; `None` when nothing is left to try.
    pub(crate) fn next(&self, links: &Links) -> Option<Attempt> {
        self.plan.next(links, |candidate| self.bounds.iter().any(|(index, _)| *index == candidate.index))
    }

    /// What the call can be and cost at most at a model of this route.
    pub(crate) fn bound(&self, candidate: &Candidate) -> Option<&Bound> {
        self.bounds.iter().find(|(index, _)| *index == candidate.index).map(|(_, bound)| bound)
    }

    /// An attempt failed.
    pub(crate) fn failed(&mut self, attempt: &Attempt, culprit: Culprit) {
        self.plan.failed(attempt, culprit);
    }
}

/// The links as last seen. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct View(Arc<ArcSwap<Links>>);

impl View {
    /// The links as last seen.
    pub(crate) fn load(&self) -> Arc<Links> {
        self.0.load_full()
    }

    /// Looks at the links now.
    pub(crate) fn look(&self, own: &Name, snapshots: &Snapshots, links: &mesh::Links) {
        let seen = Links::new(&snapshots.nodes(), own, snapshots.home(), &links.rtts());
        self.0.store(Arc::new(seen));
    }

    /// Follows the links until `stop`, and keeps one standing to every node that a call may go to.
    pub(crate) async fn follow(
        self,
        host: Host,
        own: Name,
        snapshots: Snapshots,
        links: mesh::Links,
        stop: Stop,
    ) {
        let mut changes = snapshots.watch();
        while !stop.is_wanted() {
            self.look(&own, &snapshots, &links);
            self.dial(&host, &links);
            tokio::select! {
                biased;
                () = stop.wanted() => return,
                () = changes.next() => {
                    let nodes = snapshots.nodes();
                    links.retain(|name| nodes.is_empty() || nodes.iter().any(|node| node.name == *name));
                }
                () = host.sleep(LOOK) => {}
            }
        }
    }

    /// Dials what does not stand; the mesh keeps it to one dial at a time and waits longer after each failure.
    fn dial(&self, host: &Host, links: &mesh::Links) {
        let seen = self.load();
        for link in seen.edges().iter().chain(seen.central()).filter(|link| link.rtt.is_none()) {
            let (links, node) = (links.clone(), link.address());
            let dial = async move {
                if let Err(error) = links.connect(&node).await {
                    tracing::debug!(node = %node.name, %error, "a link does not stand");
                }
            };
            drop(host.spawn("dial", dial));
        }
    }
}
