//! What each target's stream and answer come to, in its own API.

use base::{Tokens, Usage};
use serde_json::{Value, json};

use super::*;
use crate::openai::StreamFault;
use crate::sse::{Judged, Splitter};

const ANTHROPIC: [&str; 7] = [
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":5,\"cache_creation_input_tokens\":2,\"output_tokens\":1}}}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":9,\"output_tokens_details\":{\"thinking_tokens\":4}}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
];

const GEMINI: [&str; 2] = [
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"h\"}],\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":10,\"totalTokenCount\":10},\"modelVersion\":\"g\",\"responseId\":\"r\"}\r\n\r\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"i\"}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":10,\"cachedContentTokenCount\":5,\"candidatesTokenCount\":5,\"thoughtsTokenCount\":4,\"totalTokenCount\":19},\"modelVersion\":\"g\",\"responseId\":\"r\"}\r\n\r\n",
];

fn billed(cached: u64, written: u64) -> Usage {
    Usage {
        cached_input: Tokens(cached),
        cache_write: Tokens(written),
        reasoning: Tokens(4),
        ..Usage::of_text(Tokens(10), Tokens(9))
    }
}

/// What a meter makes of a stream in pieces: it, and what goes on.
fn follow(target: Target, pieces: &[&str]) -> (Meter, String) {
    let (mut meter, mut splitter, mut on) = (Meter::new(target, true), Splitter::new(1 << 20), Vec::new());
    for piece in pieces {
        let read = bytes::Bytes::copy_from_slice(piece.as_bytes());
        splitter.push(&read, |event| meter.judge(event), |events| on.extend_from_slice(&events)).unwrap();
    }
    on.extend(meter.close(&splitter.rest()).unwrap_or_default());
    (meter, String::from_utf8(on).unwrap())
}

#[test]
fn a_stream_goes_on_as_it_came_and_its_usage_is_taken() {
    let (meter, on) = follow(Target::Anthropic, &ANTHROPIC);
    assert_eq!(on, ANTHROPIC.concat());
    assert_eq!((meter.usage(), meter.complete(), meter.done()), (Some(billed(5, 2)), true, true));
    let (meter, on) = follow(Target::Gemini, &GEMINI);
    assert_eq!(on, GEMINI.concat());
    assert_eq!((meter.usage(), meter.complete(), meter.fault()), (Some(billed(5, 0)), true, None));
}

#[test]
fn a_stream_that_does_not_say_why_it_ended_is_not_whole() {
    let (meter, _on) = follow(Target::Anthropic, &ANTHROPIC[..5]);
    assert!(meter.started() && !meter.complete() && meter.usage().is_some());
    let (meter, _on) = follow(Target::Gemini, &GEMINI[..1]);
    assert!(meter.started() && !meter.complete() && meter.usage().is_some());
    for target in [Target::Anthropic, Target::Gemini] {
        let (meter, on) = follow(target, &[": hello\n\n", ANTHROPIC[1], "data: [DONE]\n\n"]);
        assert!(!meter.complete() && (!meter.started() || target == Target::Gemini), "{target:?}: {on}");
    }
}

#[test]
fn an_end_mark_that_was_left_out_is_put_and_a_last_event_without_its_blank_line_counts() {
    let unended = ANTHROPIC[..6].concat();
    let (meter, on) = follow(Target::Anthropic, &[unended.trim_end()]);
    assert_eq!((on, meter.complete()), (ANTHROPIC.concat(), true));
    let (meter, on) = follow(Target::Gemini, &[GEMINI.concat().trim_end()]);
    assert!(meter.complete() && on.ends_with("}\n\n"), "{on}");
}

