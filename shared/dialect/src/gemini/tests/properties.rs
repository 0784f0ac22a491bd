//! What must hold for all calls, answers and bodies.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, json};

use super::*;
use crate::canon::{
    Choice, Facet, Fidelity, Format, Media, MediaKind, Part, Role, Sampling, Schema, Source, Stop, Thinking,
    Tool, ToolCall, ToolChoice, ToolResult, Turn, Usage, spread,
};
use crate::openai::{BadReply, UpstreamError};

fn words() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9 \\n\"\\\\\u{e9}\u{8a9e}]{1,12}"
}

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z_]{0,6}"
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    let leaf =
        prop_oneof![any::<i32>().prop_map(Value::from), words().prop_map(Value::from), Just(json!(true))];
    proptest::collection::btree_map(name(), leaf, 0..3).prop_map(|fields| fields.into_iter().collect())
}

fn media() -> impl Strategy<Value = Part> {
    const KINDS: [(MediaKind, &str); 3] = [
        (MediaKind::Image, "image/webp"),
        (MediaKind::Audio, "audio/wav"),
        (MediaKind::File, "application/pdf"),
    ];
    let source = prop_oneof![
        vec(any::<u8>(), 0..9).prop_map(|bytes| Source::Bytes(bytes.into())),
        Just(Source::Url("https://example.com/a".to_owned())),
    ];
    let data =
        (select(&KINDS[..]), source).prop_map(|((kind, media_type), source)| (kind, media_type, source));
    let text = words().prop_map(|text| (MediaKind::File, "text/plain", Source::Text(text)));
    prop_oneof![data, text].prop_map(|(kind, media_type, source)| {
        let media_type = Some(media_type.to_owned());
        Part::Media(Media { kind, source, media_type, name: None, detail: None, cache: false })
    })
}

fn thought() -> impl Strategy<Value = Part> {
    prop_oneof![
        (words(), option::of(name())).prop_map(|(text, signature)| Part::Thought { text, signature }),
        name().prop_map(|proof| Part::Thought { text: String::new(), signature: Some(proof) }),
    ]
}

fn text() -> impl Strategy<Value = Part> {
    words().prop_map(Part::text)
}

fn called() -> impl Strategy<Value = (String, String, Option<String>, String, Option<bool>)> {
    let arguments = object().prop_map(|fields| Value::Object(fields).to_string());
    (name(), arguments, option::of(name()), words(), option::of(Just(true)))
}

/// What the user says, what the model says, and what it calls with what comes of it.
fn exchange() -> impl Strategy<Value = Vec<Turn>> {
    let asked = vec(prop_oneof![text(), media()], 1..3);
    let said = vec(prop_oneof![text(), thought()], 1..4);
    (asked, said, vec(called(), 0..3)).prop_map(|(asked, mut said, calls)| {
        let mut results = Vec::new();
        for (name, arguments, signature, given, failed) in calls {
            // Numbered when the whole conversation is known.
            let call = ToolCall { id: String::new(), name: name.clone(), arguments, signature, cache: false };
            said.push(Part::ToolCall(call));
            let parts = vec![Part::text(given)];
            results.push(Part::ToolResult(ToolResult {
                id: String::new(),
                name,
                parts,
                failed,
                cache: false,
            }));
        }
        results.extend(asked);
        let turn = |role, parts| Turn { role, name: None, parts };
        vec![turn(Role::Assistant, said), turn(Role::User, results)]
    })
}

fn conversation() -> impl Strategy<Value = Vec<Turn>> {
    vec(exchange(), 1..3).prop_map(|exchanges| {
        let mut turns: Vec<_> = exchanges.into_iter().flatten().collect();
        for (number, pair) in turns.chunks_mut(2).enumerate() {
            for turn in pair {
                let mut next = 0;
                for part in &mut turn.parts {
                    if let Part::ToolCall(ToolCall { id, .. }) | Part::ToolResult(ToolResult { id, .. }) =
                        part
                    {
                        *id = format!("id-{number}-{next}");
                        next += 1;
                    }
                }
            }
        }
        turns
    })
}

