//! Whole answers, read from a target and written to a caller.

use serde_json::{Map, Value, json};

use super::{error, marks, stop, usage};
use crate::canon::{Answer, Choice, Members, Part, Stop, ToolCall, Unfit};
use crate::openai::BadReply;

/// What a caller is told where the target did not say it.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// Names the answer.
    pub id: &'a str,
    /// The model, as the caller named it.
    pub model: &'a str,
}

/// Reads a target's answer. Blocks that only tools of the provider's own make are left out: no call that comes this way
/// asks for them.
///
/// # Errors
/// [`BadReply`] when it is no answer. An empty one that says why it ended is one.
pub fn read_answer(body: &[u8]) -> Result<Answer, BadReply> {
    let whole: Value = serde_json::from_slice(body).map_err(|_not_json| BadReply::Malformed)?;
    let is_error = whole.get("type").and_then(Value::as_str) == Some("error");
    if is_error || whole.get("error").is_some_and(|error| !error.is_null()) {
        return Err(BadReply::Error(error::upstream_error(body).unwrap_or_default()));
    }
    let mut whole = Members::of("", whole).map_err(malformed)?;
    let answer = read(&mut whole).map_err(malformed)?;
    match answer.choices.as_slice() {
        [Choice { parts, stop: None, .. }] if parts.is_empty() => Err(BadReply::Empty),
        _said => Ok(answer),
    }
}

fn malformed(_unfit: Unfit) -> BadReply {
    BadReply::Malformed
}

fn read(whole: &mut Members) -> Result<Answer, Unfit> {
    let usage = whole.take("usage");
    let tier = usage.as_ref().and_then(|usage| usage.get("service_tier")?.as_str().map(str::to_owned));
    let mut parts = Vec::new();
    for (path, block) in whole.items("content")? {
        parts.extend(part(&mut Members::of(path, block)?)?);
    }
    let sequence = whole.text("stop_sequence")?;
    let stop = whole.text("stop_reason")?.map(|reason| stop::read(&reason, sequence));
    Ok(Answer {
        id: whole.text("id")?.unwrap_or_default(),
        model: whole.text("model")?.unwrap_or_default(),
        created: None,
        choices: vec![Choice { parts, stop, logprobs: None }],
        usage: usage.as_ref().and_then(usage::read),
        service_tier: tier,
    })
}

fn part(block: &mut Members) -> Result<Option<Part>, Unfit> {
    Ok(Some(match block.need_text("type")?.as_str() {
        "text" => Part::text(block.need_text("text")?),
        "thinking" => Part::Thought {
            text: block.text("thinking")?.unwrap_or_default(),
            signature: block.text("signature")?.filter(|signature| !signature.is_empty()),
        },
        "redacted_thinking" => Part::SealedThought { data: block.need_text("data")? },
        "tool_use" => Part::ToolCall(tool_call(block)?),
        _its_own => return Ok(None),
    }))
}

fn tool_call(block: &mut Members) -> Result<ToolCall, Unfit> {
    let id = block.need_text("id")?;
    if id.is_empty() {
        return Err(Unfit::new(block.path("id"), "is empty"));
    }
    let input = block.take("input").unwrap_or_else(|| json!({}));
    if !input.is_object() {
        return Err(Unfit::new(block.path("input"), "is no object"));
    }
    Ok(ToolCall {
        id,
        name: block.need_text("name")?,
        arguments: input.to_string(),
        signature: None,
        cache: false,
    })
}

/// Writes an answer for a caller. Of several answers the first: no call of this API asks for more.
#[must_use]
pub fn write_answer(answer: &Answer, stamp: &Stamp<'_>) -> Vec<u8> {
    let Answer { id, model, created: _, choices, usage, service_tier } = answer;
    let mut body = envelope(
        if id.is_empty() { stamp.id } else { id },
        if model.is_empty() { stamp.model } else { model },
    );
    if let Some(Choice { parts, stop, logprobs: _ }) = choices.first() {
        body.insert("content".to_owned(), parts.iter().flat_map(blocks).collect::<Vec<_>>().into());
        body.extend(stopped(stop.as_ref()));
    }
    let mut usage = usage::write(usage.as_ref());
    usage.extend(service_tier.as_deref().and_then(tier).map(|tier| ("service_tier".to_owned(), tier.into())));
    body.insert("usage".to_owned(), usage.into());
    Value::Object(body).to_string().into_bytes()
}

/// A message that says nothing yet.
pub(super) fn envelope(id: &str, model: &str) -> Map<String, Value> {
    let mut message = Map::new();
    for (name, value) in [("id", id), ("type", "message"), ("role", "assistant"), ("model", model)] {
        message.insert(name.to_owned(), value.into());
    }
    message.insert("content".to_owned(), json!([]));
    message.extend(stopped(None));
    message
}

/// Why it ended; nulls where that is not known.
pub(super) fn stopped(stop: Option<&Stop>) -> Map<String, Value> {
    let (reason, native) = stop.map(stop::write).unzip();
    let mut fields = Map::new();
    fields.insert("stop_reason".to_owned(), reason.into());
    fields.insert("stop_sequence".to_owned(), stop.and_then(stop::sequence).into());
    if let Some(native) = native.flatten() {
        fields.insert("native_stop_reason".to_owned(), native.into());
    }
    fields
}

/// The class of service, where the API has a word for it.
fn tier(tier: &str) -> Option<&str> {
    match tier {
        "standard" | "priority" | "batch" => Some(tier),
        "default" => Some("standard"),
        _other => None,
    }
}

fn blocks(part: &Part) -> Vec<Value> {
    match part {
        Part::Text { text, cache: _ } | Part::Refusal { text } if text.is_empty() => Vec::new(),
        Part::Text { text, cache: _ } | Part::Refusal { text } => vec![json!({"type": "text", "text": text})],
        Part::Thought { text, signature } => vec![thinking(text, signature.as_deref().unwrap_or_default())],
        Part::SealedThought { data } => vec![json!({"type": "redacted_thinking", "data": data})],
        Part::ToolCall(ToolCall { id, name, arguments, signature, cache: _ }) => {
            let call = json!({"type": "tool_use", "id": id, "name": name, "input": input(arguments)});
            let signed =
                signature.as_ref().map(|signature| thinking("", &marks::signature_of_call(signature)));
            signed.into_iter().chain([call]).collect()
        }
        // No model's answer holds these.
        Part::Media(_) | Part::ToolResult(_) => Vec::new(),
    }
}

fn thinking(text: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": signature})
}

/// The arguments as an object. What a model wrote that is none is kept as a text, under a name that tells.
fn input(arguments: &str) -> Value {
    if arguments.trim().is_empty() {
        return json!({});
    }
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(object) => Value::Object(object),
        Err(_no_object) => json!({"malformed_arguments": arguments}),
    }
}
