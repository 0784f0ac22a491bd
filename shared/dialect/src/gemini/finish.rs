//! Why an answer ended, in the words of this API.

use crate::canon::Stop;

/// Reasons that only this API knows, and that mean no filter: written back as they were read.
const NATIVE: [&str; 11] = [
    "RECITATION",
    "LANGUAGE",
    "OTHER",
    MALFORMED_CALL,
    "IMAGE_OTHER",
    "NO_IMAGE",
    "IMAGE_RECITATION",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "MISSING_THOUGHT_SIGNATURE",
    "MALFORMED_RESPONSE",
];

/// The model called a tool with arguments that are none.
pub(super) const MALFORMED_CALL: &str = "MALFORMED_FUNCTION_CALL";

/// Reads a finish reason; `None` where it says nothing. `called`: a tool was called, for which this API has no reason.
pub(super) fn read(reason: &str, called: bool) -> Option<Stop> {
    Some(match reason {
        "" | "FINISH_REASON_UNSPECIFIED" => return None,
        "STOP" if called => Stop::Tools,
        "STOP" => Stop::End,
        "MAX_TOKENS" => Stop::Length,
        "SAFETY"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "MODEL_ARMOR" => Stop::Filter,
        other => Stop::Other(other.to_owned()),
    })
}

/// The word of the closed set, and what the target said where that set has no word for it.
pub(super) fn write(stop: &Stop) -> (&str, Option<&str>) {
    match stop {
        Stop::End | Stop::Sequence(_) | Stop::Tools => ("STOP", None),
        Stop::Length => ("MAX_TOKENS", None),
        Stop::Context => ("MAX_TOKENS", Some("model_context_window_exceeded")),
        Stop::Filter => ("SAFETY", None),
        Stop::Pause => ("OTHER", Some("pause_turn")),
        Stop::Other(native) if NATIVE.contains(&native.as_str()) => (native, None),
        Stop::Other(native) => ("OTHER", Some(native)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case B069.
    #[test]
    fn only_what_is_a_filter_is_told_as_one() {
        for word in ["SAFETY", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"] {
            assert_eq!(read(word, false), Some(Stop::Filter), "{word}");
        }
        for word in ["MALFORMED_FUNCTION_CALL", "RECITATION", "OTHER", "LANGUAGE", "SOMETHING_NEW"] {
            let stop = read(word, true).unwrap();
            assert_eq!(stop, Stop::Other(word.to_owned()));
            let (written, native) = write(&stop);
            assert_eq!(native.unwrap_or(written), word, "the native word is kept");
        }
        assert_eq!(write(&Stop::Other("SOMETHING_NEW".to_owned())), ("OTHER", Some("SOMETHING_NEW")));
        assert_eq!(read("FINISH_REASON_UNSPECIFIED", false), None);
    }
}
