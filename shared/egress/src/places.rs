//! Calls that wait for a place while every instance of a model is full.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{ModelName, Mono, Name};
use upstream::{Crowded, KeyCall, Lack, Waiter};
use wire::call::{CallHead, ServeAt};
use wire::catalog::Dialect;

use crate::instance::Instance;
use crate::line::{Line, NotYet, Waited};
use crate::pool::{Place, Shared};

/// The line before one model's instances.
pub(crate) type Places = Line<Waiting, Place>;

/// What a call wants of a model's instances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) model: &'a ModelName,
    pub(crate) at: ServeAt,
    pub(crate) dialect: Dialect,
    /// The most tokens that it can be.
    pub(crate) tokens: u64,
    pub(crate) tried: &'a Tried,
}

/// What failed a call so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tried {
    pub(crate) instances: Vec<Arc<Instance>>,
    /// Names of keys, by the upstream's.
    pub(crate) keys: BTreeMap<Name, Vec<Name>>,
}

/// The same, while it waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    model: ModelName,
    at: ServeAt,
    dialect: Dialect,
    tokens: u64,
    tried: Tried,
}

impl<'a> Wanted<'a> {
    pub(crate) const fn by(call: &'a CallHead, tried: &'a Tried) -> Self {
        let CallHead { model, serve_at, dialect, tokens, .. } = call;
        Self { model, at: *serve_at, dialect: *dialect, tokens: *tokens, tried }
    }

    /// What it wants of a key.
    pub(crate) const fn of_key(self) -> KeyCall<'a> {
        KeyCall { model: self.model, tokens: self.tokens }
    }
}

impl Tried {
    pub(crate) fn has(&self, instance: &Arc<Instance>) -> bool {
        self.instances.iter().any(|used| Arc::ptr_eq(used, instance))
    }

    /// Keys of an upstream that failed the call.
    pub(crate) fn keys_of(&self, upstream: &Name) -> &[Name] {
        self.keys.get(upstream).map_or(&[], Vec::as_slice)
    }
}

impl Waiting {
    fn wanted(&self) -> Wanted<'_> {
        let Self { model, at, dialect, tokens, tried } = self;
        Wanted { model, at: *at, dialect: *dialect, tokens: *tokens, tried }
    }
}

impl Shared {
    /// A place for `call` as soon as it is its turn, within `until`; refused at once when the line is full.
    pub(crate) async fn wait_for_place(
        self: &Arc<Self>,
        call: &CallHead,
        tried: &Tried,
        until: Mono,
    ) -> Place {
        let Some(line) = self.line(&call.model) else { return Place::None };
        let (tenant, weight, priority) = (call.tenant.clone(), call.weight, call.priority);
        let waiter = Waiter { tenant, weight, priority, until, lack: Lack::default() };
        let CallHead { model, serve_at, dialect, tokens, .. } = call;
        let (at, dialect, tokens) = (*serve_at, *dialect, *tokens);
        let waiting = Waiting { model: model.clone(), at, dialect, tokens, tried: tried.clone() };
        match line.wait(waiter, waiting, || self.serve_line(&line)).await {
            Waited::Served(place) => place,
            Waited::Late => Place::Full { until: None },
            Waited::Crowded(Crowded { after }) => Place::Crowded { after },
        }
    }

    /// Hands places that are free to the calls whose turn it is, and again when rates let the first of the others pass.
    pub(crate) fn serve_line(self: &Arc<Self>, line: &Arc<Places>) {
        let again = line.serve(|waiting, now| match self.place_in_turn(waiting.wanted(), line, now) {
            // All wait for the same model.
            Place::Full { until } => Err(NotYet { again: until, lack: Lack::default() }),
            decided => Ok(decided),
        });
        let Some(again) = again else { return };
        let (host, shared, line) = (self.host.clone(), Arc::downgrade(self), Arc::clone(line));
        drop(self.host.spawn("egress-line", async move {
            host.sleep_until(again).await;
            if let Some(shared) = shared.upgrade() {
                shared.serve_line(&line);
            }
        }));
    }
}
