use super::*;
use crate::canon::{Delta, Opening, Stop, Usage, spread};
use crate::openai::UpstreamError;

fn text(text: &str) -> Value {
    json!({"type": "text_delta", "text": text})
}

fn arguments(json: &str) -> Value {
    json!({"type": "input_json_delta", "partial_json": json})
}

fn called(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "get", "input": {}})
}

fn kinds(payloads: &[Value]) -> Vec<String> {
    let kind = |payload: &Value| match payload["index"].as_u64() {
        Some(index) => format!("{} {index}", payload["type"].as_str().unwrap()),
        None => payload["type"].as_str().unwrap().to_owned(),
    };
    payloads.iter().map(kind).collect()
}

fn stream(blocks: Vec<Value>, reason: &str) -> Vec<Value> {
    let mut payloads = vec![started()];
    payloads.extend(blocks);
    payloads.extend(over(reason, json!({"output_tokens": 7})));
    payloads
}

/// Cases B034 and B036: calls are parts of their own, with arguments of their own, and a call without any is whole.
#[test]
fn parallel_calls_keep_their_arguments_apart() {
    let payloads = stream(
        vec![
            opened(0, json!({"type": "text", "text": ""})),
            grown(0, text("ok")),
            closed(0),
            opened(1, called("t_a")),
            grown(1, arguments("{\"q\":")),
            grown(1, arguments("1}")),
            closed(1),
            opened(2, called("t_b")),
            grown(2, arguments("")),
            closed(2),
        ],
        "tool_use",
    );
    let answer = gathered(events(&payloads));
    let calls: Vec<_> = answer.choices[0]
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some((call.id.as_str(), call.arguments.as_str())),
            _other => None,
        })
        .collect();
    assert_eq!(calls, [("t_a", "{\"q\":1}"), ("t_b", "{}")]);
    assert_eq!(answer.choices[0].stop, Some(Stop::Tools));
}

/// Arguments that stand in the start of the block are the call's, unless pieces say them anew (as in case B033).
#[test]
fn arguments_that_come_whole_are_taken_once() {
    let whole = json!({"type": "tool_use", "id": "t", "name": "get", "input": {"q": 1}});
    for pieces in [vec![], vec![grown(0, arguments("{\"q\":1}"))]] {
        let blocks = [vec![opened(0, whole.clone())], pieces, vec![closed(0)]].concat();
        let answer = gathered(events(&stream(blocks, "tool_use")));
        let Part::ToolCall(call) = &answer.choices[0].parts[0] else { panic!("{answer:?}") };
        assert_eq!(call.arguments, "{\"q\":1}");
    }
}

/// Case B016.
#[test]
fn a_stream_that_was_cut_is_never_called_whole() {
    let half = [started(), opened(0, called("t")), grown(0, arguments("{\"path\":\"/a"))];
    let (events, fault) = followed([&sse(&half)[..]]);
    assert_eq!(fault, Some(StreamFault::Cut));
    let mut writer = Writer::new(&STAMP);
    let mut out = Vec::new();
    events.iter().for_each(|event| writer.write(event, &mut out));
    writer.fail(base::Code::UpstreamCut, "broken off", &mut out);
    writer.write(&Event::End, &mut out);
    let payloads = payloads(&out);
    assert_eq!(
        kinds(&payloads),
        ["message_start", "content_block_start 0", "content_block_delta 0", "error"],
        "the half call is not closed, and nothing says that the message is whole"
    );
    assert_eq!(payloads[3]["error"]["type"], "api_error");
    assert_eq!(followed([&b""[..]]).1, Some(StreamFault::Cut));
    assert_eq!(followed([&sse(&[started()])[..], b"data: [DONE]\n\n"]).1, Some(StreamFault::Cut));
}

/// Case B017, with this API's own proof of an end.
#[test]
fn a_reason_is_an_end_without_the_stop_of_the_message() {
    let mut payloads = stream(vec![opened(0, json!({"type": "text", "text": "hi"}))], "end_turn");
    payloads.pop();
    payloads.push(closed(0));
    let read = events(&payloads);
    let at = |event: &Event| read.iter().position(|one| one == event);
    let close = at(&Event::Close { choice: 0, part: 0 });
    assert!(close.is_some() && close < at(&Event::Stop { choice: 0, stop: Stop::End }), "{read:?}");
    let answer = gathered(read);
    assert_eq!(answer.choices[0].parts, [Part::text("hi")]);
    assert_eq!(answer.choices[0].stop, Some(Stop::End));
    let told = told(&spread(&answer));
    assert_eq!(kinds(&told).iter().filter(|kind| *kind == "message_stop").count(), 1);
    let unsaid = [started(), json!({"type": "message_stop"})];
    assert_eq!(followed([&sse(&unsaid)[..]]).1, Some(StreamFault::Malformed));
}

