//! The most that a call can cost: what a strict budget must hold before the call is made.
//!
//! Input: what the dialect can bound from the body's bytes, and never more than the model's context. Output: the
//! smaller of the caller's cap and the model's, else what the context leaves; times the number of answers. A cap that
//! the caller did not give, or gave larger than the model's, goes on the wire, or the bound would be a guess. What has
//! no bound is `None`, never zero.
//!
//! Money: at the price in force when the call is admitted, every token at the dearest rate of its side, in the dearest
//! tier that the input may reach, for as long as the model's whole time.

use base::{Amount, NanoUsd, PriceVersion, Tokens, Unit, Usage, WallMs};
use wire::catalog::{Model, Operation};

/// What is known of a call's size before it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The most input tokens that the body can hold, as counted or as its bytes bound them; `None` when nothing does.
    pub input: Option<Tokens>,
    /// The part of it that has no bound then, such as sound of unknown length.
    pub unbounded: Option<&'static str>,
    /// Input tokens that the body likely has, counted or estimated. Bounds nothing.
    pub likely: Tokens,
    /// Whether that covers all of it: no sound, no file, no picture of unknown size.
    pub likely_is_whole: bool,
    /// Most output tokens of one answer, as the caller gave it.
    pub cap: Option<Tokens>,
    /// Answers wanted; at least 1.
    pub answers: u32,
    /// Images in the call.
    pub images: u32,
}

/// The most that a call of this size can be and cost at one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Input tokens.
    pub input: Option<Tokens>,
    /// The part of the call that has no bound, when `input` has none.
    pub unbounded: Option<&'static str>,
    /// Input tokens that it likely has; within `input`, and no bound.
    pub likely: Tokens,
    /// Whether that covers all of its input.
    pub likely_is_whole: bool,
    /// Output tokens of all answers.
    pub output: Option<Tokens>,
    /// Images in the call.
    pub images: u32,
    /// Money.
    pub cost: Option<NanoUsd>,
    /// What the call costs if its input is as likely, its answers as long as they may be, and no token is of a special kind.
    pub likely_cost: Option<NanoUsd>,
    /// Which version of the model's price is in force, by its first instant; `None`: none is.
    pub price_from: Option<WallMs>,
    /// The cap to put on the wire, when the caller gave none or a larger one.
    pub wire_cap: Option<Tokens>,
}

/// What keeps a call from having an amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// The model has no price, or none that has begun.
    pub price: bool,
    /// Neither the model nor its context bounds this part of the input.
    pub input: Option<&'static str>,
    /// Neither the caller, the model's cap nor its context bound an answer.
    pub output: bool,
}

impl Bound {
    /// The bound of a call at a model, at the price in force at `at`. `strict` says whether a budget relies on it: only
    /// then is a cap derived from the context put on the wire.
    #[must_use]
    pub fn of(size: &Size, operation: Operation, model: &Model, strict: bool, at: WallMs) -> Self {
        let input = input(size, model);
        let (each, wire_cap) = match operation {
            Operation::Embeddings => (Some(Tokens(0)), None),
            Operation::Chat => answer(size, model, input, strict),
        };
        let output = each.map(|each| Tokens(each.0.saturating_mul(u64::from(size.answers.max(1)))));
        let price = model.price.as_ref().and_then(|price| price.at(at));
        let pieces = Usage { images: size.images, busy_ms: model.timeouts.total_ms, ..Usage::default() };
        let likely = input.map_or(size.likely, |most| size.likely.min(most));
        let cost = price.and_then(|price| most(price, input, output, pieces));
        let likely_cost = cost.zip(price).map(|(_bounded, price)| {
            price.cost(&Usage { input: likely, output: output.unwrap_or_default(), ..pieces })
        });
        let price_from = price.map(|price| price.from);
        let likely_is_whole = size.likely_is_whole;
        let unbounded = size.unbounded.filter(|_| input.is_none());
        Self {
            input,
            unbounded,
            likely,
            likely_is_whole,
            output,
            images: size.images,
            cost,
            likely_cost,
            price_from,
            wire_cap,
        }
    }

