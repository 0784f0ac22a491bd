//! One key: what it can do for a call, and what the ends of calls say of it.

use base::{ModelName, Mono};

use super::models::{Models, OfModel, Rest};
use super::state::State;
use super::{
    Away, Barred, Barrier, KeyCall, KeyModelStatus, KeyStatus, KeyTerms, KeyTicket, MAX_PACE, SLOWED, WAITED,
};
use crate::terms::Paces;
use crate::{Health, Quota};

#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) terms: KeyTerms,
    /// Turns it is owed, in units of one over the sum of weights.
    pub(super) owed: i64,
    paces: Paces,
    outstanding: u32,
    /// Calls up to this one were another key's of the same name.
    pub(super) born: u64,
    known: Known,
}

/// What is known of its credential.
#[derive(Clone, Debug)]
struct Known {
    /// Left alone until then.
    from: Mono,
    state: State,
    slowed: Slowed,
    /// It was refused for a model since it last served any.
    doubted: bool,
    models: Models,
}

/// Limits without a time, in a row.
#[derive(Clone, Copy, Debug)]
struct Slowed {
    rounds: u32,
    /// Calls up to this one began before the last of them, and say nothing more.
    after: u64,
}

/// What one key can do.
pub(super) enum Can {
    Probe,
    Serve,
    Wait(Option<Mono>),
    Barred(Barred),
}

/// The end of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'a> {
    pub(super) ticket: &'a KeyTicket,
    pub(super) health: Health,
    pub(super) now: Mono,
    pub(super) draw: u64,
    /// The last call that was made with any key.
    pub(super) last: u64,
}

impl Key {
    pub(super) fn new(terms: &KeyTerms, born: u64) -> Self {
        let paces = Paces::new(&terms.terms);
        Self { terms: terms.clone(), owed: 0, paces, outstanding: 0, born, known: Known::new() }
    }

    pub(super) fn under(&self, terms: &KeyTerms, is_new: bool, now: Mono) -> Self {
        let known = if is_new { Known::new() } else { self.known.clone() };
        let paces = self.paces.under(&terms.terms, now);
        Self { terms: terms.clone(), owed: 0, paces, known, ..self.clone() }
    }

    pub(super) fn can(&self, call: KeyCall<'_>, now: Mono) -> Can {
        let known = &self.known;
        let of = known.models.get(call.model);
        let due = |until: &Mono| *until > now;
        let refused = [known.state.suspended(), of.and_then(|of| of.state.suspended())];
        let spent = of.and_then(|of| of.spent(call.tokens, now));
        let soon = spent.filter(|until| until.since(now) <= WAITED);
        let paced = [Some(known.from), spent.filter(|_until| soon.is_none())];
        let suspended = refused.into_iter().flatten().filter(due).max();
        let barred = [
            (suspended, Barrier::Suspended),
            (paced.into_iter().flatten().filter(due).max(), Barrier::Paced),
        ];
        let barred = barred.into_iter().filter_map(|(until, why)| Some(Barred { until: until?, why }));
        if let Some(barred) = barred.max() {
            return Can::Barred(barred);
        }
        if self.terms.terms.concurrency.is_some_and(|most| self.outstanding >= most) {
            return Can::Wait(None);
        }
        let late = [self.paces.late(call.tokens, now), soon].into_iter().flatten().max();
        match late {
            Some(until) => Can::Wait(Some(until)),
            None if known.state == State::Known && !known.models.is_refused(call.model) => Can::Serve,
            None => Can::Probe,
        }
    }

    /// The call `serial` is made with it. Says when its tokens come free.
    pub(super) fn take(&mut self, serial: u64, call: KeyCall<'_>, now: Mono, draw: u64) -> Mono {
        self.outstanding = self.outstanding.saturating_add(1);
        let known = &mut self.known;
        known.state = known.state.taken(serial, now, draw);
        known.models.change(call.model, |state| state.taken(serial, now, draw));
        self.paces.take(call.tokens, now)
    }

    pub(super) fn settle(&mut self, ticket: &KeyTicket, tokens: u64) {
        self.paces.settle(ticket.tokens, tokens, ticket.free);
    }

    /// Whether nothing is left from now on.
    pub(super) fn learn(&mut self, model: &ModelName, quota: &Quota, now: Mono) -> bool {
        let spent = |known: &Known| known.models.get(model).and_then(|of| of.spent(0, now)).is_some();
        let before = spent(&self.known);
        self.known.models.learn(model, quota, now);
        !before && spent(&self.known)
    }

