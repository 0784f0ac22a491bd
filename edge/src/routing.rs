//! Where a call may go: what its name stands for, what each of its models can cost at most, and the walk over them.
//!
//! Pure but for one view that a task refreshes: which links stand and how long they take. Asked again after each
//! failure.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use base::{Amount, BudgetId, ModelName, Name, RegionName, Tokens, WallMs};
use edge_core::bound::{Bound, Lacks, Size};
use edge_core::plan::{Attempt, Candidate, Culprit, Links, Offer, Plan};
use seam::{Host, Stop};
use wire::catalog::{Budget, Dialect, Operation};

use crate::convert::Call;
use crate::identity::Caller;
use crate::ingress::Behalf;
use crate::payers::{Payer, payers};
use crate::snapshot::Snapshots;
use crate::thresholds::Economy;

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
    /// What pays for it.
    payers: Vec<Payer>,
    offer: Arc<Offer>,
    stream: bool,
    region: RegionName,
    /// When the call came: prices in force then count.
    at: WallMs,
}

/// Finds where a call that came `at` may go, and which budgets pay. `drawn` is a random number.
///
/// # Errors
/// [`NoRoute`] says why it may go nowhere.
pub(crate) fn route(
    caller: &Caller,
    call: &Call,
    behalf: &Behalf,
    home: &RegionName,
    (at, drawn): (WallMs, u64),
) -> Result<Route, NoRoute> {
    let offer = caller.snapshot().offer(call.model()).ok_or(NoRoute::Unknown)?;
    if !caller.principal().may_ask(call.model()) {
        return Err(NoRoute::Forbidden);
    }
    let operation = call.operation();
    let offered = || offer.candidates().filter(|candidate| candidate.model.operations.contains(&operation));
    if offered().next().is_none() {
        return Err(NoRoute::Unsupported(operation));
    }
    let of_models = caller.snapshot().model_budgets();
    let payers = payers(caller.principal(), behalf, offered().map(AsRef::as_ref), of_models);
    let bound = |candidate: &Candidate| {
        let is_paid = payers.iter().any(|payer| payer.pays_for(candidate.index));
        Bound::of(&call.size(&candidate.model), operation, &candidate.model, is_paid, at)
    };
    let offered: Vec<_> = offered().map(|candidate| (candidate, bound(candidate))).collect();
    if let Some(refused) = unbounded(&offered, &payers) {
        return Err(refused);
    }
    let payable =
        |(candidate, bound): &(&Arc<Candidate>, Bound)| unpayable(candidate.index, bound, &payers).is_none();
    let bounds = offered.into_iter().filter(payable);
    let bounds = bounds.map(|(candidate, bound)| (candidate.index, bound)).collect();
    let plan = Plan::new(Arc::clone(offer), operation, drawn);
    let offer = Arc::clone(offer);
    Ok(Route { plan, bounds, payers, offer, stream: call.stream(), region: home.clone(), at })
}

/// A budget that has no bound to hold.
fn unpayable<'p>(model: usize, bound: &Bound, payers: &'p [Payer]) -> Option<&'p Budget> {
    let mut budgets = payers.iter().filter(|payer| payer.pays_for(model)).map(|payer| payer.budget.as_ref());
    budgets.find(|budget| bound.amount(budget.unit).is_none())
}

/// Why no model can be paid for, told by the first.
fn unbounded(offered: &[(&Arc<Candidate>, Bound)], payers: &[Payer]) -> Option<NoRoute> {
    if offered.iter().any(|(candidate, bound)| unpayable(candidate.index, bound, payers).is_none()) {
        return None;
    }
    let (candidate, bound) = offered.first()?;
    let budget = unpayable(candidate.index, bound, payers)?;
    let (model, lacks) = (candidate.model.name.clone(), bound.lacks(budget.unit));
    Some(NoRoute::Unbounded { budget: budget.name.clone(), model, lacks })
}

