//! What is known of a key for one model: whether its provider lets it have the model, and what it said to be left of the
//! key's limits there.

use std::collections::BTreeMap;

use base::{ModelName, Mono};

use super::state::State;
use crate::{Left, Quota};

/// Models of which something is known; of more, nothing is kept. Names come from the configuration, which has seldom as many.
const MOST: usize = 1_024;

/// By model; one that is not here serves.
#[derive(Clone, Debug, Default)]
pub(super) struct Models(BTreeMap<ModelName, OfModel>);

/// What is known for one model.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfModel {
    pub(super) state: State,
    pub(super) requests: Option<Rest>,
    pub(super) tokens: Option<Rest>,
    input: Option<Rest>,
    output: Option<Rest>,
}

/// What is left of one limit, until it is whole again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rest {
    pub(super) remaining: u64,
    pub(super) until: Mono,
}

impl Models {
    pub(super) fn get(&self, model: &ModelName) -> Option<&OfModel> {
        self.0.get(model)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ModelName, &OfModel)> {
        self.0.iter()
    }

    /// Changes the state, if there is one.
    pub(super) fn change(&mut self, model: &ModelName, change: impl FnOnce(State) -> State) {
        if let Some(of) = self.0.get_mut(model) {
            of.state = change(of.state);
        }
    }

    /// Whether the key is refused for the model, as far as is known.
    pub(super) fn is_refused(&self, model: &ModelName) -> bool {
        self.get(model).is_some_and(|of| of.state != State::Known)
    }

    /// Makes room to know something of a model.
    pub(super) fn at(&mut self, model: &ModelName, now: Mono) -> Option<&mut OfModel> {
        if self.0.len() >= MOST && !self.0.contains_key(model) {
            self.0.retain(|_model, of| of.tells(now));
        }
        if self.0.len() >= MOST && !self.0.contains_key(model) {
            return None;
        }
        Some(self.0.entry(model.clone()).or_insert(OfModel {
            state: State::Known,
            requests: None,
            tokens: None,
            input: None,
            output: None,
        }))
    }

    /// The provider said what is left.
    pub(super) fn learn(&mut self, model: &ModelName, quota: &Quota, now: Mono) {
        if *quota == Quota::default() {
            return;
        }
        let Some(of) = self.at(model, now) else { return };
        let rest = |left: Left| Rest { remaining: left.remaining, until: now + left.reset };
        for (known, said) in [
            (&mut of.requests, quota.requests),
            (&mut of.tokens, quota.tokens),
            (&mut of.input, quota.input),
            (&mut of.output, quota.output),
        ] {
            *known = said.map(rest).or(*known);
        }
    }
}

impl OfModel {
    /// Until when the key is left alone for a call of so many tokens: it has used up what it may, or the call needs more
    /// than is left. How a call's tokens split into input and output is not known here.
    pub(super) fn spent(&self, tokens: u64, now: Mono) -> Option<Mono> {
        let needs = [(self.requests, 1), (self.tokens, tokens.max(1)), (self.input, 1), (self.output, 1)];
        let short = |(rest, needed): (Option<Rest>, u64)| rest.filter(|rest| rest.remaining < needed);
        needs.into_iter().filter_map(short).map(|rest| rest.until).filter(|until| *until > now).max()
    }

    fn tells(&self, now: Mono) -> bool {
        let limits = [self.requests, self.tokens, self.input, self.output];
        self.state != State::Known || limits.into_iter().flatten().any(|rest| rest.until > now)
    }
}
