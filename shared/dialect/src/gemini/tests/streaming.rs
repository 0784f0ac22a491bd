//! Streams, in both directions.

use base::Code;
use serde_json::json;

use super::*;
use crate::canon::{Delta, Opening, Part, Stop, Usage, spread};

fn chunk(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}}], "responseId": "r", "modelVersion": "g"})
}

fn last(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason}]})
}

/// Case B019.
#[test]
fn a_stream_ends_with_a_reason_and_the_body() {
    let said = chunk(json!([{"text": "Yes"}]));
    let usage = json!({"promptTokenCount": 5, "candidatesTokenCount": 1, "totalTokenCount": 6});
    let end = json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage});
    let answer = gathered(events_of([&sse(&[said.clone(), end])[..]]).unwrap());
    assert_eq!(answer.choices[0].parts, [Part::text("Yes")]);
    assert_eq!(answer.choices[0].stop, Some(Stop::End));
    assert_eq!(answer.usage, Some(Usage { input: 5, output: 1, ..Usage::default() }));
    assert_eq!(events_of([&sse(&[said])[..]]), Err(StreamFault::Cut));
    assert_eq!(events_of([&b""[..]]), Err(StreamFault::Cut));
    assert_eq!(events_of([&b": only a comment\n\n"[..]]), Err(StreamFault::Cut));
}

/// Case B016: of two choices only one ended.
#[test]
fn a_choice_without_a_reason_was_cut() {
    let two = json!({"candidates": [
        {"content": {"parts": [{"text": "A"}]}, "finishReason": "STOP"},
        {"content": {"parts": [{"text": "B"}]}, "index": 1},
    ]});
    assert_eq!(events_of([&sse(&[two])[..]]), Err(StreamFault::Cut));
}

