//! Whether the last events of a stream say why its answer ended, of which nothing else is known.

use bytes::Bytes;
use serde::Deserialize;

use super::{Meter, Target};
use crate::sse::{Data, Judged, Splitter, read_event};

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow, default)]
    r#type: Option<&'a str>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    stop_reason: Option<&'a str>,
}

impl Target {
    /// Whether whole events, the last that came of a stream, say why the answer ended.
    #[must_use]
    pub fn ends(self, events: &Bytes) -> bool {
        let (mut meter, mut ended) = (Meter::new(self, false), false);
        let judge = |event: &[u8]| match self {
            // Most of these events mean nothing without those before them.
            Self::Anthropic => {
                ended |= stops(event);
                Judged::Drop
            }
            Self::Openai | Self::Gemini => meter.judge(event),
        };
        Splitter::new(usize::MAX).push(events, judge, drop).is_ok() && (ended || meter.complete())
    }
}

fn stops(event: &[u8]) -> bool {
    let Data::One(payload) = read_event(event).data else { return false };
    let Ok(Payload { r#type, delta }) = serde_json::from_slice(payload) else { return false };
    let reason = delta.and_then(|delta| delta.stop_reason).is_some_and(|reason| !reason.is_empty());
    match r#type {
        Some("message_stop") => true,
        Some("message_delta") => reason,
        Some(_) | None => false,
    }
}
