//! Inputs and right outputs of faults seen in real gateways, and what must hold for all.

mod answering;
mod asking;
mod properties;
mod streaming;

use serde_json::Value;

use super::*;
use crate::canon::{Answer, Call, Event, Gather, Losses, Unfit};
use crate::openai::StreamFault;
use crate::sse::{Data, Judged, Splitter, read_event};

const STAMP: Stamp<'_> = Stamp { id: "resp-1", model: "m" };

fn read(body: &Value) -> Result<Call, Unfit> {
    read_call("m", false, body.to_string().as_bytes(), &mut Losses::of(field))
}

/// What is written for a target, and the fields that were lost, in the words of a caller of this API.
fn written_with(call: &Call, target: Target) -> (Value, Vec<String>) {
    let mut losses = Losses::of(field);
    let body = write_call(call, target, &mut losses).unwrap();
    let lost = losses.told().iter().map(|loss| loss.path.clone()).collect();
    (serde_json::from_slice(&body).unwrap(), lost)
}

fn written(call: &Call) -> Value {
    written_with(call, Target { line: Line::Budgets, ..Target::default() }).0
}

/// The events of a stream of server-sent events that arrives in `pieces`.
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

/// The same of a stream that is an array.
fn events_of_array<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Event>, StreamFault> {
    let mut reader = Reader::default();
    let mut events = Vec::new();
    let mut splitter = crate::array::Splitter::new(1 << 20);
    let mut fault = None;
    for piece in pieces {
        let read = |element: &[u8]| {
            if fault.is_none() {
                fault = reader.read(None, element, &mut events).err();
            }
        };
        assert_eq!(splitter.push(piece, read), Ok(()));
    }
    assert_eq!(splitter.close(), Ok(()));
    fault.map_or(Ok(()), Err)?;
    reader.close(&mut events)?;
    Ok(events)
}

fn sse(chunks: &[Value]) -> Vec<u8> {
    chunks.iter().flat_map(|chunk| format!("data: {chunk}\r\n\r\n").into_bytes()).collect()
}

fn gathered(events: Vec<Event>) -> Answer {
    let mut gather = Gather::default();
    for event in events {
        gather.add(event).unwrap();
    }
    assert!(gather.is_whole());
    gather.answer()
}

/// The bytes that a caller gets of these events.
fn told(events: &[Event], framing: Framing) -> Vec<u8> {
    let mut writer = Writer::new(&STAMP, framing);
    let mut out = Vec::new();
    for event in events {
        writer.write(event, &mut out);
    }
    out
}