#[test]
fn an_error_in_a_stream_stops_it() {
    let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let exhausted =
        "data: {\"error\":{\"code\":429,\"message\":\"Quota\",\"status\":\"RESOURCE_EXHAUSTED\"}}\n\n";
    for (target, start, error, meaning) in [
        (Target::Anthropic, ANTHROPIC[0], overloaded, base::Code::ModelOverloaded),
        (Target::Gemini, GEMINI[0], exhausted, base::Code::UpstreamRateLimited),
    ] {
        let (meter, on) = follow(target, &[start, error]);
        assert_eq!(on, start);
        match meter.fault() {
            Some(StreamFault::Error(error)) => assert_eq!(error.meaning(), Some(meaning)),
            other => panic!("{other:?}"),
        }
        let (meter, _on) = follow(target, &[start, "data: {nonsense\n\n"]);
        assert_eq!(meter.fault(), Some(&StreamFault::Malformed));
    }
    assert_eq!(Meter::new(Target::Anthropic, true).judge(overloaded.as_bytes()), Judged::Stop);
}

#[test]
fn an_answer_of_the_other_kind_is_made_into_the_one_asked_for() {
    let array = GEMINI.map(|event| event.trim().strip_prefix("data: ").unwrap()).join(",");
    let streams = [
        (Target::Anthropic, ANTHROPIC.concat()),
        (Target::Gemini, GEMINI.concat()),
        (Target::Gemini, format!("[{array}]")),
    ];
    for (target, stream) in streams {
        assert!(target.is_stream(stream.as_bytes()));
        let whole = target.whole_of_stream(stream.as_bytes()).unwrap();
        assert!(!target.is_stream(&whole));
        let written = if target == Target::Anthropic { 2 } else { 0 };
        assert_eq!(target.check_answer(&whole), Ok(Some(billed(5, written))));
        let text = serde_json::from_slice::<Value>(&whole).unwrap();
        let text = [&text["content"][0]["text"], &text["candidates"][0]["content"]["parts"][0]["text"]];
        assert!(text.contains(&&json!("hi")), "{text:?}");
        let again = target.stream_of_whole(&whole, false).unwrap();
        let (meter, _on) = follow(target, &[std::str::from_utf8(&again).unwrap()]);
        assert_eq!((meter.usage(), meter.complete()), (Some(billed(5, written)), true));
        assert_eq!(target.whole_of_stream(&again).unwrap(), whole);
    }
    let cut = [(Target::Anthropic, ANTHROPIC[..4].concat()), (Target::Gemini, GEMINI[0].to_owned())];
    for (target, stream) in cut {
        assert_eq!(target.whole_of_stream(stream.as_bytes()), Err(BadReply::Malformed));
    }
    let error = b"data: {\"error\":{\"code\":503,\"message\":\"m\",\"status\":\"UNAVAILABLE\"}}\n\n";
    assert!(
        matches!(Target::Gemini.whole_of_stream(error), Err(BadReply::Error(error)) if error.status == Some(503))
    );
    assert_eq!(Target::Gemini.stream_of_whole(b"{}", true), None);
}

#[test]
fn a_success_without_an_answer_is_none() {
    assert_eq!(Target::Anthropic.check_answer(b"<html>"), Err(BadReply::Malformed));
    assert_eq!(Target::Anthropic.check_answer(b"{\"content\":[]}"), Err(BadReply::Empty));
    assert_eq!(Target::Gemini.check_answer(b"{\"candidates\":[]}"), Err(BadReply::Empty));
    let vectors = br#"{"embeddings":[{"values":[0.5]}],"usageMetadata":{"promptTokenCount":3}}"#;
    assert_eq!(Target::Gemini.check_embeddings(vectors), Ok(Some(Usage::of_text(Tokens(3), Tokens(0)))));
    assert_eq!(Target::Anthropic.check_embeddings(vectors), Err(BadReply::Malformed));
}

#[test]
fn the_last_events_alone_tell_whether_the_answer_is_whole() {
    let ends = |target: Target, events: &[&str]| target.ends(&events.concat().into());
    assert!(ends(Target::Anthropic, &ANTHROPIC[4..6]) && ends(Target::Anthropic, &ANTHROPIC[6..]));
    assert!(!ends(Target::Anthropic, &ANTHROPIC[..5]));
    assert!(ends(Target::Gemini, &GEMINI[1..]) && !ends(Target::Gemini, &GEMINI[..1]));
    let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    assert!(ends(Target::Openai, &[finish]) && !ends(Target::Openai, &[]));
}
