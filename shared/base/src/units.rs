//! Numbers with a meaning. Money is whole nano-dollars.

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
    /// The unit as files and labels spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::NanoUsd => "usd",
            Self::InputTokens => "input_tokens",
            Self::OutputTokens => "output_tokens",
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_reads_as_dollars() {
        assert_eq!(NanoUsd(1_500_000_000).to_string(), "$1.50");
        assert_eq!(NanoUsd(1).to_string(), "$0.000000001");
    }
}
