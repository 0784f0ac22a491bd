use base::Tokens;

use super::*;
use crate::sse::Splitter;

const TEXT: &str = r#"{"choices":[{"index":0,"delta":{"content":"A"},"finish_reason":null}],"usage":null}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const COUNT: &str = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}"#;

/// What the caller gets of a stream that ends cleanly, and the meter after it.
fn follow(stream: &str, hide_usage: bool) -> (String, Meter) {
    let (mut meter, mut splitter, mut out) = (Meter::new(hide_usage), Splitter::new(1 << 20), Vec::new());
    let read = Bytes::copy_from_slice(stream.as_bytes());
    splitter.push(&read, |event| meter.judge(event), |bytes| out.extend(bytes)).unwrap();
    if meter.fault().is_none() {
        out.extend(meter.close(&splitter.rest()).unwrap_or_default());
    }
    (String::from_utf8(out).unwrap(), meter)
}

fn events(payloads: &[&str]) -> String {
    payloads.iter().map(|payload| format!("data: {payload}\n\n")).collect()
}

fn counted(meter: &Meter) -> Option<(u64, u64)> {
    meter.usage().map(|usage| (usage.input.0, usage.output.0))
}

#[test]
fn a_healthy_stream_passes_byte_for_byte() {
    let stream = format!(": hi\n\nid: 3\ndata:{TEXT}\r\n\r\n{}", events(&[STOP, COUNT, "[DONE]"]));
    let (out, meter) = follow(&stream, false);
    assert_eq!(out, stream);
    assert!(meter.complete() && meter.done() && meter.fault().is_none());
    assert_eq!(counted(&meter), Some((9, 2)));
}

/// Case B023.
#[test]
fn usage_that_only_we_asked_for_is_taken_and_hidden() {
    let (out, meter) = follow(&events(&[TEXT, STOP, COUNT, "[DONE]"]), true);
    assert_eq!(out, events(&[&bare(TEXT), STOP, "[DONE]"]));
    assert_eq!(counted(&meter), Some((9, 2)));
}

