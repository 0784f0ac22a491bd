use serde_json::json;

use super::*;
use crate::canon::{
    Effort, Format, Media, MediaKind, Part, Role, Source, Stop, Thinking, ToolChoice, ToolResult, Turn,
};

fn asked(messages: Value) -> Result<Call, Unfit> {
    read(&json!({"model": "m", "messages": messages}))
}

fn image(media_type: &str, bytes: &'static [u8]) -> Part {
    Part::Media(Media {
        kind: MediaKind::Image,
        source: Source::Bytes(bytes.into()),
        media_type: Some(media_type.to_owned()),
        name: None,
        detail: None,
        cache: false,
    })
}

/// Case B052.
#[test]
fn instructions_before_the_conversation_keep_their_order() {
    let call = asked(json!([
        {"role": "developer", "content": "Be brief"},
        {"role": "system", "content": "You are Q"},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "now"},
    ]))
    .unwrap();
    assert_eq!(call.system, [Part::text("Be brief"), Part::text("You are Q")]);
    let roles: Vec<_> = call.turns.iter().map(|turn| turn.role).collect();
    assert_eq!(roles, [Role::User, Role::System]);
}

/// Case B037.
#[test]
fn results_of_one_turns_calls_become_one_turn() {
    let call = asked(json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}},
        ]},
        {"role": "tool", "tool_call_id": "c2", "content": "B"},
        {"role": "tool", "tool_call_id": "c1", "content": "A"},
        {"role": "user", "content": "go on"},
    ]))
    .unwrap();
    let result = |id: &str, name: &str, text: &str| {
        let parts = vec![Part::text(text)];
        Part::ToolResult(ToolResult {
            id: id.to_owned(),
            name: name.to_owned(),
            parts,
            failed: None,
            cache: false,
        })
    };
    assert_eq!(call.turns[2].parts, [result("c2", "g", "B"), result("c1", "f", "A")]);
    assert_eq!(call.turns[3].parts, [Part::text("go on")]);
}

/// Case B036.
#[test]
fn no_arguments_are_an_empty_object_and_broken_ones_the_callers_fault() {
    let with = |arguments: &str| {
        let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}});
        asked(json!([{"role": "assistant", "tool_calls": [call]}]))
    };
    for blank in ["", " \n", "{}"] {
        let Part::ToolCall(call) = with(blank).unwrap().turns[0].parts[0].clone() else { panic!() };
        assert_eq!(call.arguments, "{}");
    }
    let error = with("{\"a\":").unwrap_err();
    assert_eq!(error.param, "messages[0].tool_calls[0].function.arguments");
    assert!(with("[1]").is_err());
}

/// Case B055.
#[test]
fn blank_texts_beside_calls_vanish_and_so_do_turns_that_say_nothing() {
    let calls = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    for content in [json!(""), json!(null), json!("  \n")] {
        let call = asked(json!([{"role": "assistant", "content": content, "tool_calls": calls}])).unwrap();
        assert_eq!(call.turns[0].parts.len(), 1);
        assert!(asked(json!([{"role": "assistant", "content": content}])).unwrap().turns.is_empty());
    }
}

/// Cases B057 and B058.
#[test]
fn lists_of_parts_are_read_whole_and_data_urls_taken_apart() {
    let url = |url: &str| {
        let parts =
            json!([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url}}]);
        asked(json!([{"role": "user", "content": parts}]))
    };
    let parts = |address: &str| url(address).unwrap().turns[0].parts.clone();
    assert_eq!(parts("data:image/webp;base64,UklGRg=="), [Part::text("look"), image("image/webp", b"RIFF")]);
    assert_eq!(parts("data:image/png;charset=utf-8;base64,UklGRg==")[1], image("image/png", b"RIFF"));
    assert_eq!(parts("DATA:IMAGE/PNG;BASE64,UklGRg==")[1], image("image/png", b"RIFF"));
    let Part::Media(Media { source: Source::Url(kept), .. }) = parts("https://a.test/x.png")[1].clone()
    else {
        panic!()
    };
    assert_eq!(kept, "https://a.test/x.png");
    for broken in ["data:image/png,raw", "data:;base64,AA==", "data:image/png;base64,!!"] {
        assert_eq!(url(broken).unwrap_err().param, "messages[0].content[1].image_url.url", "{broken}");
    }
    let unknown = asked(json!([{"role": "user", "content": [{"type": "hologram"}]}])).unwrap_err();
    assert_eq!(unknown.param, "messages[0].content[0].type");
}

/// Case B063.
#[test]
fn one_cap_reaches_the_target_by_the_name_it_takes() {
    let call = |fields: Value| {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        read(&body)
    };
    for fields in [json!({"max_tokens": 50}), json!({"max_completion_tokens": 50})] {
        let call = call(fields).unwrap();
        assert_eq!(written(&call)["max_tokens"], 50);
        let new = write_call(&call, CapField::MaxCompletionTokens, &mut Losses::of(field)).unwrap();
        let new: Value = serde_json::from_slice(&new).unwrap();
        assert_eq!((&new["max_completion_tokens"], &new["max_tokens"]), (&json!(50), &Value::Null));
    }
    assert!(call(json!({"max_tokens": 50, "max_completion_tokens": 60})).is_err());
}

