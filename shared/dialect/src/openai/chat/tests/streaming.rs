use serde_json::json;

use super::*;
use crate::canon::{Delta, Opening, Part, Stop, Usage};

fn choice(delta: Value, finish: Value) -> Value {
    json!({"id": "s", "model": "u", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn calls(events: &[Event]) -> Vec<(String, String, String)> {
    let answer = gathered(events.to_vec());
    let call = |part: &Part| match part {
        Part::ToolCall(call) => Some((call.id.clone(), call.name.clone(), call.arguments.clone())),
        _other => None,
    };
    answer.choices[0].parts.iter().filter_map(call).collect()
}

/// Cases B022, B023 and B078.
#[test]
fn usage_comes_once_after_the_finish_and_only_to_who_asked() {
    let stream = events(&[
        choice(json!({"role": "assistant", "content": "hi"}), Value::Null),
        choice(json!({}), json!("stop")),
        json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}}),
    ]);
    let usage = Usage { input: 9, output: 2, ..Usage::default() };
    assert_eq!(stream.iter().filter(|event| **event == Event::Usage(usage)).count(), 1);
    let asked = told(&stream, true);
    let last = asked.last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]["total_tokens"]), (&json!([]), &json!(11)));
    assert!(asked.iter().rev().skip(1).all(|chunk| chunk["usage"].is_null()));
    assert!(told(&stream, false).iter().all(|chunk| chunk.get("usage").is_none()));
}

/// Cases B025 and B027.
#[test]
fn odd_chunks_change_nothing() {
    let odd = json!({"choices": [{"index": 0, "delta": {"role": null, "content": "你", "tool_calls": null},
        "finish_reason": ""}], "usage": null});
    let filter = json!({"id": "", "choices": [{"index": 0, "finish_reason": null,
        "content_filter_results": {"hate": {"filtered": false}}}], "usage": null});
    let answer = gathered(events(&[odd.clone(), filter, odd, choice(json!({}), json!("stop"))]));
    assert_eq!(answer.choices[0].parts, [Part::text("你你")]);
    assert_eq!(answer.choices[0].stop, Some(Stop::End));
}

#[test]
fn text_thoughts_and_calls_are_parts_of_their_own() {
    let call = |index: u32, id: &str, arguments: &str| {
        json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": "get", "arguments": arguments}}]})
    };
    let more = |index: u32, arguments: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]});
    let stream = events(&[
        choice(json!({"role": "assistant", "content": ""}), Value::Null),
        choice(json!({"reasoning_content": "hm"}), Value::Null),
        choice(json!({"content": "ok"}), Value::Null),
        choice(call(0, "a", ""), Value::Null),
        choice(more(0, "{\"q\":"), Value::Null),
        choice(more(0, "1}"), Value::Null),
        choice(call(1, "b", "{\"q\":2}"), Value::Null),
        choice(json!({}), json!("tool_calls")),
    ]);
    let closes: Vec<u32> = stream
        .iter()
        .filter_map(|event| match event {
            Event::Close { part, .. } => Some(*part),
            _other => None,
        })
        .collect();
    assert_eq!(closes, [0, 1, 2, 3], "each part ends before the next begins");
    let expected = [("a", "{\"q\":1}"), ("b", "{\"q\":2}")];
    let got = calls(&stream);
    assert_eq!(got.iter().map(|(id, _, arguments)| (&**id, &**arguments)).collect::<Vec<_>>(), expected);
}

/// Calls that servers number alike, do not number, or send whole with an object.
#[test]
fn sloppy_calls_are_told_apart() {
    let alike = |id: &str| {
        choice(
            json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": "w", "arguments": "{}"}}]}),
            Value::Null,
        )
    };
    let stop = choice(json!({}), json!("stop"));
    let got = calls(&events(&[alike("x"), alike("y"), stop.clone()]));
    assert_eq!(got.iter().map(|(id, ..)| &**id).collect::<Vec<_>>(), ["x", "y"]);
    let unnumbered = choice(
        json!({"tool_calls": [{"function": {"name": "w", "arguments": {"c": "A"}}},
            {"function": {"name": "v", "arguments": {"c": "B"}}}]}),
        Value::Null,
    );
    let stream = events(&[unnumbered, stop]);
    let got = calls(&stream);
    assert_eq!(got[0].2, "{\"c\":\"A\"}");
    assert_eq!((&*got[1].1, &*got[1].2), ("v", "{\"c\":\"B\"}"));
    assert_ne!(got[0].0, got[1].0);
    assert!(stream.contains(&Event::Stop { choice: 0, stop: Stop::Tools }));
}

