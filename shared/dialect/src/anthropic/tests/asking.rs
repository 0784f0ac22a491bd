use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::canon::{
    Effort, Format, Media, MediaKind, Sampling, Schema, Source, Thinking, Tool, ToolCall, ToolChoice,
    ToolResult,
};

fn called(id: &str, name: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        signature: None,
        cache: false,
    })
}

fn given(id: &str, parts: Vec<Part>, failed: Option<bool>) -> Part {
    Part::ToolResult(ToolResult { id: id.to_owned(), name: "f".to_owned(), parts, failed, cache: false })
}

fn tool(name: &str) -> Tool {
    Tool { name: name.to_owned(), description: None, schema: None, strict: None, cache: false }
}

fn media(kind: MediaKind, source: Source, media_type: Option<&str>) -> Part {
    let media_type = media_type.map(str::to_owned);
    Part::Media(Media { kind, source, media_type, name: None, detail: None, cache: false })
}

/// Case B036.
#[test]
fn no_arguments_are_an_empty_object_and_wrong_ones_are_refused() {
    let with = |arguments: &str| {
        call_of(vec![
            turn(Role::User, vec![Part::text("go")]),
            turn(Role::Assistant, vec![called("c", "snooze", arguments)]),
            turn(Role::User, vec![given("c", vec![], None)]),
        ])
    };
    for blank in ["", "  \n", "{}"] {
        assert_eq!(written(&with(blank))["messages"][1]["content"][0]["input"], json!({}), "{blank:?}");
    }
    for wrong in ["{", "[1]", "7"] {
        let refused = sent(&with(wrong)).unwrap_err();
        assert!(refused.message.contains("`snooze`"), "{refused}");
    }
}

/// Case B037.
#[test]
fn results_of_parallel_calls_are_one_message_before_what_the_user_says() {
    let call = call_of(vec![
        turn(Role::User, vec![Part::text("go")]),
        turn(Role::Assistant, vec![called("c1", "f", "{}"), called("c2", "f", "{}")]),
        turn(Role::User, vec![Part::text("go on"), given("c2", vec![Part::text("B")], None)]),
        turn(Role::User, vec![given("c1", vec![Part::text("A")], None)]),
    ]);
    let messages = written(&call)["messages"].clone();
    let use_of = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
    let result = |id: &str, said: &str| json!({"type": "tool_result", "tool_use_id": id, "content": said});
    assert_eq!(
        messages,
        json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [use_of("c1"), use_of("c2")]},
            {"role": "user", "content": [result("c2", "B"), result("c1", "A"), {"type": "text", "text": "go on"}]},
        ])
    );
}

/// Cases B038 and B040.
#[test]
fn the_choice_of_a_tool_keeps_its_meaning() {
    let with = |choice, parallel| Call {
        tools: vec![tool("sum"), tool("mul"), tool("div")],
        tool_choice: choice,
        parallel_tools: parallel,
        ..asking()
    };
    let choice = |choice, parallel| written(&with(choice, parallel))["tool_choice"].clone();
    let named = |names: &[&str]| Some(ToolChoice::Named(names.iter().map(ToString::to_string).collect()));
    assert_eq!(choice(Some(ToolChoice::None), Some(false)), json!({"type": "none"}));
    assert_eq!(choice(named(&["sum"]), None), json!({"type": "tool", "name": "sum"}));
    assert_eq!(
        choice(Some(ToolChoice::Any), Some(false)),
        json!({"type": "any", "disable_parallel_tool_use": true})
    );
    assert_eq!(choice(None, Some(false)), json!({"type": "auto", "disable_parallel_tool_use": true}));
    assert_eq!(choice(None, None), Value::Null);
    let several = written(&with(named(&["sum", "div"]), None));
    assert_eq!(several["tool_choice"], json!({"type": "any"}));
    assert_eq!(several["tools"].as_array().unwrap().len(), 2);
    assert_eq!(several["tools"][0]["input_schema"], json!({"type": "object", "properties": {}}));
    let none = Call { tool_choice: Some(ToolChoice::Any), ..asking() };
    assert_eq!(sent(&none).unwrap_err().param, "tool_choice");
    let idle = Call { tool_choice: Some(ToolChoice::Auto), parallel_tools: Some(true), ..asking() };
    assert_eq!(written(&idle)["tool_choice"], Value::Null, "the API refuses a choice among no tools");
}

