//! Why an answer ended, in the words of the Messages API.

use crate::canon::Stop;

/// Reads a stop reason; `sequence`: the caller's text that it came to.
pub(super) fn read(reason: &str, sequence: Option<String>) -> Stop {
    match reason {
        "end_turn" => Stop::End,
        "stop_sequence" => Stop::Sequence(sequence),
        "max_tokens" => Stop::Length,
        "model_context_window_exceeded" => Stop::Context,
        "tool_use" => Stop::Tools,
        "refusal" => Stop::Filter,
        "pause_turn" => Stop::Pause,
        other => Stop::Other(other.to_owned()),
    }
}

/// The word of the closed set, and what the target said where that set has no word for it.
pub(super) fn write(stop: &Stop) -> (&'static str, Option<&str>) {
    match stop {
        Stop::End => ("end_turn", None),
        Stop::Sequence(_) => ("stop_sequence", None),
        Stop::Length => ("max_tokens", None),
        Stop::Context => ("model_context_window_exceeded", None),
        Stop::Tools => ("tool_use", None),
        Stop::Filter => ("refusal", None),
        Stop::Pause => ("pause_turn", None),
        Stop::Other(native) => ("end_turn", Some(native)),
    }
}

/// The caller's text that the answer came to.
pub(super) fn sequence(stop: &Stop) -> Option<&str> {
    match stop {
        Stop::Sequence(sequence) => sequence.as_deref(),
        Stop::End
        | Stop::Length
        | Stop::Context
        | Stop::Tools
        | Stop::Filter
        | Stop::Pause
        | Stop::Other(_) => None,
    }
}
