//! The most that a call can cost: what a strict budget must hold before the call is made.
//!
//! Input: what the dialect can bound from the body's bytes, and never more than the model's context. Output: the
//! smaller of the caller's cap and the model's, else what the context leaves; times the number of answers. A cap that
//! the caller did not give, or gave larger than the model's, goes on the wire, or the bound would be a guess. What has
//! no bound is `None`, never zero.

use base::{Amount, NanoUsd, Tokens, Unit};
use wire::catalog::{Model, Operation};

/// What is known of a call's size before it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The most input tokens that the body can hold; `None` when its bytes bound nothing (pictures, sound).
    pub input: Option<Tokens>,
    /// Most output tokens of one answer, as the caller gave it.
    pub cap: Option<Tokens>,
    /// Answers wanted; at least 1.
    pub answers: u32,
}

/// The most that a call of this size can be and cost at one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Input tokens.
    pub input: Option<Tokens>,
    /// Output tokens of all answers.
    pub output: Option<Tokens>,
    /// Money.
    pub cost: Option<NanoUsd>,
    /// The cap to put on the wire, when the caller gave none or a larger one.
    pub wire_cap: Option<Tokens>,
}

/// What keeps a call from having an amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// The model has no price.
    pub price: bool,
    /// Neither the body's bytes nor the model's context bound the input.
    pub input: bool,
    /// Neither the caller, the model's cap nor its context bound an answer.
    pub output: bool,
}

impl Bound {
    /// The bound of a call at a model. `strict` says whether a budget relies on it: only then is a cap derived from
    /// the context put on the wire.
    #[must_use]
    pub fn of(size: &Size, operation: Operation, model: &Model, strict: bool) -> Self {
        let input = input(size, model);
        let (each, wire_cap) = match operation {
            Operation::Embeddings => (Some(Tokens(0)), None),
            Operation::Chat => answer(size, model, input, strict),
        };
        let output = each.map(|each| Tokens(each.0.saturating_mul(u64::from(size.answers.max(1)))));
        let cost = match (model.price, input, output) {
            (Some(price), Some(input), Some(output)) => Some(price.upper_bound(input, output)),
            (Some(price), _, _) if price.is_by_the_call() => Some(price.call),
            (Some(_) | None, _, _) => None,
        };
        Self { input, output, cost, wire_cap }
    }

    /// What a budget of this unit must hold; `None` when nothing bounds it.
    #[must_use]
    pub fn amount(&self, unit: Unit) -> Option<Amount> {
        match unit {
            Unit::Requests => Some(Amount(1)),
            Unit::Tokens => Some(Amount(self.input?.saturating_add(self.output?).0)),
            Unit::InputTokens => self.input.map(|input| Amount(input.0)),
            Unit::OutputTokens => self.output.map(|output| Amount(output.0)),
            Unit::NanoUsd => self.cost.map(|cost| Amount(cost.0)),
        }
    }

    /// What keeps [`Bound::amount`] from having a value at `model`, whose bound this is.
    #[must_use]
    pub fn lacks(&self, unit: Unit, model: &Model) -> Lacks {
        if self.amount(unit).is_some() {
            return Lacks::default();
        }
        Lacks {
            price: unit == Unit::NanoUsd && model.price.is_none(),
            input: self.input.is_none(),
            output: self.output.is_none(),
        }
    }
}

fn input(size: &Size, model: &Model) -> Option<Tokens> {
    match (size.input, model.context) {
        (Some(counted), Some(context)) => Some(counted.min(context)),
        (Some(bound), None) | (None, Some(bound)) => Some(bound),
        (None, None) => None,
    }
}

/// The most tokens of one answer, and the cap to put on the wire.
fn answer(
    size: &Size,
    model: &Model,
    input: Option<Tokens>,
    strict: bool,
) -> (Option<Tokens>, Option<Tokens>) {
    match (size.cap, model.output_cap) {
        (Some(given), Some(most)) if given > most => return (Some(most), Some(most)),
        (Some(given), Some(_) | None) => return (Some(given), None),
        (None, Some(most)) => return (Some(most), Some(most)),
        (None, None) => {}
    }
    let left = model.context.zip(input).and_then(|(context, input)| context.0.checked_sub(input.0));
    let cap = left.filter(|left| *left > 0 && strict).map(Tokens);
    (cap, cap)
}

#[cfg(test)]
mod tests {
    use base::Price;
    use proptest::prelude::*;
    use wire::catalog::{Dialect, Timeouts};

    use super::*;

    #[test]
    fn the_callers_cap_counts_for_each_answer_and_is_not_touched() {
        let size = Size { cap: Some(Tokens(50)), answers: 3, ..text(1_096) };
        let bound = Bound::of(&size, Operation::Chat, &model(), true);
        assert_eq!((bound.output, bound.wire_cap), (Some(Tokens(150)), None));
        assert_eq!(bound.cost, Some(NanoUsd(1_096 + 300)));
        assert_eq!(bound.amount(Unit::Tokens), Some(Amount(1_246)));
        assert_eq!(bound.amount(Unit::Requests), Some(Amount(1)));
    }

