//! Requests, in both directions.

use serde_json::json;

use super::*;
use crate::canon::{
    Effort, Facet, Format, Media, MediaKind, Part, Role, Schema, Source, Thinking, Tool, ToolCall,
    ToolChoice, ToolResult, Turn,
};

fn turn(role: Role, parts: Vec<Part>) -> Turn {
    Turn { role, name: None, parts }
}

fn user(text: &str) -> Turn {
    turn(Role::User, vec![Part::text(text)])
}

fn asked(turns: Vec<Turn>) -> Call {
    Call { model: "m".to_owned(), turns, answers: 1, ..Call::default() }
}

fn tool(name: &str) -> Tool {
    let schema = Some(json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
    Tool { name: name.to_owned(), description: None, schema, strict: None, cache: false }
}

fn tool_call(id: &str, name: &str, arguments: &str) -> Part {
    let (id, name, arguments) = (id.to_owned(), name.to_owned(), arguments.to_owned());
    Part::ToolCall(ToolCall { id, name, arguments, signature: None, cache: false })
}

fn tool_result(id: &str, parts: Vec<Part>, failed: Option<bool>) -> Part {
    Part::ToolResult(ToolResult { id: id.to_owned(), name: String::new(), parts, failed, cache: false })
}

fn image(source: Source) -> Part {
    let media_type = Some("image/png".to_owned());
    Part::Media(Media { kind: MediaKind::Image, source, media_type, name: None, detail: None, cache: false })
}

/// Case B052: all instructions come before the conversation, in order.
#[test]
fn instructions_are_no_contents() {
    let mut call = asked(vec![user("hi"), turn(Role::System, vec![Part::text("Now in French.")])]);
    call.system = vec![Part::text("Be brief"), Part::text("You are Q")];
    let body = written(&call);
    let texts = json!({"parts": [{"text": "Be brief"}, {"text": "You are Q"}, {"text": "Now in French."}]});
    assert_eq!(body["systemInstruction"], texts);
    assert_eq!(body["contents"], json!([{"role": "user", "parts": [{"text": "hi"}]}]));
    let alone = Call { turns: Vec::new(), ..call };
    let error = write_call(&alone, Target::default(), &mut Losses::of(|_facet| "messages")).unwrap_err();
    assert_eq!(error.param, "messages");
}

/// Case B054: turns of one speaker become one, and their parts stay apart and in order.
#[test]
fn turns_alternate() {
    let second = turn(Role::User, vec![Part::text("b"), image(Source::Bytes(b"\x89PNG"[..].into()))]);
    let said = |text: &str| turn(Role::Assistant, vec![Part::text(text)]);
    let body = written(&asked(vec![user("a"), second, said("c"), said("d"), user("e")]));
    let expected = json!([
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"},
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}]},
        {"role": "model", "parts": [{"text": "c"}, {"text": "d"}]},
        {"role": "user", "parts": [{"text": "e"}]},
    ]);
    assert_eq!(body["contents"], expected);
}

/// Cases B038 and B040.
#[test]
fn each_choice_among_tools_has_its_mode() {
    let config = |choice: Option<ToolChoice>, tools: Vec<Tool>| {
        let call = Call { tool_choice: choice, tools, ..asked(vec![user("a")]) };
        written(&call).get("toolConfig").map(|config| config["functionCallingConfig"].clone())
    };
    let named =
        |names: &[&str]| Some(ToolChoice::Named(names.iter().map(|name| (*name).to_owned()).collect()));
    for (choice, expected) in [
        (None, None),
        (Some(ToolChoice::Auto), Some(json!({"mode": "AUTO"}))),
        (Some(ToolChoice::None), Some(json!({"mode": "NONE"}))),
        (Some(ToolChoice::Any), Some(json!({"mode": "ANY"}))),
        (named(&["f"]), Some(json!({"mode": "ANY", "allowedFunctionNames": ["f"]}))),
        (named(&["f", "g"]), Some(json!({"mode": "ANY", "allowedFunctionNames": ["f", "g"]}))),
    ] {
        assert_eq!(config(choice.clone(), vec![tool("f"), tool("g")]), expected);
        assert_eq!(config(choice, vec![]), None, "no tools, no choice");
    }
    let strict = Tool { strict: Some(true), ..tool("f") };
    assert_eq!(config(None, vec![strict.clone()]), Some(json!({"mode": "VALIDATED"})));
    assert_eq!(config(Some(ToolChoice::Any), vec![strict]), Some(json!({"mode": "ANY"})));
}

