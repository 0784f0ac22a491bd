//! `countTokens`: a call that is counted and not answered.

use serde_json::{Value, json};

use super::error::upstream_error;
use super::read::read_body;
use super::write::write_body;
use super::{Target, chunk, names};
use crate::canon::{Call, Losses, Unfit};
use crate::openai::BadReply;

/// Reads a request: the contents alone, or a whole call in `generateContentRequest`.
///
/// # Errors
/// [`Unfit`] names the field at fault.
pub fn read_count(model: &str, body: &[u8], losses: &mut Losses) -> Result<Call, Unfit> {
    let mut body = names::body(body)?;
    let whole = names::object(&mut body, "generateContentRequest")?;
    match whole {
        Some(whole) => {
            body.finish(losses);
            read_body(model, false, whole, losses)
        }
        None => read_body(model, false, body, losses),
    }
}

/// Writes a request to a target, of the whole call. Vertex takes all that it counts beside each other.
///
/// # Errors
/// [`Unfit`] names what the API cannot express.
pub fn write_count(call: &Call, target: Target, losses: &mut Losses) -> Result<Vec<u8>, Unfit> {
    let mut whole = write_body(call, target, losses)?;
    if target.vertex {
        // Which tool is called has no tokens, and no place there.
        drop(whole.remove("toolConfig"));
        return Ok(Value::Object(whole).to_string().into_bytes());
    }
    let model = call.model.as_str();
    let model = if model.contains('/') { model.to_owned() } else { format!("models/{model}") };
    whole.insert("model".to_owned(), model.into());
    Ok(json!({"generateContentRequest": whole}).to_string().into_bytes())
}

/// Reads a target's answer: tokens of the prompt.
///
/// # Errors
/// [`BadReply`] when it is none.
pub fn read_counted(body: &[u8]) -> Result<u64, BadReply> {
    let payload: Value = serde_json::from_slice(body).map_err(|_not_json| BadReply::Malformed)?;
    if chunk::is_error(&payload) {
        return Err(BadReply::Error(upstream_error(body).unwrap_or_default()));
    }
    match payload.get("totalTokens") {
        // A zero is left out of this JSON.
        None | Some(Value::Null) if payload.is_object() => Ok(0),
        Some(count) => count.as_u64().ok_or(BadReply::Malformed),
        None => Err(BadReply::Malformed),
    }
}

/// Writes an answer for a caller.
#[must_use]
pub fn write_counted(tokens: u64) -> Vec<u8> {
    json!({"totalTokens": tokens}).to_string().into_bytes()
}
