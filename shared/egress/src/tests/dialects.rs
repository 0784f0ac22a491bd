//! Upstreams that speak Anthropic's and Gemini's APIs.

use base::{Tokens, Usage};

use super::*;

const ASKED: &str = r#"{"x_unknown" : 1.50}"#;

const CLAUDE: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"cache_read_input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":9,"output_tokens_details":{"thinking_tokens":4}}}"#;
const CLAUDE_STREAM: [&str; 6] = [
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude\",\"content\":[],\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":5,\"cache_creation_input_tokens\":2,\"output_tokens\":1}}}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9,\"output_tokens_details\":{\"thinking_tokens\":4}}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
];
const OVERLOADED: &str =
    r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}"#;

const GOOGLE: &str = r#"{"candidates":[{"content":{"parts":[{"text":"hello"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":5,"candidatesTokenCount":5,"thoughtsTokenCount":4,"totalTokenCount":19},"modelVersion":"g","responseId":"r"}"#;
const GOOGLE_STREAM: [&str; 2] = [
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"he\"}],\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":10,\"totalTokenCount\":10},\"modelVersion\":\"g\",\"responseId\":\"r\"}\r\n\r\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"llo\"}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":10,\"cachedContentTokenCount\":5,\"candidatesTokenCount\":5,\"thoughtsTokenCount\":4,\"totalTokenCount\":19},\"modelVersion\":\"g\",\"responseId\":\"r\"}\r\n\r\n",
];

const BOTH: [Dialect; 2] = [Dialect::Anthropic, Dialect::Gemini];

fn whole(dialect: Dialect) -> &'static str {
    if dialect == Dialect::Anthropic { CLAUDE } else { GOOGLE }
}

fn events(dialect: Dialect) -> &'static [&'static str] {
    if dialect == Dialect::Anthropic { &CLAUDE_STREAM } else { &GOOGLE_STREAM }
}

fn stream(dialect: Dialect) -> Vec<Step> {
    let mut steps = vec![sent(STREAM)];
    steps.extend(events(dialect).iter().map(|event| chunk(event)));
    steps.push(sent(LAST_CHUNK));
    steps
}

fn used(dialect: Dialect) -> Usage {
    Usage {
        cached_input: Tokens(5),
        cache_write: Tokens(if dialect == Dialect::Anthropic { 2 } else { 0 }),
        reasoning: Tokens(4),
        ..Usage::of_text(Tokens(10), Tokens(9))
    }
}

/// An egress whose model `m` is served by `fakes`, which call it `large`.
fn speaking(host: &Host, dialect: Dialect, fakes: &[&Fake]) -> Egress {
    let egress = Egress::new(host, options());
    let upstreams = ["a", "b"].iter().zip(fakes);
    let upstream = |(name, fake): (&&str, &&Fake)| Upstream {
        dialect,
        upstream_model: "large 1".to_owned(),
        ..upstream(name, fake)
    };
    egress.install(upstreams.map(upstream).collect());
    egress
}

fn head(dialect: Dialect, stream: bool) -> CallHead {
    let mut call = call(stream);
    let headers = ["x-api-key", "x-goog-api-key", "openai-beta", "anthropic-beta"];
    call.headers.extend(headers.map(|name| (name.to_owned(), b"theirs".to_vec())));
    CallHead { dialect, ..call }
}

async fn ask_in(egress: &Egress, head: CallHead) -> Exchange {
    egress.serve(head, Bytes::from_static(ASKED.as_bytes()), None).await
}

/// What a call comes to whose first instance does `steps` and whose second is healthy.
async fn first_does(dialect: Dialect, steps: Vec<Step>, streams: bool) -> Exchange {
    let net = network::Memory::new();
    let bad = Fake::start(&net, move |_request| steps.clone()).await;
    let healthy = move |_request| if streams { stream(dialect) } else { vec![ok(whole(dialect))] };
    let good = Fake::start(&net, healthy).await;
    ask_in(&speaking(&net.host(), dialect, &[&bad, &good]), head(dialect, streams)).await
}