/// Case B041.
#[test]
fn a_call_and_its_result_are_respelt_alike() {
    let call = call_of(vec![
        turn(Role::User, vec![Part::text("go")]),
        turn(Role::Assistant, vec![called("fs.read:0", "f", "{}")]),
        turn(Role::User, vec![given("fs.read:0", vec![], None)]),
    ]);
    let messages = written(&call)["messages"].clone();
    let id = messages[1]["content"][0]["id"].as_str().unwrap();
    assert_eq!(messages[2]["content"][0]["tool_use_id"], id);
    assert_ne!(id, "fs.read:0");
}

/// Case B046.
#[test]
fn media_of_results_and_their_failure_arrive() {
    let image = media(MediaKind::Image, Source::Bytes(vec![1, 2].into()), Some("image/png"));
    let url = media(MediaKind::Image, Source::Url("https://i.test/a.png".to_owned()), None);
    let call = call_of(vec![
        turn(Role::User, vec![Part::text("go")]),
        turn(Role::Assistant, vec![called("t1", "f", "{}")]),
        turn(Role::User, vec![given("t1", vec![Part::text("shot"), image, url], Some(true))]),
    ]);
    let body = written(&call);
    let result = &body["messages"][2]["content"][0];
    assert_eq!(result["is_error"], true);
    assert_eq!(
        result["content"],
        json!([
            {"type": "text", "text": "shot"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AQI="}},
            {"type": "image", "source": {"type": "url", "url": "https://i.test/a.png"}},
        ])
    );
    let mut back = body;
    back["max_tokens"] = json!(9);
    assert_eq!(read(&back).unwrap().turns, call.turns);
}

/// Case B052.
#[test]
fn instructions_within_the_conversation_join_those_before_it_and_are_told() {
    let call = Call {
        system: vec![Part::text("Be brief")],
        ..call_of(vec![
            turn(Role::User, vec![Part::text("hi")]),
            turn(Role::System, vec![Part::text("You are Q")]),
            turn(Role::User, vec![Part::text("go on")]),
        ])
    };
    let (body, told) = sent(&call).unwrap();
    assert_eq!(
        body["system"],
        json!([{"type": "text", "text": "Be brief"}, {"type": "text", "text": "You are Q"}])
    );
    assert_eq!(body["messages"].as_array().unwrap().len(), 1);
    assert!(told[0].starts_with("messages[].role ("), "{told:?}");
    let alone = Call { system: vec![Part::text("Be brief")], ..call_of(vec![]) };
    assert!(sent(&alone).is_err(), "no filler turn is invented");
}

/// Case B054.
#[test]
fn adjacent_turns_of_one_speaker_are_one_message_with_all_parts() {
    let image = media(MediaKind::Image, Source::Bytes(vec![1].into()), Some("image/png"));
    let marked = Part::Text { text: "a".to_owned(), cache: true };
    let call = call_of(vec![
        turn(Role::User, vec![marked]),
        turn(Role::User, vec![Part::text("b"), image]),
        turn(Role::Assistant, vec![Part::text("c")]),
        turn(Role::Assistant, vec![Part::text("d")]),
        turn(Role::User, vec![Part::text("e")]),
    ]);
    let messages = written(&call)["messages"].clone();
    let kinds = |index: usize| -> Vec<_> {
        let blocks = messages[index]["content"].as_array().unwrap();
        blocks.iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (kinds(0), kinds(1)),
        (vec!["text".to_owned(), "text".into(), "image".into()], vec!["text".to_owned(); 2])
    );
    assert_eq!(messages[0]["content"][0]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(messages[2], json!({"role": "user", "content": "e"}));
}

/// Case B055.
#[test]
fn empty_texts_make_no_block() {
    for empty in ["", "  \n"] {
        let call = call_of(vec![
            turn(Role::User, vec![Part::text("go")]),
            turn(Role::Assistant, vec![Part::text(empty), called("c1", "f", "{}")]),
            turn(Role::User, vec![given("c1", vec![Part::text("A")], None)]),
            turn(Role::Assistant, vec![Part::text(empty)]),
            turn(Role::User, vec![Part::text("on")]),
        ]);
        let messages = written(&call)["messages"].clone();
        assert_eq!(messages[1]["content"].as_array().unwrap().len(), 1);
        assert_eq!(messages.as_array().unwrap().len(), 3, "a turn that says nothing is left out");
    }
    let nothing = call_of(vec![turn(Role::User, vec![Part::text(" ")])]);
    assert!(sent(&nothing).is_err(), "nothing can be answered");
}

/// Case B057.
#[test]
fn every_block_arrives_or_is_refused_by_its_place() {
    let body = json!({"model": "m", "max_tokens": 5, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "web_search_tool_result"}]},
    ]});
    assert_eq!(read(&body).unwrap_err().param, "messages[0].content[1].type");
    let body = json!({"model": "m", "max_tokens": 5, "tools": [{"type": "web_search_20250305", "name": "web_search"}],
        "messages": [{"role": "user", "content": "x"}]});
    assert_eq!(read(&body).unwrap_err().param, "tools[0].type");
}