impl Route {
    /// What each budget must hold: the most that it would pay, whichever of its models answers.
    pub(crate) fn asks(&self) -> Vec<(BudgetId, Amount)> {
        let priced = if base::mutant!(FirstModelHeld) { 1 } else { self.bounds.len() };
        let most = |payer: &Payer| {
            let paid = self.bounds.iter().filter(|(model, _)| payer.pays_for(*model));
            paid.take(priced).filter_map(|(_, bound)| bound.amount(payer.budget.unit)).max()
        };
        self.payers.iter().filter_map(|payer| Some((payer.id(), most(payer)?))).collect()
    }

    /// Tokens that the call likely needs, whichever model answers.
    pub(crate) fn likely_tokens(&self) -> u64 {
        self.bounds.iter().map(|(_model, bound)| bound.likely_tokens()).max().unwrap_or_default()
    }

    /// The model that is tried first, if not one of those `over` their limits; `None` when nothing can be reached.
    pub(crate) fn first(&self, links: &Links, over: &[usize]) -> Option<Arc<Candidate>> {
        let usable = |candidate: &Candidate| self.may_use(candidate) && !over.contains(&candidate.index);
        self.plan.next(links, usable).map(|attempt| attempt.candidate)
    }

    /// Leaves out models.
    pub(crate) fn leave_out_models(&mut self, models: &[usize]) {
        self.bounds.retain(|(model, _bound)| !models.contains(model));
    }

    /// Leaves out the models that speak an API.
    pub(crate) fn leave_out_speakers(&mut self, dialect: Dialect) {
        let Self { offer, bounds, .. } = self;
        let speaks =
            |model: &usize| offer.candidates().any(|one| one.index == *model && one.model.dialect == dialect);
        bounds.retain(|(model, _bound)| !speaks(model));
    }

    /// What pays for it.
    pub(crate) fn payers(&self) -> &[Payer] {
        &self.payers
    }

    /// Leaves out the models that a budget pays for which cannot. Whether others are left.
    pub(crate) fn leave_out(&mut self, budget: BudgetId) -> bool {
        let Some(payer) = self.payers.iter().find(|payer| payer.id() == budget && payer.is_of_models())
        else {
            return false;
        };
        if self.bounds.iter().all(|(model, _)| payer.pays_for(*model)) {
            return false;
        }
        self.bounds.retain(|(model, _)| !payer.pays_for(*model));
        self.payers.retain(|payer| payer.id() != budget);
        true
    }

    /// Makes the call cheaper: a smaller cap goes on the wire, and only the cheapest models are left.
    pub(crate) fn economize(&mut self, call: &Call, economy: &Economy) {
        let cap = economy.output_cap.filter(|_| call.operation() == Operation::Chat);
        if cap.is_some() || !economy.off.is_empty() {
            self.shrink(call, cap);
        }
        // What is likely compares models that are bounded by other means.
        let least = self.bounds.iter().filter_map(|(_, bound)| bound.likely_cost).min();
        if economy.cheapest
            && let Some(least) = least
        {
            self.bounds.retain(|(_, bound)| bound.likely_cost == Some(least));
        }
    }

    /// Bounds the call anew: as what it is by now, and with a smaller cap, if there is one.
    fn shrink(&mut self, call: &Call, cap: Option<Tokens>) {
        for (model, bound) in &mut self.bounds {
            let candidate = self.offer.candidates().find(|candidate| candidate.index == *model);
            let Some(candidate) = candidate else { continue };
            let size = call.size(&candidate.model);
            let smaller = cap.filter(|cap| size.cap.is_none_or(|given| given > *cap));
            let is_paid = self.payers.iter().any(|payer| payer.pays_for(*model));
            let size = Size { cap: smaller.or(size.cap), ..size };
            *bound = Bound::of(&size, call.operation(), &candidate.model, is_paid, self.at);
            // The caller gave none, or a larger one.
            bound.wire_cap = bound.wire_cap.or(smaller);
        }
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
        self.plan.next(links, |candidate| self.may_use(candidate))
    }

    fn may_use(&self, candidate: &Candidate) -> bool {
        self.bounds.iter().any(|(index, _)| *index == candidate.index)
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
            self.prepare(&links);
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
    fn prepare(&self, links: &mesh::Links) {
        let seen = self.load();
        for link in seen.edges().iter().chain(seen.central()).filter(|link| link.rtt.is_none()) {
            links.prepare(&link.address());
        }
    }
}