    /// The version of `model`'s price that the bound was computed with.
    #[must_use]
    pub fn price<'m>(&self, model: &'m Model) -> Option<&'m PriceVersion> {
        model.price.as_ref()?.at(self.price_from?)
    }

    /// Tokens that the call likely needs: those of its input, and of answers as long as they may be, as far as that is bounded.
    #[must_use]
    pub fn likely_tokens(&self) -> u64 {
        self.likely.saturating_add(self.output.unwrap_or_default()).0
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

    /// What keeps [`Bound::amount`] from having a value.
    #[must_use]
    pub fn lacks(&self, unit: Unit) -> Lacks {
        if self.amount(unit).is_some() {
            return Lacks::default();
        }
        Lacks {
            price: unit == Unit::NanoUsd && self.price_from.is_none(),
            input: self.input.is_none().then(|| self.unbounded.unwrap_or("input")),
            output: self.output.is_none(),
        }
    }
}

/// The most that a call can cost; tokens without a bound cost nothing where no token does.
fn most(
    price: &PriceVersion,
    input: Option<Tokens>,
    output: Option<Tokens>,
    pieces: Usage,
) -> Option<NanoUsd> {
    let free = price.is_free_by_token().then_some(Tokens(u64::MAX));
    Some(price.upper_bound(&Usage { input: input.or(free)?, output: output.or(free)?, ..pieces }))
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
    use base::{Price, Rates, Tier};
    use proptest::prelude::*;
    use wire::catalog::{Dialect, Limits, Timeouts};

    use super::*;

    #[test]
    fn the_callers_cap_counts_for_each_answer_and_is_not_touched() {
        let size = Size { cap: Some(Tokens(50)), answers: 3, ..text(1_096) };
        let bound = Bound::of(&size, Operation::Chat, &model(), true, NOW);
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
            let bound = Bound::of(&size, Operation::Chat, &capped, true, NOW);
            (bound.output, bound.wire_cap)
        };
        assert_eq!(of(5_000), (Some(Tokens(400)), Some(Tokens(200))));
        assert_eq!(of(200), (Some(Tokens(400)), None));
        assert_eq!(of(50), (Some(Tokens(100)), None));
    }

    #[test]
    fn without_a_cap_the_models_goes_on_the_wire_else_what_the_context_leaves() {
        let capped = Model { output_cap: Some(Tokens(200)), ..model() };
        assert_eq!(Bound::of(&text(1_000), Operation::Chat, &capped, false, NOW).wire_cap, Some(Tokens(200)));
        let roomy = Model { context: Some(Tokens(4_000)), ..model() };
        assert_eq!(Bound::of(&text(1_000), Operation::Chat, &roomy, true, NOW).wire_cap, Some(Tokens(3_000)));
        assert_eq!(Bound::of(&text(1_000), Operation::Chat, &roomy, false, NOW).wire_cap, None);
    }

    #[test]
    fn what_nothing_bounds_has_no_amount() {
        let open = Bound::of(&text(10), Operation::Chat, &model(), true, NOW);
        assert_eq!((open.amount(Unit::Tokens), open.amount(Unit::NanoUsd)), (None, None));
        let output = Lacks { output: true, ..Lacks::default() };
        assert_eq!(open.lacks(Unit::NanoUsd), output);
        assert_eq!(open.lacks(Unit::Requests), Lacks::default());
        let picture = Size { input: None, unbounded: Some("image_url"), cap: Some(Tokens(5)), ..text(0) };
        let bound = Bound::of(&picture, Operation::Chat, &model(), true, NOW);
        let lacks = Lacks { input: Some("image_url"), ..Lacks::default() };
        assert_eq!((bound.input, bound.lacks(Unit::NanoUsd)), (None, lacks));
        let known = Model { context: Some(Tokens(4_000)), ..model() };
        assert_eq!(Bound::of(&picture, Operation::Chat, &known, true, NOW).input, Some(Tokens(4_000)));
        let unpriced = Model { price: None, output_cap: Some(Tokens(5)), ..model() };
        let bound = Bound::of(&text(10), Operation::Chat, &unpriced, true, NOW);
        assert_eq!(bound.cost, None);
        assert_eq!(bound.lacks(Unit::NanoUsd), Lacks { price: true, ..Lacks::default() });
    }

    #[test]
    fn a_model_priced_by_the_call_needs_no_token_bound() {
        let per_call = Rates { call: NanoUsd(7), ..Rates::default() };
        let cost = |rates, size: &Size| Bound::of(size, Operation::Chat, &at(rates), true, NOW).cost;
        assert_eq!(cost(per_call, &text(10)), Some(NanoUsd(7)));
        let reread = Rates { cached_input: Some(NanoUsd(1)), ..per_call };
        let small = Size { cap: Some(Tokens(5)), ..text(10) };
        assert_eq!(cost(reread, &small), Some(NanoUsd(8)), "input that is free only when it is fresh");
        let picture = Size { input: None, cap: Some(Tokens(5)), ..text(0) };
        assert_eq!(cost(reread, &picture), None, "nothing bounds what is read again");
    }

    #[test]
    fn what_is_likely_never_lowers_what_is_held() {
        let size = Size { cap: Some(Tokens(10)), ..text(1_000) };
        let bound = Bound::of(&size, Operation::Chat, &model(), true, NOW);
        assert_eq!((bound.input, bound.cost), (Some(Tokens(1_000)), Some(NanoUsd(1_020))));
        assert_eq!((bound.likely_tokens(), bound.likely_cost), (260, Some(NanoUsd(270))));
        let small = Model { context: Some(Tokens(100)), ..model() };
        let bound = Bound::of(&size, Operation::Chat, &small, true, NOW);
        assert_eq!(bound.likely, Tokens(100), "no more fits");
    }

    #[test]
    fn pictures_and_the_whole_time_are_held_where_they_cost() {
        let timed = Rates { image: NanoUsd(30), second: NanoUsd(2_000), ..Rates::default() };
        let pictures = Size { images: 2, ..text(10) };
        let bound = Bound::of(&pictures, Operation::Chat, &at(timed), true, NOW);
        assert_eq!(bound.cost, Some(NanoUsd(60 + 600 * 2_000)));
    }

    #[test]
    fn the_dearest_kind_and_the_dearest_tier_within_reach_are_held() {
        let written = Rates { cache_write: Some(NanoUsd(1_250_000)), ..rates() };
        let thinking = Rates { reasoning: Some(NanoUsd(4_000_000)), ..written };
        let tier = Tier { above: Tokens(1_000), rates: Rates { input: NanoUsd(3_000_000), ..rates() } };
        let price = PriceVersion { rates: thinking, tiers: vec![tier], ..PriceVersion::default() };
        let model = Model { price: Some(Price { versions: vec![price] }), ..model() };
        let cost = |input| {
            let size = Size { cap: Some(Tokens(10)), ..text(input) };
            Bound::of(&size, Operation::Chat, &model, true, NOW).cost
        };
        assert_eq!(cost(1_000), Some(NanoUsd(1_250 + 40)));
        assert_eq!(cost(2_000), Some(NanoUsd(6_000 + 20)));
    }

    #[test]
    fn the_price_in_force_counts_and_none_before_the_first() {
        let version = |from, call| PriceVersion {
            from: WallMs::from_millis(from),
            rates: Rates { call: NanoUsd(call), ..Rates::default() },
            tiers: Vec::new(),
        };
        let price = Price { versions: vec![version(100, 7), version(200, 5)] };
        let model = Model { price: Some(price), ..model() };
        let bound = |ms| Bound::of(&text(1), Operation::Chat, &model, true, WallMs::from_millis(ms));
        assert_eq!((bound(150).cost, bound(200).cost), (Some(NanoUsd(7)), Some(NanoUsd(5))));
        assert_eq!(bound(150).price(&model).map(|price| price.from), Some(WallMs::from_millis(100)));
        let early = bound(99);
        assert_eq!((early.cost, early.lacks(Unit::NanoUsd).price), (None, true));
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
            let bound = Bound::of(&size, Operation::Chat, &model, strict, NOW);
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
            let bound = |size| Bound::of(size, Operation::Chat, &capped, true, NOW);
            let (small, large) = (bound(&size), bound(&larger));
            prop_assert!(small.input <= large.input && small.output <= large.output && small.cost <= large.cost);
        }
    }

    const NOW: WallMs = WallMs::from_millis(1_000);

    fn rates() -> Rates {
        Rates { input: NanoUsd(1_000_000), output: NanoUsd(2_000_000), ..Rates::default() }
    }

    fn at(rates: Rates) -> Model {
        Model { price: Some(Price::flat(rates)), ..model() }
    }

    fn text(tokens: u64) -> Size {
        Size {
            input: Some(Tokens(tokens)),
            unbounded: None,
            likely: Tokens(tokens / 4),
            likely_is_whole: true,
            cap: None,
            answers: 1,
            images: 0,
        }
    }

    fn model() -> Model {
        Model {
            name: "m".parse().unwrap(),
            upstream_model: None,
            dialect: Dialect::Openai,
            operations: vec![Operation::Chat, Operation::Embeddings],
            price: Some(Price::flat(rates())),
            context: None,
            output_cap: None,
            tokenizer: None,
            image_tokens: None,
            audio: None,
            file_tokens: None,
            replicas: Vec::new(),
            provider: None,
            timeouts: Timeouts::default(),
            limits: Limits::default(),
        }
    }
}
