//! An account at a provider at run time: its keys under `upstream`'s rules, shared by all models that it serves.

use std::sync::Arc;
use std::time::Duration;

use base::{ModelName, Mono, Name, Usage};
use seam::Lock;
use telemetry::metrics::{KeyAway, KeyMetrics, KeyResult};
use upstream::{Away, Health, KeyCall, KeyModelStatus, KeyTerms, KeyTicket, Keys, KeysOffer, Quota};

use crate::Credential;
use crate::places::Places;

/// A key of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name, its share and what it takes.
    pub terms: KeyTerms,
    /// What makes us known to the provider.
    pub credential: Credential,
}

/// One account, as it is configured.
#[derive(Debug)]
pub(crate) struct Account {
    name: Name,
    keys: Vec<Key>,
    /// Shared with the account as it was before a change of its configuration: calls begun then still count.
    run: Arc<Run>,
}

#[derive(Debug)]
struct Run {
    state: Lock<Keys>,
    /// Who waits for a place at one of the account's models: a key that comes free may serve any of them.
    lines: Lock<Vec<Arc<Places>>>,
}

/// A call's place at a key; it [ends](Self::end) with the call's place at the instance.
#[derive(Debug)]
pub(crate) struct KeyLease {
    account: Arc<Account>,
    ticket: KeyTicket,
    credential: Credential,
}

/// What an operator may know of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// Whose it is.
    pub provider: Name,
    /// Its name.
    pub key: Name,
    /// Its share of calls, against the provider's other keys.
    pub weight: u32,
    /// Calls it serves.
    pub outstanding: u32,
    /// The provider refused it: how long until a call probes it, zero when one is due.
    pub suspended: Option<Duration>,
    /// The provider asked it to wait: how long.
    pub paced: Option<Duration>,
    /// What is known of it for single models.
    pub models: Vec<KeyModelState>,
}

/// What an operator may know of a key for one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyModelState {
    /// The model.
    pub model: ModelName,
    /// The provider refused it to the key: how long until a call probes it, zero when one is due.
    pub suspended: Option<Duration>,
    /// Nothing is left of a limit: for how long.
    pub spent: Option<Duration>,
    /// Calls that are left, as the provider said last.
    pub requests: Option<u64>,
    /// Tokens that are left, as the provider said last.
    pub tokens: Option<u64>,
}

impl Account {
    pub(crate) fn new(name: &Name, keys: &[Key]) -> Self {
        let state = Lock::new(Keys::new(&terms(keys)));
        let run = Run { state, lines: Lock::new(Vec::new()) };
        Self { name: name.clone(), keys: keys.to_vec(), run: Arc::new(run) }
    }

    /// Whether it has these keys.
    pub(crate) fn is_same(&self, keys: &[Key]) -> bool {
        self.keys == keys
    }

    /// The same account with other keys, or the same ones under other terms.
    pub(crate) fn renewed(&self, keys: &[Key], now: Mono) -> Self {
        let credential = |keys: &[Key], name: &Name| {
            keys.iter().find(|key| key.terms.name == *name).map(|key| key.credential.clone())
        };
        let is_new = |name: &Name| credential(&self.keys, name) != credential(keys, name);
        self.run.state.lock().change(&terms(keys), is_new, now);
        Self { name: self.name.clone(), keys: keys.to_vec(), run: Arc::clone(&self.run) }
    }

    /// From now on these are the lines before its models.
    pub(crate) fn serves(&self, lines: Vec<Arc<Places>>) {
        *self.run.lines.lock() = lines;
    }

    pub(crate) fn lines(&self) -> Vec<Arc<Places>> {
        self.run.lines.lock().clone()
    }

    pub(crate) fn offer(&self, call: KeyCall<'_>, tried: &[Name], now: Mono) -> KeysOffer {
        self.run.state.lock().offer(call, tried, now)
    }

