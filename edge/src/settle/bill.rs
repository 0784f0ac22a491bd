//! What a call comes to, from what its upstream reported or, where it reported nothing, from what bounds it.

use base::{Amount, BudgetId, NanoUsd, Tokens, Unit};
use wire::call::Tail;
use wire::ledger::{Outcome, Usage};

use super::Open;

/// What a call comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bill {
    /// Tokens, reported or bounded.
    pub(super) usage: Usage,
    /// Whether `usage` is a bound.
    pub(super) estimated: bool,
    /// Money.
    pub(super) cost: NanoUsd,
    /// What each budget pays.
    pub(super) actual: Vec<(BudgetId, Amount)>,
}

impl Bill {
    pub(super) fn of(open: &Open, tail: &Tail) -> Self {
        let bound = open.attempt.as_ref().map(|(_, bound)| bound);
        let input = bound.and_then(|bound| bound.input).unwrap_or_default();
        let output = bound.and_then(|bound| bound.output);
        let worked = match tail.outcome {
            Outcome::Complete | Outcome::Cut => true,
            Outcome::CallerGone if base::mutant!(ChargeDropped) => false,
            Outcome::CallerGone | Outcome::Lost => tail.reached_upstream,
            Outcome::Failed => false,
        };
        if !worked {
            return Self::of_usage(open, Usage::default(), false, false);
        }
        match tail.usage {
            Some(usage) => Self::of_usage(open, usage, false, true),
            None if open.sent.pieces > 0 => {
                // A byte-level tokenizer never puts more tokens into a text than it has bytes.
                let sent = Tokens(open.sent.bytes);
                let output = output.map_or(sent, |most| most.min(sent));
                Self::of_usage(open, Usage { input, cached_input: Tokens(0), output }, true, true)
            }
            None => {
                let usage = Usage { input, cached_input: Tokens(0), output: output.unwrap_or_default() };
                let pays = |id| open.payers().any(|payer| payer.id() == id);
                let held = open.asks().iter().filter(|(id, _most)| pays(*id)).copied().collect();
                Self { actual: held, ..Self::of_usage(open, usage, true, true) }
            }
        }
    }

    fn of_usage(open: &Open, usage: Usage, estimated: bool, worked: bool) -> Self {
        let price = open.attempt.as_ref().and_then(|(attempt, _)| attempt.candidate.model.price);
        let cost = price
            .filter(|_| worked)
            .map_or(NanoUsd(0), |price| price.cost(usage.input, usage.cached_input, usage.output));
        let pays = |unit| match unit {
            Unit::Requests => Amount(u64::from(worked)),
            Unit::Tokens => Amount(usage.input.saturating_add(usage.output).0),
            Unit::InputTokens => Amount(usage.input.0),
            Unit::OutputTokens => Amount(usage.output.0),
            Unit::NanoUsd => Amount(cost.0),
        };
        let actual = open.payers().map(|payer| (payer.id(), pays(payer.budget.unit))).collect();
        Self { usage, estimated, cost, actual }
    }
}