/// Case B083.
#[test]
fn choices_are_told_apart_by_their_number() {
    let both = json!({"choices": [{"index": 1, "delta": {"content": "B"}}, {"index": 0, "delta": {"content": "A"}}]});
    let finish = |index: u32| json!({"choices": [{"index": index, "delta": {}, "finish_reason": "stop"}]});
    let stream = events(&[both, finish(1), finish(0)]);
    let answer = gathered(stream.clone());
    assert_eq!(answer.choices[0].parts, [Part::text("A")]);
    assert_eq!(answer.choices[1].parts, [Part::text("B")]);
    let numbers: Vec<_> =
        told(&stream, false).iter().map(|chunk| chunk["choices"][0]["index"].clone()).collect();
    assert_eq!(numbers, [1, 1, 0, 0, 1, 0], "who speaks and what, by choice, then their ends");
}

/// Case B081.
#[test]
fn every_probability_survives() {
    let one = |token: &str| {
        json!({"choices": [{"index": 0, "delta": {"content": token},
            "logprobs": {"content": [{"token": token, "logprob": -0.1}], "refusal": null}}]})
    };
    let stream = events(&[one("a"), one("b"), one("c"), choice(json!({}), json!("stop"))]);
    let list = gathered(stream).choices[0].logprobs.clone().unwrap();
    let tokens: Vec<_> =
        list["content"].as_array().unwrap().iter().map(|entry| entry["token"].clone()).collect();
    assert_eq!(tokens, ["a", "b", "c"]);
}

/// Case B034, and that calls of no arguments are told to have none.
#[test]
fn calls_are_numbered_apart_from_other_parts() {
    let open = |part, id: &str| Event::Open {
        choice: 0,
        part,
        opening: Opening::ToolCall { id: id.to_owned(), name: "get".to_owned(), signature: None },
    };
    let piece = |part, text: &str| Event::Piece { choice: 0, part, delta: Delta::Arguments(text.to_owned()) };
    let close = |part| Event::Close { choice: 0, part };
    let chunks = told(
        &[
            Event::Open { choice: 0, part: 0, opening: Opening::Text },
            Event::Piece { choice: 0, part: 0, delta: Delta::Text("ok".to_owned()) },
            close(0),
            open(1, "t_a"),
            piece(1, "{\"q\":"),
            piece(1, "1}"),
            close(1),
            open(2, "t_b"),
            close(2),
            Event::Stop { choice: 0, stop: Stop::Tools },
            Event::End,
        ],
        false,
    );
    let pieces: Vec<_> = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].get(0))
        .map(|call| {
            (call["index"].as_u64().unwrap(), call.get("id").is_some(), call["function"]["arguments"].clone())
        })
        .collect();
    let expected = [
        (0, true, json!("")),
        (0, false, json!("{\"q\":")),
        (0, false, json!("1}")),
        (1, true, json!("")),
        (1, false, json!("{}")),
    ];
    assert_eq!(pieces, expected);
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn a_stream_that_breaks_off_is_cut_and_an_error_in_it_is_told() {
    let begun = format!("data: {}\n\n", choice(json!({"content": "half"}), Value::Null));
    assert_eq!(events_of([begun.as_bytes()]), Err(StreamFault::Cut));
    let failed = format!("{begun}data: {}\n\n", json!({"error": {"message": "out of memory", "code": 500}}));
    let Err(StreamFault::Error(error)) = events_of([failed.as_bytes()]) else { panic!() };
    assert_eq!(error.message, "out of memory");
    assert_eq!(events_of([&b"data: {\"choices\":7}\n\n"[..]]), Err(StreamFault::Malformed));
}
