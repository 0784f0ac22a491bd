//! What a call comes to, from what its upstream reported or, where it reported nothing, from what bounds it.

use base::{Amount, BudgetId, Mono, NanoUsd, PriceVersion, Tokens, Unit, Usage, WallMs};
use wire::call::Tail;
use wire::ledger::Outcome;

use super::Open;
use super::metered::Stopped;

/// What a call comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bill {
    /// What it used, reported or bounded.
    pub(super) usage: Usage,
    /// Whether `usage` is a bound.
    pub(super) estimated: bool,
    /// Which version of the model's price it is computed with.
    pub(super) price_from: Option<WallMs>,
    /// Money.
    pub(super) cost: NanoUsd,
    /// What each budget pays.
    pub(super) actual: Vec<(BudgetId, Amount)>,
}

impl Bill {
    /// The bill of a call that ended at `ended` as `tail` says.
    pub(super) fn of(open: &Open, tail: &Tail, ended: Mono) -> Self {
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
        match (tail.usage, &open.stopped) {
            (Some(reported), _) => Self::of_usage(open, open.with_pieces(reported, ended), false, true),
            (None, Some(Stopped { written, .. })) => {
                let likely = bound.map(|bound| bound.likely).unwrap_or_default();
                let usage = open.with_pieces(Usage::of_text(likely, *written), ended);
                Self::of_usage(open, usage, true, true)
            }
            (None, None) if open.sent.pieces > 0 => {
                // A byte-level tokenizer never puts more tokens into a text than it has bytes.
                let sent = Tokens(open.sent.bytes);
                let output = output.map_or(sent, |most| most.min(sent));
                let usage = open.with_pieces(Usage::of_text(input, output), ended);
                Self::of_usage(open, usage, true, true)
            }
            (None, None) => {
                let usage = open.with_pieces(Usage::of_text(input, output.unwrap_or_default()), ended);
                let pays = |id| open.payers().any(|payer| payer.id() == id);
                let held = open.asks().iter().filter(|(id, _most)| pays(*id)).copied().collect();
                Self { actual: held, ..Self::of_usage(open, usage, true, true) }
            }
        }
    }

    fn of_usage(open: &Open, usage: Usage, estimated: bool, worked: bool) -> Self {
        let price = open.price();
        let cost = price.filter(|_| worked).map_or(NanoUsd(0), |price| price.cost(&usage));
        let pays = |unit| match unit {
            Unit::Requests => Amount(u64::from(worked)),
            Unit::Tokens => Amount(usage.input.saturating_add(usage.output).0),
            Unit::InputTokens => Amount(usage.input.0),
            Unit::OutputTokens => Amount(usage.output.0),
            Unit::NanoUsd => Amount(cost.0),
        };
        let actual = open.payers().map(|payer| (payer.id(), pays(payer.budget.unit))).collect();
        Self { usage, estimated, price_from: price.map(|price| price.from), cost, actual }
    }
}

impl Open {
    /// The version of the model's price that the last attempt is held and charged by.
    pub(super) fn price(&self) -> Option<&PriceVersion> {
        let (attempt, bound) = self.attempt.as_ref()?;
        bound.price(&attempt.candidate.model)
    }

    /// What an upstream reported, and what it cannot know: the call's images, and how long the attempt took where that
    /// costs, which is no longer than the call may.
    pub(super) fn with_pieces(&self, usage: Usage, ended: Mono) -> Usage {
        let Some((attempt, bound)) = &self.attempt else { return usage };
        let timed = self.trying.filter(|_| self.price().is_some_and(PriceVersion::counts_seconds));
        let most = attempt.candidate.model.timeouts.total_ms;
        let busy_ms = timed.map_or(0, |trying| trying.busy_ms(ended).min(most));
        Usage { images: bound.images, busy_ms, ..usage }
    }
}
