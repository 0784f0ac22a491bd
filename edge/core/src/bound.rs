//! The most that a call can cost: what a strict budget must hold before the call is made.
//!
//! Input: a byte-level tokenizer never yields more tokens than bytes, and a request's JSON is never shorter than the
//! text in it; what the server's template adds is bounded by constants per call, message and tool. Parts whose tokens
//! their bytes do not bound (pictures, sound) are bounded by the model's context only. Output: the caller's cap, else
//! the model's, else what the context leaves; times the number of answers. A cap that the caller did not give goes on
//! the wire, or the bound would be a guess. What has no bound is `None`, never zero.

use base::{Amount, NanoUsd, Tokens, Unit};
use wire::catalog::{Model, Operation};

/// Tokens that a chat template may add to a call: preamble, start of the answer, special tokens.
const PER_CALL: u64 = 64;

/// Tokens that a chat template may add to a message: role, separators; four at OpenAI, up to a dozen elsewhere.
const PER_MESSAGE: u64 = 16;

/// Tokens that the instructions around a list of tools may add; the longest templates in use spend about 250.
const TOOLS: u64 = 320;

/// Tokens that may wrap one tool.
const PER_TOOL: u64 = 32;

/// What is known of a call's size before it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the request's body.
    pub bytes: u64,
    /// Messages, or inputs to embed.
    pub messages: u64,
    /// Tools offered to the model.
    pub tools: u64,
    /// Whether a part's tokens are not bounded by its bytes.
    pub unbounded_parts: bool,
    /// Most output tokens of one answer, as the caller gave it.
    pub cap: Option<Tokens>,
    /// Answers wanted; at least 1.
    pub answers: u64,
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
    /// The cap to put on the wire, when the caller gave none.
    pub wire_cap: Option<Tokens>,
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
        let output = each.map(|each| Tokens(each.0.saturating_mul(size.answers.max(1))));
        let cost = match (model.price, input, output) {
            (Some(price), Some(input), Some(output)) => Some(price.upper_bound(input, output)),
            (Some(price), _, _) if price.input == NanoUsd(0) && price.output == NanoUsd(0) => {
                Some(price.call)
            }
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
            Unit::NanoUsd => self.cost.map(|cost| Amount(cost.0)),
        }
    }
}

fn input(size: &Size, model: &Model) -> Option<Tokens> {
    let tools = if size.tools == 0 { 0 } else { TOOLS.saturating_add(size.tools.saturating_mul(PER_TOOL)) };
    let template = PER_CALL.saturating_add(size.messages.saturating_mul(PER_MESSAGE)).saturating_add(tools);
    let counted = Tokens(size.bytes.saturating_add(template));
    match model.context {
        Some(context) if size.unbounded_parts => Some(context),
        Some(context) => Some(counted.min(context)),
        None if size.unbounded_parts => None,
        None => Some(counted),
    }
}

/// The most tokens of one answer, and the cap to put on the wire.
fn answer(
    size: &Size,
    model: &Model,
    input: Option<Tokens>,
    strict: bool,
) -> (Option<Tokens>, Option<Tokens>) {
    if let Some(cap) = size.cap {
        return (Some(cap), None);
    }
    if let Some(cap) = model.output_cap {
        return (Some(cap), Some(cap));
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
        let size = Size { bytes: 1_000, messages: 2, cap: Some(Tokens(50)), answers: 3, ..Size::default() };
        let bound = Bound::of(&size, Operation::Chat, &model(), true);
        assert_eq!(bound.input, Some(Tokens(1_096)));
        assert_eq!((bound.output, bound.wire_cap), (Some(Tokens(150)), None));
        assert_eq!(bound.cost, Some(NanoUsd(1_096 + 300)));
        assert_eq!(bound.amount(Unit::Tokens), Some(Amount(1_246)));
        assert_eq!(bound.amount(Unit::Requests), Some(Amount(1)));
    }

    #[test]
    fn without_a_cap_the_models_goes_on_the_wire_else_what_the_context_leaves() {
        let size = Size { bytes: 936, answers: 1, ..Size::default() };
        let capped = Model { output_cap: Some(Tokens(200)), ..model() };
        assert_eq!(Bound::of(&size, Operation::Chat, &capped, false).wire_cap, Some(Tokens(200)));
        let roomy = Model { context: Some(Tokens(4_000)), ..model() };
        assert_eq!(Bound::of(&size, Operation::Chat, &roomy, true).wire_cap, Some(Tokens(3_000)));
        assert_eq!(Bound::of(&size, Operation::Chat, &roomy, false).wire_cap, None);
    }

    #[test]
    fn what_nothing_bounds_has_no_amount() {
        let size = Size { bytes: 10, answers: 1, ..Size::default() };
        let open = Bound::of(&size, Operation::Chat, &model(), true);
        assert_eq!((open.amount(Unit::Tokens), open.amount(Unit::NanoUsd)), (None, None));
        let picture = Size { unbounded_parts: true, cap: Some(Tokens(5)), ..size };
        assert_eq!(Bound::of(&picture, Operation::Chat, &model(), true).input, None);
        let known = Model { context: Some(Tokens(4_000)), ..model() };
        assert_eq!(Bound::of(&picture, Operation::Chat, &known, true).input, Some(Tokens(4_000)));
        let unpriced = Model { price: None, output_cap: Some(Tokens(5)), ..model() };
        assert_eq!(Bound::of(&size, Operation::Chat, &unpriced, true).cost, None);
    }

    #[test]
    fn a_model_priced_by_the_call_needs_no_token_bound() {
        let price = Price { call: NanoUsd(7), ..Price::default() };
        let per_call = Model { price: Some(price), ..model() };
        let size = Size { bytes: 10, answers: 1, ..Size::default() };
        assert_eq!(Bound::of(&size, Operation::Chat, &per_call, true).cost, Some(NanoUsd(7)));
    }

    proptest! {
        #[test]
        fn a_larger_call_never_has_a_smaller_bound(
            bytes in 0u64..1 << 30, messages in 0u64..1_000, tools in 0u64..100, answers in 1u64..8, more in 0u64..1_000,
        ) {
            let capped = Model { output_cap: Some(Tokens(100)), ..model() };
            let size = Size { bytes, messages, tools, unbounded_parts: false, cap: None, answers };
            let larger = Size { bytes: bytes + more, messages: messages + more, answers: answers + more, ..size };
            let (small, large) =
                (Bound::of(&size, Operation::Chat, &capped, true), Bound::of(&larger, Operation::Chat, &capped, true));
            prop_assert!(small.input <= large.input && small.output <= large.output && small.cost <= large.cost);
        }
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