fn tools() -> impl Strategy<Value = (Vec<Tool>, Option<ToolChoice>)> {
    let tool = (name(), option::of(words()), option::of(object())).prop_map(|(name, description, schema)| {
        Tool { name, description, schema: schema.map(Value::Object), strict: None, cache: false }
    });
    let choice = prop_oneof![
        Just(ToolChoice::Auto),
        Just(ToolChoice::None),
        Just(ToolChoice::Any),
        vec(name(), 1..3).prop_map(ToolChoice::Named),
    ];
    prop_oneof![Just((vec![], None)), (vec(tool, 1..3), option::of(choice))]
}

fn sampling() -> impl Strategy<Value = Sampling> {
    let number = || {
        option::of((0_u8..20).prop_map(|tenths| json!(f64::from(tenths) / 10.0).as_number().unwrap().clone()))
    };
    let whole = || option::of((0_u16..99).prop_map(|count| count.into()));
    (number(), number(), whole(), whole(), number(), number()).prop_map(
        |(temperature, top_p, top_k, seed, frequency_penalty, presence_penalty)| Sampling {
            temperature,
            top_p,
            top_k,
            seed,
            frequency_penalty,
            presence_penalty,
            ..Sampling::default()
        },
    )
}

fn thinking() -> impl Strategy<Value = Thinking> {
    prop_oneof![Just(Thinking::Off), Just(Thinking::Adaptive), (1_u64..9_999).prop_map(Thinking::Budget)]
}

fn format() -> impl Strategy<Value = Format> {
    let schema = object().prop_map(|fields| Schema {
        name: String::new(),
        description: None,
        schema: Value::Object(fields),
        strict: Some(true),
    });
    prop_oneof![Just(Format::Text), Just(Format::Json), schema.prop_map(Format::Schema)]
}

/// Calls that this API can say in full.
fn sayable() -> impl Strategy<Value = Call> {
    let limits = (option::of(1_u64..9_999), vec(words(), 0..3), 1_u32..4, option::of(0_u8..=20));
    let talk = (vec(text(), 0..2), conversation(), tools());
    (any::<bool>(), talk, limits, sampling(), option::of(thinking()), format()).prop_map(
        |(stream, (system, turns, (tools, tool_choice)), limits, sampling, thinking, format)| {
            let (max_tokens, stops, answers, logprobs) = limits;
            Call {
                model: "m".to_owned(),
                stream,
                system,
                turns,
                tools,
                tool_choice,
                max_tokens,
                stops,
                sampling,
                thinking,
                format,
                answers,
                logprobs,
                ..Call::default()
            }
        },
    )
}

/// What this API drops, put on a call by the bits of `which`.
const DROPPED: [Facet; 11] = [
    Facet::SpeakerName,
    Facet::ImageDetail,
    Facet::CacheMark,
    Facet::ParallelTools,
    Facet::SealedThought,
    Facet::MinP,
    Facet::RepetitionPenalty,
    Facet::LogitBias,
    Facet::User,
    Facet::Metadata,
    Facet::ServiceTier,
];

