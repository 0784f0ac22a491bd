//! What an edge counts, with handles resolved when configuration changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use base::{Code, ModelName, Mono, TenantName, Tokens};
use edge_core::bound::Bound;
use edge_core::deviation::Deviation;
use edge_core::plan::Path;
use egress::Failed;
use seam::Lock;
use telemetry::metrics::{EdgeMetrics, ModelMetrics, Path as Route, TenantMetrics};
use wire::catalog::{Catalog, Operation};
use wire::ledger::{Outcome, Receipt};

use crate::admission::{Denied, Permit};
use crate::call::Edge;
use crate::identity::Caller;
use crate::purse::Refusal;
use crate::record::Known;
use crate::settle::Closed;

/// An edge's counters.
#[derive(Debug)]
pub(crate) struct Counters {
    edge: EdgeMetrics,
    handles: ArcSwap<Handles>,
    /// How far what is thought of models' input is from what they bill; of models that are configured.
    deviations: Lock<BTreeMap<ModelName, Deviation>>,
}

#[derive(Debug, Default)]
struct Handles {
    models: BTreeMap<ModelName, [ModelMetrics; 2]>,
    /// Of calls that came to no model.
    nowhere: Option<[ModelMetrics; 2]>,
    tenants: BTreeMap<TenantName, TenantMetrics>,
}

impl Counters {
    pub(crate) fn new(edge: EdgeMetrics) -> Self {
        Self { edge, handles: ArcSwap::default(), deviations: Lock::default() }
    }

    /// The metrics themselves.
    pub(crate) const fn edge(&self) -> &EdgeMetrics {
        &self.edge
    }

    /// Resolves handles for what a configuration names.
    pub(crate) fn resolve(&self, catalog: &Catalog) {
        let both = [Operation::Chat, Operation::Embeddings];
        let models = catalog.models.keys();
        let tenants = catalog.tenants.keys();
        self.deviations.lock().retain(|name, _| catalog.models.contains_key(name));
        self.handles.store(Arc::new(Handles {
            models: models
                .map(|name| (name.clone(), both.map(|operation| self.edge.model(name, operation))))
                .collect(),
            nowhere: Some(both.map(|operation| self.edge.no_model(operation))),
            tenants: tenants.map(|name| (name.clone(), self.edge.tenant(name))).collect(),
        }));
    }

    /// Sets what is only looked at when somebody asks.
    pub(crate) fn look(&self, edge: &Edge) {
        let (calls, streams) = edge.gate.lock().in_progress();
        self.edge.in_flight.set(i64::from(calls));
        self.edge.streams.set(i64::from(streams));
        let snapshot = edge.snapshots.load();
        self.edge.epoch.set(signed(snapshot.epoch().0));
        self.edge.config_age.set(signed(edge.snapshots.age(edge.host.now()).as_secs()));
        for (node, rtt) in edge.dispatcher.rtts() {
            self.edge.link(&node, rtt);
        }
        self.edge.instances_out.set(signed(edge.dispatcher.instances_out()));
        let (budgets, receipts) = edge.purse.standing();
        self.edge.spool_pending.set(signed(receipts as u64));
        for (id, [granted, spent, held]) in budgets {
            if let Some(budget) = snapshot.budgets().values().find(|budget| budget.id == id) {
                self.edge.budget(&budget.name).set(granted, spent, held);
            }
        }
        for (id, recalls) in edge.purse.take_recalls() {
            if let Some(budget) = snapshot.budgets().values().find(|budget| budget.id == id) {
                let of = (budget.scope.level(), budget.unit);
                self.edge.recalls.recalled(of, recalls.times, recalls.credit);
            }
        }
    }

    /// A call was admitted or not, perhaps after waiting for credit.
    pub(crate) fn admitted(&self, admitted: &Result<Permit, Denied>) {
        match admitted {
            Ok(permit) if permit.waited() => self.edge.waited_for_credit(true),
            Err(Denied::Budget(Refusal::Exceeded { waited: true, .. }, _)) => {
                self.edge.waited_for_credit(false);
            }
            Ok(_) | Err(_) => {}
        }
        if let Err(denied) = admitted {
            self.denied(denied);
        }
    }

