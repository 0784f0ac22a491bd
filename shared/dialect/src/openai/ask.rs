//! What a call asks, read from its body; and the body with a few values replaced, every other byte as it came.

use std::borrow::Cow;
use std::ops::Range;

use base::Tokens;
use bytes::{Bytes, BytesMut};
use serde_json::value::RawValue;

use super::facts::{self, Facts};
use super::features::{self, Off, Uses};
use super::scan::{self, given, span};

const CHAT: &[&str; 19] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "n",
    "web_search_options",
    "prediction",
    features::FIELDS[0],
    features::FIELDS[1],
    features::FIELDS[2],
    features::FIELDS[3],
    features::FIELDS[4],
    features::FIELDS[5],
    features::FIELDS[6],
    features::FIELDS[7],
    features::FIELDS[8],
    features::FIELDS[9],
];

const EMBEDDINGS: &[&str; 2] = &["model", "input"];

/// A body that cannot be served. `message` says what is wrong and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadRequest {
    /// The field at fault, when one is.
    pub param: Option<&'static str>,
    /// What is wrong and how to mend it, for the caller.
    pub message: String,
}

impl BadRequest {
    pub(super) const fn body(message: String) -> Self {
        Self { param: None, message }
    }

    pub(super) fn field(param: &'static str, what: String) -> Self {
        Self { param: Some(param), message: format!("`{param}` {what}") }
    }
}

/// What a call asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The model's name as the caller wrote it.
    pub model: String,
    /// Whether the answer shall be an event stream.
    pub stream: bool,
    /// Whether the caller asked for usage in the stream.
    pub include_usage: bool,
    /// The largest output cap that the caller gave, per choice.
    pub cap: Option<Tokens>,
    /// Answers asked for at once (`n`).
    pub choices: u32,
    /// Features it uses.
    pub uses: Uses,
    /// What bounds the input.
    pub facts: Facts,
    spans: Spans,
}

/// Where the values stand that a [`Patch`] replaces; offsets into the body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Spans {
    /// Just after the object's opening brace.
    start: usize,
    model: Range<usize>,
    usage: UsagePlace,
    /// The values of `max_tokens` and `max_completion_tokens` to replace, and what they are where given.
    caps: Vec<(Range<usize>, Option<Tokens>)>,
    /// What features ask for.
    dear: features::Spans,
}

/// Where a request for usage goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum UsagePlace {
    /// There are no `stream_options` yet.
    #[default]
    Absent,
    /// In place of the whole value of `stream_options`.
    Options(Range<usize>),
    /// As a first member among others.
    Member(usize),
    /// In place of the value of `include_usage`.
    Value(Range<usize>),
}

/// What to replace in a body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patch<'a> {
    /// The model's name at the upstream.
    pub model: Option<&'a str>,
    /// Ask for usage in the stream; nothing when the call does not stream.
    pub include_usage: bool,
    /// Lower every output cap to this; when there is none, put `max_tokens`, the name all compatible servers know.
    pub cap: Option<Tokens>,
    /// Features to leave out.
    pub off: Off,
}

/// Reads a body of `POST /v1/chat/completions`.
///
/// # Errors
/// [`BadRequest`] when the body is not JSON or a field that we read has the wrong type.
pub fn scan_chat(body: &Bytes) -> Result<Ask, BadRequest> {
    let [model, messages, stream, options, max_tokens, max_completion, n, web, prediction, dear @ ..] =
        scan::object(body, CHAT)?;
    let mut spans = Spans { start: first_brace(body), ..Spans::default() };
    let name = model_name(body, model, &mut spans)?;
    let messages = given(messages).ok_or_else(|| missing("messages", "an array of messages"))?;
    let mut facts = facts::of_messages(body.len(), messages)?;
    let (uses, dear) = features::of(body, dear, n, &facts);
    facts.tools = uses.tools;
    spans.dear = dear;
    let extra = given(web).map(|_| "web_search_options").or_else(|| given(prediction).map(|_| "prediction"));
    facts.unbounded = facts.unbounded.or(extra);
    let include_usage = stream_options(body, options, &mut spans)?;
    let caps = [cap("max_tokens", max_tokens)?, cap("max_completion_tokens", max_completion)?];
    spans.caps = cap_spans(body, [max_tokens, max_completion], caps);
    Ok(Ask {
        model: name,
        stream: flag("stream", stream)?,
        include_usage,
        cap: caps.into_iter().flatten().max(),
        choices: choices(n)?,
        uses,
        facts,
        spans,
    })
}