fn put(facet: Facet, call: &mut Call) {
    let one = || Some(json!(1).as_number().unwrap().clone());
    match facet {
        Facet::SpeakerName => call.turns[0].name = Some("n".to_owned()),
        Facet::ImageDetail => {
            let source = Source::Bytes(b"\x89PNG"[..].into());
            let (kind, detail) = (MediaKind::Image, Some("low".to_owned()));
            let media = Media { kind, source, media_type: None, name: None, detail, cache: false };
            call.turns[1].parts.push(Part::Media(media));
        }
        Facet::CacheMark => call.turns[1].parts.push(Part::Text { text: "x".to_owned(), cache: true }),
        Facet::ParallelTools => {
            let tool =
                Tool { name: "t".to_owned(), description: None, schema: None, strict: None, cache: false };
            call.tools.push(tool);
            call.parallel_tools = Some(false);
        }
        Facet::SealedThought => call.turns[0].parts.push(Part::SealedThought { data: "d".to_owned() }),
        Facet::MinP => call.sampling.min_p = one(),
        Facet::RepetitionPenalty => call.sampling.repetition_penalty = one(),
        Facet::LogitBias => call.sampling.logit_bias = Map::from_iter([("1".to_owned(), json!(2))]),
        Facet::User => call.user = Some("u".to_owned()),
        Facet::Metadata => call.metadata = Map::from_iter([("k".to_owned(), json!("v"))]),
        Facet::ServiceTier => call.service_tier = Some("flex".to_owned()),
        other => panic!("{other:?} is not dropped"),
    }
}

/// A name for each facet.
fn named(facet: Facet) -> &'static str {
    let place = DROPPED.iter().position(|dropped| *dropped == facet);
    place.map_or("carried", |place| ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"][place])
}

fn part() -> impl Strategy<Value = Part> {
    let call = called().prop_map(|(name, arguments, signature, id, failed)| {
        // Some models write arguments that are none.
        let arguments =
            if failed.is_some() && signature.is_none() { "{\"a\":".to_owned() } else { arguments };
        Part::ToolCall(ToolCall { id, name, arguments, signature, cache: false })
    });
    let refusal = words().prop_map(|text| Part::Refusal { text });
    let sealed = words().prop_map(|data| Part::SealedThought { data });
    prop_oneof![3 => text(), 3 => thought(), 2 => call, 1 => refusal, 1 => sealed]
}

fn stop() -> impl Strategy<Value = Stop> {
    let other = prop_oneof![Just("RECITATION".to_owned()), name()];
    let plain = [
        Stop::End,
        Stop::Sequence(None),
        Stop::Length,
        Stop::Context,
        Stop::Tools,
        Stop::Filter,
        Stop::Pause,
    ];
    prop_oneof![select(plain.to_vec()), other.prop_map(Stop::Other)]
}

fn usage() -> impl Strategy<Value = Usage> {
    (0_u64..99, 0_u64..99, option::of(0_u64..9), option::of(0_u64..9)).prop_map(
        |(input, output, cached, thinking)| Usage {
            input,
            cached: cached.map(|cached| cached.min(input)),
            output,
            thinking: thinking.map(|thinking| thinking.min(output)),
            ..Usage::default()
        },
    )
}

