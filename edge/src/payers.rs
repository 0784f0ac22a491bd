//! Which budgets pay for a call: its tenant's, application's, key's, scenario's and end user's whoever answers, and those of the
//! models and providers that may answer it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{BudgetId, ModelName, Name, TenantName};
use edge_core::plan::{Attempt, Candidate, Path};
use wire::catalog::{Budget, Catalog, Scope};

use crate::ingress::Behalf;
use crate::snapshot::Principal;

/// Budgets of models and of providers.
#[derive(Debug, Default)]
pub(crate) struct ModelBudgets {
    by_model: BTreeMap<ModelName, Vec<Arc<Budget>>>,
    by_provider: BTreeMap<Name, Vec<Arc<Budget>>>,
}

impl ModelBudgets {
    /// Of a consistent catalog.
    pub(crate) fn compile(catalog: &Catalog) -> Self {
        let mut compiled = Self::default();
        for budget in catalog.budgets.values() {
            match &budget.scope {
                Scope::Model(_tenant, name) => {
                    let budget = Arc::new(budget.clone());
                    let group = catalog.groups.get(name).map(|group| group.models.as_slice());
                    for model in group.unwrap_or_else(|| std::slice::from_ref(name)) {
                        compiled.by_model.entry(model.clone()).or_default().push(Arc::clone(&budget));
                    }
                }
                Scope::Provider(provider) => {
                    compiled.by_provider.entry(provider.clone()).or_default().push(Arc::new(budget.clone()));
                }
                Scope::Tenant(_)
                | Scope::App(..)
                | Scope::Key(_)
                | Scope::Scenario(..)
                | Scope::EachUser(..) => {}
            }
        }
        compiled
    }

    /// Those that pay when `candidate` answers a call of `tenant`.
    fn of<'a>(
        &'a self,
        candidate: &'a Candidate,
        tenant: &'a TenantName,
    ) -> impl Iterator<Item = &'a Arc<Budget>> {
        let is_theirs = move |budget: &&Arc<Budget>| match &budget.scope {
            Scope::Model(Some(only), _name) => only == tenant,
            _any => true,
        };
        let provider = candidate.model.provider.as_ref().filter(|_| candidate.relayed);
        let of_model = self.by_model.get(&candidate.model.name).into_iter().flatten();
        let of_provider = provider.and_then(|provider| self.by_provider.get(provider)).into_iter().flatten();
        of_model.filter(is_theirs).chain(of_provider)
    }
}

/// A budget of a call.
#[derive(Clone, Debug)]
pub(crate) struct Payer {
    pub(crate) budget: Arc<Budget>,
    /// The models it pays for, by their numbers; `None`: whichever answers.
    models: Option<Vec<usize>>,
    /// The account of it: the budget itself, or the end user's.
    account: BudgetId,
}

impl Payer {
    fn new(budget: &Arc<Budget>, user: u64, models: Option<Vec<usize>>) -> Self {
        let account = if budget.is_each_users() { budget.id.of_user(user) } else { budget.id };
        Self { budget: Arc::clone(budget), models, account }
    }

    /// Whether it pays when this model answers.
    pub(crate) fn pays_for(&self, model: usize) -> bool {
        self.models.as_ref().is_none_or(|models| models.contains(&model))
    }

    /// Whether it pays for what this attempt came to.
    pub(crate) fn pays(&self, attempt: &Attempt) -> bool {
        let served = match &self.budget.scope {
            // A model may have replicas of its own beside its provider.
            Scope::Provider(_) => matches!(attempt.path, Path::Central(_)),
            _other => true,
        };
        served && self.pays_for(attempt.candidate.index)
    }

    /// Whether there may be a call that it does not pay for.
    pub(crate) const fn is_of_models(&self) -> bool {
        self.models.is_some()
    }

    /// Which account of a budget.
    pub(crate) const fn id(&self) -> BudgetId {
        self.account
    }
}

/// All that pay for a call of `principal` on this behalf that one of `candidates` answers.
pub(crate) fn payers<'a>(
    principal: &Principal,
    behalf: &Behalf,
    candidates: impl Iterator<Item = &'a Candidate>,
    of_models: &ModelBudgets,
) -> Vec<Payer> {
    let of_scenario = behalf.scenario.as_ref().and_then(|scenario| principal.scenarios.get(scenario));
    let of_caller = principal.budgets.iter().chain(of_scenario.into_iter().flatten());
    let mut payers: Vec<Payer> = of_caller.map(|budget| Payer::new(budget, behalf.user, None)).collect();
    let whole = payers.len();
    for candidate in candidates {
        for budget in of_models.of(candidate, &principal.tenant) {
            let known = payers.iter_mut().skip(whole).find(|payer| payer.id() == budget.id);
            match known.and_then(|payer| payer.models.as_mut()) {
                Some(models) => models.push(candidate.index),
                None => {
                    payers.push(Payer::new(budget, behalf.user, Some(vec![candidate.index])));
                }
            }
        }
    }
    payers
}