/// Case B036: no arguments are an empty object, and what is no object is refused before any call.
#[test]
fn arguments_are_an_object() {
    let call = |arguments: &str| {
        let called = turn(Role::Assistant, vec![tool_call("c1", "snooze", arguments)]);
        let result = turn(Role::User, vec![tool_result("c1", vec![Part::text("ok")], None)]);
        asked(vec![user("a"), called, result])
    };
    for blank in ["", "  ", "{}"] {
        let part = &written(&call(blank))["contents"][1]["parts"][0];
        assert_eq!(part["functionCall"], json!({"id": "c1", "name": "snooze", "args": {}}));
    }
    for bad in ["{\"a\":", "[]", "7"] {
        let refused = write_call(&call(bad), Target::default(), &mut Losses::of(field)).unwrap_err();
        assert_eq!(refused.param, "tools");
    }
    let body = json!({"contents": [{"role": "model", "parts": [{"functionCall": {"name": "f"}}]}]});
    let parts = &read(&body).unwrap().turns[0].parts;
    assert!(matches!(&parts[0], Part::ToolCall(call) if call.arguments == "{}"));
}

/// Case B043: results come in the order of their calls, by their calls' names.
#[test]
fn results_find_their_call() {
    let calls = vec![tool_call("x", "w", "{\"c\":\"A\"}"), tool_call("y", "w", "{\"c\":\"B\"}")];
    let result = |id: &str, text: &str| tool_result(id, vec![Part::text(text)], None);
    let turns = vec![
        user("a"),
        turn(Role::Assistant, calls),
        turn(Role::User, vec![result("y", "of B"), Part::text("so?"), result("x", "of A")]),
    ];
    let call = asked(turns);
    let target = Target { no_ids: true, line: Line::Budgets, ..Target::default() };
    let expected = json!([
        {"functionResponse": {"name": "w", "response": {"output": "of A"}}},
        {"functionResponse": {"name": "w", "response": {"output": "of B"}}},
        {"text": "so?"},
    ]);
    let (body, _lost) = written_with(&call, target);
    assert_eq!(body["contents"][2]["parts"], expected);
    assert_eq!(body["contents"][1]["parts"][0]["functionCall"], json!({"name": "w", "args": {"c": "A"}}));
    // Read again without ids: two names, paired by order.
    let again = read(&body).unwrap();
    let ids = again.turns.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::ToolCall(call) => Some(call.id.as_str()),
        Part::ToolResult(result) => Some(result.id.as_str()),
        _other => None,
    });
    let ids: Vec<_> = ids.collect();
    assert_eq!(ids, ["call_1_0", "call_1_1", "call_1_0", "call_1_1"]);
    let orphan = asked(vec![turn(Role::User, vec![result("z", "?")])]);
    assert!(write_call(&orphan, target, &mut Losses::of(field)).is_err());
}