    #[test]
    fn a_cap_beyond_the_models_is_lowered_to_it_and_a_smaller_one_stays() {
        let capped = Model { output_cap: Some(Tokens(200)), ..model() };
        let of = |cap| {
            let size = Size { cap: Some(Tokens(cap)), answers: 2, ..text(10) };
            let bound = Bound::of(&size, Operation::Chat, &capped, true);
            (bound.output, bound.wire_cap)
        };
        assert_eq!(of(5_000), (Some(Tokens(400)), Some(Tokens(200))));
        assert_eq!(of(200), (Some(Tokens(400)), None));
        assert_eq!(of(50), (Some(Tokens(100)), None));
    }

    #[test]
    fn without_a_cap_the_models_goes_on_the_wire_else_what_the_context_leaves() {
        let capped = Model { output_cap: Some(Tokens(200)), ..model() };
        assert_eq!(Bound::of(&text(1_000), Operation::Chat, &capped, false).wire_cap, Some(Tokens(200)));
        let roomy = Model { context: Some(Tokens(4_000)), ..model() };
        assert_eq!(Bound::of(&text(1_000), Operation::Chat, &roomy, true).wire_cap, Some(Tokens(3_000)));
        assert_eq!(Bound::of(&text(1_000), Operation::Chat, &roomy, false).wire_cap, None);
    }

    #[test]
    fn what_nothing_bounds_has_no_amount() {
        let open = Bound::of(&text(10), Operation::Chat, &model(), true);
        assert_eq!((open.amount(Unit::Tokens), open.amount(Unit::NanoUsd)), (None, None));
        let output = Lacks { output: true, ..Lacks::default() };
        assert_eq!(open.lacks(Unit::NanoUsd, &model()), output);
        assert_eq!(open.lacks(Unit::Requests, &model()), Lacks::default());
        let picture = Size { input: None, cap: Some(Tokens(5)), answers: 1 };
        assert_eq!(Bound::of(&picture, Operation::Chat, &model(), true).input, None);
        let known = Model { context: Some(Tokens(4_000)), ..model() };
        assert_eq!(Bound::of(&picture, Operation::Chat, &known, true).input, Some(Tokens(4_000)));
        let unpriced = Model { price: None, output_cap: Some(Tokens(5)), ..model() };
        let bound = Bound::of(&text(10), Operation::Chat, &unpriced, true);
        assert_eq!(bound.cost, None);
        assert_eq!(bound.lacks(Unit::NanoUsd, &unpriced), Lacks { price: true, ..Lacks::default() });
    }

    #[test]
    fn a_model_priced_by_the_call_needs_no_token_bound() {
        let price = Price { call: NanoUsd(7), ..Price::default() };
        let per_call = Model { price: Some(price), ..model() };
        assert_eq!(Bound::of(&text(10), Operation::Chat, &per_call, true).cost, Some(NanoUsd(7)));
        let reread = Some(Price { cached_input: Some(NanoUsd(1)), ..price });
        let small = Size { cap: Some(Tokens(5)), ..text(10) };
        let cached = Bound::of(&small, Operation::Chat, &Model { price: reread, ..model() }, true);
        assert_eq!(cached.cost, Some(NanoUsd(8)), "input that is free only when it is fresh");
        let picture = Size { input: None, cap: Some(Tokens(5)), answers: 1 };
        let unknown = Bound::of(&picture, Operation::Chat, &Model { price: reread, ..model() }, true);
        assert_eq!(unknown.cost, None, "nothing bounds what is read again");
    }

    proptest! {
        /// What goes on the wire caps each answer at no more than what the bound counts.
        #[test]
        fn the_wire_never_allows_more_than_the_bound_counts(
            given in proptest::option::of(0u64..1_000), most in proptest::option::of(0u64..1_000),
            context in proptest::option::of(1u64..4_000), answers in 1u32..8, strict: bool,
        ) {
            let model = Model { output_cap: most.map(Tokens), context: context.map(Tokens), ..model() };
            let size = Size { cap: given.map(Tokens), answers, ..text(10) };
            let bound = Bound::of(&size, Operation::Chat, &model, strict);
            let wire = bound.wire_cap.map_or(given, |cap| Some(given.map_or(cap.0, |given| given.min(cap.0))));
            let counted = bound.output.map(|output| output.0);
            prop_assert_eq!(counted, wire.map(|wire| wire * u64::from(answers)));
            prop_assert!(most.is_none() || wire <= most);
        }

        #[test]
        fn a_larger_call_never_has_a_smaller_bound(
            input in 0u64..1 << 30, answers in 1u32..8, more_input in 0u64..1_000, more_answers in 0u32..4,
        ) {
            let capped = Model { output_cap: Some(Tokens(100)), ..model() };
            let size = Size { answers, ..text(input) };
            let larger = Size { answers: answers + more_answers, ..text(input + more_input) };
            let bound = |size| Bound::of(size, Operation::Chat, &capped, true);
            let (small, large) = (bound(&size), bound(&larger));
            prop_assert!(small.input <= large.input && small.output <= large.output && small.cost <= large.cost);
        }
    }

    fn text(tokens: u64) -> Size {
        Size { input: Some(Tokens(tokens)), cap: None, answers: 1 }
    }

    fn model() -> Model {
        Model {
            name: "m".parse().unwrap(),
            upstream_model: None,
            dialect: Dialect::Openai,
            operations: vec![Operation::Chat, Operation::Embeddings],
            price: Some(Price { input: NanoUsd(1_000_000), output: NanoUsd(2_000_000), ..Price::default() }),
            context: None,
            output_cap: None,
            tokenizer: None,
            replicas: Vec::new(),
            provider: None,
            timeouts: Timeouts::default(),
        }
    }
}
