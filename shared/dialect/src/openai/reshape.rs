//! Answers of the other kind than was asked for: servers that ignore `stream`, or mislabel what they send.
//!
//! Only these answers are taken apart and put together again; all others pass as they came.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::sse::{Data, Judged, Splitter, read_event};

/// Texts that come in pieces; any other text is repeated, not continued.
const GROWING: [&str; 7] =
    ["arguments", "content", "data", "reasoning", "reasoning_content", "refusal", "transcript"];

/// Whether a body is an event stream, whatever it is labelled. Only its start is looked at, so that JSON which
/// mentions events stays JSON.
#[must_use]
pub fn is_stream(body: &[u8]) -> bool {
    let body = body.trim_ascii_start();
    [&b"data:"[..], b"event:", b"id:", b"retry:", b":"].iter().any(|start| body.starts_with(start))
}

/// A stream of chat chunks as one answer; `None` when it holds none, is not whole, or holds an error.
#[must_use]
pub fn whole_of_stream(stream: &[u8]) -> Option<Bytes> {
    let mut payloads = Vec::new();
    let mut splitter = Splitter::new(stream.len());
    let collect = |event: &[u8]| {
        if let Data::One(payload) = read_event(event).data {
            payloads.push(payload.to_vec());
        }
        Judged::Drop
    };
    splitter.push(&[stream, b"\n\n"].concat().into(), collect, drop).ok()?;
    let is_end = |payload: &&Vec<u8>| payload.trim_ascii() == b"[DONE]";
    let ended = payloads.iter().any(|payload| is_end(&payload));
    let mut whole = Value::Null;
    for payload in payloads.iter().filter(|payload| !is_end(payload)) {
        let chunk: Value = serde_json::from_slice(payload).ok()?;
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return None;
        }
        merge("", &mut whole, chunk);
    }
    let members = whole.as_object_mut()?;
    members.insert("object".to_owned(), "chat.completion".into());
    let choices = members.get_mut("choices")?.as_array_mut()?;
    if !ended && !choices.iter().any(|choice| choice.get("finish_reason").is_some_and(Value::is_string)) {
        return None;
    }
    choices.iter_mut().for_each(choice_of_chunks);
    serde_json::to_vec(&whole).ok().map(Bytes::from)
}

/// One answer as a stream of chat chunks, its usage only where it was asked for; `None` when it is none.
#[must_use]
pub fn stream_of_whole(body: &[u8], with_usage: bool) -> Option<Bytes> {
    let mut chunk: Value = serde_json::from_slice(body).ok()?;
    let members = chunk.as_object_mut()?;
    members.insert("object".to_owned(), "chat.completion.chunk".into());
    let usage = members.remove("usage").filter(|usage| with_usage && usage.is_object());
    members.get_mut("choices")?.as_array_mut()?.iter_mut().for_each(chunk_of_choice);
    let mut stream = format!("data: {chunk}\n\n");
    if let (Some(usage), Some(members)) = (usage, chunk.as_object_mut()) {
        members.insert("choices".to_owned(), json!([]));
        members.insert("usage".to_owned(), usage);
        stream.push_str(&format!("data: {chunk}\n\n"));
    }
    stream.push_str("data: [DONE]\n\n");
    Some(stream.into())
}

