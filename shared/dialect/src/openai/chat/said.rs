//! Thoughts in messages: what compatible servers call `reasoning_content` or `reasoning`, and `reasoning_details`, in which a
//! gateway's callers keep what a provider must get back unchanged.

use serde_json::{Map, Value, json};

use crate::canon::{Members, Part, Unfit};

/// The thoughts of a message, whole: details where there are some, else the plain text.
pub(super) fn thoughts(message: &mut Members) -> Result<Vec<Part>, Unfit> {
    let plain = [message.text("reasoning_content")?, message.text("reasoning")?].into_iter().flatten();
    let plain = plain.into_iter().find(|text| !text.is_empty());
    let mut details = Vec::new();
    for (path, item) in message.items("reasoning_details")? {
        details.extend(detail(&mut Members::of(path, item)?)?);
    }
    match plain {
        Some(text) if details.is_empty() => Ok(vec![Part::Thought { text, signature: None }]),
        Some(_) | None => Ok(details),
    }
}

fn detail(item: &mut Members) -> Result<Option<Part>, Unfit> {
    let signature = item.text("signature")?;
    let text = match item.need_text("type")?.as_str() {
        "reasoning.text" => item.text("text")?,
        "reasoning.summary" => item.text("summary")?,
        "reasoning.encrypted" => return Ok(item.text("data")?.map(|data| Part::SealedThought { data })),
        _newer => None,
    };
    let text = text.unwrap_or_default();
    Ok((!text.is_empty() || signature.is_some()).then_some(Part::Thought { text, signature }))
}

/// Adds a thought to a message or a delta. `index`: its number among the message's thoughts.
pub(super) fn add_thought(into: &mut Map<String, Value>, index: usize, text: &str, signature: Option<&str>) {
    if !text.is_empty() {
        let whole = into.entry("reasoning_content").or_insert_with(|| "".into());
        if let Value::String(whole) = whole {
            whole.push_str(text);
        }
    }
    let mut detail = json!({"type": "reasoning.text", "index": index});
    if let Some(detail) = detail.as_object_mut() {
        if !text.is_empty() {
            detail.insert("text".to_owned(), text.into());
        }
        if let Some(signature) = signature {
            detail.insert("signature".to_owned(), signature.into());
        }
    }
    add_detail(into, detail);
}

/// Adds a thought that only its provider can read.
pub(super) fn add_sealed(into: &mut Map<String, Value>, index: usize, data: &str) {
    add_detail(into, json!({"type": "reasoning.encrypted", "index": index, "data": data}));
}

fn add_detail(into: &mut Map<String, Value>, detail: Value) {
    if let Value::Array(details) = into.entry("reasoning_details").or_insert_with(|| json!([])) {
        details.push(detail);
    }
}

/// The signature of a called tool, where Google's compatible door puts it: `extra_content.google.thought_signature` (Gemini API,
/// "Thought signatures", OpenAI compatibility).
pub(super) fn take_signature(call: &mut Members) -> Option<String> {
    let extra = call.take("extra_content")?;
    Some(extra.get("google")?.get("thought_signature")?.as_str()?.to_owned())
}

/// Adds the signature of a called tool.
pub(super) fn add_signature(call: &mut Value, signature: Option<&str>) {
    if let (Some(call), Some(signature)) = (call.as_object_mut(), signature) {
        let extra = json!({"google": {"thought_signature": signature}});
        call.insert("extra_content".to_owned(), extra);
    }
}
