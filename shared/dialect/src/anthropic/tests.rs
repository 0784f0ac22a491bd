//! Inputs and right outputs of faults seen in real gateways, and what must hold for all.

mod answering;
mod asking;
mod properties;
mod streaming;
mod thinking;

use serde_json::{Value, json};

use super::*;
use crate::canon::{Answer, Call, Event, Gather, Losses, Part, Role, Turn, Unfit};
use crate::openai::StreamFault;
use crate::sse::{Data, Judged, Splitter, read_event};

const STAMP: Stamp<'_> = Stamp { id: "msg_1", model: "m" };

/// A caller of chat completions, in some of its words.
const CHAT: crate::canon::Fields = |facet| match facet {
    crate::canon::Facet::SystemMidway => "messages[].role",
    crate::canon::Facet::Stops => "stop",
    crate::canon::Facet::ThinkingEffort => "reasoning_effort",
    crate::canon::Facet::Temperature => "temperature",
    crate::canon::Facet::JsonObject | crate::canon::Facet::JsonSchema => "response_format",
    crate::canon::Facet::Answers => "n",
    crate::canon::Facet::ToolChoiceAny => "tool_choice",
    crate::canon::Facet::Seed => "seed",
    crate::canon::Facet::ServiceTier => "service_tier",
    _other => "other",
};

fn read(body: &Value) -> Result<Call, Unfit> {
    read_call(body.to_string().as_bytes(), &mut Losses::of(field))
}

/// What is sent for a call, and the losses that are told.
fn sent_to(call: &Call, target: Target) -> Result<(Value, Vec<String>), Unfit> {
    let mut losses = Losses::of(CHAT);
    let body = write_call(call, target, &mut losses)?;
    let told = losses.told().iter().map(ToString::to_string).collect();
    Ok((parsed(&body), told))
}

fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

fn sent(call: &Call) -> Result<(Value, Vec<String>), Unfit> {
    sent_to(call, Target { max_tokens: Some(64_000), thinks: Thinks::ByEffort })
}

/// What is sent for a call that loses nothing.
fn written(call: &Call) -> Value {
    let (body, told) = sent(call).unwrap();
    assert_eq!(told, [""; 0]);
    body
}

fn turn(role: Role, parts: Vec<Part>) -> Turn {
    Turn { role, name: None, parts }
}

fn call_of(turns: Vec<Turn>) -> Call {
    Call { model: "m".to_owned(), turns, ..Call::default() }
}

fn asking() -> Call {
    call_of(vec![turn(Role::User, vec![Part::text("hi")])])
}

/// The events of a stream that arrives in `pieces`, and the fault that ended it.
fn followed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Event>, Option<StreamFault>) {
    let mut reader = Reader::default();
    let mut events = Vec::new();
    let mut splitter = Splitter::new(1 << 20);
    let mut fault = None;
    for piece in pieces {
        let read = |event: &[u8]| {
            let event = read_event(event);
            let data = match event.data {
                Data::Absent => return Judged::Drop,
                Data::One(data) => data.to_vec(),
                Data::Many(lines) => lines.join(&b'\n'),
            };
            if fault.is_none() {
                fault = reader.read(event.kind, &data, &mut events).err();
            }
            Judged::Drop
        };
        assert_eq!(splitter.push(&piece.to_vec().into(), read, drop), Ok(()));
    }
    let fault = fault.or_else(|| reader.close(&mut events).err());
    (events, fault)
}

fn sse(payloads: &[Value]) -> Vec<u8> {
    let event = |payload: &Value| {
        let kind = payload.get("type").and_then(Value::as_str).unwrap_or_default();
        format!("event: {kind}\ndata: {payload}\n\n").into_bytes()
    };
    payloads.iter().flat_map(event).collect()
}

fn events(payloads: &[Value]) -> Vec<Event> {
    let (events, fault) = followed([&sse(payloads)[..]]);
    assert_eq!(fault, None);
    events
}

fn gathered(events: Vec<Event>) -> Answer {
    let mut gather = Gather::default();
    for event in events {
        gather.add(event).unwrap();
    }
    assert!(gather.is_whole());
    gather.answer()
}

/// What a caller gets of these events, each payload parsed. Every event is whole and named as its payload is.
fn told(events: &[Event]) -> Vec<Value> {
    let mut writer = Writer::new(&STAMP);
    let mut out = Vec::new();
    for event in events {
        writer.write(event, &mut out);
    }
    payloads(&out)
}

fn payloads(out: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(out).unwrap();
    assert!(text.is_empty() || text.ends_with("\n\n"));
    let payload = |event: &str| {
        let (kind, data) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let payload: Value = serde_json::from_str(data).unwrap();
        assert_eq!(payload["type"], kind);
        payload
    };
    text.split_terminator("\n\n").map(payload).collect()
}

fn started() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_9", "type": "message", "role": "assistant", "model": "c",
        "content": [], "stop_reason": null, "usage": {"input_tokens": 3, "output_tokens": 1}}})
}

fn opened(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn grown(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn closed(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn over(reason: &str, usage: Value) -> [Value; 2] {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    [json!({"type": "message_delta", "delta": delta, "usage": usage}), json!({"type": "message_stop"})]
}
