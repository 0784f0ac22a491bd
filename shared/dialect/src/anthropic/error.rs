//! Errors in the shape of the Messages API: read from upstreams, written to callers.

use base::Code;
use bytes::Bytes;
use serde::Serialize;

use crate::openai::{self, UpstreamError};

/// Reads an error body, or the payload of an `error` event; `None` when it is not one. [`UpstreamError::meaning`] knows the
/// types of this API.
#[must_use]
pub fn upstream_error(body: &[u8]) -> Option<UpstreamError> {
    openai::upstream_error(body)
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: &'static str,
    error: Inner<'a>,
}

#[derive(Serialize)]
struct Inner<'a> {
    r#type: &'static str,
    message: &'a str,
    /// Which of the gateway's errors it is; no member of the API's own.
    code: &'static str,
    /// The field at fault; no member of the API's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    param: Option<&'a str>,
}

/// An error body for the caller.
#[must_use]
pub fn error_body(code: Code, message: &str, param: Option<&str>) -> Bytes {
    let message = worded(code, message);
    let inner = Inner { r#type: kind(code), message: &message, code: code.as_str(), param };
    // Texts only: writing them cannot fail.
    Bytes::from(serde_json::to_vec(&Body { r#type: "error", error: inner }).unwrap_or_default())
}

/// The event that ends a stream in failure. No `message_stop` follows: it would say that the answer is whole.
#[must_use]
pub fn error_event(code: Code, message: &str) -> Bytes {
    let body = error_body(code, message, None);
    [&b"event: error\ndata: "[..], &body, b"\n\n"].concat().into()
}

/// Callers of this API know an overflow by its words: agents compact on these only.
fn worded(code: Code, message: &str) -> String {
    let known = message.to_ascii_lowercase().contains("prompt is too long");
    match code {
        Code::ContextTooLong if !known => format!("prompt is too long: {message}"),
        _any => message.to_owned(),
    }
}

const fn kind(code: Code) -> &'static str {
    match code {
        Code::Overloaded | Code::ModelOverloaded | Code::ModelGpuOom | Code::NoTarget => "overloaded_error",
        other => kind_of_status(other.status()),
    }
}

const fn kind_of_status(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        400..=499 => "invalid_request_error",
        _server => "api_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases B088 and B089.
    #[test]
    fn the_types_of_this_api_are_understood() {
        let meaning = |kind: &str, message: &str| {
            let body = format!(
                r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"r"}}"#
            );
            upstream_error(body.as_bytes()).unwrap().meaning()
        };
        assert_eq!(meaning("overloaded_error", "x"), Some(Code::ModelOverloaded));
        assert_eq!(meaning("rate_limit_error", "x"), Some(Code::UpstreamRateLimited));
        assert_eq!(meaning("request_too_large", "x"), Some(Code::BodyTooLarge));
        assert_eq!(meaning("not_found_error", "model: m"), Some(Code::ModelNotFound));
        assert_eq!(meaning("timeout_error", "x"), Some(Code::UpstreamTimeout));
        assert_eq!(meaning("authentication_error", "x"), Some(Code::UpstreamAuth));
        assert_eq!(
            meaning("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
            Some(Code::ContextTooLong)
        );
        assert_eq!(meaning("invalid_request_error", "tool `context` has no schema"), None);
        assert_eq!(meaning("api_error", "x"), None);
    }

    #[test]
    fn errors_are_written_in_the_callers_shape() {
        assert_eq!(
            error_body(Code::ModelOverloaded, "say \"hi\"", None),
            r#"{"type":"error","error":{"type":"overloaded_error","message":"say \"hi\"","code":"model_overloaded"}}"#
        );
        assert_eq!(
            error_body(Code::ContextTooLong, "1500 of 1000 tokens", Some("messages")),
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 1500 of 1000 tokens","code":"context_too_long","param":"messages"}}"#
        );
        assert_eq!(
            error_event(Code::UpstreamCut, "broken off"),
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"broken off\",\"code\":\"upstream_cut\"}}\n\n"
        );
        let kinds =
            [Code::BodyTooLarge, Code::MissingKey, Code::BudgetExceeded, Code::UpstreamTimeout].map(kind);
        assert_eq!(kinds, ["request_too_large", "authentication_error", "billing_error", "timeout_error"]);
    }
}