    /// A limit or a budget refused a call.
    pub(crate) fn denied(&self, denied: &Denied) {
        let (level, what) = denied.level_and_want();
        self.edge.refused(level, what);
    }

    /// A call got an error of ours.
    pub(crate) fn rejected(&self, code: Code) {
        self.edge.rejected(code);
    }

    /// An attempt was answered.
    pub(crate) fn answered(&self, path: &Path) {
        self.edge.attempted(route(path), Ok(()));
    }

    /// An attempt failed.
    pub(crate) fn failed(&self, path: &Path, failed: &Failed) {
        self.edge.attempted(route(path), Err(failed.failure.code));
        if failed.tail.reached_upstream {
            self.edge.overhead(route(path));
        }
    }

    /// A call was not admitted, or its caller left before.
    pub(crate) fn refused(
        &self,
        operation: Operation,
        caller: Option<&Caller>,
        known: &Known,
        outcome: Outcome,
    ) {
        let handles = self.handles.load();
        handles.refused(known.asked.as_ref(), operation, outcome);
        if let Some(tenant) = caller.and_then(|caller| handles.tenants.get(&caller.principal().tenant)) {
            tenant.refused(outcome);
        }
    }

    /// A call's account was closed.
    pub(crate) fn closed(&self, closed: &Closed<'_>) {
        let (open, receipt) = (closed.open, closed.receipt);
        let handles = self.handles.load();
        if let Some(tenant) = handles.tenants.get(&receipt.tenant) {
            tenant.ended(receipt.outcome, receipt.usage, receipt.cost);
        }
        let attempted = open.attempt.as_ref().map(|(attempt, _)| &attempt.candidate.model.name);
        let operation = open.arrival.operation;
        let Some(model) = attempted.and_then(|model| handles.model(model, operation)) else {
            handles.refused(open.asked.as_ref(), operation, receipt.outcome);
            return;
        };
        let started = open.arrival.started;
        let first_byte = open.times.first_byte.map(|at| at.since(started));
        model.ended(receipt.outcome, closed.ended.since(started), first_byte, open.times.longest_gap);
        model.settled(receipt.usage, receipt.cost);
        if let Some((attempt, bound)) = &open.attempt {
            self.billed(&attempt.candidate.model.name, model, bound, receipt, closed.ended);
        }
    }

    /// Compares what a call was thought to say with what its upstream reported.
    fn billed(&self, name: &ModelName, model: &ModelMetrics, bound: &Bound, receipt: &Receipt, now: Mono) {
        let (likely, billed) = (bound.likely, receipt.usage.input);
        if receipt.estimated || !bound.likely_is_whole || billed == Tokens(0) {
            return;
        }
        let standing = self.deviations.lock().entry(name.clone()).or_default().billed(likely, billed, now);
        model.billed(likely, billed, standing.deviates);
        if let Some(per_mille) = standing.per_mille.filter(|_| standing.tell) {
            tracing::warn!(model = %name, per_mille, "a model bills other input tokens than its calls are thought to have");
        }
    }
}

impl Handles {
    fn model(&self, model: &ModelName, operation: Operation) -> Option<&ModelMetrics> {
        self.models.get(model).map(|both| of(both, operation))
    }

    /// A call came to no attempt. Names that callers make up become no labels.
    fn refused(&self, asked: Option<&ModelName>, operation: Operation, outcome: Outcome) {
        let model = asked.and_then(|model| self.model(model, operation));
        let nowhere = self.nowhere.as_ref().map(|both| of(both, operation));
        if let Some(model) = model.or(nowhere) {
            model.refused(outcome);
        }
    }
}

const fn of([chat, embeddings]: &[ModelMetrics; 2], operation: Operation) -> &ModelMetrics {
    match operation {
        Operation::Chat => chat,
        Operation::Embeddings => embeddings,
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

const fn route(path: &Path) -> Route {
    match path {
        Path::Local => Route::Local,
        Path::Peer(_) => Route::Peer,
        Path::Central(_) => Route::Relay,
    }
}
