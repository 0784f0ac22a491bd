//! What counts as a failure before an answer begins, and where the call goes then.

use super::*;

/// A call whose first instance does `steps`; the second is healthy.
async fn first_does(steps: Vec<Step>, stream: bool) -> (Exchange, Egress) {
    let net = network::Memory::new();
    let bad = Fake::start(&net, move |_request| steps.clone()).await;
    let good =
        Fake::start(&net, move |_request| if stream { healthy_stream() } else { vec![ok(ANSWER)] }).await;
    let egress = egress(&net.host(), &[&bad, &good]);
    (ask(&egress, stream).await, egress)
}

/// Cases B090 and B014, and every other way to answer without an answer.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_none_moves_the_call_on() {
    let gzip = "content-encoding: gzip\r\n";
    let whole = [
        (with_status("500 Oops", "", "{}"), Code::UpstreamError),
        (with_status("503 Busy", "", "<html>"), Code::ModelOverloaded),
        (with_status("429 Slow", "retry-after: 3\r\n", "{}"), Code::UpstreamRateLimited),
        (with_status("401 No", "", r#"{"error":{"message":"bad key"}}"#), Code::UpstreamAuth),
        (with_status("307 There", "location: http://elsewhere\r\n", ""), Code::UpstreamInvalid),
        (with_status("200 OK", gzip, ANSWER), Code::UpstreamInvalid),
        (ok("<html>hello</html>"), Code::UpstreamInvalid),
        (ok(&ANSWER[..40]), Code::UpstreamInvalid),
        (ok(r#"{"choices":[]}"#), Code::UpstreamInvalid),
        (ok(r#"{"error":{"message":"CUDA out of memory"}}"#), Code::ModelGpuOom),
        (Step::Close, Code::UpstreamUnreachable),
        (sent("SSH-2.0-OpenSSH_9.2\r\n"), Code::UpstreamInvalid),
        (Step::Endless("x-more: headers without end\r\n"), Code::UpstreamUnreachable),
        (Step::Hang, Code::UpstreamTimeout),
    ];
    for (step, code) in whole {
        let shown = format!("{step:?}");
        let steps = if shown.starts_with("Endless") {
            vec![sent("HTTP/1.1 200 OK\r\n"), step]
        } else {
            vec![step, Step::Close]
        };
        let code = if shown.starts_with("Endless") { Code::UpstreamInvalid } else { code };
        let (exchange, _egress) = first_does(steps, false).await;
        let (body, tail) = read(exchange.unwrap()).await;
        assert_eq!((body.as_str(), hops(&tail)), (ANSWER, vec![("a", Err(code)), ("b", Ok(200))]), "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_does_not_begin_moves_the_call_on() {
    let quota = "data: {\"error\":{\"message\":\"quota used up\",\"code\":\"insufficient_quota\"}}\n\n";
    let cases = [
        (vec![chunk(quota), chunk(DONE), sent(LAST_CHUNK)], Code::UpstreamRateLimited),
        (vec![chunk(": busy\n\n"), sent(LAST_CHUNK)], Code::UpstreamInvalid),
        (vec![chunk("data: <html>\n\n"), sent(LAST_CHUNK)], Code::UpstreamInvalid),
        (vec![chunk(": busy\n\n"), Step::Close], Code::UpstreamUnreachable),
        (vec![Step::Close], Code::UpstreamUnreachable),
        (vec![chunk(": busy\n\n"), Step::Hang], Code::UpstreamTimeout),
    ];
    for (steps, code) in cases {
        let shown = format!("{steps:?}");
        let steps = [vec![sent(STREAM)], steps].concat();
        let (exchange, _egress) = first_does(steps, true).await;
        let (body, tail) = read(exchange.unwrap()).await;
        assert_eq!(hops(&tail), [("a", Err(code)), ("b", Ok(200))], "{shown}");
        assert_eq!(body, [TEXT, FINISH, DONE].concat());
    }
}

/// Cases B098 and B091: the caller's mistake is the caller's to see, and no other instance is asked.
#[tokio::test(start_paused = true)]
async fn a_mistake_of_the_caller_is_told_and_not_tried_again() {
    let said = r#"{"error":{"message":"tool `f` has no schema","type":"invalid_request_error"}}"#;
    for stream in [false, true] {
        let (exchange, egress) = first_does(vec![with_status("400 Bad", "", said)], stream).await;
        let failed = exchange.unwrap_err();
        assert_eq!((failed.failure.code, failed.failure.upstream_status), (Code::InvalidRequest, Some(400)));
        assert_eq!(failed.failure.body.as_deref(), Some(said.as_bytes()));
        assert_eq!(hops(&failed.tail), [("a", Err(Code::InvalidRequest))]);
        assert!(egress.instances().iter().all(|one| one.serving));
    }
}

/// Case B089.
#[tokio::test(start_paused = true)]
async fn a_full_context_keeps_the_upstreams_words() {
    let said = r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"request (1500 tokens) exceeds the available context size (1000 tokens)"}}"#;
    let (exchange, _egress) = first_does(vec![with_status("400 Bad", "", said)], false).await;
    let failure = exchange.unwrap_err().failure;
    assert_eq!((failure.code, failure.body), (Code::ContextTooLong, None));
    assert!(failure.message.contains("1500 tokens"));
}

/// Case B086: the shortest wait that any of them asked for.
#[tokio::test(start_paused = true)]
async fn a_wait_that_upstreams_ask_for_is_told() {
    let net = network::Memory::new();
    let slow = |wait: &'static str| move |_request| vec![with_status("429 Slow", wait, "{}")];
    let (first, second) = (
        Fake::start(&net, slow("retry-after: 30\r\n")).await,
        Fake::start(&net, slow("retry-after: 20\r\n")).await,
    );
    let egress = egress(&net.host(), &[&first, &second]);
    let failure = ask(&egress, false).await.unwrap_err().failure;
    assert_eq!((failure.code, failure.retry_after_ms), (Code::UpstreamRateLimited, Some(20_000)));
    let again = ask(&egress, false).await.unwrap_err();
    assert_eq!((again.failure.code, again.tail.hops.len()), (Code::UpstreamRateLimited, 0));
    assert_eq!((first.requests().len(), second.requests().len()), (1, 1));
}

/// Case B101: refused and unanswered connections cool an instance too.
#[tokio::test(start_paused = true)]
async fn an_instance_that_takes_no_connection_goes_out() {
    let net = network::Memory::new();
    let good = Fake::start(&net, |_request| vec![ok(ANSWER)]).await;
    for port in [network::BLACK_HOLE, 2] {
        let egress = Egress::new(&net.host(), options());
        let dead = Upstream { origin: format!("http://x:{port}").parse().unwrap(), ..upstream("a", &good) };
        egress.install(vec![dead, upstream("b", &good)]);
        let mut failures = 0;
        for _call in 0..10 {
            let begun = net.host().now();
            let (_body, tail) = read(ask(&egress, false).await.unwrap()).await;
            failures += tail.hops.len() - 1;
            assert!(net.host().now().since(begun) <= Duration::from_secs(2));
        }
        assert_eq!((failures, egress.instances()[0].serving), (3, false));
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_upstream_is_left_at_the_limit_and_the_deadline_ends_all() {
    let net = network::Memory::new();
    let silent = Fake::start(&net, |_request| vec![Step::Hang]).await;
    let egress = egress(&net.host(), &[&silent]);
    let timed = async |first_byte_ms, total_ms| {
        let begun = net.host().now();
        let mut head = call(false);
        head.timeouts = Timeouts { first_byte_ms, total_ms, ..head.timeouts };
        let failed = egress.serve(head, Bytes::from_static(b"{}"), None).await.unwrap_err();
        assert!(failed.tail.reached_upstream);
        (failed.failure.code, net.host().now().since(begun).as_millis())
    };
    let (code, waited) = timed(700, 9000).await;
    assert_eq!((code, waited / 10), (Code::UpstreamTimeout, 70));
    let (code, waited) = timed(9000, 800).await;
    assert_eq!((code, waited / 10), (Code::DeadlineExceeded, 80));
    silent.left().await;
}

#[tokio::test(start_paused = true)]
async fn a_head_alone_gives_an_upstream_no_more_time() {
    let net = network::Memory::new();
    let late = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let halting = Fake::start(&net, move |_request| {
        vec![Step::Wait(Duration::from_millis(500)), sent(late), Step::Hang]
    })
    .await;
    let egress = egress(&net.host(), &[&halting]);
    let begun = net.host().now();
    let mut head = call(true);
    head.timeouts = Timeouts { first_byte_ms: 700, total_ms: 9000, ..head.timeouts };
    let failed = egress.serve(head, Bytes::from_static(b"{}"), None).await.unwrap_err();
    assert_eq!(failed.failure.code, Code::UpstreamTimeout);
    assert_eq!(net.host().now().since(begun).as_millis() / 10, 70);
}

/// Case B095: the attempts of one call have one bound.
#[tokio::test(start_paused = true)]
async fn each_instance_is_tried_once_within_the_bound() {
    let net = network::Memory::new();
    let mut fakes = Vec::new();
    for _instance in 0..5 {
        fakes.push(Fake::start(&net, |_request| vec![with_status("500 Oops", "", "")]).await);
    }
    let egress = Egress::new(&net.host(), options());
    let names = ["a", "b", "c", "d", "e"];
    egress.install(names.iter().zip(&fakes).map(|(name, fake)| upstream(name, fake)).collect());
    let failed = ask(&egress, false).await.unwrap_err();
    assert_eq!((failed.failure.code, failed.tail.hops.len()), (Code::UpstreamError, 3));
    assert_eq!(fakes.iter().map(|fake| fake.requests().len()).sum::<usize>(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_beyond_its_bound_is_given_up() {
    let net = network::Memory::new();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"a\":\"";
    let endless =
        Fake::start(&net, move |_request| vec![sent(head), Step::Endless("xxxxxxxxxxxxxxxx")]).await;
    let egress = Egress::new(&net.host(), Options { max_reply: 100_000, ..options() });
    egress.install(vec![upstream("a", &endless)]);
    assert_eq!(ask(&egress, false).await.unwrap_err().failure.code, Code::UpstreamInvalid);
    endless.left().await;
    assert!(endless.written() < 200_000);
}
