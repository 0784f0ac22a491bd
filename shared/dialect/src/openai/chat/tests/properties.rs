use proptest::option::of as some;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::canon::{
    Effort, Format, Part, Role, Sampling, Schema, Thinking, Tool, ToolCall, ToolChoice, ToolResult, Turn,
};

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z{}\"]{0,4}".prop_map(Value::from),
    ];
    let names = prop_oneof![
        Just("role"),
        Just("content"),
        Just("type"),
        Just("text"),
        Just("tool_calls"),
        Just("function"),
        Just("name"),
        Just("arguments"),
        Just("id"),
        Just("index"),
        Just("delta"),
        Just("choices"),
        Just("message"),
        Just("messages"),
        Just("model"),
        Just("tools"),
        Just("tool_choice"),
        Just("finish_reason"),
        Just("usage"),
    ];
    leaf.prop_recursive(6, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..5).prop_map(|members| {
                Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    "[a-zé你]{1,6}"
}

fn call_of(index: usize, name: String) -> Part {
    let arguments = json!({"n": index}).to_string();
    Part::ToolCall(ToolCall { id: format!("c{index}"), name, arguments, signature: None, cache: false })
}

fn result_of(index: usize, name: String, text: String) -> Part {
    let parts = vec![Part::text(text)];
    Part::ToolResult(ToolResult { id: format!("c{index}"), name, parts, failed: None, cache: false })
}

/// One round of a conversation: what the user says, what tools are called, what they give, what is answered.
fn round(index: usize) -> impl Strategy<Value = Vec<Turn>> {
    (text(), prop::option::of((text(), text())), text()).prop_map(move |(question, called, answer)| {
        let turn = |role, parts| Turn { role, name: None, parts };
        let mut turns = vec![turn(Role::User, vec![Part::text(question)])];
        if let Some((name, given)) = called {
            turns.push(turn(Role::Assistant, vec![Part::text("so"), call_of(index, name.clone())]));
            turns.push(turn(Role::User, vec![result_of(index, name, given)]));
        }
        turns.push(turn(Role::Assistant, vec![Part::text(answer)]));
        turns
    })
}

fn options() -> impl Strategy<Value = Call> {
    let choice = prop_oneof![
        Just(None),
        Just(Some(ToolChoice::Auto)),
        Just(Some(ToolChoice::None)),
        Just(Some(ToolChoice::Any)),
        Just(Some(ToolChoice::Named(vec!["f".to_owned()]))),
    ];
    let format = prop_oneof![
        Just(Format::Text),
        Just(Format::Json),
        text().prop_map(|name| Format::Schema(Schema {
            name,
            description: None,
            schema: json!({"type": "object"}),
            strict: Some(true),
        })),
    ];
    let effort = prop_oneof![Just(Effort::Minimal), Just(Effort::Low), Just(Effort::High), Just(Effort::Max)];
    (choice, format, some(effort), some(1_u64..9), some(0_u8..20), 1_u32..4, some(text()), any::<bool>())
        .prop_map(|(tool_choice, format, effort, cap, logprobs, answers, user, stream)| Call {
            model: "m".to_owned(),
            stream,
            tools: vec![Tool {
                name: "f".to_owned(),
                description: Some("d".to_owned()),
                schema: Some(json!({"type": "object"})),
                strict: Some(false),
                cache: false,
            }],
            tool_choice,
            parallel_tools: Some(stream),
            max_tokens: cap,
            stops: user.iter().cloned().collect(),
            sampling: Sampling {
                temperature: cap.map(Into::into),
                seed: Some(7.into()),
                ..Sampling::default()
            },
            thinking: effort.map(Thinking::Effort),
            format,
            answers,
            logprobs,
            user,
            ..Call::default()
        })
}

fn calls() -> impl Strategy<Value = Call> {
    (options(), round(0), round(1), prop::option::of(text())).prop_map(|(call, one, other, system)| Call {
        system: system.into_iter().map(Part::text).collect(),
        turns: one.into_iter().chain(other).collect(),
        ..call
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(call in calls()) {
        let mut losses = Losses::of(field);
        let body = write_call(&call, CapField::MaxTokens, &mut losses).unwrap();
        prop_assert!(losses.is_empty(), "{losses:?}");
        prop_assert_eq!(read_call(&body, &mut losses).unwrap(), call);
        prop_assert!(losses.is_empty(), "{losses:?}");
    }

    #[test]
    fn no_body_makes_it_panic(body in anything()) {
        let body = body.to_string();
        let mut losses = Losses::of(field);
        if let Ok(call) = read_call(body.as_bytes(), &mut losses) {
            write_call(&call, CapField::MaxTokens, &mut losses).ok();
        }
        if let Ok(answer) = read_answer(body.as_bytes()) {
            prop_assert!(serde_json::from_slice::<Value>(&write_answer(&answer, &STAMP)).is_ok());
        }
    }

    #[test]
    fn no_stream_makes_it_panic_or_gives_events_out_of_order(chunks in prop::collection::vec(anything(), 0..6)) {
        if let Ok(events) = events_of([&sse(&chunks)[..]]) {
            let mut gather = Gather::default();
            for event in events {
                prop_assert_eq!(gather.add(event), Ok(()));
            }
        }
    }

    #[test]
    fn a_stream_is_the_same_wherever_it_is_cut(at in 0_usize..600) {
        let chunks = [
            json!({"id": "s", "model": "u", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "你好"}}]}),
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c",
                "function": {"name": "f", "arguments": "{\"é\":1}"}}]}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
            json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}),
        ];
        let stream = sse(&chunks);
        let at = at.min(stream.len());
        prop_assert_eq!(events_of([&stream[..at], &stream[at..]]), events_of([&stream[..]]));
    }
}