#[test]
fn usage_on_a_chunk_with_text_is_taken_and_hidden_and_the_rest_stays_byte_for_byte() {
    const REPORT: &str = r#"{"prompt_tokens":9, "completion_tokens":2}"#;
    let choices = r#""choices": [{"delta":{"content":"a \"usage\":1"},"finish_reason":"stop"}]"#;
    for (sent, left) in [
        (format!(r#"{{{choices},"usage":{REPORT},"x" : 1.50}}"#), format!(r#"{{{choices},"x" : 1.50}}"#)),
        (format!(r#"{{{choices}, "usage" : {REPORT} }}"#), format!("{{{choices} }}")),
        (format!(r#"{{ "usage":{REPORT} , {choices}}}"#), format!("{{  {choices}}}")),
    ] {
        let (out, meter) = follow(&events(&[&sent, "[DONE]"]), true);
        assert_eq!(out, events(&[&left, "[DONE]"]));
        assert_eq!((counted(&meter), meter.complete()), (Some((9, 2)), true));
        let (out, meter) = follow(&events(&[&sent, "[DONE]"]), false);
        assert_eq!((out, counted(&meter)), (events(&[&sent, "[DONE]"]), Some((9, 2))), "it was asked for");
    }
    let spread = follow("data: {\"choices\":[{}],\ndata: \"usage\":{}}\n\n", true).0;
    assert_eq!(spread, events(&[r#"{"choices":[{}]}"#]));
    let spread = follow("data: {\"choices\":[{}],\"usage\":{},\ndata: \"x\":1}\n\n", true).0;
    assert_eq!(spread, "data: {\"choices\":[{}],\ndata: \"x\":1}\n\n");
    let escaped = format!(r#"{{{choices},"us\u0061ge":{REPORT},"x":{{"usage":{{}}}}}}"#);
    let (out, _meter) = follow(&events(&[&escaped]), true);
    assert_eq!(out, events(&[&escaped.replace(REPORT, "null"), "[DONE]"]));
}

/// Case B022.
#[test]
fn a_usage_chunk_without_choices_gets_them() {
    let bare = r#"{"usage":{"prompt_tokens":9,"completion_tokens":2}}"#;
    let (out, meter) = follow(&events(&[STOP, bare, "[DONE]"]), false);
    let mended = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}"#;
    assert_eq!(out, events(&[STOP, mended, "[DONE]"]));
    assert_eq!(counted(&meter), Some((9, 2)));
}

/// Case B017: a finish reason proves the end; the end mark is added once.
#[test]
fn a_missing_end_mark_is_added_and_nothing_follows_one() {
    assert_eq!(follow(&events(&[TEXT, STOP, COUNT]), true).0, events(&[&bare(TEXT), STOP, "[DONE]"]));
    assert_eq!(follow(&events(&[STOP, "[DONE]", "[DONE]", TEXT]), true).0, events(&[STOP, "[DONE]"]));
}

/// Case B016.
#[test]
fn an_end_without_a_finish_is_not_complete() {
    let (out, meter) = follow(&events(&[TEXT]), true);
    assert_eq!((out, meter.complete()), (events(&[&bare(TEXT)]), false));
}

/// Case B027: an empty text is no finish, null values are legal.
#[test]
fn an_empty_finish_reason_is_none() {
    let odd = r#"{"choices":[{"index":0,"delta":{"role":null,"content":"你","tool_calls":null},"finish_reason":""}],"usage":null}"#;
    let (out, meter) = follow(&events(&[odd]), true);
    assert_eq!((out, meter.complete()), (events(&[&bare(odd)]), false));
}

/// Cases B014 and B008.
#[test]
fn an_error_in_the_stream_is_the_result() {
    let quota = r#"{"error":{"message":"quota used up","type":"insufficient_quota"}}"#;
    let (out, meter) = follow(&events(&[quota, "[DONE]"]), true);
    assert_eq!((out.as_str(), meter.complete()), ("", false));
    assert!(matches!(meter.fault(), Some(StreamFault::Error(error)) if error.kind == "insufficient_quota"));
    let lines = "event: error\ndata: {\"type\":\"error\",\ndata: \"error\":{\"type\":\"overloaded_error\",\ndata: \"message\":\"busy\"}}\n\n";
    let fault = follow(lines, true).1.fault().cloned();
    assert!(matches!(fault, Some(StreamFault::Error(error)) if error.kind == "overloaded_error"));
}

/// Case B009.
#[test]
fn two_payloads_in_one_event_become_two_events() {
    let (out, meter) = follow(&format!("data: {TEXT}\ndata: {STOP}\n\n"), true);
    assert_eq!(out, events(&[&bare(TEXT), STOP, "[DONE]"]));
    assert!(meter.complete());
}

/// Case B011.
#[test]
fn the_last_event_may_lack_its_blank_line_but_not_its_end() {
    assert_eq!(follow(&format!("data: {STOP}\n\ndata: [DONE]"), true).0, events(&[STOP, "[DONE]"]));
    assert_eq!(follow(&format!("data: {STOP}"), true).0, events(&[STOP, "[DONE]"]));
    let (out, meter) = follow("data: {\"choices\":[{\"delta\":{\"con", true);
    assert_eq!((out.as_str(), meter.fault()), ("", Some(&StreamFault::Malformed)));
}

#[test]
fn what_is_not_json_stops_the_stream() {
    for payload in ["hello", "<html>", "{\"choices\":", "[1]"] {
        let (out, meter) = follow(&events(&[TEXT, payload, TEXT]), true);
        assert_eq!(
            (out, meter.fault()),
            (events(&[&bare(TEXT)]), Some(&StreamFault::Malformed)),
            "{payload}"
        );
    }
}

/// Case B006.
#[test]
fn comments_pass_and_do_not_start_the_answer() {
    let (out, meter) = follow(": WAITING\n\ndata:\n\n", true);
    assert_eq!((out.as_str(), meter.started()), (": WAITING\n\n", false));
}

#[test]
fn words_within_a_text_mean_nothing() {
    let text = r#"{"choices":[{"delta":{"content":"\"error\":{\"usage\":{\"finish_reason\":\"stop\""}}]}"#;
    let (out, meter) = follow(&events(&[text]), true);
    assert_eq!((out, meter.complete(), meter.usage()), (events(&[text]), false, None));
    let value = r#"{"choices":[{"delta":{"content":"usage"}}],"x":{"usage":"error"}}"#;
    assert_eq!(follow(&events(&[value]), true).0, events(&[value]));
    assert_eq!(Usage::default().input, Tokens(0));
}

/// A null `usage` says that a report comes, which such callers did not ask for; a chunk without choices may say more.
#[test]
fn a_null_usage_is_kept_from_callers_who_did_not_ask_and_its_chunk_is_not() {
    for (sent, left) in [
        (TEXT, TEXT.replace(",\"usage\":null", "")),
        (r#"{"choices":[], "usage": null, "filters":[1]}"#, r#"{"choices":[], "filters":[1]}"#.to_owned()),
    ] {
        assert_eq!(follow(&events(&[sent, STOP, "[DONE]"]), true).0, events(&[&left, STOP, "[DONE]"]));
        assert_eq!(follow(&events(&[sent, STOP, "[DONE]"]), false).0, events(&[sent, STOP, "[DONE]"]));
    }
}

/// A chunk as callers get it who did not ask for usage.
fn bare(chunk: &str) -> String {
    chunk.replace(",\"usage\":null", "")
}
