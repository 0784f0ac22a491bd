//! What a model has written in a stream: the texts of its responses.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::sse::read_event;

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    candidates: Vec<Candidate<'a>>,
}

#[derive(Deserialize)]
struct Candidate<'a> {
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Vec<Part<'a>>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "functionCall", alias = "function_call")]
    call: Option<Call<'a>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

/// Hands every text in whole `events` to `take`, in order: what is said, thought and asked of tools. What cannot be read says
/// nothing.
pub fn written(events: &[u8], mut take: impl FnMut(&str)) {
    for line in read_event(events).data.lines() {
        let Ok(Response { candidates }) = serde_json::from_slice(line) else { continue };
        for part in candidates.into_iter().filter_map(|one| one.content).flat_map(|content| content.parts) {
            let (name, args) = part.call.map_or((None, None), |call| (call.name, call.args));
            [part.text, name, args.map(|args| args.get().into())]
                .into_iter()
                .flatten()
                .for_each(|text| take(&text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_in_order_whatever_they_are_for() {
        let events = concat!(
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"A\\n\",\"thought\":true},{\"text\":\"B\"}],\"role\":\"model\"}}]}\r\n\r\n",
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{\"q\":1}},\"thoughtSignature\":\"no\"}]}}]}\n\n",
            "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":1}}\n\n",
        );
        let mut told = Vec::new();
        written(events.as_bytes(), |text| told.push(text.to_owned()));
        assert_eq!(told, ["A\n", "B", "f", "{\"q\":1}"]);
        written(b"data: nonsense\n\n", |text| panic!("{text}"));
    }
}
