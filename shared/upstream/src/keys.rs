//! The keys of one account at a provider: which of them a call is made with, and when one is left alone.
//!
//! Among the keys that can serve, calls are shared by weight. A key whose credential was refused is suspended for
//! 10 s to 20 s, twice as long after each refusal that follows, at most for 5 to 10 minutes; then one call probes it,
//! before any other key, and is made with another one if it fails. A key that was told to wait is left alone for as
//! long as it was told, at most for 10 minutes. What a key takes, and what its provider said to be left of that, is
//! known per key, whichever model is called; of failures that are not the key's, nothing is known here.

use std::time::Duration;

use base::{Mono, Name};

use crate::terms::Paces;
use crate::{Backoff, Health, Terms};

mod state;
#[cfg(test)]
mod tests;

use state::State;

/// How long a key is left alone whose credential was refused. Longer than a model server that failed: a key seldom comes
/// back by itself, and each probe costs a call one round trip.
const SUSPENDED: Backoff = Backoff { first: Duration::from_secs(20), cap: Duration::from_secs(600) };

/// Longest time for which a provider's `Retry-After` keeps a key away.
const MAX_PACE: Duration = Duration::from_secs(600);

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
    /// The provider asked it to wait.
    Paced,
    /// The provider refused its credential.
    Suspended,
}

/// A call's place at a key. Hand it back with [`Keys::end`], whatever happened.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyTicket {
    name: Name,
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
}

/// The keys of one account.
#[derive(Clone, Debug)]
pub struct Keys {
    keys: Vec<Key>,
    serial: u64,
}

#[derive(Clone, Debug)]
struct Key {
    terms: KeyTerms,
    /// Turns it is owed, in units of one over the sum of weights.
    owed: i64,
    paces: Paces,
    outstanding: u32,
    /// Calls up to this one were another key's of the same name.
    born: u64,
    /// Left alone until then.
    from: Mono,
    state: State,
}

/// What one key can do.
enum Can {
    Probe,
    Serve,
    Wait(Option<Mono>),
    Barred(Barred),
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

    /// What they can do at `now` for a call of `tokens` at most, which failed with the keys `tried`.
    #[must_use]
    pub fn offer(&self, tokens: u64, tried: &[Name], now: Mono) -> KeysOffer {
        let (mut full, mut barred) = (None, None);
        for key in &self.keys {
            match key.can(tokens, now) {
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

    /// Takes a call of `tokens` at most, at a key not among those `tried`; `None` when the offer changed since it was
    /// made. `draw` is any random number.
    pub fn take(&mut self, tokens: u64, tried: &[Name], now: Mono, draw: u64) -> Option<KeyTicket> {
        let chosen = self.choose(tokens, tried, now)?;
        self.serial += 1;
        let (serial, key) = (self.serial, self.keys.get_mut(chosen)?);
        key.outstanding = key.outstanding.saturating_add(1);
        key.state = key.state.taken(serial, now, draw);
        Some(KeyTicket { name: key.terms.name.clone(), serial, tokens, free: key.paces.take(tokens, now) })
    }

    /// A probe that is due, else the key that is owed most: each that could serve is owed its weight, and the one that
    /// serves gives the sum of them.
    fn choose(&mut self, tokens: u64, tried: &[Name], now: Mono) -> Option<usize> {
        let mut able = Vec::with_capacity(self.keys.len());
        for (index, key) in self.keys.iter().enumerate() {
            match key.can(tokens, now) {
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

    /// An answer began: the provider knows the key, though the call goes on.
    pub fn answered(&mut self, ticket: &KeyTicket) {
        if let Some(key) = self.of(ticket) {
            key.state = key.state.after(ticket.serial, Health::Good, Mono::ZERO, 0);
        }
    }

    /// It is known of how many tokens a call was.
    pub fn settle(&mut self, ticket: &mut KeyTicket, tokens: u64) {
        if let Some(key) = self.of(ticket) {
            key.paces.settle(ticket.tokens, tokens, ticket.free);
        }
        ticket.tokens = tokens;
    }

    /// A call ended. `draw` is any random number.
    pub fn end(&mut self, ticket: &KeyTicket, health: Health, now: Mono, draw: u64) {
        let Some(key) = self.of(ticket) else { return };
        key.outstanding = key.outstanding.saturating_sub(1);
        if let Health::Limited(Some(wait)) = health {
            key.from = key.from.max(now + wait.min(MAX_PACE));
        }
        key.state = key.state.after(ticket.serial, health, now, draw);
    }

    /// How each is at `now`.
    #[must_use]
    pub fn status(&self, now: Mono) -> Vec<KeyStatus> {
        let status = |key: &Key| KeyStatus {
            name: key.terms.name.clone(),
            weight: key.terms.weight,
            outstanding: key.outstanding,
            suspended: key.state.suspended(),
            paced: Some(key.from).filter(|from| *from > now),
        };
        self.keys.iter().map(status).collect()
    }

    fn of(&mut self, ticket: &KeyTicket) -> Option<&mut Key> {
        self.keys.iter_mut().find(|key| key.terms.name == ticket.name && key.born < ticket.serial)
    }
}

impl Key {
    fn new(terms: &KeyTerms, born: u64) -> Self {
        Self {
            terms: terms.clone(),
            owed: 0,
            paces: Paces::new(&terms.terms),
            outstanding: 0,
            born,
            from: Mono::ZERO,
            state: State::Known,
        }
    }

    fn under(&self, terms: &KeyTerms, is_new: bool, now: Mono) -> Self {
        let kept = Self {
            terms: terms.clone(),
            owed: 0,
            paces: self.paces.under(&terms.terms, now),
            ..self.clone()
        };
        if is_new { Self { from: Mono::ZERO, state: State::Known, ..kept } } else { kept }
    }

    fn can(&self, tokens: u64, now: Mono) -> Can {
        let suspended = self.state.suspended().filter(|until| *until > now);
        let paced = Some(self.from).filter(|from| *from > now);
        let barred = [(suspended, Barrier::Suspended), (paced, Barrier::Paced)];
        let barred = barred.into_iter().filter_map(|(until, why)| Some(Barred { until: until?, why }));
        if let Some(barred) = barred.max() {
            return Can::Barred(barred);
        }
        if self.terms.terms.concurrency.is_some_and(|most| self.outstanding >= most) {
            return Can::Wait(None);
        }
        match (self.paces.late(tokens, now), self.state) {
            (Some(until), _) => Can::Wait(Some(until)),
            (None, State::Known) => Can::Serve,
            (None, State::Suspended { .. } | State::Probing { .. }) => Can::Probe,
        }
    }
}

impl KeyTicket {
    /// The key.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }
}