#[test]
fn choices_of_tools_are_read_and_written() {
    let tools: Vec<_> =
        ["f", "g", "h"].iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect();
    let with = |choice: Value| {
        let messages = json!([{"role": "user", "content": "x"}]);
        read(&json!({"model": "m", "messages": messages, "tools": tools, "tool_choice": choice})).unwrap()
    };
    let back = |choice: Value| written(&with(choice))["tool_choice"].clone();
    for choice in [
        json!("none"),
        json!("auto"),
        json!("required"),
        json!({"type": "function", "function": {"name": "f"}}),
    ] {
        assert_eq!(back(choice.clone()), choice);
    }
    let allowed = |mode: &str| json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [tools[0], tools[2]]}});
    let some = with(allowed("required"));
    assert_eq!(some.tool_choice, Some(ToolChoice::Named(vec!["f".to_owned(), "h".to_owned()])));
    let body = written(&some);
    assert_eq!((body["tools"].as_array().unwrap().len(), &body["tool_choice"]), (2, &json!("required")));
    assert_eq!(with(allowed("auto")).tools.len(), 2);
}

#[test]
fn what_another_api_has_not_is_refused_by_name_and_what_nobody_knows_is_declared() {
    let messages = json!([{"role": "user", "content": "x", "mood": 1}]);
    let mut losses = Losses::of(field);
    let body = json!({"model": "m", "messages": messages, "store": true, "seed": 3, "vendor": {"a": 1},
        "reasoning_effort": "xhigh", "response_format": {"type": "json_object"}});
    let call = read_call(body.to_string().as_bytes(), &mut losses).unwrap();
    assert_eq!((call.thinking, call.format), (Some(Thinking::Effort(Effort::Max)), Format::Json));
    let told: Vec<_> = losses.told().iter().map(|loss| loss.path.as_str()).collect();
    assert_eq!(told, ["messages[0].mood", "store", "vendor"]);
    for (name, value) in [
        ("web_search_options", json!({})),
        ("audio", json!({"voice": "a"})),
        ("modalities", json!(["text", "audio"])),
    ] {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
        body[name] = value;
        assert_eq!(read(&body).unwrap_err().param, name);
    }
    let custom = json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [{"type": "web_search"}]});
    assert_eq!(read(&custom).unwrap_err().param, "tools[0].type");
}

/// Case B046.
#[test]
fn images_of_a_tools_result_follow_it_and_a_failure_is_told() {
    let parts = vec![Part::text("shot"), image("image/png", b"png")];
    let result =
        ToolResult { id: "t1".to_owned(), name: "see".to_owned(), parts, failed: Some(true), cache: true };
    let turn =
        Turn { role: Role::User, name: None, parts: vec![Part::ToolResult(result), Part::text("so?")] };
    let call = Call { model: "m".to_owned(), turns: vec![turn], ..Call::default() };
    let mut losses =
        Losses::of(|facet| if facet == crate::canon::Facet::CacheMark { "cache_control" } else { "" });
    let body: Value =
        serde_json::from_slice(&write_call(&call, CapField::MaxTokens, &mut losses).unwrap()).unwrap();
    let messages = json!([
        {"role": "tool", "tool_call_id": "t1", "content": "error: shot"},
        {"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
            {"type": "text", "text": "so?"},
        ]},
    ]);
    assert_eq!(body["messages"], messages);
    assert_eq!(losses.told()[0].path, "cache_control");
}

/// Cases B028 and B069.
#[test]
fn answers_are_read_with_their_odd_shapes() {
    let answer = |choice: Value| {
        let body = json!({"id": "x", "model": "u", "created": 3, "choices": [choice],
            "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}});
        read_answer(body.to_string().as_bytes()).unwrap()
    };
    let plain = answer(json!({"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "done", "tool_calls": []}}));
    assert_eq!(plain.choices[0].parts, [Part::text("done")]);
    assert_eq!((plain.choices[0].stop.clone(), plain.usage.unwrap().cached), (Some(Stop::End), Some(4)));
    let called =
        answer(json!({"finish_reason": "stop", "message": {"content": null, "reasoning_content": "hm",
        "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}}));
    assert_eq!(called.choices[0].stop, Some(Stop::Tools));
    let body: Value = serde_json::from_slice(&write_answer(&called, &STAMP)).unwrap();
    let message = json!({"role": "assistant", "content": null, "refusal": null, "reasoning_content": "hm",
        "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "hm"}],
        "tool_calls": [{"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]});
    assert_eq!(body["choices"][0]["message"], message);
    let odd = answer(json!({"finish_reason": "SOMETHING_NEW", "message": {"content": "x"}}));
    let body: Value = serde_json::from_slice(&write_answer(&odd, &STAMP)).unwrap();
    let choice = &body["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["native_finish_reason"]),
        (&json!("stop"), &json!("SOMETHING_NEW"))
    );
}

/// Cases B047 and B049.
#[test]
fn thoughts_come_back_as_they_were_given() {
    let parts = vec![
        Part::Thought { text: "hm".to_owned(), signature: Some("S1".to_owned()) },
        Part::SealedThought { data: "ENC==".to_owned() },
        Part::text("so"),
    ];
    let choice = crate::canon::Choice { parts: parts.clone(), stop: Some(Stop::End), logprobs: None };
    let answer = crate::canon::Answer { choices: vec![choice], ..Default::default() };
    let body: Value = serde_json::from_slice(&write_answer(&answer, &STAMP)).unwrap();
    let replayed = asked(json!([{"role": "user", "content": "x"}, body["choices"][0]["message"]])).unwrap();
    assert_eq!(replayed.turns[1].parts, parts);
}