    /// An answer of the call `serial` began.
    pub(super) fn answered(&mut self, ticket: &KeyTicket) {
        self.known.served(ticket);
        self.known.state = self.known.state.answered(ticket.serial);
        self.known.models.change(&ticket.model, |state| state.answered(ticket.serial));
    }

    /// Whether it is left alone from now on.
    pub(super) fn end(&mut self, end: End<'_>) -> Option<Away> {
        self.outstanding = self.outstanding.saturating_sub(1);
        let (model, now) = (&end.ticket.model, end.now);
        let before = self.known.away(model);
        self.known.end(end);
        let after = self.known.away(model).into_iter().zip(before);
        let mut begun = after.filter(|((_why, until), (_, was))| until > was && *until > now);
        begun.next().map(|((why, _until), _was)| why)
    }

    pub(super) fn status(&self, now: Mono) -> KeyStatus {
        let left = |rest: Option<Rest>| rest.filter(|rest| rest.until > now).map(|rest| rest.remaining);
        let of_model = |(model, of): (&ModelName, &OfModel)| KeyModelStatus {
            model: model.clone(),
            suspended: of.state.suspended(),
            spent: of.spent(0, now),
            requests: left(of.requests),
            tokens: left(of.tokens),
        };
        let models = self.known.models.iter().map(of_model);
        KeyStatus {
            name: self.terms.name.clone(),
            weight: self.terms.weight,
            outstanding: self.outstanding,
            suspended: self.known.state.suspended(),
            paced: Some(self.known.from).filter(|from| *from > now),
            models: models.filter(KeyModelStatus::tells).collect(),
        }
    }
}

impl Known {
    fn new() -> Self {
        let slowed = Slowed { rounds: 0, after: 0 };
        Self { from: Mono::ZERO, state: State::Known, slowed, doubted: false, models: Models::default() }
    }

    /// Until when it is away, and why, the weightiest first.
    fn away(&self, model: &ModelName) -> [(Away, Mono); 3] {
        let until = |state: State| state.suspended().unwrap_or(Mono::ZERO);
        let of = self.models.get(model).map_or(Mono::ZERO, |of| until(of.state));
        [(Away::Suspended, until(self.state)), (Away::SuspendedForModel, of), (Away::Paced, self.from)]
    }

    /// The key served a call.
    const fn served(&mut self, ticket: &KeyTicket) {
        self.doubted = false;
        if ticket.serial > self.slowed.after {
            self.slowed.rounds = 0;
        }
    }

    fn end(&mut self, End { ticket, health, now, draw, last }: End<'_>) {
        let mut of_model = health;
        let of_key = match health {
            Health::Good => {
                self.served(ticket);
                health
            }
            Health::Limited(Some(_)) if base::mutant!(PaceIgnored) => health,
            Health::Limited(Some(wait)) => {
                self.from = self.from.max(now + wait.min(MAX_PACE));
                health
            }
            Health::Limited(None) => {
                if ticket.serial > self.slowed.after {
                    self.from = self.from.max(now + SLOWED.wait(self.slowed.rounds, draw));
                    self.slowed = Slowed { rounds: self.slowed.rounds.saturating_add(1), after: last };
                }
                health
            }
            Health::Forbidden => {
                of_model = Health::Refused;
                // Of a model that was refused before it tells nothing new about others.
                let first = !self.models.is_refused(&ticket.model);
                let again = first && std::mem::replace(&mut self.doubted, true);
                if again { Health::Refused } else { Health::Unknown }
            }
            Health::Missing => {
                of_model = Health::Refused;
                // Who says so knows the key.
                Health::Good
            }
            Health::Refused => {
                of_model = Health::Unknown;
                health
            }
            Health::Unknown | Health::Failed | Health::Broken | Health::Paced(_) => health,
        };
        self.state = self.state.after(ticket.serial, of_key, now, draw);
        if of_model == Health::Refused
            && let Some(of) = self.models.at(&ticket.model, now)
        {
            of.state = of.state.after(ticket.serial, of_model, now, draw);
        } else {
            self.models.change(&ticket.model, |state| state.after(ticket.serial, of_model, now, draw));
        }
    }
}
