//! Inputs and right outputs of faults seen in real gateways, and what must hold for all.

mod asking;
mod properties;
mod streaming;

use serde_json::Value;

use super::*;
use crate::canon::{Call, Event, Gather, Losses, Unfit};
use crate::openai::StreamFault;
use crate::sse::{Data, Judged, Splitter, read_event};

const STAMP: Stamp<'_> = Stamp { id: "chatcmpl-1", created: 7, model: "m" };

fn read(body: &Value) -> Result<Call, Unfit> {
    read_call(body.to_string().as_bytes(), &mut Losses::of(field))
}

fn written(call: &Call) -> Value {
    let body = write_call(call, CapField::MaxTokens, &mut Losses::of(field)).unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// The events of a stream that arrives in `pieces`.
fn events_of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Event>, StreamFault> {
    let mut reader = Reader::default();
    let mut events = Vec::new();
    let mut splitter = Splitter::new(1 << 20);
    let mut fault = None;
    for piece in pieces {
        let read = |event: &[u8]| {
            let event = read_event(event);
            if let (Data::One(data), None) = (event.data, &fault) {
                fault = reader.read(event.kind, data, &mut events).err();
            }
            Judged::Drop
        };
        assert_eq!(splitter.push(&piece.to_vec().into(), read, drop), Ok(()));
    }
    if let Some(fault) = fault {
        return Err(fault);
    }
    reader.close(&mut events)?;
    Ok(events)
}

fn sse(chunks: &[Value]) -> Vec<u8> {
    let mut stream: Vec<u8> =
        chunks.iter().flat_map(|chunk| format!("data: {chunk}\n\n").into_bytes()).collect();
    stream.extend_from_slice(b"data: [DONE]\n\n");
    stream
}

fn events(chunks: &[Value]) -> Vec<Event> {
    events_of([&sse(chunks)[..]]).unwrap()
}

fn gathered(events: Vec<Event>) -> crate::canon::Answer {
    let mut gather = Gather::default();
    for event in events {
        gather.add(event).unwrap();
    }
    assert!(gather.is_whole());
    gather.answer()
}

/// What a caller gets of these events, each payload parsed.
fn told(events: &[Event], include_usage: bool) -> Vec<Value> {
    let mut writer = Writer::new(&STAMP, include_usage);
    let mut out = Vec::new();
    for event in events {
        writer.write(event, &mut out);
    }
    let text = String::from_utf8(out).unwrap();
    let payloads = text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap_or(event));
    payloads
        .filter(|payload| *payload != "[DONE]" && !payload.starts_with(':'))
        .map(|payload| serde_json::from_str(payload).unwrap())
        .collect()
}
