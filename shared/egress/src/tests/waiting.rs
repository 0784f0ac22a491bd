//! Calls that wait for a place.

use super::*;

/// A model with one place, held.
async fn held(net: &network::Memory, most_waiting: usize) -> (Fake, Egress, Reply) {
    let fake = Fake::start(net, |_request| vec![sent(STREAM), chunk(TEXT), Step::Hang]).await;
    let egress = Egress::new(&net.host(), Options { most_waiting, ..options() });
    egress.install(vec![Upstream { terms: at_once(Some(1)), ..upstream("a", &fake) }]);
    let held = ask(&egress, true).await.unwrap();
    (fake, egress, held)
}

/// A call that may wait; it is in line once this returns.
async fn waits(net: &network::Memory, egress: &Egress, place_ms: u32) -> seam::Task<Exchange> {
    let (egress, head) = (egress.clone(), CallHead { place_ms, ..call(true) });
    let task =
        net.host().spawn("waits", async move { egress.serve(head, Bytes::from_static(b"{}"), None).await });
    net.host().sleep(Duration::from_millis(1)).await;
    task
}

#[tokio::test(start_paused = true)]
async fn who_came_first_is_first_and_a_new_call_takes_no_place_before_them() {
    let net = network::Memory::new();
    let (_fake, egress, held) = held(&net, 8).await;
    let first = waits(&net, &egress, 60_000).await;
    let second = waits(&net, &egress, 60_000).await;

    drop(held);
    // The place is free, and not for this one.
    let refused = ask(&egress, true).await.unwrap_err();
    assert_eq!(refused.failure.code, Code::ModelOverloaded);
    let served = first.await.unwrap().unwrap();
    drop(served);
    drop(second.await.unwrap().unwrap());
    assert!(ask(&egress, true).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_an_end_and_the_line_a_bound() {
    let net = network::Memory::new();
    let (_fake, egress, _held) = held(&net, 1).await;
    let begun = net.host().now();
    let waiting = waits(&net, &egress, 700).await;
    let refused = waits(&net, &egress, 700).await.await.unwrap().unwrap_err();
    assert_eq!(refused.failure.code, Code::ModelOverloaded);
    assert!(net.host().now().since(begun) < Duration::from_millis(10), "the line is full");

    let refused = waiting.await.unwrap().unwrap_err();
    assert_eq!((refused.failure.code, refused.tail.reached_upstream), (Code::ModelOverloaded, false));
    assert_eq!(net.host().now().since(begun).as_millis() / 10, 70);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_line_holds_nobody_up() {
    let net = network::Memory::new();
    let (_fake, egress, held) = held(&net, 8).await;
    let leaver = waits(&net, &egress, 60_000).await.bound();
    let stayer = waits(&net, &egress, 60_000).await;
    drop(leaver);
    let begun = net.host().now();
    drop(held);
    drop(stayer.await.unwrap().unwrap());
    assert!(net.host().now().since(begun) < Duration::from_millis(10));

    // Whoever was told of a place and left before taking it passes it on.
    let held = ask(&egress, true).await.unwrap();
    let leaver = waits(&net, &egress, 60_000).await.bound();
    let stayer = waits(&net, &egress, 60_000).await;
    drop(held);
    drop(leaver);
    drop(stayer.await.unwrap().unwrap());
    assert!(net.host().now().since(begun) < Duration::from_millis(600));
}

#[tokio::test(start_paused = true)]
async fn more_room_is_noticed_without_a_call_that_ends() {
    let net = network::Memory::new();
    let (fake, egress, _held) = held(&net, 8).await;
    let waiting = waits(&net, &egress, 60_000).await;
    egress.install(vec![Upstream { terms: at_once(Some(2)), ..upstream("a", &fake) }]);
    let begun = net.host().now();
    assert!(waiting.await.unwrap().is_ok());
    assert!(net.host().now().since(begun) < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn an_instance_over_its_rate_is_passed_over_and_else_waited_for_until_the_rate_lets_the_call_pass() {
    let net = network::Memory::new();
    let (slow, other) = (
        Fake::start(&net, |_request| vec![ok(ANSWER)]).await,
        Fake::start(&net, |_request| vec![ok(ANSWER)]).await,
    );
    let egress = Egress::new(&net.host(), options());
    // A call is one of 100 tokens at most, and turns out as one of 11.
    let terms = Terms { requests_per_min: Some(2), tokens_per_min: Some(150), ..Terms::default() };
    egress.install(vec![Upstream { terms, ..upstream("a", &slow) }, upstream("b", &other)]);
    for _call in 0..6 {
        read(ask(&egress, false).await.unwrap()).await;
    }
    assert_eq!((slow.requests().len(), other.requests().len()), (2, 4));

    egress.install(vec![Upstream { terms, ..upstream("a", &slow) }]);
    let begun = net.host().now();
    let refused = ask(&egress, false).await.unwrap_err();
    assert_eq!(refused.failure.code, Code::ModelOverloaded);
    let wait = refused.failure.retry_after_ms.unwrap();
    assert!((29_000..=30_000).contains(&wait), "{wait}");
    let waiting = waits(&net, &egress, 60_000).await;
    assert!(waiting.await.unwrap().is_ok());
    let waited = net.host().now().since(begun);
    assert!(waited >= Duration::from_millis(wait.into()), "{waited:?}");
    assert!(waited < Duration::from_millis(wait.into()) + Duration::from_millis(10), "{waited:?}");
}
