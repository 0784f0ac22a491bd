//! What a model has written in a stream: the texts of its chunks.

use std::borrow::Cow;

use serde::Deserialize;

use crate::sse::read_event;

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
}

/// Reasoning has one of two names among compatible servers.
#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reasoning: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    refusal: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<ToolCall<'a>>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<Cow<'a, str>>,
}

/// Hands every text in whole `events` to `take`, in order: what is said, thought and asked of tools. What cannot be read says
/// nothing.
pub fn written(events: &[u8], mut take: impl FnMut(&str)) {
    for line in read_event(events).data.lines() {
        let Ok(Chunk { choices }) = serde_json::from_slice(line) else { continue };
        choices.into_iter().filter_map(|choice| choice.delta).for_each(|delta| delta.told(&mut take));
    }
}

impl Delta<'_> {
    fn told(self, take: &mut impl FnMut(&str)) {
        // A server that sends reasoning under both names sends it twice.
        let thought = self.reasoning_content.or(self.reasoning);
        let asked = self.tool_calls.into_iter().flatten().filter_map(|call| call.function);
        let asked = asked.flat_map(|function| [function.name, function.arguments]);
        [thought, self.content, self.refusal].into_iter().chain(asked).flatten().for_each(|text| take(&text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_in_order_whatever_they_are_for() {
        let events = concat!(
            ": comment\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"A\\n\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"B\",\"reasoning\":\"B\"}},{\"delta\":{\"content\":\"C\"}}]}\r\n\r\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":null},\"finish_reason\":\"stop\"}]}\n\n",
            "data: {\"choices\":[],\"usage\":{}}\n\n",
            "data: [DONE]\n\n",
        );
        let mut told = Vec::new();
        written(events.as_bytes(), |text| told.push(text.to_owned()));
        assert_eq!(told, ["A\n", "B", "C", "f", "{}"]);
        written(b"data: nonsense\n\n", |text| panic!("{text}"));
        written(b"", |text| panic!("{text}"));
    }
}
