//! Parts of contents, as they are written.

use serde_json::{Map, Value, json};

/// What is said.
pub(super) fn text(said: &str) -> Value {
    json!({"text": said})
}

/// What was thought.
pub(super) fn thought(said: &str) -> Value {
    json!({"text": said, "thought": true})
}

/// A call of a tool; `None` when its arguments are no object.
pub(super) fn call(id: Option<&str>, name: &str, arguments: &str) -> Option<Value> {
    let mut call = Map::new();
    call.extend(id.map(|id| ("id".to_owned(), id.into())));
    call.insert("name".to_owned(), name.into());
    call.insert("args".to_owned(), object(arguments)?);
    Some(json!({"functionCall": call}))
}

/// The object that arguments are; blank ones are an empty one.
fn object(arguments: &str) -> Option<Value> {
    if arguments.trim().is_empty() {
        return Some(json!({}));
    }
    serde_json::from_str(arguments).ok().filter(Value::is_object)
}

/// Puts a signature on a part.
pub(super) fn signed(mut part: Value, signature: Option<&str>) -> Value {
    if let (Some(fields), Some(signature)) = (part.as_object_mut(), signature) {
        fields.insert("thoughtSignature".to_owned(), signature.into());
    }
    part
}

/// A thought with its signature. One without words seals the text before it, or stands in a part of its own.
pub(super) fn add_thought(parts: &mut Vec<Value>, said: &str, signature: Option<&str>) {
    if !said.is_empty() {
        parts.push(signed(thought(said), signature));
        return;
    }
    let Some(signature) = signature else { return };
    match parts.last_mut().and_then(Value::as_object_mut) {
        Some(last) if last.len() == 1 && last.contains_key("text") => {
            last.insert("thoughtSignature".to_owned(), signature.into());
        }
        Some(_) | None => parts.push(signed(text(""), Some(signature))),
    }
}
