//! Errors in Google's shape: read from upstreams, written to callers.

use std::time::Duration;

use base::Code;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::openai::UpstreamError;

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";

/// Longest wait that an upstream is believed to ask for: a day, after which all of Google's quotas begin anew.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Reads an error body; `None` when it is none. Errors of a stream without `alt=sse` stand in an array.
#[must_use]
pub fn upstream_error(body: &[u8]) -> Option<UpstreamError> {
    let Some(error) = error(body) else { return crate::openai::upstream_error(body) };
    let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let status = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let reason = detail(&error, ERROR_INFO).and_then(|info| info.get("reason")?.as_str());
    Some(UpstreamError {
        message: text("message"),
        kind: text("status"),
        code: reason.unwrap_or_default().to_owned(),
        status: status.filter(|status| (400..600).contains(status)),
    })
}

/// When an error body says to try again.
#[must_use]
pub fn retry_after(body: &[u8]) -> Option<Duration> {
    let error = error(body)?;
    let delay = detail(&error, RETRY_INFO)?.get("retryDelay")?.as_str()?;
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().map(|delay| delay.min(LONGEST))
}

fn error(body: &[u8]) -> Option<Value> {
    let mut whole: Value = serde_json::from_slice(body).ok()?;
    let one = whole.as_array_mut().and_then(|items| items.first_mut());
    let one = match one {
        Some(first) => first.take(),
        None => whole,
    };
    one.get("error").filter(|error| error.is_object()).cloned()
}

fn detail<'a>(error: &'a Value, kind: &str) -> Option<&'a Value> {
    let details = error.get("details")?.as_array()?;
    details.iter().find(|detail| detail.get("@type").is_some_and(|found| found == kind))
}

/// An error body for the caller. `param`: the field at fault; `retry`: when the same call may pass.
#[must_use]
pub fn error_body(code: Code, message: &str, param: Option<&str>, retry: Option<Duration>) -> Bytes {
    let reason = code.as_str().to_ascii_uppercase();
    let mut details = vec![json!({"@type": ERROR_INFO, "reason": reason, "domain": "portolan"})];
    if let Some(field) = param.filter(|field| !field.is_empty()) {
        let violation = json!({"field": field, "description": message});
        details.push(json!({"@type": BAD_REQUEST, "fieldViolations": [violation]}));
    }
    if let Some(retry) = retry {
        details.push(json!({"@type": RETRY_INFO, "retryDelay": seconds(retry)}));
    }
    let status = code.status();
    let error = json!({"code": status, "message": message, "status": word(status), "details": details});
    json!({"error": error}).to_string().into()
}

/// A duration as Google writes it, rounded up to milliseconds: earlier would be too early.
fn seconds(time: Duration) -> String {
    let ms = time.as_nanos().div_ceil(1_000_000);
    match ms % 1_000 {
        0 => format!("{}s", ms / 1_000),
        rest => format!("{}.{rest:03}s", ms / 1_000),
    }
}

/// The word of Google's closed set that an HTTP status stands for.
const fn word(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        402 => "FAILED_PRECONDITION",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        405 => "UNIMPLEMENTED",
        408 | 504 => "DEADLINE_EXCEEDED",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        400..=498 => "INVALID_ARGUMENT",
        502 | 503 => "UNAVAILABLE",
        _other => "INTERNAL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(error: &Value) -> Option<Code> {
        upstream_error(json!({"error": error}).to_string().as_bytes()).and_then(|error| error.meaning())
    }

    #[test]
    fn googles_words_have_their_meaning() {
        let info = json!([{"@type": ERROR_INFO, "reason": "API_KEY_INVALID", "domain": "googleapis.com"}]);
        let key = json!({"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT",
            "details": info});
        assert_eq!(meaning(&key), Some(Code::UpstreamAuth), "the reason counts before the status");
        let quota = json!({"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"});
        assert_eq!(meaning(&quota), Some(Code::UpstreamRateLimited));
        let busy = json!({"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"});
        assert_eq!(meaning(&busy), Some(Code::ModelOverloaded));
        let long = json!({"code": 400, "status": "INVALID_ARGUMENT",
            "message": "The input token count (1500) exceeds the maximum number of tokens allowed (1000)."});
        assert_eq!(meaning(&long), Some(Code::ContextTooLong));
        let other = json!({"code": 400, "message": "Unknown name \"x\"", "status": "INVALID_ARGUMENT"});
        assert_eq!(meaning(&other), None);
    }

    #[test]
    fn retry_info_is_read_alone_and_in_an_array() {
        let info = json!([{"@type": RETRY_INFO, "retryDelay": "34.074824224s"}]);
        let body =
            json!({"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED", "details": info}});
        let expected = Some(Duration::from_nanos(34_074_824_224));
        assert_eq!(retry_after(body.to_string().as_bytes()), expected);
        let array = json!([body]).to_string();
        assert_eq!(retry_after(array.as_bytes()), expected);
        assert_eq!(upstream_error(array.as_bytes()).unwrap().status, Some(429));
        for delay in ["-1s", "NaNs", "1", "infs"] {
            let info = json!([{"@type": RETRY_INFO, "retryDelay": delay}]);
            let body = json!({"error": {"details": info}}).to_string();
            assert_eq!(retry_after(body.as_bytes()), None, "{delay}");
        }
        assert_eq!(upstream_error(b"<html>"), None);
        assert_eq!(upstream_error(b"{\"error\":\"busy\"}").unwrap().message, "busy");
    }

    #[test]
    fn errors_are_written_in_googles_shape() {
        let body = error_body(Code::RateLimited, "slow down", None, Some(Duration::from_micros(1_500_100)));
        let body: Value = serde_json::from_slice(&body).unwrap();
        let details = json!([
            {"@type": ERROR_INFO, "reason": "RATE_LIMITED", "domain": "portolan"},
            {"@type": RETRY_INFO, "retryDelay": "1.501s"},
        ]);
        let expected = json!({"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED",
            "details": details});
        assert_eq!(body["error"], expected);
        let body = error_body(Code::InvalidRequest, "is missing", Some("contents"), None);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["status"], "INVALID_ARGUMENT");
        assert_eq!(body["error"]["details"][1]["fieldViolations"][0]["field"], "contents");
        assert_eq!(seconds(Duration::from_secs(2)), "2s");
    }

    #[test]
    fn every_code_has_a_word() {
        for code in Code::ALL {
            let body: Value = serde_json::from_slice(&error_body(*code, "m", None, None)).unwrap();
            assert_eq!(body["error"]["code"], code.status());
            assert!(code.status() >= 500 || body["error"]["status"] != "INTERNAL", "{code:?}");
        }
    }
}