#[test]
fn callers_results_find_their_call_by_id_or_name() {
    let call = |id: Option<&str>| json!({"functionCall": {"id": id, "name": "w", "args": {}}});
    let result = |id: Option<&str>, text: &str| json!({"functionResponse": {"id": id, "name": "w", "response": {"r": text}}});
    let found = |calls: [Value; 2], results: [Value; 2]| {
        let contents = json!([{"role": "model", "parts": calls}, {"role": "function", "parts": results}]);
        let call = read(&json!({"contents": contents})).unwrap();
        let found = call.turns[1].parts.iter().map(|part| match part {
            Part::ToolResult(result) => result.id.clone(),
            other => panic!("{other:?}"),
        });
        found.collect::<Vec<_>>()
    };
    let given = [call(Some("a")), call(Some("b"))];
    assert_eq!(found(given.clone(), [result(Some("b"), "B"), result(Some("a"), "A")]), ["b", "a"]);
    assert_eq!(found(given, [result(None, "A"), result(Some("made up"), "B")]), ["a", "b"]);
    let orphan = json!({"contents": [{"role": "user", "parts": [result(None, "?")]}]});
    assert_eq!(read(&orphan).unwrap_err().param, "contents[0].parts[0].functionResponse");
}

/// Case B046: an image in a result stands beside it, and a failure is one.
#[test]
fn results_keep_their_media_and_their_failure() {
    let shot = vec![Part::text("shot"), image(Source::Bytes(b"\x89PNG"[..].into()))];
    let turns = vec![
        turn(Role::Assistant, vec![tool_call("t1", "look", "{}")]),
        turn(Role::User, vec![tool_result("t1", shot, Some(true))]),
    ];
    let parts = &written(&asked(turns))["contents"][1]["parts"];
    let response = json!({"id": "t1", "name": "look", "response": {"error": "shot"}});
    assert_eq!(parts[0]["functionResponse"], response);
    assert_eq!(parts[1]["inlineData"]["mimeType"], "image/png");
    let data = json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}});
    let given = json!({"name": "look", "response": {"error": {"code": 7}}, "parts": [data]});
    let body = json!({"contents": [
        {"role": "model", "parts": [{"functionCall": {"name": "look"}}]},
        {"role": "user", "parts": [{"functionResponse": given}]},
    ]});
    let Part::ToolResult(result) = &read(&body).unwrap().turns[1].parts[0] else { panic!() };
    assert_eq!(result.failed, Some(true));
    assert_eq!(result.parts[0], Part::text("{\"code\":7}"));
    assert!(matches!(&result.parts[1], Part::Media(media) if media.kind == MediaKind::Image));
}

/// Case B066: the shape that was promised binds.
#[test]
fn the_format_is_a_hard_constraint() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": false});
    let asked_for =
        Schema { name: "n".to_owned(), description: Some("numbers".to_owned()), schema, strict: Some(true) };
    let call = Call { format: Format::Schema(asked_for), ..asked(vec![user("a")]) };
    let config = written(&call)["generationConfig"].clone();
    assert_eq!(config["responseMimeType"], "application/json");
    assert_eq!(config["responseJsonSchema"]["required"], json!(["a"]));
    assert_eq!(config["responseJsonSchema"]["description"], "numbers");
    let (body, lost) = written_with(&call, Target { schemas: Schemas::Subset, ..Target::default() });
    let subset = json!({"type": "OBJECT", "description": "numbers", "required": ["a"],
        "properties": {"a": {"type": "INTEGER"}}});
    assert_eq!(body["generationConfig"]["responseSchema"], subset);
    assert_eq!(lost, Vec::<String>::new());
    let json = Call { format: Format::Json, ..asked(vec![user("a")]) };
    assert_eq!(written(&json)["generationConfig"], json!({"responseMimeType": "application/json"}));
    let config =
        json!({"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a"]}});
    let body = json!({"contents": [{"parts": {"text": "a"}}], "generationConfig": config});
    assert_eq!(read(&body).unwrap_err().param, "generationConfig.responseMimeType");
}

/// Case B083: several answers are asked for where they exist.
#[test]
fn several_answers_are_candidates() {
    let call = Call { answers: 2, ..asked(vec![user("a")]) };
    assert_eq!(written(&call)["generationConfig"]["candidateCount"], 2);
}

