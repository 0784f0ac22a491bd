//! Errors in OpenAI's shape.

use http::StatusCode;
use serde_json::{Value, json};

use super::CONTEXT;

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    message: String,
    param: Option<&'static str>,
    code: Option<&'static str>,
}

impl Problem {
    /// The body has the wrong shape at `param`.
    pub(super) fn shape(param: &'static str, message: impl Into<String>) -> Self {
        Self { param: Some(param), ..Self::of(StatusCode::BAD_REQUEST, message) }
    }

    /// The prompt is longer than the model reads.
    pub(super) fn context(tokens: u64) -> Self {
        let message =
            format!("This model's maximum context length is {CONTEXT} tokens; the messages have {tokens}.");
        Self { code: Some("context_length_exceeded"), ..Self::shape("messages", message) }
    }

    /// The body is not JSON.
    pub(super) fn not_json(error: &serde_json::Error) -> Self {
        Self::of(StatusCode::BAD_REQUEST, format!("The body could not be parsed as a JSON object: {error}."))
    }

    /// The body is over the limit of `bytes`, or ended early.
    pub(super) fn body(bytes: usize) -> Self {
        Self::of(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("The body is incomplete or larger than {bytes} bytes."),
        )
    }

    /// The key is missing or wrong.
    pub(super) fn key() -> Self {
        Self {
            code: Some("invalid_api_key"),
            ..Self::of(StatusCode::UNAUTHORIZED, "Incorrect API key provided.")
        }
    }

    /// There is nothing at this path.
    pub(super) fn path(path: &str) -> Self {
        Self { code: Some("unknown_url"), ..Self::of(StatusCode::NOT_FOUND, format!("Unknown URL: {path}.")) }
    }

    /// The path takes other methods.
    pub(super) fn method() -> Self {
        Self::of(StatusCode::METHOD_NOT_ALLOWED, "This URL takes another method.")
    }

    /// The body of the answer.
    pub(super) fn body_json(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": "invalid_request_error",
            "param": self.param,
            "code": self.code,
        }})
    }

    fn of(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: None }
    }
}