/// Cases B008, B014 and B088.
#[test]
fn an_error_in_a_stream_is_one() {
    let busy = UpstreamError {
        message: "busy".to_owned(),
        kind: "overloaded_error".to_owned(),
        ..UpstreamError::default()
    };
    assert_eq!(busy.meaning(), Some(base::Code::ModelOverloaded));
    for stream in [
        "event: error\ndata: {\"type\":\"error\",\ndata: \"error\":{\"type\":\"overloaded_error\",\ndata: \"message\":\"busy\"}}\n\n",
        "data: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n",
    ] {
        assert_eq!(followed([stream.as_bytes()]).1, Some(StreamFault::Error(busy.clone())));
    }
    let bare = followed([&b"event: error\ndata: busy\n\n"[..]]).1;
    assert_eq!(bare, Some(StreamFault::Error(UpstreamError::default())));
}

/// Cases B003 and B009.
#[test]
fn framing_does_not_change_what_is_said() {
    let tight = "event:message_start\ndata:{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n";
    let (events, _cut) = followed([tight.as_bytes()]);
    assert_eq!(events.last(), Some(&Event::Usage(Usage { input: 3, output: 1, ..Usage::default() })));
    let glued = format!("data: {}\ndata: {}\n\n", started(), closed(0));
    assert_eq!(followed([glued.as_bytes()]).1, Some(StreamFault::Malformed), "never dropped unseen");
}

