use super::*;
use crate::canon::{Choice, Stop, ToolCall, Usage};
use crate::openai::BadReply;

fn answered(body: &Value) -> Result<Answer, BadReply> {
    read_answer(body.to_string().as_bytes())
}

fn message(content: Value, reason: &str, usage: Value) -> Value {
    json!({"id": "msg_9", "type": "message", "role": "assistant", "model": "c", "content": content,
        "stop_reason": reason, "stop_sequence": null, "usage": usage})
}

fn told(answer: &Answer) -> Value {
    serde_json::from_slice(&write_answer(answer, &STAMP)).unwrap()
}

/// Case B074.
#[test]
fn cached_tokens_are_counted_once() {
    let reported = json!({"input_tokens": 6, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 94,
        "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 20}});
    let answer = answered(&message(json!([]), "end_turn", reported.clone())).unwrap();
    let usage = Usage {
        input: 1_000,
        cached: Some(900),
        cache_written: Some(94),
        output: 50,
        thinking: Some(20),
        ..Usage::default()
    };
    assert_eq!(answer.usage, Some(usage));
    assert_eq!(usage.total(), 1_050);
    assert_eq!(told(&answer)["usage"], reported);
}

/// Case B105, what concerns reading.
#[test]
fn counts_that_are_none_are_not_billed() {
    for count in [json!(-50), json!(1e308), json!("12"), json!(18_446_744_073_709_551_615_u64)] {
        let usage = json!({"input_tokens": 5, "output_tokens": count});
        assert_eq!(answered(&message(json!([]), "end_turn", usage)).unwrap().usage, None, "{count}");
    }
    let unknown = Answer { usage: None, choices: vec![Choice::default()], ..Answer::default() };
    assert_eq!(told(&unknown)["usage"], json!({"input_tokens": 0, "output_tokens": 0}));
}

/// Case B069.
#[test]
fn reasons_keep_their_meaning_and_unknown_ones_are_no_filter() {
    let words = [
        ("end_turn", Stop::End),
        ("max_tokens", Stop::Length),
        ("tool_use", Stop::Tools),
        ("refusal", Stop::Filter),
        ("pause_turn", Stop::Pause),
        ("model_context_window_exceeded", Stop::Context),
        ("stop_sequence", Stop::Sequence(None)),
    ];
    for (word, stop) in words {
        let answer = answered(&message(json!([]), word, json!({}))).unwrap();
        assert_eq!(answer.choices[0].stop, Some(stop));
        assert_eq!(told(&answer)["stop_reason"], word);
    }
    let newer = answered(&message(json!([]), "new_reason", json!({}))).unwrap();
    assert_eq!(newer.choices[0].stop, Some(Stop::Other("new_reason".to_owned())));
    let newer = told(&newer);
    assert_eq!(
        (&newer["stop_reason"], &newer["native_stop_reason"]),
        (&json!("end_turn"), &json!("new_reason"))
    );
    let mut sequence = message(json!([]), "stop_sequence", json!({}));
    sequence["stop_sequence"] = json!("END");
    assert_eq!(told(&answered(&sequence).unwrap())["stop_sequence"], "END");
}

/// Case B090.
#[test]
fn a_success_without_an_answer_is_none() {
    let bad = |body: &str| read_answer(body.as_bytes()).unwrap_err();
    assert_eq!(bad("<html>busy</html>"), BadReply::Malformed);
    assert_eq!(bad(r#"{"type":"message","content":[{"type":"te"#), BadReply::Malformed);
    assert_eq!(bad(r#"{"type":"message","content":[]}"#), BadReply::Empty);
    assert_eq!(bad("{}"), BadReply::Empty);
    assert!(
        matches!(bad(r#"{"error":{"message":"no key"}}"#), BadReply::Error(error) if error.message == "no key")
    );
    let overloaded = bad(r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#);
    assert!(
        matches!(overloaded, BadReply::Error(error) if error.meaning() == Some(base::Code::ModelOverloaded))
    );
    assert!(
        answered(&message(json!([]), "end_turn", json!({}))).is_ok(),
        "an empty answer that ended is one"
    );
}

#[test]
fn every_part_of_an_answer_is_told_and_read_again() {
    let call = |signature: Option<&str>, arguments: &str| {
        Part::ToolCall(ToolCall {
            id: "t".to_owned(),
            name: "f".to_owned(),
            arguments: arguments.to_owned(),
            signature: signature.map(str::to_owned),
            cache: false,
        })
    };
    let parts = vec![
        Part::Thought { text: "hm".to_owned(), signature: Some("S1".to_owned()) },
        Part::SealedThought { data: "ENC==".to_owned() },
        Part::text("four"),
        call(None, "{\"q\":1}"),
    ];
    let choice = Choice { parts, stop: Some(Stop::Tools), logprobs: None };
    let answer = Answer { choices: vec![choice], ..Answer::default() };
    let body = told(&answer);
    assert_eq!(
        (&body["id"], &body["model"], &body["type"]),
        (&json!("msg_1"), &json!("m"), &json!("message"))
    );
    assert_eq!(answered(&body).unwrap().choices, answer.choices);
    let spoken = |part| {
        let choice = Choice { parts: vec![part], stop: Some(Stop::End), logprobs: None };
        told(&Answer { choices: vec![choice], ..Answer::default() })["content"].clone()
    };
    let refusal = spoken(Part::Refusal { text: "no".to_owned() });
    assert_eq!(refusal, json!([{"type": "text", "text": "no"}]));
    assert_eq!(spoken(Part::text("")), json!([]), "an empty block could not be given back");
    assert_eq!(spoken(call(None, "{\"q\":"))[0]["input"], json!({"malformed_arguments": "{\"q\":"}));
    assert_eq!(spoken(call(None, ""))[0]["input"], json!({}));
}

/// Another provider's signature of a call comes back with the call, though this API has no place for it.
#[test]
fn the_signature_of_a_call_survives_the_callers_next_turn() {
    let signed = Part::ToolCall(ToolCall {
        id: "t".to_owned(),
        name: "f".to_owned(),
        arguments: "{}".to_owned(),
        signature: Some("G7==".to_owned()),
        cache: false,
    });
    let choice = Choice { parts: vec![signed.clone()], stop: Some(Stop::Tools), logprobs: None };
    let answer = Answer { choices: vec![choice], ..Answer::default() };
    let body = json!({"model": "m", "max_tokens": 5, "messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": told(&answer)["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "7"}]},
    ]});
    let call = read(&body).unwrap();
    assert_eq!(call.turns[1].parts, [signed]);
    let Part::ToolResult(result) = &call.turns[2].parts[0] else { panic!("{call:?}") };
    assert_eq!(result.name, "f", "a result is named after its call");
    let streamed: Value = super::told(&crate::canon::spread(&answer))
        .iter()
        .filter(|payload| payload["delta"]["type"] == "signature_delta")
        .map(|payload| payload["delta"]["signature"].clone())
        .collect();
    assert_eq!(streamed, json!(["of-call:G7=="]));
}