/// Adds what a later piece says to what earlier ones said. Lists grow, their numbered members by their number.
fn merge(key: &str, into: &mut Value, from: Value) {
    match (into, from) {
        (_said, Value::Null) => {}
        (Value::String(said), Value::String(more)) if GROWING.contains(&key) => said.push_str(&more),
        (Value::String(said), Value::String(more)) if more.is_empty() && !said.is_empty() => {}
        (Value::Object(said), Value::Object(more)) => {
            for (key, value) in more {
                merge(&key, said.entry(key.as_str()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(said), Value::Array(more)) => more.into_iter().for_each(|member| add(said, member)),
        (slot, Value::Array(more)) => {
            let mut members = Vec::new();
            more.into_iter().for_each(|member| add(&mut members, member));
            *slot = Value::Array(members);
        }
        (slot, value) => *slot = value,
    }
}

fn add(members: &mut Vec<Value>, member: Value) {
    let number = member.get("index").and_then(Value::as_u64);
    let known = |one: &&mut Value| number.is_some() && one.get("index").and_then(Value::as_u64) == number;
    match members.iter_mut().find(known) {
        Some(known) => merge("", known, member),
        None => members.push(member),
    }
}

fn choice_of_chunks(choice: &mut Value) {
    let Some(choice) = choice.as_object_mut() else { return };
    let mut message = choice.remove("delta").unwrap_or_else(|| Value::Object(Map::new()));
    if let Some(message) = message.as_object_mut() {
        message.entry("role").or_insert_with(|| "assistant".into());
        message.entry("content").or_insert(Value::Null);
        for call in tool_calls(message) {
            call.remove("index");
        }
    }
    choice.insert("message".to_owned(), message);
}

fn chunk_of_choice(choice: &mut Value) {
    let Some(choice) = choice.as_object_mut() else { return };
    let mut delta = choice.remove("message").unwrap_or_else(|| Value::Object(Map::new()));
    if let Some(delta) = delta.as_object_mut() {
        for (index, call) in tool_calls(delta).enumerate() {
            call.insert("index".to_owned(), index.into());
        }
    }
    choice.insert("delta".to_owned(), delta);
}

fn tool_calls(message: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    calls.into_iter().flatten().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::{Meter, check_chat};

    fn read(body: &[u8]) -> Value {
        serde_json::from_slice(body).unwrap()
    }

    /// Cases B029, B081 and B083: pieces of every choice come together, in order.
    #[test]
    fn a_stream_becomes_one_answer() {
        let stream = br#"data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":1,"delta":{"role":"assistant","content":"B"}},{"index":0,"delta":{"content":"A"},"logprobs":{"content":[{"token":"A"}]}}]}

data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a"}]},"finish_reason":"stop"}]}

data: {"id":"c","choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"{\"q\":"}}]}}]}

data: {"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"id":"","function":{"arguments":"1}"}}]},"finish_reason":"tool_calls"}]}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}

data: [DONE]"#;
        let whole = read(&whole_of_stream(stream).unwrap());
        assert_eq!(whole["object"], "chat.completion");
        let of = |index: u64| {
            let choices = whole["choices"].as_array().unwrap();
            choices.iter().find(|choice| choice["index"] == index).unwrap()
        };
        assert_eq!(of(0)["message"]["content"], "Aa");
        assert_eq!(of(0)["logprobs"]["content"], json!([{"token": "A"}, {"token": "a"}]));
        assert_eq!(of(0)["finish_reason"], "stop");
        let call = json!([{"id": "t", "function": {"name": "f", "arguments": "{\"q\":1}"}}]);
        assert_eq!((&of(1)["message"]["content"], &of(1)["message"]["tool_calls"]), (&json!("B"), &call));
        assert!(check_chat(whole.to_string().as_bytes()).unwrap().is_some());
    }

    #[test]
    fn an_answer_becomes_a_stream() {
        let whole = br#"{"id":"c","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi","tool_calls":[{"id":"t"}]}}],"usage":{"prompt_tokens":9,"completion_tokens":2}}"#;
        for with_usage in [true, false] {
            let stream = stream_of_whole(whole, with_usage).unwrap();
            let (mut meter, mut splitter) = (Meter::new(false), Splitter::new(1 << 20));
            splitter.push(&stream, |event| meter.judge(event), drop).unwrap();
            assert!(meter.done() && meter.complete() && meter.fault().is_none());
            assert_eq!(meter.usage().is_some(), with_usage);
            let back = read(&whole_of_stream(&stream).unwrap());
            assert_eq!(back["choices"], read(whole)["choices"]);
        }
    }

    #[test]
    fn the_start_alone_tells_a_stream() {
        assert!(is_stream(b"\ndata: {}") && is_stream(b": hi\n\n") && is_stream(b"event: x\n"));
        assert!(!is_stream(br#"{"content":"data: x"}"#) && !is_stream(b"<html>") && !is_stream(b""));
        assert_eq!(whole_of_stream(b"data: {\"error\":{\"message\":\"x\"}}\n\n"), None);
        assert_eq!(whole_of_stream(b": nothing\n\n"), None);
        assert_eq!(whole_of_stream(b"data: {\"choices\":[{\"delta\":{\"content\":\"cut\"}}]}\n\n"), None);
        assert_eq!(stream_of_whole(b"{}", true), None);
    }
}
