//! Places behind gates: taken at all of them or at none, and given back on drop.
//!
//! Gates are locked together, in the order of [`Level`], for as long as it takes to look at each and to enter: nothing is
//! taken at one level for a call that another refuses.

use std::sync::Arc;
use std::time::Duration;

use base::{Mono, WallMs};
use dialect::{Api, anthropic, openai};
use edge_core::limits::{Ask, Entered, Per, Refused, Standing};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::hall::Hall;
use crate::snapshot::SharedGate;

/// Whose limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// The node's own.
    Node,
    /// The tenant's.
    Tenant,
    /// The application's.
    App,
    /// The key's.
    Key,
    /// The model's.
    Model,
}

impl Level {
    /// The level's name in metrics and records.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Tenant => "tenant",
            Self::App => "app",
            Self::Key => "key",
            Self::Model => "model",
        }
    }
}

/// What a call asks of one gate.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) level: Level,
    pub(crate) gate: SharedGate,
    pub(crate) ask: Ask,
}

/// A limit that does not let a call pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limited {
    /// Of all that stands against the call, what lasts longest, and whose it is.
    pub(crate) level: Level,
    pub(crate) refused: Refused,
    /// What stands against it at its model.
    pub(crate) model: Option<Refused>,
    /// The worst at the other levels.
    pub(crate) others: Option<(Level, Refused)>,
    /// It would wait, but too many do already: when to come again.
    pub(crate) crowded: Option<Duration>,
    pub(crate) allowance: Allowance,
}

impl Limited {
    /// Nothing, when neither its model nor any other level refuses.
    pub(crate) fn of(
        model: Option<Refused>,
        others: Option<(Level, Refused)>,
        allowance: Allowance,
    ) -> Option<Box<Self>> {
        let (level, refused) = worse(others, model.map(|refused| (Level::Model, refused)))?;
        Some(Box::new(Self { level, refused, model, others, crowded: None, allowance }))
    }

    /// Whether it passes once something in progress ends. What protects the node itself is not waited for.
    pub(crate) fn is_over_by_then(&self) -> bool {
        self.level != Level::Node && self.refused.until().is_none()
    }
}

/// The one that lasts longer; the first of equals.
fn worse(first: Option<(Level, Refused)>, second: Option<(Level, Refused)>) -> Option<(Level, Refused)> {
    let (Some(one), Some(other)) = (first, second) else { return first.or(second) };
    Some(if other.1.until() > one.1.until() { other } else { one })
}

/// The tightest rates of a call: those of which the least is left. The node's own are not among them: they say
/// what all its callers do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) requests: Option<Standing>,
    pub(crate) tokens: Option<Standing>,
}

impl Allowance {
    /// What its caller is told, as its API does.
    pub(crate) fn headers(&self, api: Api, now: WallMs) -> HeaderMap {
        let told =
            |rate: Standing| openai::Allowance { limit: rate.limit, left: rate.left, reset: rate.reset };
        let (requests, tokens) = (self.requests.map(told), self.tokens.map(told));
        let headers = match api {
            // Gemini's API has no headers of its own for it.
            Api::Openai | Api::Gemini => openai::rate_headers(requests, tokens),
            Api::Anthropic => anthropic::rate_headers(requests, tokens, now),
        };
        let header =
            |(name, value)| Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?));
        headers.into_iter().filter_map(header).collect()
    }

    fn add(&mut self, per: Per, standing: Standing) {
        let tightest = if per.is_of_tokens() { &mut self.tokens } else { &mut self.requests };
        let is_tighter = |than: &Standing| {
            (standing.left, std::cmp::Reverse(standing.reset)) < (than.left, std::cmp::Reverse(than.reset))
        };
        if tightest.as_ref().is_none_or(is_tighter) {
            *tightest = Some(standing);
        }
    }
}

/// Places that a call took together. Dropped before it was settled, the call was not made and took nothing.
#[derive(Debug)]
pub(crate) struct Passes {
    taken: Vec<(Level, SharedGate, Entered)>,
    /// The tokens of the call that was made.
    made: Option<u64>,
    /// Those who wait for places.
    hall: Hall,
}

impl Passes {
    /// Passes every gate, or none. `wishes` are in the order of their levels, one for each gate.
    ///
    /// # Errors
    /// [`Limited`]: of all that stands against it what lasts longest.
    pub(crate) fn take(hall: &Hall, wishes: &[Wish], now: Mono) -> Result<(Self, Allowance), Box<Limited>> {
        let mut gates: Vec<_> = wishes.iter().map(|wish| wish.gate.lock()).collect();
        let (mut model, mut others) = (None, None);
        for (wish, gate) in wishes.iter().zip(&gates) {
            match (gate.check(now, &wish.ask), wish.level) {
                (Ok(()), _) => {}
                (Err(refused), Level::Model) => model = Some(refused),
                (Err(refused), level) => others = worse(others, Some((level, refused))),
            }
        }
        let passes = model.is_none() && others.is_none();
        let entered: Vec<_> = if passes {
            wishes.iter().zip(&mut gates).map(|(wish, gate)| gate.enter(now, wish.ask)).collect()
        } else {
            Vec::new()
        };
        let mut allowance = Allowance::default();
        for (_wish, gate) in wishes.iter().zip(&gates).filter(|(wish, _gate)| wish.level != Level::Node) {
            gate.standings(now).for_each(|(per, standing)| allowance.add(per, standing));
        }
        drop(gates);
        if let Some(limited) = Limited::of(model, others, allowance) {
            return Err(limited);
        }
        let taken = wishes.iter().zip(entered);
        let taken = taken.map(|(wish, entered)| (wish.level, Arc::clone(&wish.gate), entered)).collect();
        Ok((Self { taken, made: None, hall: hall.clone() }, allowance))
    }

