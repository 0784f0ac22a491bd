//! What a model charges: rates by kind of token and by piece, other rates for long inputs, and other prices from an
//! instant on.
//!
//! Each token is charged once, at the rate of its kind. Products are 128 bits wide and their sum is rounded up once.

use serde::{Deserialize, Serialize};

use crate::{NanoUsd, Tokens, Usage, WallMs};

/// Rates of one call. A kind without a rate of its own costs as its total's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rates {
    /// Nano-dollars per million input tokens.
    pub input: NanoUsd,
    /// Nano-dollars per million input tokens that the provider read from its cache; `None`: as `input`.
    pub cached_input: Option<NanoUsd>,
    /// Nano-dollars per million input tokens that the provider wrote to its cache; `None`: as `input`.
    pub cache_write: Option<NanoUsd>,
    /// Nano-dollars per million input tokens of sound; `None`: as `input`.
    pub audio_input: Option<NanoUsd>,
    /// Nano-dollars per million output tokens.
    pub output: NanoUsd,
    /// Nano-dollars per million reasoning tokens; `None`: as `output`.
    pub reasoning: Option<NanoUsd>,
    /// Nano-dollars per million output tokens of sound; `None`: as `output`.
    pub audio_output: Option<NanoUsd>,
    /// Nano-dollars per image in the call.
    pub image: NanoUsd,
    /// Nano-dollars per second of the answering attempt, counted by the millisecond.
    pub second: NanoUsd,
    /// Nano-dollars per call, whatever its size.
    pub call: NanoUsd,
}

/// Rates of whole calls whose input is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// They hold for calls with more input tokens than this.
    pub above: Tokens,
    /// The rates.
    pub rates: Rates,
}

/// What a model charges from an instant on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceVersion {
    /// The first instant at which it is in force.
    pub from: WallMs,
    /// Rates of calls that reach no tier.
    pub rates: Rates,
    /// Rates of longer ones; the highest tier that a call reaches counts, for the whole call.
    pub tiers: Vec<Tier>,
}

/// What a model charges, now and at other times. Zero is a price (the model is free); an unknown price is the absence of
/// a `Price`, or of a version that is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Versions; the latest one that has begun is in force.
    pub versions: Vec<PriceVersion>,
}

const MILLION: u128 = 1_000_000;

impl Rates {
    /// What a call that used this costs, rounded up once; saturates at the largest amount. A token that its upstream
    /// reported as two kinds is charged as the first of them, in the order of the fields of [`Usage`].
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> NanoUsd {
        let input = split(
            usage.input,
            self.input,
            [
                (usage.cached_input, self.cached_input),
                (usage.cache_write, self.cache_write),
                (usage.audio_input, self.audio_input),
            ],
        );
        let output = split(
            usage.output,
            self.output,
            [(usage.reasoning, self.reasoning), (usage.audio_output, self.audio_output)],
        );
        let busy = times(usage.busy_ms.into(), self.second).saturating_mul(1_000);
        let by_the_million = input.saturating_add(output).saturating_add(busy);
        let total = by_the_million
            .div_ceil(MILLION)
            .saturating_add(times(usage.images.into(), self.image))
            .saturating_add(self.call.0.into());
        NanoUsd(u64::try_from(total).unwrap_or(u64::MAX))
    }

    /// Rates at which every token costs as the dearest kind of its total.
    fn dearest(&self) -> Self {
        let most = |plain: NanoUsd, kinds: &[Option<NanoUsd>]| {
            kinds.iter().flatten().fold(plain, |most, kind| most.max(*kind))
        };
        Self {
            input: most(self.input, &[self.cached_input, self.cache_write, self.audio_input]),
            cached_input: None,
            cache_write: None,
            audio_input: None,
            output: most(self.output, &[self.reasoning, self.audio_output]),
            reasoning: None,
            audio_output: None,
            ..*self
        }
    }
}

impl PriceVersion {
    /// What a call that used this costs.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> NanoUsd {
        let reached = self.tiers.iter().filter(|tier| usage.input > tier.above);
        let rates = reached.max_by_key(|tier| tier.above).map_or(&self.rates, |tier| &tier.rates);
        rates.cost(usage)
    }

    /// The most that a call can cost which uses at most `most`, whatever the kinds of its tokens and whichever tier its
    /// input reaches.
    #[must_use]
    pub fn upper_bound(&self, most: &Usage) -> NanoUsd {
        let reachable = self.tiers.iter().filter(|tier| most.input > tier.above).map(|tier| &tier.rates);
        let costs = std::iter::once(&self.rates).chain(reachable).map(|rates| rates.dearest().cost(most));
        costs.max().unwrap_or_default()
    }

    /// Whether no token costs anything, in any tier.
    #[must_use]
    pub fn is_free_by_token(&self) -> bool {
        let free = |rates: &Rates| {
            let dearest = rates.dearest();
            (dearest.input, dearest.output) == (NanoUsd(0), NanoUsd(0))
        };
        free(&self.rates) && self.tiers.iter().all(|tier| free(&tier.rates))
    }

    /// Whether calls are charged by how long they take.
    #[must_use]
    pub fn counts_seconds(&self) -> bool {
        self.rates.second.0 > 0 || self.tiers.iter().any(|tier| tier.rates.second.0 > 0)
    }
}

impl Price {
    /// One price without tiers, in force at all times.
    #[must_use]
    pub fn flat(rates: Rates) -> Self {
        Self { versions: vec![PriceVersion { from: WallMs::default(), rates, tiers: Vec::new() }] }
    }

    /// The version in force at an instant; `None` before the first one.
    #[must_use]
    pub fn at(&self, instant: WallMs) -> Option<&PriceVersion> {
        self.versions.iter().filter(|version| version.from <= instant).max_by_key(|version| version.from)
    }
}

/// The cost of all tokens of a total, in millionths: kinds at their own rates, in order, the rest at the plain one.
fn split<const N: usize>(total: Tokens, plain: NanoUsd, kinds: [(Tokens, Option<NanoUsd>); N]) -> u128 {
    let mut rest = total.0;
    let mut sum: u128 = 0;
    for (count, rate) in kinds {
        let count = count.0.min(rest);
        rest -= count;
        sum = sum.saturating_add(times(count, rate.unwrap_or(plain)));
    }
    sum.saturating_add(times(rest, plain))
}

fn times(count: u64, rate: NanoUsd) -> u128 {
    u128::from(count) * u128::from(rate.0)
}

#[cfg(test)]
mod tests;