#[test]
fn thinking_is_said_as_the_line_of_models_takes_it() {
    let config = |thinking, line| {
        let call = Call { thinking: Some(thinking), ..asked(vec![user("a")]) };
        let (body, _lost) = written_with(&call, Target { line, ..Target::default() });
        let config = body["generationConfig"]["thinkingConfig"].clone();
        (config["thinkingLevel"].clone(), config["thinkingBudget"].clone())
    };
    let high = Thinking::Effort(Effort::High);
    assert_eq!(config(high, Line::Levels), (json!("HIGH"), Value::Null));
    assert_eq!(config(high, Line::Budgets), (Value::Null, json!(24_576)));
    assert_eq!(config(Thinking::Off, Line::Budgets), (Value::Null, json!(0)));
    assert_eq!(config(Thinking::Off, Line::Levels), (json!("MINIMAL"), Value::Null));
    assert_eq!(config(Thinking::Off, Line::TwoLevels), (json!("LOW"), Value::Null));
    assert_eq!(config(Thinking::Effort(Effort::Medium), Line::TwoLevels), (json!("HIGH"), Value::Null));
    assert_eq!(config(Thinking::Adaptive, Line::Levels), (Value::Null, json!(-1)));
    let read_config = |config: Value| {
        let body =
            json!({"contents": [{"parts": [{"text": "a"}]}], "generationConfig": {"thinkingConfig": config}});
        read(&body).map(|call| call.thinking)
    };
    assert_eq!(read_config(json!({"thinking_level": "low"})), Ok(Some(Thinking::Effort(Effort::Low))));
    assert_eq!(read_config(json!({"includeThoughts": true})), Ok(Some(Thinking::Adaptive)));
    assert_eq!(read_config(json!({"includeThoughts": false})), Ok(None));
    assert!(read_config(json!({"thinkingBudget": -2})).is_err());
    assert!(read_config(json!({"thinkingBudget": 1, "thinkingLevel": "LOW"})).is_err());
}

/// Models that take levels refuse a call of a tool without a signature.
#[test]
fn calls_that_another_model_made_are_let_through() {
    let calls = vec![tool_call("x", "w", "{}"), tool_call("y", "w", "{}")];
    let call = asked(vec![user("a"), turn(Role::Assistant, calls)]);
    let (body, _lost) = written_with(&call, Target::default());
    let parts = &body["contents"][1]["parts"];
    assert_eq!(parts[0]["thoughtSignature"], "skip_thought_signature_validator");
    assert_eq!(parts[1].get("thoughtSignature"), None);
    assert_eq!(written(&call)["contents"][1]["parts"][0].get("thoughtSignature"), None);
}

#[test]
fn signatures_stand_where_they_stood() {
    let parts = json!([
        {"text": "hm", "thought": true, "thoughtSignature": "s0"},
        {"text": "four", "thoughtSignature": "s1"},
        {"text": "", "thoughtSignature": "s2"},
        {"functionCall": {"id": "c", "name": "f", "args": {}}, "thoughtSignature": "s3"},
    ]);
    let contents = json!([{"role": "model", "parts": parts}]);
    let call = read(&json!({"contents": contents})).unwrap();
    assert_eq!(written(&call)["contents"], contents);
}

#[test]
fn what_another_provider_cannot_do_is_refused_by_its_name() {
    let with = |name: &str, value: Value| {
        let mut body = json!({"contents": [{"parts": [{"text": "a"}]}]});
        body[name] = value;
        read(&body).unwrap_err().param
    };
    assert_eq!(with("cachedContent", json!("cachedContents/a")), "cachedContent");
    assert_eq!(with("tools", json!([{"google_search": {}}])), "tools[0].googleSearch");
    assert_eq!(
        with("generationConfig", json!({"responseModalities": ["TEXT", "IMAGE"]})),
        "generationConfig.responseModalities"
    );
    let run = json!([{"role": "model", "parts": [{"executableCode": {"code": "1"}}]}]);
    assert_eq!(with("contents", run), "contents[0].parts[0].executableCode");
    assert_eq!(with("contents", json!([{"role": "system", "parts": []}])), "contents[0].role");
    assert_eq!(with("contents", json!([])), "contents");
}

