//! What an instance takes: calls at once, and calls and tokens in spans of time.

use std::time::Duration;

use base::{Mono, Pace};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// What an instance takes; `None` is unlimited. Rates let a whole span's worth pass at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Calls at once.
    pub concurrency: Option<u32>,
    /// Calls per second.
    pub requests_per_s: Option<u32>,
    /// Calls per minute.
    pub requests_per_min: Option<u32>,
    /// Input and output tokens per minute.
    pub tokens_per_min: Option<u64>,
}

/// The rates of an instance and what is used of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paces {
    per_s: Option<Pace>,
    per_min: Option<Pace>,
    tokens: Option<Pace>,
}

impl Paces {
    pub(crate) fn new(terms: &Terms) -> Self {
        Self::default().under(terms, Mono::ZERO)
    }

    /// The same under new terms.
    pub(crate) fn under(&self, terms: &Terms, now: Mono) -> Self {
        let pace = |before: Option<Pace>, limit: Option<u64>, span| {
            let limit = limit?;
            Some(before.map_or_else(|| Pace::new(limit, span), |pace| pace.changed(limit, now)))
        };
        Self {
            per_s: pace(self.per_s, terms.requests_per_s.map(u64::from), SECOND),
            per_min: pace(self.per_min, terms.requests_per_min.map(u64::from), MINUTE),
            tokens: pace(self.tokens, terms.tokens_per_min, MINUTE),
        }
    }

    /// When a call of so many tokens passes; `None`: now.
    pub(crate) fn late(&self, tokens: u64, now: Mono) -> Option<Mono> {
        let requests = [self.per_s, self.per_min].into_iter().flatten().map(|pace| pace.passes_at(1, now));
        let tokens = self.tokens.map(|pace| pace.passes_at(tokens, now));
        requests.chain(tokens).max().filter(|when| *when > now)
    }

    /// A call of so many tokens is given to the instance. Says when its tokens come free.
    pub(crate) fn take(&mut self, tokens: u64, now: Mono) -> Mono {
        for pace in [&mut self.per_s, &mut self.per_min].into_iter().flatten() {
            pace.take(1, now);
        }
        self.tokens.as_mut().map_or(now, |pace| pace.take(tokens, now))
    }

    /// A call of so many tokens, which come free at `free`, was one of `actual`.
    pub(crate) fn settle(&mut self, tokens: u64, actual: u64, free: Mono) {
        if let Some(pace) = &mut self.tokens {
            pace.settle(tokens, actual, free);
        }
    }
}
