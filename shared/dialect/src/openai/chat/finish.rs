//! Why an answer ended, in the words of chat completions.

use crate::canon::Stop;

/// Reads a finish reason. `called`: a tool was called. Servers that force one tool say `stop` all the same.
pub(super) fn read(reason: &str, called: bool) -> Stop {
    match reason {
        "stop" | "eos" | "eos_token" if called => Stop::Tools,
        "stop" | "eos" | "eos_token" => Stop::End,
        "length" | "max_tokens" => Stop::Length,
        "tool_calls" | "function_call" => Stop::Tools,
        "content_filter" => Stop::Filter,
        other => Stop::Other(other.to_owned()),
    }
}

/// The word of the closed set, and what the target said where that set has no word for it.
pub(super) fn write(stop: &Stop) -> (&'static str, Option<&str>) {
    match stop {
        Stop::End | Stop::Sequence(_) => ("stop", None),
        Stop::Length => ("length", None),
        Stop::Context => ("length", Some("model_context_window_exceeded")),
        Stop::Tools => ("tool_calls", None),
        Stop::Filter => ("content_filter", None),
        Stop::Pause => ("stop", Some("pause_turn")),
        Stop::Other(native) => ("stop", Some(native)),
    }
}
