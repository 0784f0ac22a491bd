//! Numbers with a meaning. Money is whole nano-dollars, multiplied in 128 bits and rounded once, up.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Tokens as a model's tokenizer counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tokens(pub u64);

impl Tokens {
    /// The sum, or the largest count when it does not fit.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Billionths of a US dollar. The largest value is about 18.4 G$.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NanoUsd(pub u64);

impl NanoUsd {
    /// The sum, or the largest amount when it does not fit.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for NanoUsd {
    /// Dollars with nine decimals, trailing zeros cut to two.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, nano) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let digits = format!("{nano:09}");
        let kept = digits.trim_end_matches('0').len().max(2);
        write!(f, "${whole}.{}", digits.get(..kept).unwrap_or(&digits))
    }
}

/// What a budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Calls, each one unit.
    Requests,
    /// Input plus output tokens.
    Tokens,
    /// Money in nano-dollars.
    #[serde(rename = "usd")]
    NanoUsd,
    /// Input tokens, cached ones included.
    InputTokens,
    /// Output tokens.
    OutputTokens,
}

impl Unit {
    /// `amount` of this unit as an operator reads it.
    #[must_use]
    pub fn show(self, amount: Amount) -> String {
        match self {
            Self::Requests => format!("{} requests", amount.0),
            Self::Tokens => format!("{} tokens", amount.0),
            Self::InputTokens => format!("{} input tokens", amount.0),
            Self::OutputTokens => format!("{} output tokens", amount.0),
            Self::NanoUsd => NanoUsd(amount.0).to_string(),
        }
    }
}

/// A quantity in the unit of the budget it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Amount(pub u64);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// The sum, or the largest amount when it does not fit.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The sum, or `None` when it does not fit.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The difference, or `None` when `other` is larger.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(rest) => Some(Self(rest)),
            None => None,
        }
    }
}

/// What a model charges. Zero is a price (the model is free); an unknown price is the absence of a `Price`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Nano-dollars per million input tokens.
    pub input: NanoUsd,
    /// Nano-dollars per million input tokens that the provider read from its cache; `None`: as `input`.
    pub cached_input: Option<NanoUsd>,
    /// Nano-dollars per million output tokens.
    pub output: NanoUsd,
    /// Nano-dollars per call, whatever its size.
    pub call: NanoUsd,
}

const MILLION: u128 = 1_000_000;

impl Price {
    /// What a call of this size costs, rounded up once; saturates at the largest amount.
    #[must_use]
    pub fn cost(&self, input: Tokens, cached: Tokens, output: Tokens) -> NanoUsd {
        let cached = cached.0.min(input.0);
        let fresh = u128::from(input.0 - cached) * u128::from(self.input.0);
        let reread = u128::from(cached) * u128::from(self.cached_input.unwrap_or(self.input).0);
        let written = u128::from(output.0) * u128::from(self.output.0);
        let sum = fresh.saturating_add(reread).saturating_add(written);
        let total = sum.div_ceil(MILLION).saturating_add(u128::from(self.call.0));
        NanoUsd(u64::try_from(total).unwrap_or(u64::MAX))
    }

    /// The most that a call of at most this size can cost: every input token at its dearest rate.
    #[must_use]
    pub fn upper_bound(&self, input: Tokens, output: Tokens) -> NanoUsd {
        let dearest = Self {
            input: self.input.max(self.cached_input.unwrap_or_default()),
            cached_input: None,
            ..*self
        };
        dearest.cost(input, Tokens(0), output)
    }

    /// Whether a call costs the same whatever its size.
    #[must_use]
    pub fn is_by_the_call(&self) -> bool {
        let by_size = [self.input, self.output, self.cached_input.unwrap_or_default()];
        by_size.iter().all(|price| price.0 == 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cost_is_rounded_up_once() {
        let price = Price { input: NanoUsd(150_000_000), output: NanoUsd(600_000_000), ..Price::default() };
        assert_eq!(price.cost(Tokens(1), Tokens(0), Tokens(1)), NanoUsd(750));
        let odd = Price { input: NanoUsd(1), output: NanoUsd(1), ..Price::default() };
        assert_eq!(odd.cost(Tokens(1), Tokens(0), Tokens(1)), NanoUsd(1));
    }

    #[test]
    fn money_reads_as_dollars() {
        assert_eq!(NanoUsd(1_500_000_000).to_string(), "$1.50");
        assert_eq!(NanoUsd(1).to_string(), "$0.000000001");
    }

    proptest! {
        #[test]
        fn no_cost_exceeds_the_bound_of_a_larger_call(
            rates in (0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40),
            input in 0u64..1 << 24, cached in 0u64..1 << 24, output in 0u64..1 << 24, more in 0u64..1 << 20,
        ) {
            let (a, b, c, d) = rates;
            let price = Price { input: NanoUsd(a), cached_input: Some(NanoUsd(b)), output: NanoUsd(c), call: NanoUsd(d) };
            let cost = price.cost(Tokens(input), Tokens(cached), Tokens(output));
            prop_assert!(cost <= price.upper_bound(Tokens(input + more), Tokens(output + more)));
        }
    }
}
