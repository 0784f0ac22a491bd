//! Whole answers, read from a target and written to a caller.

use serde_json::{Map, Value, json};

use super::{finish, said};
use crate::canon::{Answer, Choice, Members, Part, Stop, ToolCall, Unfit, Usage};
use crate::openai::{BadReply, check_chat};

/// What a caller is told where the target did not say it.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// Names the answer.
    pub id: &'a str,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// The model, as the caller named it.
    pub model: &'a str,
}

/// Reads a target's answer.
///
/// # Errors
/// [`BadReply`] when it is no answer.
pub fn read_answer(body: &[u8]) -> Result<Answer, BadReply> {
    check_chat(body)?;
    let body: Value = serde_json::from_slice(body).map_err(|_not_json| BadReply::Malformed)?;
    let mut body = Members::of("", body).map_err(malformed)?;
    read(&mut body).map_err(malformed)
}

fn malformed(_unfit: Unfit) -> BadReply {
    BadReply::Malformed
}

fn read(body: &mut Members) -> Result<Answer, Unfit> {
    let mut choices = Vec::new();
    for (path, item) in body.items("choices")? {
        let mut item = Members::of(path, item)?;
        choices.push((item.count("index")?.unwrap_or(0), choice(&mut item)?));
    }
    choices.sort_by_key(|(index, _choice)| *index);
    Ok(Answer {
        id: body.text("id")?.unwrap_or_default(),
        model: body.text("model")?.unwrap_or_default(),
        created: body.take("created").as_ref().and_then(Value::as_u64),
        choices: choices.into_iter().map(|(_index, choice)| choice).collect(),
        usage: body.take("usage").as_ref().and_then(usage),
        service_tier: body.text("service_tier")?,
    })
}

fn choice(item: &mut Members) -> Result<Choice, Unfit> {
    let parts = match item.object("message")? {
        Some(mut message) => parts(&mut message)?,
        None => Vec::new(),
    };
    let called = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
    let reason = item.text("finish_reason")?.filter(|reason| !reason.is_empty());
    let stop = reason.map(|reason| finish::read(&reason, called));
    Ok(Choice { parts, stop, logprobs: item.take("logprobs") })
}

fn parts(message: &mut Members) -> Result<Vec<Part>, Unfit> {
    let mut parts = said::thoughts(message)?;
    let text = match message.take("content") {
        Some(Value::String(text)) => text,
        Some(Value::Array(items)) => items.iter().filter_map(|item| item.get("text")?.as_str()).collect(),
        Some(_) | None => String::new(),
    };
    if !text.is_empty() {
        parts.push(Part::text(text));
    }
    let refusal = message.text("refusal")?.filter(|text| !text.is_empty());
    parts.extend(refusal.map(|text| Part::Refusal { text }));
    for (index, (path, item)) in message.items("tool_calls")?.into_iter().enumerate() {
        parts.push(Part::ToolCall(tool_call(index, &mut Members::of(path, item)?)?));
    }
    Ok(parts)
}

/// Some servers give arguments as an object, and some no id.
fn tool_call(index: usize, item: &mut Members) -> Result<ToolCall, Unfit> {
    let id = item.text("id")?.filter(|id| !id.is_empty()).unwrap_or_else(|| made_id(index));
    let mut function = item.object("function")?.ok_or_else(|| Unfit::new(item.place(), "has no function"))?;
    let arguments = match function.take("arguments") {
        Some(Value::String(text)) if !text.trim().is_empty() => text,
        Some(object @ Value::Object(_)) => object.to_string(),
        Some(_) | None => "{}".to_owned(),
    };
    let signature = said::take_signature(item);
    Ok(ToolCall { id, name: function.need_text("name")?, arguments, signature, cache: false })
}

/// The id of a call that got none, by its number in the answer.
pub(super) fn made_id(index: usize) -> String {
    format!("call_{index}")
}

/// Reads a usage object, as strictly as what is billed.
pub(super) fn usage(value: &Value) -> Option<Usage> {
    let raw = serde_json::value::to_raw_value(value).ok()?;
    let read = crate::openai::reply::usage(&raw)?;
    let some = |tokens: base::Tokens| Some(tokens.0).filter(|tokens| *tokens > 0);
    Some(Usage {
        input: read.input.0,
        cached: some(read.cached_input),
        cache_written: some(read.cache_write),
        input_audio: some(read.audio_input),
        output: read.output.0,
        thinking: some(read.reasoning),
        output_audio: some(read.audio_output),
    })
}

