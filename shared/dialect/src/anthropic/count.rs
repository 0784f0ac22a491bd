//! The answer to the question how many tokens a call has.

use serde_json::{Value, json};

use super::error::upstream_error;
use crate::openai::BadReply;

/// Reads a target's count.
///
/// # Errors
/// [`BadReply`] when it is none.
pub fn read_counted(body: &[u8]) -> Result<u64, BadReply> {
    let whole: Value = serde_json::from_slice(body).map_err(|_not_json| BadReply::Malformed)?;
    if whole.get("error").is_some_and(|error| !error.is_null()) {
        return Err(BadReply::Error(upstream_error(body).unwrap_or_default()));
    }
    whole.get("input_tokens").and_then(Value::as_u64).ok_or(BadReply::Malformed)
}

/// Writes a count for a caller.
#[must_use]
pub fn write_counted(tokens: u64) -> Vec<u8> {
    json!({"input_tokens": tokens}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_read_as_it_was_written_and_an_error_is_none() {
        assert_eq!(read_counted(&write_counted(57)), Ok(57));
        let busy = br#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
        assert!(matches!(read_counted(busy), Err(BadReply::Error(error)) if error.message == "busy"));
        assert_eq!(read_counted(br#"{"input_tokens":-1}"#), Err(BadReply::Malformed));
        assert_eq!(read_counted(b"<html>"), Err(BadReply::Malformed));
    }
}
