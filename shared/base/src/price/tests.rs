use proptest::prelude::*;

use super::*;

#[test]
fn a_cost_is_rounded_up_once() {
    let price = Rates { input: NanoUsd(150_000_000), output: NanoUsd(600_000_000), ..Rates::default() };
    assert_eq!(price.cost(&text(1, 1)), NanoUsd(750));
    let odd = Rates { input: NanoUsd(1), output: NanoUsd(1), second: NanoUsd(1), ..Rates::default() };
    assert_eq!(odd.cost(&Usage { busy_ms: 1, ..text(1, 1) }), NanoUsd(1));
}

#[test]
fn each_token_costs_as_its_kind_and_is_counted_once() {
    let rates = Rates {
        input: NanoUsd(1_000_000),
        cached_input: Some(NanoUsd(100_000)),
        cache_write: Some(NanoUsd(1_250_000)),
        audio_input: Some(NanoUsd(10_000_000)),
        output: NanoUsd(4_000_000),
        reasoning: Some(NanoUsd(2_000_000)),
        audio_output: Some(NanoUsd(20_000_000)),
        ..Rates::default()
    };
    let usage = Usage {
        cached_input: Tokens(40),
        cache_write: Tokens(20),
        audio_input: Tokens(10),
        reasoning: Tokens(6),
        audio_output: Tokens(1),
        ..text(100, 10)
    };
    assert_eq!(rates.cost(&usage), NanoUsd(4 + 25 + 100 + 30 + 12 + 20 + 3 * 4));
    let twice = Usage { cached_input: Tokens(90), audio_input: Tokens(90), ..text(100, 0) };
    assert_eq!(rates.cost(&twice), NanoUsd(9 + 100), "90 cached, the other 10 sound");
}

#[test]
fn pieces_and_time_cost_beside_tokens() {
    let rates = Rates { image: NanoUsd(700), second: NanoUsd(2_000), call: NanoUsd(5), ..Rates::default() };
    let usage = Usage { images: 2, busy_ms: 1_500, ..Usage::default() };
    assert_eq!(rates.cost(&usage), NanoUsd(1_400 + 3_000 + 5));
}

#[test]
fn a_tier_prices_the_whole_call_of_a_longer_input() {
    let rates = |each| Rates { input: NanoUsd(each), output: NanoUsd(each), ..Rates::default() };
    let tier = |above, each| Tier { above: Tokens(above), rates: rates(each) };
    let version = PriceVersion {
        rates: rates(1_000_000),
        tiers: vec![tier(1_000, 3_000_000), tier(200, 2_000_000)],
        ..PriceVersion::default()
    };
    let cost = |input| version.cost(&text(input, 10));
    assert_eq!([cost(200), cost(201), cost(1_001)], [NanoUsd(210), NanoUsd(422), NanoUsd(3_033)]);
    assert_eq!(version.upper_bound(&text(200, 10)), NanoUsd(210), "no tier can be reached");
}

#[test]
fn the_latest_version_that_has_begun_is_in_force() {
    let version = |from| PriceVersion { from: WallMs::from_millis(from), ..PriceVersion::default() };
    let price = Price { versions: vec![version(10), version(20)] };
    let at = |ms| price.at(WallMs::from_millis(ms)).map(|version| version.from.as_millis());
    assert_eq!([at(9), at(10), at(19), at(20)], [None, Some(10), Some(10), Some(20)]);
    assert!(Price::flat(Rates::default()).at(WallMs::default()).is_some());
}

