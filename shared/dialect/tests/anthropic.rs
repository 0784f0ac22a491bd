//! The Messages API by example: what is asked, answered and streamed there, and what becomes of it on its way through the
//! canonical call, answer and stream.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]

use dialect::anthropic::{
    Reader, Stamp, Target, Writer, field, read_answer, read_call, read_count, write_answer, write_call,
    write_count,
};
use dialect::canon::{Event, Gather, Losses};
use dialect::openai::StreamFault;
use dialect::sse::{Data, Judged, Splitter, read_event};
use serde_json::Value;

macro_rules! fixture {
    ($name:literal) => {
        ($name, include_str!(concat!("fixtures/anthropic/", $name)))
    };
}

const CALLS: [(&str, &str); 4] = [
    fixture!("call-agent.json"),
    fixture!("call-media.json"),
    fixture!("call-plain.json"),
    fixture!("call-tools.json"),
];

const COUNTS: [(&str, &str); 1] = [fixture!("count.json")];

/// An answer, the same as a stream of a target, and as it is streamed to a caller.
const ANSWERS: [[(&str, &str); 3]; 2] = [
    [fixture!("answer-sequence.json"), fixture!("stream-sequence.sse"), fixture!("told-sequence.sse")],
    [fixture!("answer-tools.json"), fixture!("stream-tools.sse"), fixture!("told-tools.sse")],
];

/// A stream that ends in failure, and what the caller gets of it.
const FAILURES: [[(&str, &str); 2]; 1] =
    [[fixture!("stream-overloaded.sse"), fixture!("told-overloaded.sse")]];

const STAMP: Stamp<'_> = Stamp { id: "msg_0", model: "m" };

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn told(losses: &Losses) -> Vec<String> {
    losses.told().iter().map(ToString::to_string).collect()
}

#[test]
fn calls_are_sent_as_they_were_asked() {
    for (name, text) in CALLS {
        let fixture = json(text);
        let mut losses = Losses::of(field);
        let call = read_call(fixture["asked"].to_string().as_bytes(), &mut losses).unwrap();
        let sent = write_call(&call, Target::default(), &mut losses).unwrap();
        let sent: Value = serde_json::from_slice(&sent).unwrap();
        assert_eq!(sent, fixture["sent"], "{name}");
        assert_eq!(Value::from(told(&losses)), fixture["lost"], "{name}");
    }
}

#[test]
fn counts_are_asked_as_calls_are() {
    for (name, text) in COUNTS {
        let fixture = json(text);
        let mut losses = Losses::of(field);
        let call = read_count(fixture["asked"].to_string().as_bytes(), &mut losses).unwrap();
        let sent = write_count(&call, Target::default(), &mut losses).unwrap();
        let sent: Value = serde_json::from_slice(&sent).unwrap();
        assert_eq!(sent, fixture["sent"], "{name}");
        assert_eq!(Value::from(told(&losses)), fixture["lost"], "{name}");
    }
}

#[test]
fn an_answer_is_the_same_whole_and_streamed_wherever_the_stream_is_cut() {
    for [(name, whole), (_stream, stream), (_told, told)] in ANSWERS {
        let answer = read_answer(whole.as_bytes()).unwrap();
        let back: Value = serde_json::from_slice(&write_answer(&answer, &STAMP)).unwrap();
        assert_eq!(back, json(whole), "{name}");
        let (events, fault) = followed([stream.as_bytes()]);
        assert_eq!(fault, None, "{name}");
        for at in 0..stream.len() {
            let (before, after) = stream.as_bytes().split_at(at);
            assert_eq!(followed([before, after]).0, events, "{name} cut at {at}");
        }
        let mut gather = Gather::default();
        events.iter().for_each(|event| gather.add(event.clone()).unwrap());
        assert!(gather.is_whole(), "{name}");
        let gathered = gather.answer();
        assert_eq!((&gathered.choices, gathered.usage), (&answer.choices, answer.usage), "{name}");
        assert_eq!(written(&events, false), told, "{name}");
        let (again, _fault) = followed([told.as_bytes()]);
        let mut gather = Gather::default();
        again.iter().for_each(|event| gather.add(event.clone()).unwrap());
        assert_eq!(gather.answer().choices, answer.choices, "{name}");
    }
}

#[test]
fn a_failure_in_a_stream_is_told_and_nothing_called_whole() {
    for [(name, stream), (_told, told)] in FAILURES {
        let (events, fault) = followed([stream.as_bytes()]);
        assert!(matches!(fault, Some(StreamFault::Error(_))), "{name}: {fault:?}");
        assert_eq!(written(&events, true), told, "{name}");
    }
}

fn written(events: &[Event], fails: bool) -> String {
    let mut writer = Writer::new(&STAMP);
    let mut out = Vec::new();
    events.iter().for_each(|event| writer.write(event, &mut out));
    if fails {
        writer.fail(base::Code::ModelOverloaded, "the model is busy", &mut out);
    }
    String::from_utf8(out).unwrap()
}

/// The events of a stream that arrives in pieces, and the fault that ended it.
fn followed<const N: usize>(pieces: [&[u8]; N]) -> (Vec<Event>, Option<StreamFault>) {
    let (mut reader, mut events, mut fault) = (Reader::default(), Vec::new(), None);
    let mut splitter = Splitter::new(1 << 20);
    for piece in pieces {
        let read = |event: &[u8]| {
            let event = read_event(event);
            if let (Data::One(data), None) = (event.data, &fault) {
                fault = reader.read(event.kind, data, &mut events).err();
            }
            Judged::Drop
        };
        splitter.push(&piece.to_vec().into(), read, drop).unwrap();
    }
    let fault = fault.or_else(|| reader.close(&mut events).err());
    (events, fault)
}
