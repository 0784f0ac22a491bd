//! Errors in OpenAI's shape: read from upstreams, written to callers.

use base::Code;
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

/// What an upstream said of its own failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamError {
    /// Its words; the caller's own fault may be told in them.
    pub message: String,
    /// Its `type`.
    pub kind: String,
    /// Its `code`, numbers included.
    pub code: String,
    /// Its `code`, when that is an HTTP status: some servers put the status of a stream's failure there.
    pub status: Option<u16>,
}

impl UpstreamError {
    /// What it means, when it says more than an HTTP status does. Fields count before words, and words only where they
    /// can mean one thing.
    #[must_use]
    pub fn meaning(&self) -> Option<Code> {
        let named = [self.code.as_str(), self.kind.as_str()].into_iter().find_map(named);
        named.or_else(|| worded(&self.message.to_ascii_lowercase()))
    }
}

fn named(name: &str) -> Option<Code> {
    Some(match name {
        "context_length_exceeded" | "context_window_exceeded" | "exceed_context_size_error" => {
            Code::ContextTooLong
        }
        "API_KEY_INVALID" | "API_KEY_EXPIRED" | "UNAUTHENTICATED" => Code::UpstreamAuth,
        "RESOURCE_EXHAUSTED" => Code::UpstreamRateLimited,
        "PERMISSION_DENIED" => Code::Forbidden,
        "UNAVAILABLE" => Code::ModelOverloaded,
        "DEADLINE_EXCEEDED" => Code::UpstreamTimeout,
        // What the account may not do: no region, no billing.
        "FAILED_PRECONDITION" => Code::UpstreamError,
        "content_filter" | "content_policy_violation" => Code::ContentFiltered,
        "insufficient_quota" | "billing_hard_limit_reached" | "billing_error" => Code::UpstreamRateLimited,
        "rate_limit_exceeded" | "rate_limit_error" => Code::UpstreamRateLimited,
        "invalid_api_key" | "authentication_error" => Code::UpstreamAuth,
        "permission_error" => Code::Forbidden,
        "model_not_found" | "not_found_error" => Code::ModelNotFound,
        "request_too_large" => Code::BodyTooLarge,
        "timeout_error" => Code::UpstreamTimeout,
        "overloaded_error" | "server_overloaded" | "unavailable_error" => Code::ModelOverloaded,
        _other => return None,
    })
}

fn worded(message: &str) -> Option<Code> {
    let says = |words: &[&str]| words.iter().all(|word| message.contains(word));
    let memory =
        says(&["out of memory"]) && ["cuda", "gpu", "hip", "device"].iter().any(|on| message.contains(on));
    let context = says(&["maximum context length"])
        || says(&["exceed", "context size"])
        || says(&["exceed", "context window"])
        || says(&["prompt is too long"])
        || says(&["input token count", "exceeds the maximum"]);
    if memory {
        Some(Code::ModelGpuOom)
    } else if context {
        Some(Code::ContextTooLong)
    } else if says(&["credit balance", "too low"]) {
        Some(Code::UpstreamRateLimited)
    } else {
        None
    }
}

/// Reads an error body; `None` when it is not one. Takes OpenAI's shape and those of its look-alikes.
#[must_use]
pub fn upstream_error(body: &[u8]) -> Option<UpstreamError> {
    let whole: Value = serde_json::from_slice(body).ok()?;
    let inner = match whole.get("error") {
        Some(Value::String(message)) => {
            return Some(UpstreamError { message: message.clone(), ..UpstreamError::default() });
        }
        Some(error @ Value::Object(_)) => error,
        Some(_other) => return None,
        None if whole.get("object").and_then(Value::as_str) == Some("error") => &whole,
        None => whole.get("message").or_else(|| whole.get("detail")).map(|_said| &whole)?,
    };
    let text = |name: &str| match inner.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(_) | None => String::new(),
    };
    let (message, code) = (text("message"), text("code"));
    let status = code.parse().ok().filter(|status| (400..600).contains(status));
    let message = if message.is_empty() { text("detail") } else { message };
    Some(UpstreamError { message, kind: text("type"), code, status })
}