/// Reads a body of `POST /v1/embeddings`.
///
/// # Errors
/// [`BadRequest`] when the body is not JSON or a field that we read has the wrong type.
pub fn scan_embeddings(body: &Bytes) -> Result<Ask, BadRequest> {
    let [model, input] = scan::object(body, EMBEDDINGS)?;
    let mut spans = Spans { start: first_brace(body), ..Spans::default() };
    let name = model_name(body, model, &mut spans)?;
    let input = given(input).ok_or_else(|| missing("input", "a text or an array of texts"))?;
    if !matches!(input.get().as_bytes().first(), Some(b'"' | b'[')) {
        return Err(wrong("input", "a text, an array of texts or an array of token numbers", input));
    }
    Ok(Ask {
        model: name,
        stream: false,
        include_usage: false,
        cap: None,
        choices: 1,
        uses: Uses::default(),
        facts: Facts { bytes: body.len(), ..Facts::default() },
        spans,
    })
}

impl Ask {
    /// The body with `patch` made; all other bytes are as they came. `body` is the one that was scanned.
    #[must_use]
    pub fn patch(&self, body: &Bytes, patch: &Patch<'_>) -> Bytes {
        let mut edits: Vec<(Range<usize>, Cow<'static, str>)> = Vec::new();
        let mut insert = String::new();
        if let Some(model) = patch.model.filter(|model| *model != self.model) {
            edits.push((self.spans.model.clone(), quoted(model).into()));
        }
        if patch.include_usage && self.stream && !self.include_usage {
            edits.extend(self.ask_usage(&mut insert));
        }
        if let Some(Tokens(cap)) = patch.cap {
            let larger = self.spans.caps.iter().filter(|(_, given)| given.is_none_or(|given| given.0 > cap));
            edits.extend(larger.map(|(span, _)| (span.clone(), cap.to_string().into())));
            if self.spans.caps.is_empty() {
                insert.push_str(&format!("\"max_tokens\":{cap},"));
            }
        }
        edits.extend(self.spans.dear.edits(body, patch.off));
        if !insert.is_empty() {
            edits.push((self.spans.start..self.spans.start, insert.into()));
        }
        edits.sort_by_key(|(span, _text)| (span.start, span.end));
        apply(body, &edits)
    }

    fn ask_usage(&self, insert: &mut String) -> Option<(Range<usize>, Cow<'static, str>)> {
        match &self.spans.usage {
            UsagePlace::Absent => {
                insert.push_str("\"stream_options\":{\"include_usage\":true},");
                None
            }
            UsagePlace::Options(whole) => Some((whole.clone(), "{\"include_usage\":true}".into())),
            UsagePlace::Member(at) => Some((*at..*at, "\"include_usage\":true,".into())),
            UsagePlace::Value(value) => Some((value.clone(), "true".into())),
        }
    }
}

fn apply(body: &Bytes, edits: &[(Range<usize>, Cow<'static, str>)]) -> Bytes {
    if edits.is_empty() {
        return body.clone();
    }
    let grown: usize = edits.iter().map(|(_span, text)| text.len()).sum();
    let mut out = BytesMut::with_capacity(body.len() + grown);
    let mut at = 0;
    for (span, text) in edits {
        out.extend_from_slice(body.get(at..span.start).unwrap_or_default());
        out.extend_from_slice(text.as_bytes());
        at = span.end;
    }
    out.extend_from_slice(body.get(at..).unwrap_or_default());
    out.freeze()
}

fn first_brace(body: &[u8]) -> usize {
    memchr::memchr(b'{', body).map_or(0, |at| at + 1)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn model_name(body: &[u8], model: Option<&RawValue>, spans: &mut Spans) -> Result<String, BadRequest> {
    let raw = given(model).ok_or_else(|| missing("model", "a model's name; GET /v1/models lists them"))?;
    spans.model = span(body, raw);
    serde_json::from_str(raw.get()).map_err(|_not_a_text| {
        if raw.get().starts_with('"') {
            BadRequest::field(
                "model",
                "is no valid Unicode; send the model's name as GET /v1/models lists it".to_owned(),
            )
        } else {
            wrong("model", "a text", raw)
        }
    })
}

fn flag(param: &'static str, value: Option<&RawValue>) -> Result<bool, BadRequest> {
    let Some(raw) = given(value) else { return Ok(false) };
    match raw.get() {
        "false" => Ok(false),
        "true" => Ok(true),
        _other => Err(wrong(param, "true or false, without quotes", raw)),
    }
}

/// Whether the caller asked for usage. Options that are null or have no members are replaced whole, so that no comma
/// has to match.
fn stream_options(body: &[u8], value: Option<&RawValue>, spans: &mut Spans) -> Result<bool, BadRequest> {
    let Some(raw) = value else { return Ok(false) };
    let whole = span(body, raw);
    let Some(raw) = given(value) else {
        spans.usage = UsagePlace::Options(whole);
        return Ok(false);
    };
    if !raw.get().starts_with('{') {
        return Err(wrong("stream_options", "an object such as {\"include_usage\": true}", raw));
    }
    let [include] = scan::fields(raw.get(), &["include_usage"])?
        .map_err(|error| BadRequest::field("stream_options", format!("cannot be read: {error}")))?;
    let inside = raw.get().get(1..raw.get().len() - 1).unwrap_or_default();
    spans.usage = match include {
        Some(value) => UsagePlace::Value(span(body, value)),
        None if inside.trim().is_empty() => UsagePlace::Options(whole),
        None => UsagePlace::Member(whole.start + 1),
    };
    flag("stream_options.include_usage", include)
}

/// Those of the two caps that the caller gave; a null is replaced only where there is no other.
fn cap_spans(
    body: &[u8],
    both: [Option<&RawValue>; 2],
    caps: [Option<Tokens>; 2],
) -> Vec<(Range<usize>, Option<Tokens>)> {
    let spans = both.into_iter().zip(caps).filter_map(|(raw, cap)| Some((span(body, raw?), cap)));
    let (numbers, mut nulls): (Vec<_>, Vec<_>) = spans.partition(|(_, cap)| cap.is_some());
    if numbers.is_empty() {
        nulls.truncate(1);
        return nulls;
    }
    numbers
}

fn cap(param: &'static str, value: Option<&RawValue>) -> Result<Option<Tokens>, BadRequest> {
    let Some(raw) = given(value) else { return Ok(None) };
    match serde_json::from_str::<u64>(raw.get()) {
        Ok(tokens) => Ok(Some(Tokens(tokens))),
        Err(_wrong_type) => Err(wrong(param, "a whole number of tokens, without quotes", raw)),
    }
}

fn choices(value: Option<&RawValue>) -> Result<u32, BadRequest> {
    let Some(raw) = given(value) else { return Ok(1) };
    match serde_json::from_str::<u32>(raw.get()) {
        Ok(n) if n > 0 => Ok(n),
        Ok(_) | Err(_) => Err(wrong("n", "a whole number from 1", raw)),
    }
}

fn missing(param: &'static str, wanted: &str) -> BadRequest {
    BadRequest::field(param, format!("is missing; send {wanted}"))
}

/// Names the kind of what was sent, never its content: content does not belong in logs.
pub(super) fn wrong(param: &'static str, wanted: &str, raw: &RawValue) -> BadRequest {
    let got = match raw.get().as_bytes().first() {
        Some(b'"') => "a text",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "true or false",
        _number => "a number",
    };
    BadRequest::field(param, format!("must be {wanted}; this is {got}"))
}

#[cfg(test)]
mod tests;
