//! The keys of one account at a provider: which of them a call is made with, and when one is left alone.
//!
//! Among the keys that can serve, calls are shared by weight. A key whose credential was refused is suspended for
//! 10 s to 20 s, twice as long after each refusal that follows, at most for 5 to 10 minutes; then one call probes it,
//! before any other key, and is made with another one if it fails. One that was refused a model is suspended in the same
//! way for that model alone; for all once a second model is forbidden to it before it served any. A key that was told to
//! wait is left alone for as long as it was told, at most for 10 minutes, and one that was limited without being told how
//! long, for 1 s to 2 s, twice as long after each such answer to a call made since, at most for 30 to 60 s, until it
//! serves. A key of whose limits for a model too little is left for a call is not asked for that model until they are
//! whole again. What is configured that a key takes is of all models together; of failures that are not the key's, nothing is
//! known here.

use std::time::Duration;

use base::{ModelName, Mono, Name};

use crate::{Backoff, Health, Quota, Terms};

mod key;
mod models;
mod state;
#[cfg(test)]
mod tests;

use key::{Can, End, Key};

/// How long a key is left alone whose credential was refused. Longer than a model server that failed: a key seldom comes
/// back by itself, and each probe costs a call one round trip.
const SUSPENDED: Backoff = Backoff { first: Duration::from_secs(20), cap: Duration::from_secs(600) };

/// Longest time for which a provider's `Retry-After` keeps a key away.
const MAX_PACE: Duration = Duration::from_secs(600);

/// How long a key is left alone that was limited, its provider saying nothing of when. Rates come free within a minute.
const SLOWED: Backoff = Backoff { first: Duration::from_secs(2), cap: Duration::from_secs(60) };

/// Until limits are whole again calls wait, as they do for a place, for as long at most as they would wait for one; a key of
/// which they had to wait longer is away.
const WAITED: Duration = Duration::from_secs(20);

/// What a key is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTerms {
    /// Its name, unique in its account.
    pub name: Name,
    /// Its share of calls, against the other keys'; 0 counts as 1.
    pub weight: u32,
    /// What it takes, of all models together.
    pub terms: Terms,
}

/// What a call wants of a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyCall<'a> {
    /// Its model.
    pub model: &'a ModelName,
    /// The most tokens that it can be.
    pub tokens: u64,
}

/// What the keys can do for a call now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysOffer {
    /// One of them takes it.
    Free,
    /// Those that could serve it have as many calls, or as much in a span of time, as they may.
    Full {
        /// When rates let the call pass at the first of them; `None`: once a call ends.
        until: Option<Mono>,
    },
    /// Each is kept away from its provider.
    Barred(Barred),
    /// The call was tried with each.
    None,
}

/// Why no key serves, as of the one that is back first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Barred {
    /// When it is back.
    pub until: Mono,
    /// What keeps it away.
    pub why: Barrier,
}

/// What keeps a key away from its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Barrier {
    /// The provider asked it to wait, or lets it have no more for now.
    Paced,
    /// The provider refused its credential, or the model to it.
    Suspended,
}

/// How a key came to be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Away {
    /// It was limited.
    Paced,
    /// Its provider said that nothing is left of a limit for one model.
    Spent,
    /// Its credential was refused.
    Suspended,
    /// A model was refused to it.
    SuspendedForModel,
}

/// A call's place at a key. Hand it back with [`Keys::end`], whatever happened.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyTicket {
    name: Name,
    model: ModelName,
    serial: u64,
    tokens: u64,
    /// When those come free.
    free: Mono,
}

/// How a key is, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStatus {
    /// Its name.
    pub name: Name,
    /// Its share.
    pub weight: u32,
    /// Calls it serves.
    pub outstanding: u32,
    /// Until when it is suspended; past once a probe is due.
    pub suspended: Option<Mono>,
    /// Until when it waits as its provider asked.
    pub paced: Option<Mono>,
    /// What is known of it for single models.
    pub models: Vec<KeyModelStatus>,
}

/// How a key is for one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyModelStatus {
    /// The model.
    pub model: ModelName,
    /// Until when it is suspended for the model; past once a probe is due.
    pub suspended: Option<Mono>,
    /// Until when nothing is left of a limit.
    pub spent: Option<Mono>,
    /// Calls that are left, as the provider said last.
    pub requests: Option<u64>,
    /// Tokens that are left, as the provider said last.
    pub tokens: Option<u64>,
}

/// The keys of one account.
#[derive(Clone, Debug)]
pub struct Keys {
    keys: Vec<Key>,
    serial: u64,
}

impl Keys {
    /// Keys of which nothing is known yet.
    #[must_use]
    pub fn new(terms: &[KeyTerms]) -> Self {
        Self { keys: terms.iter().map(|terms| Key::new(terms, 0)).collect(), serial: 0 }
    }