fn answer() -> impl Strategy<Value = Answer> {
    let logprobs = json!({"content": [{"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}], "refusal": null});
    let choice = (vec(part(), 0..5), stop(), option::of(Just(logprobs)))
        .prop_map(|(parts, stop, logprobs)| Choice { parts, stop: Some(stop), logprobs });
    (vec(choice, 1..3), option::of(usage())).prop_map(|(choices, usage)| Answer {
        id: "r".to_owned(),
        model: "g".to_owned(),
        choices,
        usage,
        ..Answer::default()
    })
}

/// Any JSON, with names that readers look for.
fn anything() -> impl Strategy<Value = Value> {
    const NAMES: [&str; 36] = [
        "contents",
        "parts",
        "role",
        "text",
        "thought",
        "thoughtSignature",
        "functionCall",
        "functionResponse",
        "name",
        "args",
        "response",
        "inlineData",
        "fileData",
        "mimeType",
        "data",
        "fileUri",
        "tools",
        "functionDeclarations",
        "parameters",
        "type",
        "properties",
        "items",
        "anyOf",
        "$ref",
        "enum",
        "generationConfig",
        "thinkingConfig",
        "candidates",
        "content",
        "finishReason",
        "usageMetadata",
        "promptTokenCount",
        "error",
        "details",
        "requests",
        "embedding",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(&["", "user", "model", "OBJECT", "string", "#", "AAAA", "STOP"][..]).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        let fields = vec((select(&NAMES[..]), inner.clone()), 0..6);
        prop_oneof![
            1 => vec(inner, 0..4).prop_map(Value::from),
            3 => fields.prop_map(|fields| {
                fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_this_api_can_say_comes_back(call in sayable()) {
        let target = Target { line: Line::Budgets, ..Target::default() };
        let mut losses = Losses::of(field);
        let body = write_call(&call, target, &mut losses).unwrap();
        prop_assert!(losses.is_empty(), "{:?}", losses.told());
        let again = read_call("m", call.stream, &body, &mut losses).unwrap();
        prop_assert!(losses.is_empty(), "{:?}", losses.told());
        prop_assert_eq!(again, call);
    }

    #[test]
    fn what_is_dropped_is_told(call in sayable(), which in 0_u16..1 << DROPPED.len()) {
        let (mut call, mut expected) = (call, BTreeSet::new());
        for (bit, facet) in DROPPED.into_iter().enumerate().filter(|(bit, _facet)| which & (1 << bit) != 0) {
            assert!(matches!(fidelity(facet), Fidelity::Dropped(_)), "{bit}");
            put(facet, &mut call);
            expected.insert(named(facet));
        }
        let mut losses = Losses::of(named);
        write_call(&call, Target::default(), &mut losses).unwrap();
        let told: BTreeSet<_> = losses.told().iter().map(|loss| loss.path.as_str()).collect();
        prop_assert_eq!(told, expected);
    }

    #[test]
    fn a_stream_says_what_the_whole_says(answer in answer()) {
        let whole = read_answer(&write_answer(&answer, &STAMP)).unwrap();
        let events = spread(&answer);
        let sse = told(&events, Framing::Sse);
        prop_assert_eq!(&gathered(events_of([&sse[..]]).unwrap()), &whole);
        let array = told(&events, Framing::Array);
        prop_assert_eq!(&gathered(events_of_array([&array[..]]).unwrap()), &whole);
        // What was read once is written and read the same.
        prop_assert_eq!(read_answer(&write_answer(&whole, &STAMP)).unwrap(), whole);
    }

    #[test]
    fn nothing_panics(value in anything()) {
        let body = value.to_string();
        let body = body.as_bytes();
        let mut losses = Losses::of(field);
        if let Ok(call) = read_call("m", false, body, &mut losses) {
            for schemas in [Schemas::Json, Schemas::Subset] {
                let _written = write_call(&call, Target { schemas, ..Target::default() }, &mut losses);
            }
        }
        let _counted = read_count("m", body, &mut losses);
        for batch in [Batch::One, Batch::Many] {
            let _embed = read_embeddings_call("m", batch, body, &mut losses);
        }
        let (_vectors, _error, _retry) = (read_embeddings(body), upstream_error(body), retry_after(body));
        let whole = read_answer(body);
        let mut events = Vec::new();
        let mut reader = Reader::default();
        let streamed = reader.read(None, body, &mut events).and_then(|()| reader.close(&mut events));
        match (whole, streamed) {
            (Ok(answer), Ok(())) => {
                prop_assert_eq!(answer.choices.len(), gathered(events).choices.len());
            }
            (Err(BadReply::Error(whole)), Err(StreamFault::Error(UpstreamError { message, .. }))) => {
                prop_assert_eq!(whole.message, message);
            }
            (Err(BadReply::Error(_)), other) => prop_assert!(false, "{:?}", other),
            (Ok(_) | Err(BadReply::Malformed | BadReply::Empty), _cut_or_malformed) => {}
        }
        for schema in [schema::from_subset(value.clone(), "p", &mut losses), Ok(value)].into_iter().flatten() {
            let _subset = schema::to_subset(&schema, "p", &mut losses);
        }
    }
}