    /// A place at a key; `None` when the offer changed since it was made.
    pub(crate) fn take(
        self: &Arc<Self>,
        call: KeyCall<'_>,
        tried: &[Name],
        now: Mono,
        draw: u64,
    ) -> Option<KeyLease> {
        let mut state = self.run.state.lock();
        let ticket = state.take(call, tried, now, draw)?;
        let Some(key) = self.keys.iter().find(|key| key.terms.name == *ticket.name()) else {
            // The account was renewed since: whoever takes from it as it is now finds the key.
            state.end(&ticket, Health::Unknown, now, draw);
            return None;
        };
        Some(KeyLease { account: Arc::clone(self), credential: key.credential.clone(), ticket })
    }

    pub(crate) fn status(&self, now: Mono) -> Vec<KeyState> {
        let state = |key: upstream::KeyStatus| KeyState {
            provider: self.name.clone(),
            key: key.name,
            weight: key.weight,
            outstanding: key.outstanding,
            suspended: key.suspended.map(|until| until.since(now)),
            paced: key.paced.map(|until| until.since(now)),
            models: key.models.into_iter().map(|of| KeyModelState::new(of, now)).collect(),
        };
        self.run.state.lock().status(now).into_iter().map(state).collect()
    }
}

impl KeyModelState {
    fn new(of: KeyModelStatus, now: Mono) -> Self {
        let left = |until: Option<Mono>| until.map(|until| until.since(now));
        let KeyModelStatus { model, suspended, spent, requests, tokens } = of;
        Self { model, suspended: left(suspended), spent: left(spent), requests, tokens }
    }
}

impl KeyLease {
    pub(crate) const fn name(&self) -> &Name {
        self.ticket.name()
    }

    pub(crate) const fn credential(&self) -> &Credential {
        &self.credential
    }

    pub(crate) const fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// The provider said what is left of the key's limits.
    pub(crate) fn learn(&self, quota: &Quota, now: Mono, metrics: &KeyMetrics) {
        let away = self.account.run.state.lock().learn(&self.ticket, quota, now);
        self.count(away, metrics);
    }

    fn count(&self, away: Option<Away>, metrics: &KeyMetrics) {
        let why = match away {
            None => return,
            Some(Away::Paced) => KeyAway::Paced,
            Some(Away::Spent) => KeyAway::Spent,
            Some(Away::Suspended) => KeyAway::Suspended,
            Some(Away::SuspendedForModel) => KeyAway::SuspendedForModel,
        };
        metrics.away(&self.account.name, self.name(), why);
    }

    pub(crate) fn answered(&self) {
        self.account.run.state.lock().answered(&self.ticket);
    }

    pub(crate) fn settle(&mut self, usage: Usage) {
        let tokens = usage.input.saturating_add(usage.output);
        self.account.run.state.lock().settle(&mut self.ticket, tokens.0);
    }

    /// The call ended.
    pub(crate) fn end(&self, health: Health, now: Mono, draw: u64, metrics: &KeyMetrics) {
        let away = self.account.run.state.lock().end(&self.ticket, health, now, draw);
        self.count(away, metrics);
        metrics.ended(&self.account.name, self.name(), result(health));
        let (provider, key, model) = (&self.account.name, self.name(), self.ticket.model());
        match health {
            Health::Refused => tracing::warn!(%provider, %key, "the provider refuses a key; it is suspended"),
            Health::Forbidden | Health::Missing => {
                tracing::warn!(%provider, %key, %model, "the provider refuses a model to a key; it is suspended for that");
            }
            Health::Limited(wait) => tracing::debug!(%provider, %key, ?wait, "a key was limited"),
            Health::Good | Health::Unknown | Health::Failed | Health::Broken | Health::Paced(_) => {}
        }
    }
}

const fn result(health: Health) -> KeyResult {
    match health {
        Health::Good => KeyResult::Served,
        Health::Limited(_) => KeyResult::Limited,
        Health::Refused => KeyResult::Refused,
        Health::Forbidden | Health::Missing => KeyResult::ModelRefused,
        Health::Failed | Health::Broken | Health::Paced(_) => KeyResult::Failed,
        Health::Unknown => KeyResult::Other,
    }
}

fn terms(keys: &[Key]) -> Vec<KeyTerms> {
    keys.iter().map(|key| key.terms.clone()).collect()
}