    /// Changes which keys there are and what they take; calls under way go on. A key that `is_new` has another credential
    /// than before: what was known of the old one is forgotten.
    pub fn change(&mut self, terms: &[KeyTerms], is_new: impl Fn(&Name) -> bool, now: Mono) {
        let old = std::mem::take(&mut self.keys);
        let renewed = |terms: &KeyTerms| {
            let before = old.iter().find(|key| key.terms.name == terms.name);
            before.map_or_else(
                || Key::new(terms, self.serial),
                |key| key.under(terms, is_new(&terms.name), now),
            )
        };
        self.keys = terms.iter().map(renewed).collect();
    }

    /// What they can do at `now` for a call that failed with the keys `tried`.
    #[must_use]
    pub fn offer(&self, call: KeyCall<'_>, tried: &[Name], now: Mono) -> KeysOffer {
        let (mut full, mut barred) = (None, None);
        for key in &self.keys {
            match key.can(call, now) {
                Can::Barred(bar) => barred = Some(barred.map_or(bar, |first: Barred| first.min(bar))),
                _tried if tried.contains(&key.terms.name) => {}
                Can::Probe | Can::Serve => return KeysOffer::Free,
                Can::Wait(until) => full = Some([full.flatten(), until].into_iter().flatten().min()),
            }
        }
        match (full, barred) {
            (Some(until), _) => KeysOffer::Full { until },
            (None, Some(barred)) => KeysOffer::Barred(barred),
            (None, None) => KeysOffer::None,
        }
    }

    /// Takes a call, at a key not among those `tried`; `None` when the offer changed since it was made. `draw` is any random
    /// number.
    pub fn take(&mut self, call: KeyCall<'_>, tried: &[Name], now: Mono, draw: u64) -> Option<KeyTicket> {
        let chosen = self.choose(call, tried, now)?;
        self.serial += 1;
        let (serial, key) = (self.serial, self.keys.get_mut(chosen)?);
        let free = key.take(serial, call, now, draw);
        let (name, model) = (key.terms.name.clone(), call.model.clone());
        Some(KeyTicket { name, model, serial, tokens: call.tokens, free })
    }

    /// A probe that is due, else the key that is owed most: each that could serve is owed its weight, and the one that
    /// serves gives the sum of them.
    fn choose(&mut self, call: KeyCall<'_>, tried: &[Name], now: Mono) -> Option<usize> {
        let mut able = Vec::with_capacity(self.keys.len());
        for (index, key) in self.keys.iter().enumerate() {
            match key.can(call, now) {
                _any if tried.contains(&key.terms.name) => {}
                Can::Probe => return Some(index),
                Can::Serve => able.push(index),
                Can::Wait(_) | Can::Barred(_) => {}
            }
        }
        let (mut sum, mut most) = (0, None);
        for index in able {
            let key = self.keys.get_mut(index)?;
            let weight = i64::from(key.terms.weight.max(1));
            (sum, key.owed) = (sum + weight, key.owed + weight);
            if most.is_none_or(|(owed, _first)| key.owed > owed) {
                most = Some((key.owed, index));
            }
        }
        let (_owed, index) = most?;
        self.keys.get_mut(index)?.owed -= sum;
        Some(index)
    }

    /// The provider said what is left of the limits of a call's key for its model. Tells whether the key is left alone
    /// from now on.
    pub fn learn(&mut self, ticket: &KeyTicket, quota: &Quota, now: Mono) -> Option<Away> {
        self.of(ticket)?.learn(&ticket.model, quota, now).then_some(Away::Spent)
    }

    /// An answer began: the provider knows the key, though the call goes on.
    pub fn answered(&mut self, ticket: &KeyTicket) {
        if let Some(key) = self.of(ticket) {
            key.answered(ticket);
        }
    }

    /// It is known of how many tokens a call was.
    pub fn settle(&mut self, ticket: &mut KeyTicket, tokens: u64) {
        if let Some(key) = self.of(ticket) {
            key.settle(ticket, tokens);
        }
        ticket.tokens = tokens;
    }

    /// A call ended. `draw` is any random number. Tells whether its key is left alone from now on.
    pub fn end(&mut self, ticket: &KeyTicket, health: Health, now: Mono, draw: u64) -> Option<Away> {
        let last = self.serial;
        self.of(ticket)?.end(End { ticket, health, now, draw, last })
    }

    /// How each is at `now`.
    #[must_use]
    pub fn status(&self, now: Mono) -> Vec<KeyStatus> {
        self.keys.iter().map(|key| key.status(now)).collect()
    }

    fn of(&mut self, ticket: &KeyTicket) -> Option<&mut Key> {
        self.keys.iter_mut().find(|key| key.terms.name == ticket.name && key.born < ticket.serial)
    }
}

impl KeyTicket {
    /// The key.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// The model.
    #[must_use]
    pub const fn model(&self) -> &ModelName {
        &self.model
    }
}

impl KeyModelStatus {
    fn tells(&self) -> bool {
        self.suspended.is_some() || self.spent.is_some() || self.requests.is_some() || self.tokens.is_some()
    }
}
