//! Whole answers, in both directions.

use serde_json::json;

use super::*;
use crate::canon::{Choice, Part, Stop, ToolCall, Usage};
use crate::openai::BadReply;

fn answer_of(body: &Value) -> Result<Answer, BadReply> {
    read_answer(body.to_string().as_bytes())
}

/// Case B043: two calls of one function without ids have two names, and those of another answer have others.
#[test]
fn calls_without_ids_are_named() {
    let call = |city: &str| json!({"functionCall": {"name": "w", "args": {"c": city}}});
    let ids = |id: &str| {
        let content = json!({"role": "model", "parts": [call("A"), call("B")]});
        let body = json!({"candidates": [{"content": content, "finishReason": "STOP"}], "responseId": id});
        let answer = answer_of(&body).unwrap();
        assert_eq!(answer.choices[0].stop, Some(Stop::Tools));
        let ids = answer.choices[0].parts.iter().map(|part| match part {
            Part::ToolCall(call) => call.id.clone(),
            other => panic!("{other:?}"),
        });
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids("2T1-m_Z8"), ["call_2T1-m_Z8_0", "call_2T1-m_Z8_1"]);
    assert_eq!(ids(""), ["call_0", "call_1"]);
    assert!(ids(&"x".repeat(99)).iter().all(|id| id.len() <= 40));
}

/// Case B090 and its legal twin.
#[test]
fn a_success_without_an_answer_is_none() {
    let bad = |body: &str| read_answer(body.as_bytes()).unwrap_err();
    assert_eq!(bad("<html>busy</html>"), BadReply::Malformed);
    assert_eq!(bad(r#"{"candidates":[{"content":{"parts":[{"te"#), BadReply::Malformed);
    assert_eq!(bad("[]"), BadReply::Malformed);
    assert_eq!(bad(r#"{"candidates":[]}"#), BadReply::Empty);
    assert_eq!(bad(r#"{"candidates":[{"content":{"role":"model"}}]}"#), BadReply::Empty);
    assert_eq!(bad("{}"), BadReply::Empty);
    for body in [r#"{"error":{"message":"no key"}}"#, r#"[{"error":{"message":"no key"}}]"#] {
        assert!(matches!(bad(body), BadReply::Error(error) if error.message == "no key"), "{body}");
    }
    let legal = answer_of(&json!({"candidates": [{"finishReason": "STOP"}]})).unwrap();
    assert_eq!(legal.choices, [Choice { stop: Some(Stop::End), ..Choice::default() }]);
}

#[test]
fn a_prompt_that_was_held_back_is_a_filtered_answer() {
    let body = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7}});
    let answer = answer_of(&body).unwrap();
    assert_eq!(answer.choices, [Choice { stop: Some(Stop::Filter), ..Choice::default() }]);
    assert_eq!(answer.usage, Some(Usage { input: 7, ..Usage::default() }));
}

#[test]
fn parts_are_told_by_what_they_are() {
    let parts = json!([
        {"text": "h", "thought": true},
        {"text": "m", "thought": true, "thoughtSignature": "s1"},
        {"text": "fo"}, {"text": "ur", "thoughtSignature": "s2"},
        {"functionCall": {"id": "c", "name": "f", "args": {"q": 1}}, "thoughtSignature": "s3"},
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
    ]);
    let body = json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "modelVersion": "gemini-x", "responseId": "r",
    });
    let answer = answer_of(&body).unwrap();
    let said = &answer.choices[0].parts;
    assert_eq!(said[0], Part::Thought { text: "hm".to_owned(), signature: Some("s1".to_owned()) });
    assert_eq!(said[1], Part::text("four"));
    assert_eq!(said[2], Part::Thought { text: String::new(), signature: Some("s2".to_owned()) });
    assert!(matches!(&said[3], Part::ToolCall(call) if call.signature.as_deref() == Some("s3")));
    assert!(matches!(&said[4], Part::Media(_)));
    assert_eq!(said.len(), 5);
    assert_eq!((answer.id.as_str(), answer.model.as_str()), ("r", "gemini-x"));
    // Written and read again, it is the same.
    assert_eq!(read_answer(&write_answer(&answer, &STAMP)), Ok(answer));
}

/// Case B083.
#[test]
fn choices_are_told_apart_by_their_index() {
    let said = |text: &str, index: Option<u32>| {
        let content = json!({"parts": [{"text": text}], "role": "model"});
        json!({"content": content, "finishReason": "STOP", "index": index})
    };
    let answer = answer_of(&json!({"candidates": [said("B", Some(1)), said("A", Some(0))]})).unwrap();
    let texts: Vec<_> = answer.choices.iter().map(|choice| choice.parts[0].clone()).collect();
    assert_eq!(texts, [Part::text("A"), Part::text("B")]);
    let unnamed = answer_of(&json!({"candidates": [said("A", None), said("B", None)]})).unwrap();
    assert_eq!(unnamed.choices.len(), 2);
    assert_eq!(answer_of(&json!({"candidates": [said("A", Some(999))]})), Err(BadReply::Malformed));
}

#[test]
fn answers_are_written_for_callers() {
    let call = |arguments: &str| {
        let (id, name, arguments) = ("c".to_owned(), "f".to_owned(), arguments.to_owned());
        Part::ToolCall(ToolCall { id, name, arguments, signature: None, cache: false })
    };
    let choice = |parts, stop| Choice { parts, stop: Some(stop), logprobs: None };
    let answer = Answer {
        choices: vec![
            choice(vec![Part::Refusal { text: "no".to_owned() }], Stop::Filter),
            choice(vec![call("{\"a\":1}")], Stop::Tools),
            choice(vec![call("{\"a\":")], Stop::Tools),
            choice(vec![Part::SealedThought { data: "x".to_owned() }], Stop::Pause),
        ],
        usage: Some(Usage { input: 2, output: 3, thinking: Some(1), ..Usage::default() }),
        ..Answer::default()
    };
    let body: Value = serde_json::from_slice(&write_answer(&answer, &STAMP)).unwrap();
    let candidates = &body["candidates"];
    let content = |part: Value| json!({"parts": [part], "role": "model"});
    assert_eq!(
        candidates[0],
        json!({"content": content(json!({"text": "no"})), "finishReason": "SAFETY", "index": 0})
    );
    let part = json!({"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}});
    assert_eq!(candidates[1], json!({"content": content(part), "finishReason": "STOP", "index": 1}));
    assert_eq!(candidates[2]["finishReason"], "MALFORMED_FUNCTION_CALL");
    assert_eq!(candidates[2]["finishMessage"], "{\"a\":", "what the model wrote is not lost");
    assert_eq!(candidates[3]["content"], content(json!({"text": ""})));
    assert_eq!(
        (&candidates[3]["finishReason"], &candidates[3]["finishMessage"]),
        (&json!("OTHER"), &json!("pause_turn"))
    );
    assert_eq!(body["usageMetadata"]["candidatesTokenCount"], 2);
    assert_eq!((&body["responseId"], &body["modelVersion"]), (&json!("resp-1"), &json!("m")));
}
