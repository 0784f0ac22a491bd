//! What a model has written in a stream: the texts of its events.

use std::borrow::Cow;

use serde::Deserialize;

use crate::sse::read_event;

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow, default)]
    content_block: Option<Said<'a>>,
    #[serde(borrow, default)]
    delta: Option<Said<'a>>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    partial_json: Option<Cow<'a, str>>,
}

/// Hands every text in whole `events` to `take`, in order: what is said, thought and asked of tools. What cannot be read says
/// nothing.
pub fn written(events: &[u8], mut take: impl FnMut(&str)) {
    for line in read_event(events).data.lines() {
        let Ok(Payload { content_block, delta }) = serde_json::from_slice(line) else { continue };
        for said in [content_block, delta].into_iter().flatten() {
            let Said { text, thinking, name, partial_json } = said;
            [text, thinking, name, partial_json].into_iter().flatten().for_each(|text| take(&text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_in_order_whatever_they_are_for() {
        let events = concat!(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[]}}\n\n",
            "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"A\\n\"}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"no\"}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"B\"}}\r\n\r\n",
            "data: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n",
            "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":9}}\n\n",
        );
        let mut told = Vec::new();
        written(events.as_bytes(), |text| told.push(text.to_owned()));
        told.retain(|text| !text.is_empty());
        assert_eq!(told, ["A\n", "B", "f", "{}"]);
        written(b"data: nonsense\n\n", |text| panic!("{text}"));
    }
}
