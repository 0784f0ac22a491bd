use proptest::option::of as some;
use proptest::prelude::*;

use super::*;
use crate::canon::{
    Choice, Effort, Facet, Fidelity, Format, Media, MediaKind, Sampling, Schema, Source, Stop, Thinking,
    Tool, ToolCall, ToolChoice, ToolResult, Usage, spread,
};

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z{}\"]{0,4}".prop_map(Value::from),
        prop::sample::select(vec![
            "text",
            "tool_use",
            "tool_result",
            "thinking",
            "image",
            "document",
            "base64"
        ])
        .prop_map(Value::from),
        prop::sample::select(vec!["user", "assistant", "system", "enabled", "auto", "ephemeral", "end_turn"])
            .prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "role",
        "content",
        "type",
        "text",
        "tool_use_id",
        "name",
        "input",
        "id",
        "index",
        "delta",
        "source",
        "data",
        "message",
        "messages",
        "model",
        "max_tokens",
        "tools",
        "tool_choice",
        "stop_reason",
        "usage",
        "system",
        "thinking",
        "signature",
        "content_block",
        "partial_json",
        "cache_control",
        "output_config",
        "input_tokens",
    ]);
    leaf.prop_recursive(6, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..6).prop_map(|members| {
                Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

/// A body with what every body has, so that the rest is looked at.
fn a_body() -> impl Strategy<Value = Value> {
    (anything(), anything(), anything()).prop_map(|(body, content, other)| {
        let mut body = if body.is_object() { body } else { json!({}) };
        body["model"] = json!("m");
        body["max_tokens"] = json!(5);
        body["messages"] =
            json!([{"role": "user", "content": content}, {"role": "assistant", "content": [other]}]);
        body
    })
}

fn a_stream() -> impl Strategy<Value = Vec<Value>> {
    let index = 0_u64..3;
    let block = prop_oneof![
        Just(json!({"type": "text", "text": ""})),
        Just(json!({"type": "thinking", "thinking": "h"})),
        Just(json!({"type": "redacted_thinking", "data": "x"})),
        Just(json!({"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}})),
        Just(json!({"type": "other"})),
    ];
    let delta = prop_oneof![
        Just(json!({"type": "text_delta", "text": "a"})),
        Just(json!({"type": "signature_delta", "signature": "s"})),
        Just(json!({"type": "input_json_delta", "partial_json": "{}"})),
    ];
    let event = prop_oneof![
        (index.clone(), block).prop_map(|(index, block)| opened(index, block)),
        (index.clone(), delta).prop_map(|(index, delta)| grown(index, delta)),
        index.prop_map(closed),
        Just(over("end_turn", json!({"output_tokens": 3}))[0].clone()),
        Just(json!({"type": "message_stop"})),
        Just(json!({"type": "ping"})),
        anything(),
    ];
    prop::collection::vec(event, 0..12).prop_map(|mut events| {
        events.insert(0, started());
        events
    })
}

fn text() -> impl Strategy<Value = String> {
    "[a-zé你\"\\\\]{1,6}"
}

fn said() -> impl Strategy<Value = Part> {
    let media = |kind, source, media_type: Option<&str>, name: Option<String>, cache| {
        let media_type = media_type.map(str::to_owned);
        Part::Media(Media { kind, source, media_type, name, detail: None, cache })
    };
    let bytes = prop::collection::vec(any::<u8>(), 1..5);
    prop_oneof![
        (text(), any::<bool>()).prop_map(|(text, cache)| Part::Text { text, cache }),
        (bytes.clone(), any::<bool>()).prop_map(move |(bytes, cache)| {
            media(MediaKind::Image, Source::Bytes(bytes.into()), Some("image/png"), None, cache)
        }),
        text().prop_map(move |url| media(MediaKind::Image, Source::Url(url), None, None, false)),
        (bytes, some(text())).prop_map(move |(bytes, name)| {
            media(MediaKind::File, Source::Bytes(bytes.into()), Some("application/pdf"), name, false)
        }),
        text().prop_map(move |url| media(MediaKind::File, Source::Url(url), None, None, true)),
        text().prop_map(move |text| media(
            MediaKind::File,
            Source::Text(text),
            Some("text/plain"),
            None,
            false
        )),
    ]
}

fn thought() -> impl Strategy<Value = Part> {
    prop_oneof![
        (text(), text()).prop_map(|(text, signature)| Part::Thought { text, signature: Some(signature) }),
        text().prop_map(|data| Part::SealedThought { data }),
    ]
}

/// One round of a conversation: what the user says, what tools are called, what they give, what is answered.
fn round(index: usize) -> impl Strategy<Value = Vec<Turn>> {
    let tool =
        (text(), prop::collection::vec(said(), 0..3), some(any::<bool>()), some(thought()), any::<bool>());
    (prop::collection::vec(said(), 1..3), some(tool), text()).prop_map(move |(question, called, answer)| {
        let mut turns = vec![turn(Role::User, question)];
        if let Some((name, parts, failed, thought, cache)) = called {
            let id = format!("c{index}");
            let arguments = json!({"n": index}).to_string();
            let call = ToolCall { id: id.clone(), name: name.clone(), arguments, signature: None, cache };
            turns.push(turn(Role::Assistant, thought.into_iter().chain([Part::ToolCall(call)]).collect()));
            turns.push(turn(
                Role::User,
                vec![Part::ToolResult(ToolResult { id, name, parts, failed, cache })],
            ));
        }
        turns.push(turn(Role::Assistant, vec![Part::text(answer)]));
        turns
    })
}

fn options() -> impl Strategy<Value = Call> {
    let choice = prop_oneof![
        Just((None, None)),
        Just((Some(ToolChoice::Auto), Some(false))),
        Just((Some(ToolChoice::Auto), Some(true))),
        Just((Some(ToolChoice::None), None)),
        Just((Some(ToolChoice::Any), Some(true))),
        Just((Some(ToolChoice::Named(vec!["f".to_owned()])), None)),
    ];
    let format = some(text()).prop_map(|said| match said {
        None => Format::Text,
        Some(said) => Format::Schema(Schema {
            name: String::new(),
            description: None,
            schema: json!({"type": "object", "title": said}),
            strict: Some(true),
        }),
    });
    let tier = some(prop::sample::select(vec!["auto", "standard_only"]));
    let strict = some(any::<bool>());
    (choice, format, 1_u64..9_999, some(text()), any::<bool>(), tier, strict).prop_map(
        |((tool_choice, parallel_tools), format, cap, user, stream, tier, strict)| Call {
            model: "m".to_owned(),
            stream,
            tools: vec![Tool {
                name: "f".to_owned(),
                description: Some("d".to_owned()),
                schema: Some(json!({"type": "object"})),
                strict,
                cache: stream,
            }],
            tool_choice,
            parallel_tools,
            max_tokens: Some(cap),
            stops: user.iter().cloned().collect(),
            sampling: Sampling {
                temperature: user.as_ref().map(|_some| 1.into()),
                top_k: user.as_ref().map(|_some| 7.into()),
                ..Sampling::default()
            },
            format,
            user,
            service_tier: tier.map(str::to_owned),
            ..Call::default()
        },
    )
}

fn calls() -> impl Strategy<Value = Call> {
    let system = some((text(), any::<bool>()));
    (options(), round(0), round(1), system).prop_map(|(call, one, other, system)| Call {
        system: system.into_iter().map(|(text, cache)| Part::Text { text, cache }).collect(),
        turns: one.into_iter().chain(other).collect(),
        ..call
    })
}

fn thinkings() -> impl Strategy<Value = (Thinking, Thinks)> {
    let effort = prop::sample::select(vec![Effort::Low, Effort::Medium, Effort::High, Effort::Max]);
    prop_oneof![
        Just((Thinking::Off, Thinks::ByEffort)),
        Just((Thinking::Adaptive, Thinks::ByEffort)),
        effort.prop_map(|effort| (Thinking::Effort(effort), Thinks::ByEffort)),
        (1_024_u64..9_000).prop_map(|budget| (Thinking::Budget(budget), Thinks::ByBudget)),
    ]
}

fn answers() -> impl Strategy<Value = Answer> {
    let part = prop_oneof![
        text().prop_map(Part::text),
        thought(),
        text().prop_map(|name| {
            let arguments = json!({"a": [name]}).to_string();
            Part::ToolCall(ToolCall { id: "t".to_owned(), name, arguments, signature: None, cache: false })
        }),
    ];
    let stop = prop_oneof![
        Just(Stop::End),
        Just(Stop::Length),
        Just(Stop::Context),
        Just(Stop::Tools),
        Just(Stop::Filter),
        Just(Stop::Pause),
        some(text()).prop_map(Stop::Sequence),
    ];
    let usage = (0_u64..99, some(0_u64..9), some(0_u64..9), 0_u64..99, any::<bool>()).prop_map(
        |(plain, cached, cache_written, output, thinks)| Usage {
            input: plain + cached.unwrap_or(0) + cache_written.unwrap_or(0),
            cached,
            cache_written,
            input_audio: None,
            output,
            thinking: thinks.then_some(output / 2),
            output_audio: None,
        },
    );
    (prop::collection::vec(part, 0..5), stop, usage, text()).prop_map(|(parts, stop, usage, id)| Answer {
        id,
        model: "c".to_owned(),
        created: None,
        choices: vec![Choice { parts, stop: Some(stop), logprobs: None }],
        usage: Some(usage),
        service_tier: None,
    })
}

/// A call that has each facet which this API drops, to show that none goes unseen.
fn with_all_that_is_dropped() -> Call {
    let number = || Some(serde_json::Number::from(2));
    let sampling = Sampling {
        min_p: number(),
        seed: number(),
        frequency_penalty: number(),
        presence_penalty: number(),
        repetition_penalty: number(),
        logit_bias: [("5".to_owned(), json!(1))].into_iter().collect(),
        ..Sampling::default()
    };
    let image = Media {
        kind: MediaKind::Image,
        source: Source::Url("u".to_owned()),
        media_type: None,
        name: None,
        detail: Some("low".to_owned()),
        cache: false,
    };
    let named = Turn { role: Role::User, name: Some("Ann".to_owned()), parts: vec![Part::Media(image)] };
    let unsigned = Part::Thought { text: "hm".to_owned(), signature: None };
    Call {
        sampling,
        metadata: [("k".to_owned(), json!("v"))].into_iter().collect(),
        max_tokens: Some(5),
        ..call_of(vec![
            named,
            turn(Role::System, vec![Part::text("be brief")]),
            turn(Role::Assistant, vec![unsigned, Part::text("so")]),
            turn(Role::User, vec![Part::text("go on")]),
        ])
    }
}

#[test]
fn whatever_is_dropped_is_told() {
    let all = [
        Facet::SystemMidway,
        Facet::ThoughtText,
        Facet::SpeakerName,
        Facet::ImageDetail,
        Facet::MinP,
        Facet::Seed,
        Facet::FrequencyPenalty,
        Facet::PresencePenalty,
        Facet::RepetitionPenalty,
        Facet::LogitBias,
        Facet::Metadata,
    ];
    let name: crate::canon::Fields = |facet| match facet {
        Facet::SystemMidway => "1",
        Facet::ThoughtText => "2",
        Facet::SpeakerName => "3",
        Facet::ImageDetail => "4",
        Facet::MinP => "5",
        Facet::Seed => "6",
        Facet::FrequencyPenalty => "7",
        Facet::PresencePenalty => "8",
        Facet::RepetitionPenalty => "9",
        Facet::LogitBias => "10",
        Facet::Metadata => "11",
        _other => "other",
    };
    let mut losses = Losses::of(name);
    write_call(&with_all_that_is_dropped(), Target::default(), &mut losses).unwrap();
    for facet in all {
        assert!(matches!(fidelity(facet), Fidelity::Dropped(_)), "{facet:?}");
        assert!(losses.told().iter().any(|loss| loss.path == name(facet)), "{facet:?}: {losses:?}");
    }
    assert_eq!(losses.told().len(), all.len(), "{losses:?}");
}

#[test]
fn whatever_is_refused_is_named() {
    let media = |kind, source| {
        let media = Media { kind, source, media_type: None, name: None, detail: None, cache: false };
        call_of(vec![turn(Role::User, vec![Part::Media(media)])])
    };
    let url = || Source::Url("u".to_owned());
    let all = [
        (Facet::Audio, media(MediaKind::Audio, url())),
        (Facet::Video, media(MediaKind::Video, url())),
        (Facet::StoredMedia, media(MediaKind::Image, Source::Stored("f".to_owned()))),
        (Facet::JsonObject, Call { format: Format::Json, ..asking() }),
        (Facet::Answers, Call { answers: 2, ..asking() }),
        (Facet::Logprobs, Call { logprobs: Some(0), ..asking() }),
    ];
    for (facet, call) in all {
        let Fidelity::Refused(mend) = fidelity(facet) else { panic!("{facet:?}") };
        let target = Target { max_tokens: Some(5), ..Target::default() };
        let refused = write_call(&call, target, &mut Losses::of(|_facet| "there"));
        assert_eq!(refused, Err(Unfit::new("there", mend)), "{facet:?}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(call in calls(), thinking in some(thinkings())) {
        let mut call = call;
        let mut target = Target::default();
        if let Some((thinking, thinks)) = thinking {
            call = Call {
                thinking: Some(thinking),
                sampling: Sampling::default(),
                tool_choice: None,
                parallel_tools: None,
                max_tokens: Some(9_999),
                ..call
            };
            target.thinks = thinks;
        }
        let mut losses = Losses::of(field);
        let body = write_call(&call, target, &mut losses).unwrap();
        prop_assert!(losses.is_empty(), "{losses:?}");
        prop_assert_eq!(read_call(&body, &mut losses).unwrap(), call);
        prop_assert!(losses.is_empty(), "{losses:?}");
    }

    #[test]
    fn an_answer_is_the_same_whole_streamed_and_read_again(answer in answers()) {
        let stamp = Stamp { id: "x", model: "x" };
        let read = read_answer(&write_answer(&answer, &stamp)).unwrap();
        prop_assert_eq!(&read, &answer);
        prop_assert_eq!(gathered(events(&told(&spread(&answer)))), read);
    }

    #[test]
    fn no_body_makes_it_panic(body in prop_oneof![anything(), a_body()]) {
        let body = body.to_string();
        let mut losses = Losses::of(field);
        if let Ok(call) = read_call(body.as_bytes(), &mut losses) {
            for thinks in [Thinks::ByEffort, Thinks::ByBudget] {
                write_call(&call, Target { max_tokens: None, thinks }, &mut losses).ok();
            }
            write_count(&call, Target::default(), &mut losses).ok();
        }
        prop_assert!(losses.told().iter().all(|loss| !loss.path.is_empty()), "{losses:?}");
        if let Ok(answer) = read_answer(body.as_bytes()) {
            prop_assert!(serde_json::from_slice::<Value>(&write_answer(&answer, &STAMP)).is_ok());
        }
        read_counted(body.as_bytes()).ok();
    }

    #[test]
    fn no_stream_makes_it_panic_or_gives_events_out_of_order(payloads in a_stream()) {
        let (events, _fault) = followed([&sse(&payloads)[..]]);
        let mut gather = Gather::default();
        for event in events.clone() {
            prop_assert_eq!(gather.add(event), Ok(()));
        }
        let whole = gather.is_whole();
        let told = told(&events);
        prop_assert_eq!(told.iter().any(|payload| payload["type"] == "message_stop"), whole);
        let (again, fault) = followed([&sse(&told)[..]]);
        prop_assert_eq!(fault.is_none(), whole, "{:?} {:?}", again, told);
    }

    #[test]
    fn events_in_any_order_make_no_writer_panic(payloads in a_stream(), order in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let (events, _fault) = followed([&sse(&payloads)[..]]);
        if !events.is_empty() {
            let shuffled: Vec<_> = order.iter().map(|index| index.get(&events).clone()).collect();
            told(&shuffled);
        }
    }

    #[test]
    fn a_stream_is_the_same_wherever_it_is_cut(answer in answers(), at in any::<prop::sample::Index>()) {
        let stream = sse(&told(&spread(&answer)));
        let at = at.index(stream.len());
        prop_assert_eq!(followed([&stream[..at], &stream[at..]]), followed([&stream[..]]));
    }
}
