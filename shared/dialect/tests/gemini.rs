//! Fixtures of Gemini's API: what was read, and what is written of it. Each file of the folder is used here.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]

use dialect::canon::{Gather, Losses};
use dialect::gemini::{
    Framing, Line, Reader, Schemas, Stamp, Target, Writer, field, read_answer, read_call, write_answer,
    write_call,
};
use dialect::sse::{Data, Judged, Splitter, read_event};
use serde_json::Value;

const STAMP: Stamp<'_> = Stamp { id: "made", model: "named" };

macro_rules! fixtures {
    ($($name:literal),* $(,)?) => {
        /// Names and texts of all fixtures.
        const FIXTURES: &[(&str, &str)] = &[$(($name, include_str!(concat!("fixtures/gemini/", $name))),)*];
    };
}

fixtures! {
    "call-media.json",
    "call-media.json-schema.out",
    "call-media.subset.out",
    "call-tools.json",
    "call-tools.json-schema.out",
    "call-tools.subset.out",
    "stream-thoughts-and-calls.array.out",
    "stream-thoughts-and-calls.sse",
    "stream-thoughts-and-calls.sse.out",
    "stream-thoughts-and-calls.whole.out",
    "stream-two-candidates.array.out",
    "stream-two-candidates.sse",
    "stream-two-candidates.sse.out",
    "stream-two-candidates.whole.out",
}

fn fixture(name: &str) -> &'static str {
    FIXTURES.iter().find(|(known, _text)| *known == name).unwrap().1
}

/// Those that are read, without their ending.
fn inputs(ending: &str) -> Vec<(&'static str, &'static str)> {
    let read = FIXTURES.iter().filter_map(|(name, text)| Some((name.strip_suffix(ending)?, *text)));
    read.collect()
}

fn check(name: &str, written: &str) {
    assert_eq!(written.trim_end(), fixture(name).trim_end(), "{name}: what is written is\n{written}\n");
}

fn pretty(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap();
    serde_json::to_string_pretty(&body).unwrap()
}

#[test]
fn each_output_has_its_input() {
    let outputs = FIXTURES.iter().filter(|(name, _text)| name.ends_with(".out")).count();
    assert_eq!(outputs, 2 * inputs(".json").len() + 3 * inputs(".sse").len());
}

#[test]
fn calls_are_read_and_written() {
    for (name, body) in inputs(".json") {
        for (form, schemas, line) in
            [("json-schema", Schemas::Json, Line::Levels), ("subset", Schemas::Subset, Line::Budgets)]
        {
            let mut losses = Losses::of(field);
            let call = read_call("m", false, body.as_bytes(), &mut losses).unwrap();
            let target = Target { schemas, line, ..Target::default() };
            let written = write_call(&call, target, &mut losses).unwrap();
            let lost: String = losses.told().iter().map(|loss| format!("\nlost: {loss}")).collect();
            check(&format!("{name}.{form}.out"), &(pretty(&written) + &lost));
        }
    }
}

#[test]
fn streams_are_read_and_written() {
    for (name, stream) in inputs(".sse") {
        let mut events = Vec::new();
        let mut reader = Reader::default();
        let read = |event: &[u8]| {
            let event = read_event(event);
            if let Data::One(data) = event.data {
                reader.read(event.kind, data, &mut events).unwrap();
            }
            Judged::Drop
        };
        Splitter::new(1 << 20).push(&stream.into(), read, drop).unwrap();
        reader.close(&mut events).unwrap();
        for (form, framing) in [("sse", Framing::Sse), ("array", Framing::Array)] {
            let mut writer = Writer::new(&STAMP, framing);
            let mut out = Vec::new();
            events.iter().for_each(|event| writer.write(event, &mut out));
            check(&format!("{name}.{form}.out"), std::str::from_utf8(&out).unwrap());
        }
        let mut gather = Gather::default();
        events.into_iter().for_each(|event| gather.add(event).unwrap());
        let answer = gather.answer();
        let whole = write_answer(&answer, &STAMP);
        check(&format!("{name}.whole.out"), &pretty(&whole));
        assert_eq!(read_answer(&whole), Ok(answer), "{name}: the whole says what the stream said");
    }
}