#[test]
fn what_nobody_else_heeds_is_a_loss() {
    let body = json!({
        "contents": [{"parts": [{"text": "a", "videoMetadata": {"fps": 1}}]}],
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "generationConfig": {"speechConfig": {}, "mediaResolution": "MEDIA_RESOLUTION_LOW"},
        "newField": 1,
    });
    let mut losses = Losses::of(field);
    read_call("models/m", true, body.to_string().as_bytes(), &mut losses).unwrap();
    let lost: Vec<_> = losses.told().iter().map(ToString::to_string).collect();
    let expected = [
        "contents[0].parts[0].videoMetadata",
        "generationConfig.mediaResolution",
        "generationConfig.speechConfig",
        "safetySettings (the model's own settings hold)",
        "newField",
    ];
    assert_eq!(lost, expected);
}

/// Case B064: an empty text ends nothing; one of blanks is taken here.
#[test]
fn stops_are_bounded_and_never_empty() {
    let stops = |texts: &[&str]| Call {
        stops: texts.iter().map(|text| (*text).to_owned()).collect(),
        ..asked(vec![user("a")])
    };
    assert_eq!(
        written(&stops(&["\n", "END", ""]))["generationConfig"]["stopSequences"],
        json!(["\n", "END"])
    );
    assert_eq!(written(&stops(&[""])).get("generationConfig"), None);
    let refused =
        write_call(&stops(&["1", "2", "3", "4", "5", "6"]), Target::default(), &mut Losses::of(field));
    assert_eq!(refused.unwrap_err().param, field(Facet::Stops));
}

#[test]
fn what_another_provider_keeps_is_refused() {
    let stored = image(Source::Stored("file-abc".to_owned()));
    let call = asked(vec![turn(Role::User, vec![stored])]);
    let refused = write_call(&call, Target::default(), &mut Losses::of(field)).unwrap_err();
    assert_eq!(refused.param, field(Facet::StoredMedia));
}

#[test]
fn a_seed_fits() {
    let seed = |seed: u64| {
        let mut call = asked(vec![user("a")]);
        call.sampling.seed = Some(seed.into());
        written(&call)["generationConfig"]["seed"].clone()
    };
    assert_eq!(seed(7), 7);
    assert_eq!(seed((1 << 31) + 5), 5);
    assert_eq!(seed(u64::MAX), (1_u64 << 31) - 1);
}

#[test]
fn tokens_are_counted_of_the_whole_call() {
    let call = Call { system: vec![Part::text("s")], ..asked(vec![user("a")]) };
    let body = write_count(&call, Target::default(), &mut Losses::of(field)).unwrap();
    let whole: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(whole["generateContentRequest"]["model"], "models/m");
    let read = read_count("m", &body, &mut Losses::of(field)).unwrap();
    assert_eq!(read, call);
    let plain = br#"{"contents":[{"parts":[{"text":"a"}]}]}"#;
    assert_eq!(read_count("m", plain, &mut Losses::of(field)).unwrap().turns, call.turns);
    let vertex = Target { vertex: true, ..Target::default() };
    let body = write_count(&call, vertex, &mut Losses::of(field)).unwrap();
    assert_eq!(read_count("m", &body, &mut Losses::of(field)), Ok(call));
    assert_eq!(read_counted(&write_counted(31)), Ok(31));
    assert_eq!(read_counted(b"{}"), Ok(0));
    assert!(read_counted(b"[]").is_err() && read_counted(br#"{"totalTokens":-1}"#).is_err());
}

#[test]
fn too_deep_a_body_is_refused() {
    let deep = format!("{{\"contents\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let refused = read_call("m", false, deep.as_bytes(), &mut Losses::of(field)).unwrap_err();
    assert!(refused.message.contains("deeper"), "{refused}");
}
