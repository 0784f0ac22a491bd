//! Event streams after they began.

use super::*;

async fn stream_of(steps: Vec<Step>) -> (String, Tail, Egress) {
    let net = network::Memory::new();
    let fake = Fake::start(&net, move |_request| [vec![sent(STREAM)], steps.clone()].concat()).await;
    let other = Fake::start(&net, |_request| healthy_stream()).await;
    let egress = egress(&net.host(), &[&fake, &other]);
    let (body, tail) = read(ask(&egress, true).await.unwrap()).await;
    assert_eq!(other.requests().len(), 0);
    (body, tail, egress)
}

#[tokio::test(start_paused = true)]
async fn usage_is_taken_and_kept_from_a_caller_who_did_not_ask() {
    let (body, tail, _egress) = stream_of(healthy_stream().split_off(1)).await;
    assert_eq!(body, [TEXT, FINISH, DONE].concat());
    let usage = tail.usage.unwrap();
    assert_eq!((tail.outcome, tail.code, usage.input.0, usage.output.0), (Outcome::Complete, None, 9, 2));
}

#[tokio::test(start_paused = true)]
async fn events_come_whole_however_they_were_cut() {
    let text = [TEXT, TEXT, FINISH, USAGE, DONE].concat();
    for size in [1, 7, 64, 1000] {
        let pieces = text.as_bytes().chunks(size).map(|piece| chunk(std::str::from_utf8(piece).unwrap()));
        let mut steps = vec![sent(STREAM)];
        steps.extend(pieces.flat_map(|piece| [piece, Step::Wait(Duration::from_millis(1))]));
        steps.push(sent(LAST_CHUNK));
        let net = network::Memory::new();
        let fake = Fake::start(&net, move |_request| steps.clone()).await;
        let mut reply = ask(&egress(&net.host(), &[&fake]), true).await.unwrap();
        let mut all = String::new();
        while let Some(item) = reply.body.next().await {
            assert!(dialect::sse::ends_event(&item));
            all.push_str(std::str::from_utf8(&item).unwrap());
        }
        assert_eq!(all, [TEXT, TEXT, FINISH, DONE].concat());
    }
}

/// Cases B016 and B093: what broke off is said to have, and nobody else continues it.
#[tokio::test(start_paused = true)]
async fn a_broken_stream_ends_cut_and_is_not_tried_elsewhere() {
    let error = "data: {\"error\":{\"message\":\"secret path /models/x\",\"code\":500}}\n\n";
    let cases = [
        (vec![chunk(TEXT), Step::Close], Code::UpstreamCut),
        (vec![chunk(TEXT), sent(LAST_CHUNK)], Code::UpstreamCut),
        (vec![chunk(TEXT), chunk(&TEXT[..20]), sent(LAST_CHUNK)], Code::UpstreamInvalid),
        (vec![chunk(TEXT), Step::Hang], Code::UpstreamTimeout),
        (vec![chunk(TEXT), chunk(error), sent(LAST_CHUNK)], Code::UpstreamError),
        (vec![chunk(TEXT), chunk("data: oops\n\n"), sent(LAST_CHUNK)], Code::UpstreamInvalid),
    ];
    for (steps, code) in cases {
        let shown = format!("{steps:?}");
        let (body, tail, _egress) = stream_of(steps).await;
        assert_eq!((body.as_str(), tail.outcome, tail.code), (TEXT, Outcome::Cut, Some(code)), "{shown}");
        assert_eq!(hops(&tail), [("a", Err(code))]);
    }
}

/// Case B017, and an upstream that says the end and then dawdles.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_whole_ends_well() {
    for steps in [
        vec![chunk(TEXT), chunk(FINISH), sent(LAST_CHUNK)],
        vec![chunk(TEXT), chunk(FINISH), Step::Close],
        vec![chunk(TEXT), chunk(FINISH), chunk(DONE), Step::Hang],
        vec![chunk(TEXT), chunk(FINISH), chunk(DONE), chunk(DONE), sent(LAST_CHUNK)],
    ] {
        let shown = format!("{steps:?}");
        let (body, tail, egress) = stream_of(steps).await;
        assert_eq!((body, tail.outcome), ([TEXT, FINISH, DONE].concat(), Outcome::Complete), "{shown}");
        assert!(egress.instances().iter().all(|one| one.outstanding == 0));
    }
}

/// Case B110: only silence cuts a long stream.
#[tokio::test(start_paused = true)]
async fn a_slow_healthy_stream_completes() {
    let mut steps: Vec<_> =
        (0..200).flat_map(|_token| [Step::Wait(Duration::from_secs(2)), chunk(TEXT)]).collect();
    steps.extend([chunk(FINISH), chunk(USAGE), chunk(DONE), sent(LAST_CHUNK)]);
    let (body, tail, _egress) = stream_of(steps).await;
    assert_eq!((body.len(), tail.outcome), (TEXT.len() * 200 + FINISH.len() + DONE.len(), Outcome::Complete));
}

#[tokio::test(start_paused = true)]
async fn an_event_without_end_is_cut_at_its_bound() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| {
        vec![
            sent("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"),
            sent(TEXT),
            Step::Endless("data: x\n"),
        ]
    })
    .await;
    let egress = Egress::new(&net.host(), Options { max_event: 100_000, ..options() });
    egress.install(vec![upstream("a", &fake)]);
    let (_body, tail) = read(ask(&egress, true).await.unwrap()).await;
    assert_eq!((tail.outcome, tail.code), (Outcome::Cut, Some(Code::UpstreamInvalid)));
    fake.left().await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_does_not_read_holds_the_upstream_back() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| {
        vec![sent("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"), Step::Endless(TEXT)]
    })
    .await;
    let mut reply = ask(&egress(&net.host(), &[&fake]), true).await.unwrap();
    reply.body.next().await.unwrap();
    net.host().sleep(Duration::from_secs(30)).await;
    assert!(fake.written() < 100_000, "{}", fake.written());
}

/// Case B029: a server that ignores `stream`, or mislabels what it sends.
#[tokio::test(start_paused = true)]
async fn an_answer_of_the_other_kind_is_made_into_the_one_asked_for() {
    let events = [TEXT, FINISH, USAGE, DONE].concat();
    let labelled = |kind: &str, body: &str| {
        let length = body.len();
        sent(&format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"))
    };
    let cases = [
        (false, labelled("application/json", &events), "application/json"),
        (false, labelled("text/event-stream", &events), "application/json"),
        (true, labelled("application/json", ANSWER), "text/event-stream"),
        (true, labelled("application/json", &events), "text/event-stream"),
    ];
    for (stream, step, kind) in cases {
        let shown = format!("{stream} {step:?}");
        let net = network::Memory::new();
        let fake = Fake::start(&net, move |_request| vec![step.clone()]).await;
        let reply = ask(&egress(&net.host(), &[&fake]), stream).await.unwrap();
        assert_eq!(reply.headers["content-type"], kind, "{shown}");
        let (body, tail) = read(reply).await;
        assert_eq!((tail.outcome, tail.usage.is_some()), (Outcome::Complete, true), "{shown}");
        if stream {
            assert!(body.starts_with("data: {") && body.ends_with(DONE) && !body.contains("usage"), "{body}");
        } else {
            assert!(dialect::openai::check_chat(body.as_bytes()).unwrap().is_some(), "{body}");
        }
    }
}