/// Case B058.
#[test]
fn media_keep_their_own_type() {
    let sent_as = |part: Part| sent(&call_of(vec![turn(Role::User, vec![part])]));
    let source = |part| sent_as(part).unwrap().0["messages"][0]["content"][0]["source"].clone();
    let webp = STANDARD.decode("UklGRgAAAABXRUJQ").unwrap();
    for media_type in [Some("image/webp"), Some("IMAGE/WEBP"), None] {
        let image = media(MediaKind::Image, Source::Bytes(webp.clone().into()), media_type);
        assert_eq!(
            source(image),
            json!({"type": "base64", "media_type": "image/webp", "data": "UklGRgAAAABXRUJQ"})
        );
    }
    assert!(sent_as(media(MediaKind::Image, Source::Bytes(vec![1].into()), None)).is_err());
    let file = |bytes: &[u8], kind| media(MediaKind::File, Source::Bytes(bytes.to_vec().into()), kind);
    assert_eq!(source(file(b"%PDF-1", None))["media_type"], "application/pdf");
    let plain = json!({"type": "text", "media_type": "text/plain", "data": "a,b"});
    assert_eq!(source(file(b"a,b", Some("text/csv"))), plain);
    assert!(sent_as(file(b"PK\xff", Some("application/zip"))).is_err());
    assert!(sent_as(media(MediaKind::Audio, Source::Bytes(vec![1].into()), None)).is_err());
    assert!(sent_as(media(MediaKind::File, Source::Stored("file-1".to_owned()), None)).is_err());
}

/// Case B064.
#[test]
fn blank_stops_are_left_out_and_told() {
    let with = |stops: &[&str]| Call { stops: stops.iter().map(ToString::to_string).collect(), ..asking() };
    let (body, told) = sent(&with(&["\n", "END", ""])).unwrap();
    assert_eq!(body["stop_sequences"], json!(["END"]));
    assert!(told[0].starts_with("stop ("), "{told:?}");
    let (body, told) = sent(&with(&["\n\n"])).unwrap();
    assert_eq!((body.get("stop_sequences"), told.len()), (None, 1));
}