/// Cases B047 and B049.
#[test]
fn signatures_and_sealed_thoughts_reach_the_caller() {
    let payloads = stream(
        vec![
            opened(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            grown(0, json!({"type": "thinking_delta", "thinking": "hm"})),
            grown(0, json!({"type": "signature_delta", "signature": "S1"})),
            closed(0),
            opened(1, json!({"type": "redacted_thinking", "data": "ENC=="})),
            closed(1),
            opened(2, called("t")),
            closed(2),
        ],
        "tool_use",
    );
    let read = events(&payloads);
    let parts = gathered(read.clone()).choices[0].parts.clone();
    assert_eq!(parts[0], Part::Thought { text: "hm".to_owned(), signature: Some("S1".to_owned()) });
    assert_eq!(parts[1], Part::SealedThought { data: "ENC==".to_owned() });
    let told = told(&read);
    assert_eq!(kinds(&told), kinds(&payloads), "each thing is told once, in its place");
    assert_eq!(told[5]["content_block"], json!({"type": "redacted_thinking", "data": "ENC=="}));
}

/// Case B068.
#[test]
fn an_empty_text_makes_no_block() {
    let call = Opening::ToolCall { id: "c".to_owned(), name: "w".to_owned(), signature: None };
    let events = [
        Event::Open { choice: 0, part: 0, opening: call },
        Event::Close { choice: 0, part: 0 },
        Event::Open { choice: 0, part: 1, opening: Opening::Text },
        Event::Piece { choice: 0, part: 1, delta: Delta::Text(String::new()) },
        Event::Close { choice: 0, part: 1 },
        Event::Stop { choice: 0, stop: Stop::Tools },
        Event::End,
    ];
    let told = told(&events);
    let expected =
        ["message_start", "content_block_start 0", "content_block_stop 0", "message_delta", "message_stop"];
    assert_eq!(kinds(&told), expected);
    assert_eq!(told[3]["delta"]["stop_reason"], "tool_use");
}

/// Cases B073 and B079.
#[test]
fn reports_of_usage_replace_each_other() {
    let used = |start: Value, deltas: &[Value]| {
        let mut first = started();
        first["message"]["usage"] = start;
        let mut payloads = vec![first];
        for usage in deltas {
            payloads.push(over("end_turn", usage.clone())[0].clone());
        }
        payloads.push(json!({"type": "message_stop"}));
        let usage = gathered(events(&payloads)).usage.unwrap();
        (usage.input, usage.cached, usage.output)
    };
    let start = json!({"input_tokens": 40, "cache_read_input_tokens": 8, "output_tokens": 2});
    let delta = json!({"input_tokens": 40, "cache_read_input_tokens": 8, "output_tokens": 30});
    assert_eq!(used(start, &[delta, json!({"output_tokens": 35})]), (48, Some(8), 35));
    let counts = |input: u64, output: u64| json!({"input_tokens": input, "output_tokens": output});
    assert_eq!(used(counts(0, 0), &[counts(57, 11)]), (57, None, 11));
    assert_eq!(used(counts(57, 0), &[json!({"output_tokens": 11})]), (57, None, 11));
    assert_eq!(used(counts(60, 1), &[counts(57, 11)]), (57, None, 11));
    assert_eq!(used(counts(57, 1), &[counts(0, 11)]), (57, None, 11), "a later 0 is no report");
}

/// The API's blocks come one after the other, whatever the target does.
#[test]
fn parts_that_interleave_are_told_one_after_the_other() {
    let call = |id: &str| Opening::ToolCall { id: id.to_owned(), name: "f".to_owned(), signature: None };
    let piece = |part, json: &str| Event::Piece { choice: 0, part, delta: Delta::Arguments(json.to_owned()) };
    let events = [
        Event::Open { choice: 0, part: 0, opening: call("a") },
        Event::Open { choice: 0, part: 1, opening: call("b") },
        piece(0, "{\"x\""),
        piece(1, "{\"y\""),
        piece(0, ":1}"),
        piece(1, ":2}"),
        Event::Close { choice: 0, part: 1 },
        Event::Close { choice: 0, part: 0 },
        Event::Stop { choice: 0, stop: Stop::Tools },
        Event::End,
    ];
    let told = told(&events);
    let indexes: Vec<_> = told.iter().filter_map(|payload| payload["index"].as_u64()).collect();
    assert_eq!(indexes, [0, 0, 0, 0, 1, 1, 1]);
    let (back, meant) = (gathered(self::events(&told)), gathered(events.to_vec()));
    assert_eq!(back.choices, meant.choices);
}

#[test]
fn what_waits_is_bounded() {
    let call = |id: &str| Opening::ToolCall { id: id.to_owned(), name: "f".to_owned(), signature: None };
    let piece = |part, size| Event::Piece { choice: 0, part, delta: Delta::Arguments("x".repeat(size)) };
    let mut writer = Writer::new(&STAMP);
    let mut out = Vec::new();
    writer.write(&Event::Open { choice: 0, part: 0, opening: call("a") }, &mut out);
    writer.write(&Event::Open { choice: 0, part: 1, opening: call("b") }, &mut out);
    let before = out.len();
    writer.write(&piece(1, 1 << 20), &mut out);
    assert_eq!(out.len(), before, "it waits for the first call");
    writer.write(&piece(1, 1), &mut out);
    assert!(out.len() > before + (1 << 20), "no more may wait");
    writer.write(&piece(0, 3), &mut out);
    writer.write(&piece(1, 3), &mut out);
    for event in [
        Event::Close { choice: 0, part: 0 },
        Event::Close { choice: 0, part: 1 },
        Event::Stop { choice: 0, stop: Stop::Tools },
        Event::End,
    ] {
        writer.write(&event, &mut out);
    }
    let answer = gathered(events(&payloads(&out)));
    let sizes: Vec<_> = answer.choices[0]
        .parts
        .iter()
        .map(|part| match part {
            Part::ToolCall(call) => call.arguments.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes, [3, (1 << 20) + 4]);
}

#[test]
fn what_only_its_provider_knows_is_passed_over() {
    let payloads = stream(
        vec![
            json!({"type": "ping"}),
            json!({"type": "newer_event", "x": 1}),
            opened(0, json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
            grown(0, arguments("{\"query\":\"x\"}")),
            closed(0),
            opened(1, json!({"type": "text", "text": ""})),
            grown(1, text("four")),
            grown(1, json!({"type": "citations_delta", "citation": {"type": "char_location"}})),
            closed(1),
        ],
        "end_turn",
    );
    let read = events(&payloads);
    assert!(read.contains(&Event::Ping));
    assert_eq!(gathered(read).choices[0].parts, [Part::text("four")]);
    let mixed = [started(), opened(0, json!({"type": "text", "text": ""})), grown(0, arguments("{}"))];
    assert_eq!(followed([&sse(&mixed)[..]]).1, Some(StreamFault::Malformed));
}
