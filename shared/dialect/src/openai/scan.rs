//! Finds the fields we read in a JSON object, without building it. The whole text is validated; nothing recurses.

use std::fmt;
use std::ops::Range;

use memchr::memchr2;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::BadRequest;

/// Deepest nesting of arrays and objects accepted. JSON parsers of model servers recurse, and real calls (tool schemas
/// included) stay below 40.
pub const MAX_DEPTH: usize = 128;

/// The values of the fields asked for, in the order asked; `None`: absent. A null is a value.
pub(crate) type Fields<'a, const N: usize> = [Option<&'a RawValue>; N];

/// Reads a request body's top-level `names`.
///
/// # Errors
/// [`BadRequest`] when the body is not one JSON object, nests too deep, or repeats one of the fields.
pub(crate) fn object<'a, const N: usize>(
    body: &'a [u8],
    names: &'static [&'static str; N],
) -> Result<Fields<'a, N>, BadRequest> {
    let text = std::str::from_utf8(body).map_err(|error| {
        BadRequest::body(format!("the body is not UTF-8 (byte {}); send JSON as UTF-8", error.valid_up_to()))
    })?;
    if too_deep(body) {
        return Err(BadRequest::body(format!("the body nests deeper than {MAX_DEPTH} levels; flatten it")));
    }
    if text.trim_start().as_bytes().first() != Some(&b'{') {
        return Err(BadRequest::body("the body must be one JSON object, such as {\"model\": …}".to_owned()));
    }
    fields(text, names)?.map_err(|error| BadRequest::body(format!("the body is not valid JSON: {error}")))
}

/// Reads `names` of the object that `text` is. The outer error is a field given twice.
pub(super) fn fields<'a, const N: usize>(
    text: &'a str,
    names: &'static [&'static str; N],
) -> Result<Result<Fields<'a, N>, serde_json::Error>, BadRequest> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = deserializer.deserialize_map(Top { names }).and_then(|found| {
        deserializer.end()?;
        Ok(found)
    });
    match found {
        Ok(Found { repeated: Some(name), .. }) => {
            Err(BadRequest::field(name, "is given more than once; send it once".to_owned()))
        }
        Ok(Found { values, .. }) => Ok(Ok(values)),
        Err(error) => Ok(Err(error)),
    }
}

/// The value, unless it is absent or null.
pub(super) fn given(value: Option<&RawValue>) -> Option<&RawValue> {
    value.filter(|raw| raw.get() != "null")
}

/// Where `part`, a piece of `whole`, stands in it.
pub(super) fn span(whole: &[u8], part: &RawValue) -> Range<usize> {
    let start = part.get().as_ptr().addr().saturating_sub(whole.as_ptr().addr());
    start..start.saturating_add(part.get().len())
}

/// Whether arrays and objects nest deeper than [`MAX_DEPTH`]. Strings, most of any real body, are skipped at
/// memory speed.
fn too_deep(body: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut rest = body;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'"' => rest = after_string(tail),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _other => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

/// What follows the string whose opening quote came just before `text`.
fn after_string(text: &[u8]) -> &[u8] {
    let mut rest = text;
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        let escape = rest.get(at) == Some(&b'\\');
        rest = rest.get(at + if escape { 2 } else { 1 }..).unwrap_or_default();
        if !escape {
            return rest;
        }
    }
    &[]
}

struct Found<'a, const N: usize> {
    values: Fields<'a, N>,
    repeated: Option<&'static str>,
}

struct Top<const N: usize> {
    names: &'static [&'static str; N],
}

impl<'de, const N: usize> Visitor<'de> for Top<N> {
    type Value = Found<'de, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Found { values: [None; N], repeated: None };
        while let Some(index) = map.next_key_seed(Key { names: self.names })? {
            let value: &RawValue = map.next_value()?;
            let slot = index.and_then(|index| found.values.get_mut(index));
            if slot.is_some_and(|slot| slot.replace(value).is_some()) {
                found.repeated = index.and_then(|index| self.names.get(index).copied());
            }
        }
        Ok(found)
    }
}

/// Tells which of the fields a key is; unescapes it first, so that no spelling of a key slips by.
struct Key<const N: usize> {
    names: &'static [&'static str; N],
}

impl<'de, const N: usize> DeserializeSeed<'de> for Key<N> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<const N: usize> Visitor<'_> for Key<N> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.names.iter().position(|field| *field == key))
    }
}
