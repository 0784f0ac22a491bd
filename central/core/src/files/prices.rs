//! Prices of models: in dollars per million tokens, per image, per second and per call.
//!
//! `price` is one mapping, or a list of them, each in force from an instant on. A tier leaves out what costs as in calls
//! below it. What a chat writes is never free by omission.

use base::{NanoUsd, Price, PriceVersion, Rates, Tier, Tokens, WallMs};
use jiff::Timestamp;
use serde_json::{Map, Value as Json, json};
use settings::{Fields, Value, decimal, dollars, text, whole};

/// Reads a model's `price`; inner `None` when it is absent, outer when it is at fault.
pub(super) fn read(fields: &mut Fields<'_, '_>, chats: bool) -> Option<Option<Price>> {
    let versions = fields.one_or_more("price", |price| version(price, chats))?;
    if !versions.is_sorted_by(|one, next| one.from < next.from) {
        fields.at_fault(
            "price",
            "lists its versions in another order than they come into force; sort them by `from`, each at another instant",
        );
        return None;
    }
    Some((!versions.is_empty()).then_some(Price { versions }))
}

fn version(fields: &mut Fields<'_, '_>, chats: bool) -> Option<PriceVersion> {
    let from = fields.or("from", instant, WallMs::default());
    let input = fields.required("input", dollars);
    let output =
        if chats { fields.required("output", dollars) } else { fields.or("output", dollars, NanoUsd(0)) };
    let rates = rates(fields, input, output, &Rates::default());
    let below = rates.unwrap_or_default();
    let tiers = fields.mappings("tiers", |fields| tier(fields, &below))?;
    if !tiers.is_sorted_by(|one, next| one.above < next.above) {
        fields.at_fault("tiers", "must rise; sort them by `above`, each with another number");
        return None;
    }
    Some(PriceVersion { from: from?, rates: rates?, tiers })
}

fn tier(fields: &mut Fields<'_, '_>, below: &Rates) -> Option<Tier> {
    let above = fields.required("above", whole);
    let input = fields.or("input", dollars, below.input);
    let output = fields.or("output", dollars, below.output);
    let rates = rates(fields, input, output, below);
    Some(Tier { above: Tokens(above?), rates: rates? })
}

/// Rates whose plain ones were read; others are as `below` where they are left out.
fn rates(
    fields: &mut Fields<'_, '_>,
    input: Option<NanoUsd>,
    output: Option<NanoUsd>,
    below: &Rates,
) -> Option<Rates> {
    let mut kind = |name, below: Option<NanoUsd>| {
        let given = fields.optional(name, dollars);
        given.map(|given| given.or(below))
    };
    let cached_input = kind("cached_input", below.cached_input);
    let cache_write = kind("cache_write", below.cache_write);
    let audio_input = kind("audio_input", below.audio_input);
    let reasoning = kind("reasoning", below.reasoning);
    let audio_output = kind("audio_output", below.audio_output);
    let image = fields.or("image", dollars, below.image);
    let second = fields.or("second", dollars, below.second);
    let call = fields.or("call", dollars, below.call);
    Some(Rates {
        input: input?,
        cached_input: cached_input?,
        cache_write: cache_write?,
        audio_input: audio_input?,
        output: output?,
        reasoning: reasoning?,
        audio_output: audio_output?,
        image: image?,
        second: second?,
        call: call?,
    })
}

/// An instant with its offset, not before 1970.
fn instant(value: &Value) -> Result<WallMs, String> {
    let given = text(value)?;
    let read: Option<Timestamp> = given.parse().ok();
    let ms = read.and_then(|instant| u64::try_from(instant.as_millisecond()).ok());
    ms.map(WallMs::from_millis)
        .ok_or_else(|| format!("{given:?} is not an instant such as 2026-01-31T00:00:00Z, with its offset"))
}

/// A price as files have it: one that was always in force, or a list.
pub(super) fn form(price: &Price) -> Json {
    match price.versions.as_slice() {
        [only] => version_form(only),
        several => several.iter().map(version_form).collect(),
    }
}

fn version_form(version: &PriceVersion) -> Json {
    let mut form = rates_form(&version.rates);
    if version.from > WallMs::default() {
        form.insert("from".to_owned(), instant_form(version.from));
    }
    if !version.tiers.is_empty() {
        form.insert("tiers".to_owned(), version.tiers.iter().map(tier_form).collect());
    }
    Json::Object(form)
}

fn tier_form(tier: &Tier) -> Json {
    let mut form = rates_form(&tier.rates);
    form.insert("above".to_owned(), json!(tier.above));
    Json::Object(form)
}

fn rates_form(rates: &Rates) -> Map<String, Json> {
    let piece = |rate: NanoUsd| (rate.0 > 0).then_some(rate);
    let given = [
        ("input", Some(rates.input)),
        ("cached_input", rates.cached_input),
        ("cache_write", rates.cache_write),
        ("audio_input", rates.audio_input),
        ("output", Some(rates.output)),
        ("reasoning", rates.reasoning),
        ("audio_output", rates.audio_output),
        ("image", piece(rates.image)),
        ("second", piece(rates.second)),
        ("call", piece(rates.call)),
    ];
    let given = given.into_iter().filter_map(|(name, rate)| Some((name, rate?)));
    given.map(|(name, rate)| (name.to_owned(), json!(decimal::text(rate)))).collect()
}

/// In RFC 3339. Instants that have no such form come from no file.
fn instant_form(at: WallMs) -> Json {
    let ms = i64::try_from(at.as_millis()).ok();
    ms.and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| json!(at), |at| json!(at.to_string()))
}