/// Case B066, and B081 and B083 on this API's side.
#[test]
fn a_promise_that_cannot_be_kept_is_refused() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false});
    let format = Format::Schema(Schema {
        name: "n".to_owned(),
        description: Some("d".to_owned()),
        schema: schema.clone(),
        strict: Some(true),
    });
    let mut described = schema;
    described["description"] = json!("d");
    assert_eq!(
        written(&Call { format, ..asking() })["output_config"],
        json!({"format": {"type": "json_schema", "schema": described}})
    );
    assert_eq!(sent(&Call { format: Format::Json, ..asking() }).unwrap_err().param, "response_format");
    assert_eq!(sent(&Call { answers: 2, ..asking() }).unwrap_err().param, "n");
    assert!(sent(&Call { logprobs: Some(2), ..asking() }).is_err());
}

#[test]
fn what_the_api_cannot_draw_by_is_told() {
    let sampling = Sampling {
        temperature: serde_json::Number::from_f64(1.7),
        top_p: Some(1.into()),
        seed: Some(7.into()),
        presence_penalty: Some(0.into()),
        ..Sampling::default()
    };
    let (body, told) = sent(&Call { sampling, service_tier: Some("flex".to_owned()), ..asking() }).unwrap();
    assert_eq!((&body["temperature"], body.get("top_p")), (&json!(1), None));
    assert_eq!(told.len(), 3, "{told:?}");
    for (told, field) in told.iter().zip(["temperature", "seed", "service_tier"]) {
        assert!(told.starts_with(field), "{told}");
    }
}

#[test]
fn a_call_without_a_cap_gets_the_models_own_or_is_refused() {
    assert_eq!(written(&asking())["max_tokens"], 64_000);
    assert_eq!(written(&Call { max_tokens: Some(5), ..asking() })["max_tokens"], 5);
    assert_eq!(sent_to(&asking(), Target::default()).unwrap_err().param, "max_tokens");
}

#[test]
fn a_count_is_asked_without_what_it_does_not_depend_on() {
    let call = Call {
        max_tokens: Some(5),
        stream: true,
        user: Some("u".to_owned()),
        thinking: Some(Thinking::Effort(Effort::High)),
        format: Format::Json,
        tools: vec![tool("f")],
        ..asking()
    };
    let mut losses = Losses::of(CHAT);
    let body: Value =
        serde_json::from_slice(&write_count(&call, Target::default(), &mut losses).unwrap()).unwrap();
    let names: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["messages", "model", "output_config", "thinking", "tools"]);
    assert!(losses.is_empty());
    let read = read_count(body.to_string().as_bytes(), &mut losses).unwrap();
    assert_eq!((read.turns, read.max_tokens), (call.turns, None));
    assert!(read_call(body.to_string().as_bytes(), &mut losses).is_err(), "an answer needs a cap");
}

#[test]
fn bodies_that_are_none_are_refused_with_their_place() {
    let refused = |body: Value| read(&body).unwrap_err().param;
    let with = |messages: Value| json!({"model": "m", "max_tokens": 5, "messages": messages});
    assert_eq!(refused(with(json!([]))), "messages");
    assert_eq!(refused(with(json!([{"role": "tool", "content": "x"}]))), "messages[0].role");
    assert_eq!(refused(with(json!([{"role": "user", "content": ""}]))), "messages[0].content");
    assert_eq!(refused(with(json!([{"role": "user", "content": 7}]))), "messages[0].content");
    let mut zero = with(json!([{"role": "user", "content": "x"}]));
    zero["max_tokens"] = json!(0);
    assert_eq!(refused(zero), "max_tokens");
    let deep =
        format!("{{\"model\":\"m\",\"max_tokens\":1,\"messages\":{}{}}}", "[".repeat(500), "]".repeat(500));
    assert!(read_call(deep.as_bytes(), &mut Losses::of(field)).is_err());
}
