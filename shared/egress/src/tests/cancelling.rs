//! A caller that leaves takes its call with it, whatever phase that is in.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use super::*;

/// Case B106, before the answer's head.
#[tokio::test(start_paused = true)]
async fn leaving_before_the_answer_closes_the_connection() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| vec![Step::Hang]).await;
    let egress = egress(&net.host(), &[&fake]);
    let begun = net.host().now();
    let late = net.host().timeout(Duration::from_millis(50), ask(&egress, false)).await;
    assert!(late.is_err());
    fake.left().await;
    assert!(net.host().now().since(begun) < Duration::from_millis(60));
    assert_eq!((egress.instances()[0].outstanding, fake.requests().len()), (0, 1));
    assert!(egress.instances()[0].serving);
}

/// The attempts before it and the one in progress, so that whoever drops the call can tell of them.
#[tokio::test(start_paused = true)]
async fn leaving_puts_what_was_tried_into_the_callers_hands() {
    let net = network::Memory::new();
    let bad = Fake::start(&net, |_request| vec![with_status("500 No", "", "{}")]).await;
    let slow = Fake::start(&net, |_request| vec![Step::Hang]).await;
    let egress = egress(&net.host(), &[&bad, &slow]);
    let mut left = Left::untouched();
    let serving = egress.serve(call(false), Bytes::from_static(BODY.as_bytes()), Some(&mut left));
    net.host().timeout(Duration::from_millis(50), serving).await.unwrap_err();
    let tail = told(left);
    assert_eq!(hops(&tail), [("a", Err(Code::UpstreamError)), ("b", Err(Code::CallerGone))]);
    assert!(tail.reached_upstream && tail.hops[1].total_us >= 40_000, "{tail:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_leaves_no_word_of_how_far_its_call_came() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |request| if request == 0 { vec![ok(ANSWER)] } else { Vec::new() }).await;
    let egress = egress(&net.host(), &[&fake]);
    for answered in [true, false] {
        let mut left = Left::untouched();
        let served = egress.serve(call(false), Bytes::from_static(BODY.as_bytes()), Some(&mut left)).await;
        assert_eq!((served.is_ok(), matches!(left, Left::Untold)), (answered, true));
    }
}

#[tokio::test(start_paused = true)]
async fn leaving_while_connecting_leaves_nothing_behind() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| vec![ok(ANSWER)]).await;
    let egress = Egress::new(&net.host(), options());
    let origin = format!("http://x:{}", network::BLACK_HOLE).parse().unwrap();
    egress.install(vec![Upstream { origin, ..upstream("a", &fake) }]);
    let mut left = Left::untouched();
    {
        let asking = egress.serve(call(false), Bytes::from_static(BODY.as_bytes()), Some(&mut left));
        let mut asking = pin!(asking);
        let polled = poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx).is_ready())).await;
        assert!(!polled);
        assert_eq!(egress.instances()[0].outstanding, 1);
    }
    assert_eq!(egress.instances()[0].outstanding, 0);
    let tail = told(left);
    assert_eq!((tail.reached_upstream, hops(&tail)), (false, vec![("a", Err(Code::CallerGone))]));
}

#[tokio::test(start_paused = true)]
async fn leaving_mid_stream_closes_the_connection() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| vec![sent(STREAM), chunk(TEXT), Step::Hang]).await;
    let egress = egress(&net.host(), &[&fake]);
    let mut reply = ask(&egress, true).await.unwrap();
    assert_eq!(reply.body.next().await.unwrap(), TEXT);
    let tail = reply.body.tail();
    assert_eq!((tail.outcome, tail.code), (Outcome::CallerGone, Some(Code::CallerGone)));
    drop(reply);
    fake.left().await;
    assert_eq!((egress.instances()[0].outstanding, egress.instances()[0].serving), (0, true));
}

/// Case B109: the usage that follows the finish is awaited for a moment.
#[tokio::test(start_paused = true)]
async fn leaving_after_the_finish_is_no_failure() {
    let late = Step::Wait(Duration::from_millis(200));
    for (last, known) in [(chunk(USAGE), true), (Step::Hang, false)] {
        let net = network::Memory::new();
        let steps = vec![sent(STREAM), chunk(FINISH), late.clone(), last];
        let fake = Fake::start(&net, move |_request| steps.clone()).await;
        let egress = egress(&net.host(), &[&fake]);
        let mut reply = ask(&egress, true).await.unwrap();
        reply.body.next().await.unwrap();
        let begun = net.host().now();
        let tail = reply.body.leave(Duration::from_millis(500)).await;
        assert_eq!((tail.outcome, tail.usage.is_some()), (Outcome::Complete, known));
        assert!(net.host().now().since(begun) < Duration::from_millis(510));
        assert_eq!(egress.instances()[0].outstanding, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn leaving_before_the_finish_waits_for_nothing() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| vec![sent(STREAM), chunk(TEXT), Step::Hang]).await;
    let mut reply = ask(&egress(&net.host(), &[&fake]), true).await.unwrap();
    reply.body.next().await.unwrap();
    let begun = net.host().now();
    assert_eq!(reply.body.leave(Duration::from_millis(500)).await.outcome, Outcome::CallerGone);
    assert_eq!(net.host().now(), begun);
    fake.left().await;
}