#[tokio::test(start_paused = true)]
async fn a_call_goes_where_its_api_has_it_with_our_key_and_comes_back_as_it_was_made() {
    for dialect in BOTH {
        for streams in [false, true] {
            let net = network::Memory::new();
            let steps = move |_request| if streams { stream(dialect) } else { vec![ok(whole(dialect))] };
            let fake = Fake::start(&net, steps).await;
            let egress = speaking(&net.host(), dialect, &[&fake]);

            let (body, tail) = read(ask_in(&egress, head(dialect, streams)).await.unwrap()).await;

            let expected = if streams { events(dialect).concat() } else { whole(dialect).to_owned() };
            assert_eq!((body, tail.usage, tail.outcome), (expected, Some(used(dialect)), Outcome::Complete));
            let request = fake.requests().remove(0);
            let (line, key, foreign) = match (dialect, streams) {
                (Dialect::Anthropic, _) => ("/v1/messages", "x-api-key: sk-ours\r\n", "openai-beta"),
                (_google, false) => {
                    ("/v1beta/models/large%201:generateContent", "x-goog-api-key: sk-ours\r\n", "anthropic-")
                }
                (_google, true) => (
                    "/v1beta/models/large%201:streamGenerateContent?alt=sse",
                    "x-goog-api-key: sk-ours\r\n",
                    "openai-beta",
                ),
            };
            assert!(request.starts_with(&format!("POST {line} HTTP/1.1\r\n")), "{request}");
            assert!(request.contains(key) && request.ends_with(ASKED), "{request}");
            let version = "anthropic-version: 2023-06-01\r\n";
            assert_eq!(request.contains(version), dialect == Dialect::Anthropic);
            let theirs = request.contains("anthropic-beta: theirs\r\n");
            assert_eq!(theirs, dialect == Dialect::Anthropic, "{request}");
            for secret in [foreign, "vk-1", "authorization", "cookie"] {
                assert!(!request.contains(secret), "{secret} in {request}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn vectors_are_asked_for_by_the_batch() {
    let net = network::Memory::new();
    let vectors =
        r#"{"embeddings":[{"values":[0.5]}],"usageMetadata":{"promptTokenCount":3,"totalTokenCount":3}}"#;
    let fake = Fake::start(&net, move |_request| vec![ok(vectors)]).await;
    let egress = speaking(&net.host(), Dialect::Gemini, &[&fake]);
    let call = |dialect| CallHead { operation: Operation::Embeddings, ..head(dialect, false) };
    let (body, tail) = read(ask_in(&egress, call(Dialect::Gemini)).await.unwrap()).await;
    assert_eq!((body.as_str(), tail.usage.unwrap().input), (vectors, Tokens(3)));
    assert!(fake.requests()[0].starts_with("POST /v1beta/models/large%201:batchEmbedContents HTTP"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_none_moves_the_call_on() {
    let exhausted = r#"{"error":{"code":429,"message":"Quota","status":"RESOURCE_EXHAUSTED"}}"#;
    let denied = r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#;
    let cases = [
        (Dialect::Anthropic, with_status("529 Site Overloaded", "", OVERLOADED), Code::ModelOverloaded),
        (Dialect::Anthropic, with_status("429 Slow", "retry-after: 3\r\n", "{}"), Code::UpstreamRateLimited),
        (Dialect::Anthropic, ok(OVERLOADED), Code::ModelOverloaded),
        (
            Dialect::Anthropic,
            ok(r#"{"type":"message","content":[],"stop_reason":null}"#),
            Code::UpstreamInvalid,
        ),
        (Dialect::Anthropic, ok(&CLAUDE[..60]), Code::UpstreamInvalid),
        (Dialect::Anthropic, ok(ANSWER), Code::UpstreamInvalid),
        (Dialect::Gemini, with_status("503 Busy", "", "<html>"), Code::ModelOverloaded),
        (Dialect::Gemini, with_status("429 Slow", "", exhausted), Code::UpstreamRateLimited),
        (Dialect::Gemini, with_status("400 Bad", "", denied), Code::UpstreamAuth),
        (Dialect::Gemini, ok(exhausted), Code::UpstreamRateLimited),
        (Dialect::Gemini, ok("{\"candidates\":[]}"), Code::UpstreamInvalid),
    ];
    for (dialect, step, code) in cases {
        let shown = format!("{dialect:?} {step:?}");
        let (body, tail) = read(first_does(dialect, vec![step], false).await.unwrap()).await;
        assert_eq!(
            (body.as_str(), hops(&tail)),
            (whole(dialect), vec![("a", Err(code)), ("b", Ok(200))]),
            "{shown}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_begins_with_an_error_moves_the_call_on() {
    let claude = format!("event: error\ndata: {OVERLOADED}\n\n");
    let google = "data: {\"error\":{\"code\":503,\"message\":\"busy\",\"status\":\"UNAVAILABLE\"}}\n\n";
    let ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    let cases = [
        (Dialect::Anthropic, vec![chunk(ping), chunk(&claude)], Code::ModelOverloaded),
        (Dialect::Anthropic, vec![chunk(ping), sent(LAST_CHUNK)], Code::UpstreamInvalid),
        (Dialect::Gemini, vec![chunk(google)], Code::ModelOverloaded),
    ];
    for (dialect, steps, code) in cases {
        let steps = [vec![sent(STREAM)], steps, vec![sent(LAST_CHUNK)]].concat();
        let (body, tail) = read(first_does(dialect, steps, true).await.unwrap()).await;
        assert_eq!((body, hops(&tail)), (events(dialect).concat(), vec![("a", Err(code)), ("b", Ok(200))]));
    }
}

/// Cases B016 and B093 in these APIs.
#[tokio::test(start_paused = true)]
async fn a_broken_stream_ends_cut_with_what_it_used_by_then() {
    let claude = format!("event: error\ndata: {OVERLOADED}\n\n");
    let google = "data: {\"error\":{\"code\":500,\"message\":\"m\",\"status\":\"INTERNAL\"}}\n\n";
    for dialect in BOTH {
        let (start, error, code) = match dialect {
            Dialect::Anthropic => (&CLAUDE_STREAM[..3], claude.as_str(), Code::ModelOverloaded),
            _google => (&GOOGLE_STREAM[..1], google, Code::UpstreamError),
        };
        for (last, code) in [
            (vec![Step::Close], Code::UpstreamCut),
            (vec![sent(LAST_CHUNK)], Code::UpstreamCut),
            (vec![chunk(error), sent(LAST_CHUNK)], code),
            (vec![Step::Hang], Code::UpstreamTimeout),
        ] {
            let begun = start.iter().map(|event| chunk(event)).collect();
            let steps = [vec![sent(STREAM)], begun, last].concat();
            let (body, tail) = read(first_does(dialect, steps, true).await.unwrap()).await;
            assert_eq!((body, tail.outcome, tail.code), (start.concat(), Outcome::Cut, Some(code)));
            assert_eq!(tail.usage.unwrap().input, Tokens(10), "{dialect:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_asks_to_wait_is_told() {
    let info = r#"{"error":{"code":429,"message":"Quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7.5s"}]}}"#;
    for (dialect, step, wait) in [
        (Dialect::Gemini, with_status("429 Slow", "", info), 7_500),
        (Dialect::Gemini, with_status("429 Slow", "retry-after: 3\r\n", info), 3_000),
        (Dialect::Anthropic, with_status("429 Slow", "retry-after: 4\r\n", OVERLOADED), 4_000),
    ] {
        let net = network::Memory::new();
        let fake = Fake::start(&net, move |_request| vec![step.clone()]).await;
        let failed = ask_in(&speaking(&net.host(), dialect, &[&fake]), head(dialect, false)).await;
        let failure = failed.unwrap_err().failure;
        assert_eq!((failure.code, failure.retry_after_ms), (Code::UpstreamRateLimited, Some(wait)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_callers_own_mistake_is_told_in_the_upstreams_words() {
    let claude =
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: too large"}}"#;
    let google = r#"{"error":{"code":400,"message":"Unknown name \"x\"","status":"INVALID_ARGUMENT"}}"#;
    for (dialect, body, words) in [
        (Dialect::Anthropic, claude, "max_tokens: too large"),
        (Dialect::Gemini, google, "Unknown name \"x\""),
    ] {
        let failed = first_does(dialect, vec![with_status("400 Bad", "", body)], false).await.unwrap_err();
        let failure = failed.failure;
        assert_eq!((failure.code, failure.message.as_str()), (Code::InvalidRequest, words));
        assert_eq!(failure.body.as_deref(), Some(body.as_bytes()));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_other_kind_is_made_into_the_one_asked_for() {
    for dialect in BOTH {
        let net = network::Memory::new();
        let fake = Fake::start(&net, move |_request| vec![ok(whole(dialect))]).await;
        let egress = speaking(&net.host(), dialect, &[&fake]);
        let (body, tail) = read(ask_in(&egress, head(dialect, true)).await.unwrap()).await;
        assert_eq!((tail.usage, tail.outcome), (Some(used(dialect)), Outcome::Complete));
        assert!(body.contains("hello") && dialect::openai::is_stream(body.as_bytes()), "{body}");

        let net = network::Memory::new();
        let fake = Fake::start(&net, move |_request| stream(dialect)).await;
        let egress = speaking(&net.host(), dialect, &[&fake]);
        let (body, tail) = read(ask_in(&egress, head(dialect, false)).await.unwrap()).await;
        assert_eq!((tail.usage, tail.outcome), (Some(used(dialect)), Outcome::Complete));
        assert!(body.starts_with('{') && body.contains("hello"), "{body}");
    }
}

/// The node that sent the call knows another configuration than this one.
#[tokio::test(start_paused = true)]
async fn a_call_in_another_api_than_the_upstreams_asks_none() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| vec![ok(CLAUDE)]).await;
    let egress = speaking(&net.host(), Dialect::Anthropic, &[&fake]);
    let failed = ask_in(&egress, head(Dialect::Openai, false)).await.unwrap_err();
    assert_eq!((failed.failure.code, fake.requests().len()), (Code::NoTarget, 0));
}

/// The other node's tail did not come yet; what came tells whether the answer is whole.
#[tokio::test]
async fn a_caller_who_leaves_a_forwarded_stream_after_its_end_has_all_of_it() {
    let host = Host::real();
    for dialect in BOTH {
        // All but the mark that follows the reason, where there is one.
        let all = &events(dialect)[..if dialect == Dialect::Anthropic { 5 } else { 2 }];
        for (sends, outcome) in [(all.len() - 1, Outcome::CallerGone), (all.len(), Outcome::Complete)] {
            let mut steps = vec![sent(STREAM)];
            steps.extend(all[..sends].iter().map(|event| chunk(event)));
            steps.push(Step::Hang);
            let fake = Fake::start_on(&host, move |_request| steps.clone()).await;
            let serving = speaking(&host, dialect, &[&fake]);
            let connection = mesh::reached(&host, &serving).await;
            let near = Egress::new(&host, options());
            let body = Bytes::from_static(ASKED.as_bytes());
            let mut reply = near.forward(&connection, head(dialect, true), body, None).await.unwrap();
            let mut came = String::new();
            while came.len() < all[..sends].concat().len() {
                came.push_str(std::str::from_utf8(&reply.body.next().await.unwrap()).unwrap());
            }
            assert_eq!((came, reply.body.tail().outcome), (all[..sends].concat(), outcome), "{dialect:?}");
        }
    }
}