/// Writes a usage object.
pub(super) fn usage_object(usage: &Usage) -> Value {
    let Usage { input, cached, cache_written, input_audio, output, thinking, output_audio } = usage;
    let mut prompt = Map::new();
    for (name, count) in
        [("cached_tokens", cached), ("cache_write_tokens", cache_written), ("audio_tokens", input_audio)]
    {
        prompt.extend(count.map(|count| (name.to_owned(), count.into())));
    }
    let mut completion = Map::new();
    for (name, count) in [("reasoning_tokens", thinking), ("audio_tokens", output_audio)] {
        completion.extend(count.map(|count| (name.to_owned(), count.into())));
    }
    let mut whole =
        json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": usage.total()});
    if let Some(fields) = whole.as_object_mut() {
        if !prompt.is_empty() {
            fields.insert("prompt_tokens_details".to_owned(), prompt.into());
        }
        if !completion.is_empty() {
            fields.insert("completion_tokens_details".to_owned(), completion.into());
        }
    }
    whole
}

/// Writes an answer for a caller.
#[must_use]
pub fn write_answer(answer: &Answer, stamp: &Stamp<'_>) -> Vec<u8> {
    let Answer { id, model, created, choices, usage, service_tier } = answer;
    let id = if id.is_empty() { stamp.id } else { id };
    let model = if model.is_empty() { stamp.model } else { model };
    let choices: Vec<_> =
        choices.iter().enumerate().map(|(index, choice)| choice_object(index, choice)).collect();
    let mut body = json!({
        "id": id,
        "object": "chat.completion",
        "created": created.unwrap_or(stamp.created),
        "model": model,
        "choices": choices,
    });
    if let Some(fields) = body.as_object_mut() {
        fields.extend(usage.as_ref().map(|usage| ("usage".to_owned(), usage_object(usage))));
        fields.extend(service_tier.as_ref().map(|tier| ("service_tier".to_owned(), tier.as_str().into())));
    }
    body.to_string().into_bytes()
}

fn choice_object(index: usize, choice: &Choice) -> Value {
    let Choice { parts, stop, logprobs } = choice;
    let mut object = json!({"index": index, "message": message(parts), "logprobs": logprobs});
    if let Some(fields) = object.as_object_mut() {
        add_finish(fields, stop.as_ref());
    }
    object
}

/// Adds why it ended; a null where that is not known.
pub(super) fn add_finish(choice: &mut Map<String, Value>, stop: Option<&Stop>) {
    let (reason, native) = stop.map(finish::write).unzip();
    choice.insert("finish_reason".to_owned(), reason.into());
    if let Some(native) = native.flatten() {
        choice.insert("native_finish_reason".to_owned(), native.into());
    }
}

fn message(parts: &[Part]) -> Map<String, Value> {
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    let (mut text, mut refusal, mut calls, mut thoughts) =
        (String::new(), String::new(), Vec::new(), 0_usize);
    for part in parts {
        match part {
            Part::Text { text: said, cache: _ } => text.push_str(said),
            Part::Refusal { text: said } => refusal.push_str(said),
            Part::ToolCall(ToolCall { id, name, arguments, signature, cache: _ }) => {
                let function = json!({"name": name, "arguments": arguments});
                let mut call = json!({"id": id, "type": "function", "function": function});
                said::add_signature(&mut call, signature.as_deref());
                calls.push(call);
            }
            Part::Thought { text, signature } => {
                said::add_thought(&mut message, thoughts, text, signature.as_deref());
                thoughts += 1;
            }
            Part::SealedThought { data } => {
                said::add_sealed(&mut message, thoughts, data);
                thoughts += 1;
            }
            // Models of this API give neither; those of others tell media by other calls.
            Part::Media(_) | Part::ToolResult(_) => {}
        }
    }
    let said = !text.is_empty() || (calls.is_empty() && refusal.is_empty());
    message.insert("content".to_owned(), if said { text.into() } else { Value::Null });
    message.insert("refusal".to_owned(), if refusal.is_empty() { Value::Null } else { refusal.into() });
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    }
    message
}