#[derive(Serialize)]
struct Body<'a> {
    error: Inner<'a>,
}

#[derive(Serialize)]
struct Inner<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'a str>,
    code: &'static str,
}

/// An error body for the caller.
#[must_use]
pub fn error_body(code: Code, message: &str, param: Option<&str>) -> Bytes {
    let body = Body { error: Inner { message, r#type: kind(code), param, code: spelled(code) } };
    // Texts only: writing them cannot fail.
    Bytes::from(serde_json::to_vec(&body).unwrap_or_default())
}

/// The event that ends a stream in failure. No `[DONE]` follows: it would say that the answer is whole.
#[must_use]
pub fn error_event(code: Code, message: &str) -> Bytes {
    let body = error_body(code, message, None);
    [&b"data: "[..], &body, b"\n\n"].concat().into()
}

const fn kind(code: Code) -> &'static str {
    match code.status() {
        401 => "authentication_error",
        402 => "insufficient_quota",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _server => "server_error",
    }
}

/// The code as OpenAI's clients know it, where they act on one: agents compact on this code only.
const fn spelled(code: Code) -> &'static str {
    match code {
        Code::ContextTooLong => "context_length_exceeded",
        other => other.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(body: &str) -> Option<Code> {
        upstream_error(body.as_bytes()).and_then(|error| error.meaning())
    }

    /// Case B089.
    #[test]
    fn a_context_overflow_is_recognised_and_a_mention_is_not() {
        for body in [
            r#"{"error":{"code":400,"message":"maximum context length is 1000 tokens, you asked for 1500"}}"#,
            r#"{"error":{"type":"context_window_exceeded","message":"x"}}"#,
            r#"{"error":{"code":400,"type":"exceed_context_size_error","n_prompt_tokens":1500,"n_ctx":1000}}"#,
            r#"{"error":{"message":"prompt is too long: 9 tokens"}}"#,
        ] {
            assert_eq!(meaning(body), Some(Code::ContextTooLong), "{body}");
        }
        assert_eq!(meaning(r#"{"error":{"message":"tool `context` has no schema"}}"#), None);
    }

    #[test]
    fn what_a_key_may_not_have_is_no_refusal_of_the_key() {
        let missing =
            r#"{"error":{"type":"invalid_request_error","code":"model_not_found","message":"no access"}}"#;
        assert_eq!(meaning(missing), Some(Code::ModelNotFound));
        let denied = r#"{"type":"error","error":{"type":"permission_error","message":"denied"}}"#;
        assert_eq!(meaning(denied), Some(Code::Forbidden));
        assert_eq!(meaning(r#"{"error":{"code":"invalid_api_key"}}"#), Some(Code::UpstreamAuth));
    }

    #[test]
    fn look_alikes_of_the_error_shape_are_read() {
        assert_eq!(upstream_error(br#"{"error":"busy"}"#).unwrap().message, "busy");
        assert_eq!(
            upstream_error(br#"{"object":"error","message":"m","code":40303}"#).unwrap().code,
            "40303"
        );
        assert_eq!(upstream_error(br#"{"detail":"Not Found"}"#).unwrap().message, "Not Found");
        assert_eq!(upstream_error(br#"{"error":{"code":503,"message":"l"}}"#).unwrap().status, Some(503));
        assert_eq!(upstream_error(br#"{"error":null,"choices":[]}"#), None);
        assert_eq!(upstream_error(b"<html>"), None);
    }

    #[test]
    fn errors_are_written_in_the_callers_shape() {
        assert_eq!(
            error_body(Code::InvalidRequest, "say \"hi\"", Some("n")),
            r#"{"error":{"message":"say \"hi\"","type":"invalid_request_error","param":"n","code":"invalid_request"}}"#
        );
        let event = error_event(Code::UpstreamCut, "broken off");
        assert_eq!(
            event,
            "data: {\"error\":{\"message\":\"broken off\",\"type\":\"server_error\",\"param\":null,\"code\":\"upstream_cut\"}}\n\n"
        );
    }
}