/// Case B068.
#[test]
fn the_reason_may_come_after_the_call() {
    let call = chunk(json!([{"functionCall": {"name": "w", "args": {"c": "A"}}}]));
    let usage = json!({"promptTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 7});
    let mut end = chunk(json!([{"text": ""}]));
    end["candidates"][0]["finishReason"] = "STOP".into();
    end["usageMetadata"] = usage;
    let answer = gathered(events_of([&sse(&[call, end.clone()])[..]]).unwrap());
    let choice = &answer.choices[0];
    assert_eq!(choice.stop, Some(Stop::Tools));
    assert!(matches!(&choice.parts[..], [Part::ToolCall(call)] if call.arguments == "{\"c\":\"A\"}"));
    assert_eq!(answer.usage, Some(Usage { input: 10, output: 10, thinking: Some(7), ..Usage::default() }));
    let alone = gathered(events_of([&sse(&[end])[..]]).unwrap());
    assert_eq!(alone.choices[0].stop, Some(Stop::End));
    assert_eq!(alone.choices[0].parts, []);
}

/// Case B077: only the last count holds.
#[test]
fn counts_are_snapshots() {
    let counted = |made: u64, said: &str| {
        let mut chunk = chunk(json!([{"text": said}]));
        chunk["usageMetadata"] =
            json!({"promptTokenCount": 20, "candidatesTokenCount": made, "totalTokenCount": 20 + made});
        chunk
    };
    let stream = sse(&[counted(1, "a"), counted(1, "b"), counted(30, "c"), last("MAX_TOKENS")]);
    let events = events_of([&stream[..]]).unwrap();
    let told = events.iter().filter(|event| matches!(event, Event::Usage(_))).count();
    assert_eq!(told, 2, "a count that did not change is not told again");
    let answer = gathered(events);
    assert_eq!(answer.usage, Some(Usage { input: 20, output: 30, ..Usage::default() }));
    assert_eq!(answer.choices[0].stop, Some(Stop::Length));
}

/// Case B014.
#[test]
fn an_error_in_the_stream_is_one() {
    let error = json!({"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}});
    for error in [error.clone(), json!([error])] {
        let stream = sse(&[chunk(json!([{"text": "a"}])), error]);
        let Err(StreamFault::Error(error)) = events_of([&stream[..]]) else { panic!() };
        assert_eq!((error.status, error.meaning()), (Some(429), Some(Code::UpstreamRateLimited)));
    }
    assert_eq!(events_of([&b"data: {\"candidates\":7}\n\n"[..]]), Err(StreamFault::Malformed));
    assert_eq!(events_of([&b"data: nonsense\n\n"[..]]), Err(StreamFault::Malformed));
}

#[test]
fn a_prompt_held_back_in_a_stream_is_a_filtered_answer() {
    let stream = sse(&[json!({"promptFeedback": {"blockReason": "SAFETY"}})]);
    assert_eq!(gathered(events_of([&stream[..]]).unwrap()).choices[0].stop, Some(Stop::Filter));
}

fn everything() -> Vec<u8> {
    let signed = json!({"text": "m", "thought": true, "thoughtSignature": "s1"});
    let call = json!({"functionCall": {"name": "f", "args": {"q": "\u{8a9e}"}}, "thoughtSignature": "s3"});
    sse(&[
        chunk(json!([{"text": "h", "thought": true}])),
        chunk(json!([signed, {"text": "f\u{fc}"}])),
        chunk(json!([{"text": "nf\u{8a9e}"}, {"text": "", "thoughtSignature": "s2"}])),
        chunk(json!([call, {"functionCall": {"id": "given", "name": "f"}}])),
        json!({"candidates": [{"content": {"parts": [{"text": "B"}]}, "index": 1, "finishReason": "SAFETY"}]}),
        last("STOP"),
    ])
}

#[test]
fn split_at_every_byte_the_events_are_the_same() {
    let stream = everything();
    let whole = events_of([&stream[..]]).unwrap();
    let answer = gathered(whole.clone());
    assert_eq!(answer.choices.len(), 2);
    assert_eq!(answer.choices[0].parts.len(), 5);
    let array = told(&whole, Framing::Array);
    for at in 0..stream.len() {
        assert_eq!(events_of([&stream[..at], &stream[at..]]).unwrap(), whole, "cut at {at}");
    }
    for at in 0..array.len() {
        let events = events_of_array([&array[..at], &array[at..]]).unwrap();
        assert_eq!(gathered(events), answer, "cut at {at}");
    }
}

#[test]
fn what_breaks_off_is_never_whole() {
    let stream = everything();
    for at in 0..stream.len() - 4 {
        assert!(events_of([&stream[..at]]).is_err(), "cut at {at}");
    }
}

#[test]
fn callers_get_whole_responses_in_either_framing() {
    let events = events_of([&everything()[..]]).unwrap();
    let sse = String::from_utf8(told(&events, Framing::Sse)).unwrap();
    let payloads: Vec<Value> = sse
        .split_terminator("\n\n")
        .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
        .collect();
    let array: Vec<Value> = serde_json::from_slice(&told(&events, Framing::Array)).unwrap();
    assert_eq!(payloads, array);
    let (end, before) = payloads.split_last().unwrap();
    let reasons = |payload: &Value| payload.to_string().contains("finishReason");
    assert!(!before.iter().any(reasons), "nothing says complete before the end");
    assert_eq!(end["candidates"][0]["finishReason"], "STOP");
    assert_eq!(end["candidates"][1]["finishReason"], "SAFETY");
    assert!(payloads.iter().all(|payload| payload["responseId"] == "r" && payload["modelVersion"] == "g"));
}

/// Case B021.
#[test]
fn a_failure_is_an_error_object_and_no_end() {
    let mut events = events_of([&everything()[..]]).unwrap();
    events.truncate(events.len() - 3);
    for framing in [Framing::Sse, Framing::Array] {
        let mut writer = Writer::new(&STAMP, framing);
        let mut out = Vec::new();
        for event in &events {
            writer.write(event, &mut out);
        }
        writer.write(&Event::Ping, &mut out);
        writer.fail(Code::UpstreamCut, "broken off", &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains("finishReason"), "{text}");
        let error = match framing {
            Framing::Sse => {
                text.split_terminator("\n\n").last().unwrap().strip_prefix("data: ").unwrap().to_owned()
            }
            Framing::Array => {
                let elements: Vec<Value> = serde_json::from_str(&text).unwrap();
                elements.last().unwrap().to_string()
            }
        };
        let error: Value = serde_json::from_str(&error).unwrap();
        assert_eq!(error["error"]["message"], "broken off");
        assert_eq!(error["error"]["status"], "UNAVAILABLE");
    }
    let mut out = Vec::new();
    Writer::new(&STAMP, Framing::Array).fail(Code::UpstreamTimeout, "late", &mut out);
    assert_eq!(serde_json::from_slice::<Vec<Value>>(&out).unwrap()[0]["error"]["code"], 504);
}

#[test]
fn arguments_are_told_when_they_are_whole() {
    let opening =
        Opening::ToolCall { id: "c".to_owned(), name: "f".to_owned(), signature: Some("s".to_owned()) };
    let piece = |text: &str| Event::Piece { choice: 0, part: 0, delta: Delta::Arguments(text.to_owned()) };
    let mut writer = Writer::new(&STAMP, Framing::Sse);
    let mut out = Vec::new();
    for event in [Event::Open { choice: 0, part: 0, opening }, piece("{\"a\""), piece(":1}")] {
        writer.write(&event, &mut out);
        assert_eq!(out, b"");
    }
    writer.write(&Event::Close { choice: 0, part: 0 }, &mut out);
    let event: Value = serde_json::from_slice(out.strip_prefix(b"data: ").unwrap()).unwrap();
    let part = json!({"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}, "thoughtSignature": "s"});
    assert_eq!(event["candidates"][0]["content"]["parts"], json!([part]));
}

#[test]
fn an_answer_that_came_whole_is_told_as_a_stream() {
    let answer = gathered(events_of([&everything()[..]]).unwrap());
    let told = told(&spread(&answer), Framing::Sse);
    assert_eq!(gathered(events_of([&told[..]]).unwrap()), answer);
}