    /// No places at all.
    pub(crate) fn none(hall: &Hall) -> Self {
        Self { taken: Vec::new(), made: None, hall: hall.clone() }
    }

    /// More places of the same call, apart.
    ///
    /// # Errors
    /// [`Limited`], as of [`Passes::take`].
    pub(crate) fn also(&self, wishes: &[Wish], now: Mono) -> Result<(Self, Allowance), Box<Limited>> {
        Self::take(&self.hall, wishes, now)
    }

    /// Those of one level, apart.
    pub(crate) fn split(&mut self, level: Level) -> Self {
        let (apart, taken) = std::mem::take(&mut self.taken).into_iter().partition(|(of, ..)| *of == level);
        self.taken = taken;
        Self { taken: apart, made: self.made, hall: self.hall.clone() }
    }

    /// Whether there is one behind this gate.
    pub(crate) fn is_behind(&self, gate: &SharedGate) -> bool {
        self.taken.iter().any(|(_level, taken, _entered)| Arc::ptr_eq(taken, gate))
    }

    /// The call was made, and was one of so many tokens as far as is known.
    pub(crate) const fn settle(&mut self, tokens: u64) {
        self.made = Some(tokens);
    }
}

impl Drop for Passes {
    fn drop(&mut self) {
        for (_level, gate, entered) in &self.taken {
            match self.made {
                Some(tokens) => gate.lock().leave(entered, tokens),
                None => gate.lock().undo(entered),
            }
        }
        self.hall.serve();
    }
}

#[cfg(test)]
mod tests {
    use edge_core::limits::Gate;
    use seam::Lock;
    use wire::catalog::Limits;

    use super::*;

    const CALL: Ask = Ask { enters: true, stream: false, tokens: 40 };

    #[test]
    fn what_one_level_refuses_takes_nothing_at_another() {
        let hall = Hall::new(&seam::Host::real(), &telemetry::metrics::EdgeMetrics::new());
        let tenant = gate(Limits { requests_per_min: Some(10), concurrency: Some(5), ..Limits::default() });
        let key = gate(Limits { tokens_per_min: Some(60), ..Limits::default() });
        let (passes, allowance) = Passes::take(&hall, &wishes(&tenant, &key), Mono::ZERO).unwrap();
        let left = (allowance.requests.map(|rate| rate.left), allowance.tokens.map(|rate| rate.left));
        assert_eq!(left, (Some(9), Some(20)));
        let limited = Passes::take(&hall, &wishes(&tenant, &key), Mono::ZERO).unwrap_err();
        assert_eq!((limited.level, limited.model), (Level::Key, None));
        assert_eq!(limited.allowance.requests.map(|rate| rate.left), Some(9));
        assert_eq!(tenant.lock().in_progress(), (1, 0));

        // Not made: everything is as before.
        drop(passes);
        assert_eq!(tenant.lock().in_progress(), (0, 0));
        let (mut passes, allowance) = Passes::take(&hall, &wishes(&tenant, &key), Mono::ZERO).unwrap();
        assert_eq!(allowance.requests.map(|rate| rate.left), Some(9));
        // Made: the request is used, and the tokens that it was.
        passes.settle(5);
        drop(passes);
        let (_passes, allowance) = Passes::take(&hall, &wishes(&tenant, &key), Mono::ZERO).unwrap();
        let left = (allowance.requests.map(|rate| rate.left), allowance.tokens.map(|rate| rate.left));
        assert_eq!(left, (Some(8), Some(15)));
    }

    #[test]
    fn the_refusal_that_lasts_longest_is_told_whichever_level_it_is_of() {
        let hall = Hall::new(&seam::Host::real(), &telemetry::metrics::EdgeMetrics::new());
        let tenant = gate(Limits { requests_per_min: Some(1), ..Limits::default() });
        let key = gate(Limits { requests_per_s: Some(1), concurrency: Some(1), ..Limits::default() });
        let _passes = Passes::take(&hall, &wishes(&tenant, &key), Mono::ZERO).unwrap();
        let limited = Passes::take(&hall, &wishes(&tenant, &key), Mono::ZERO).unwrap_err();
        let minute = Mono::ZERO + Duration::from_secs(60);
        let expected = (Level::Tenant, Refused::Rate(Per::RequestsPerMin, minute));
        assert_eq!((limited.level, limited.refused), expected);
    }

    fn gate(limits: Limits) -> SharedGate {
        Arc::new(Lock::new(Gate::new(limits)))
    }

    fn wishes(tenant: &SharedGate, key: &SharedGate) -> Vec<Wish> {
        let wish = |level, gate: &SharedGate| Wish { level, gate: Arc::clone(gate), ask: CALL };
        vec![wish(Level::Tenant, tenant), wish(Level::Key, key)]
    }
}