proptest! {
    /// What a strict budget rests on: however a call's tokens split into kinds, and whichever tier its input reaches, it
    /// costs no more than what was held for a call that is at least as large.
    #[test]
    fn no_cost_exceeds_the_bound_of_a_larger_call(
        version in version(), usage in usage(), more in (0u64..1 << 20, 0u64..1 << 20, 0u32..9, 0u32..99),
    ) {
        let most = Usage {
            images: usage.images + more.2,
            busy_ms: usage.busy_ms + more.3,
            ..text(usage.input.0 + more.0, usage.output.0 + more.1)
        };
        prop_assert!(version.cost(&usage) <= version.upper_bound(&most));
    }

    /// Against the reference: every token by itself.
    #[test]
    fn a_cost_is_the_sum_of_its_tokens(rates in rates(), usage in small_usage()) {
        let of = |rate: Option<NanoUsd>, plain: NanoUsd| u128::from(rate.unwrap_or(plain).0);
        let mut kinds = vec![of(None, rates.input); usize::try_from(usage.input.0).unwrap()];
        let marked = [
            (usage.cached_input, rates.cached_input),
            (usage.cache_write, rates.cache_write),
            (usage.audio_input, rates.audio_input),
        ];
        let places = marked.iter().flat_map(|(count, rate)| (0..count.0).map(move |_| *rate));
        kinds.iter_mut().zip(places).for_each(|(kind, rate)| *kind = of(rate, rates.input));
        let mut written = vec![of(None, rates.output); usize::try_from(usage.output.0).unwrap()];
        let marked = [(usage.reasoning, rates.reasoning), (usage.audio_output, rates.audio_output)];
        let places = marked.iter().flat_map(|(count, rate)| (0..count.0).map(move |_| *rate));
        written.iter_mut().zip(places).for_each(|(kind, rate)| *kind = of(rate, rates.output));
        let millionths: u128 = kinds.iter().chain(&written).sum::<u128>()
            + u128::from(usage.busy_ms) * u128::from(rates.second.0) * 1_000;
        let pieces = u128::from(usage.images) * u128::from(rates.image.0) + u128::from(rates.call.0);
        let whole = millionths.div_ceil(1_000_000) + pieces;
        prop_assert_eq!(u128::from(rates.cost(&usage).0), whole.min(u64::MAX.into()));
    }
}

const fn text(input: u64, output: u64) -> Usage {
    Usage::of_text(Tokens(input), Tokens(output))
}

fn amount() -> impl Strategy<Value = NanoUsd> {
    (0u64..1 << 40).prop_map(NanoUsd)
}

fn rates() -> impl Strategy<Value = Rates> {
    let kind = || proptest::option::of(amount());
    let plain = (amount(), amount(), amount(), amount(), amount());
    (plain, [kind(), kind(), kind(), kind(), kind()]).prop_map(|(plain, kinds)| {
        let (input, output, image, second, call) = plain;
        let [cached_input, cache_write, audio_input, reasoning, audio_output] = kinds;
        Rates {
            input,
            cached_input,
            cache_write,
            audio_input,
            output,
            reasoning,
            audio_output,
            image,
            second,
            call,
        }
    })
}

fn version() -> impl Strategy<Value = PriceVersion> {
    let tier = (0u64..1 << 24, rates()).prop_map(|(above, rates)| Tier { above: Tokens(above), rates });
    (rates(), proptest::collection::vec(tier, 0..3)).prop_map(|(rates, tiers)| PriceVersion {
        from: WallMs::default(),
        rates,
        tiers,
    })
}

fn usage_below(most: u64) -> impl Strategy<Value = Usage> {
    let count = move || (0..most).prop_map(Tokens);
    let tokens = [count(), count(), count(), count(), count(), count(), count()];
    (tokens, 0u32..20, 0u32..1_000_000).prop_map(|(tokens, images, busy_ms)| {
        let [input, cached_input, cache_write, audio_input, output, reasoning, audio_output] = tokens;
        Usage {
            input,
            cached_input,
            cache_write,
            audio_input,
            output,
            reasoning,
            audio_output,
            images,
            busy_ms,
        }
    })
}

fn usage() -> impl Strategy<Value = Usage> {
    usage_below(1 << 24)
}

fn small_usage() -> impl Strategy<Value = Usage> {
    usage_below(40)
}
