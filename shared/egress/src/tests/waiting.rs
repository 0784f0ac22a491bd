//! Calls that wait for a place.

use upstream::Bounds;

use super::*;

/// A model with one place, held.
async fn held(net: &network::Memory, most_waiting: usize) -> (Fake, Egress, Reply) {
    let fake = Fake::start(net, |_request| vec![sent(STREAM), chunk(TEXT), Step::Hang]).await;
    let egress = Egress::new(
        &net.host(),
        Options {
            waiting: Bounds { all: most_waiting, each: most_waiting, ages: Duration::from_secs(10) },
            ..options()
        },
    );
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
    assert_eq!((refused.failure.code, refused.failure.code.status()), (Code::QueueFull, 429));
    assert_eq!(refused.failure.retry_after_ms, Some(1_000));
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
async fn who_leaves_the_line_has_reached_what_was_tried_before_it_and_no_more() {
    let net = network::Memory::new();
    let (full, egress, _held) = held(&net, 8).await;
    let bad = Fake::start(&net, |_request| vec![with_status("500 No", "", "{}")]).await;
    for tried in [false, true] {
        let full = Upstream { terms: at_once(Some(1)), ..upstream("a", &full) };
        egress.install([full].into_iter().chain(tried.then(|| upstream("b", &bad))).collect());
        let (head, mut left) = (CallHead { place_ms: 60_000, ..call(true) }, Left::untouched());
        let waiting = egress.serve(head, Bytes::from_static(b"{}"), Some(&mut left));
        net.host().timeout(Duration::from_millis(50), waiting).await.unwrap_err();
        let tail = told(left);
        let before = if tried { vec![("b", Err(Code::UpstreamError))] } else { Vec::new() };
        assert_eq!((tail.reached_upstream, hops(&tail)), (tried, before));
    }
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
    // The rate lets the call pass between two looks at what is kept.
    net.host().sleep(Duration::from_millis(137)).await;
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

/// A call that waits and, when it is served, says so and ends; dropped before, it leaves the line.
async fn passes_by(
    net: &network::Memory,
    egress: &Egress,
    head: CallHead,
    served: &Served,
) -> seam::Bound<()> {
    let (egress, served, who) = (egress.clone(), Arc::clone(served), head.key.to_string());
    let task = net.host().spawn("passes by", async move {
        let answered = egress.serve(head, Bytes::from_static(b"{}"), None).await;
        if answered.is_ok() {
            served.lock().push(who);
        }
    });
    net.host().sleep(Duration::from_millis(1)).await;
    task.bound()
}

type Served = Arc<seam::Lock<Vec<String>>>;

fn patient(tenant: &str, who: &str, priority: Priority) -> CallHead {
    let (tenant, key) = (tenant.parse().unwrap(), who.parse().unwrap());
    CallHead { tenant, key, priority, place_ms: 60_000, ..call(true) }
}

#[tokio::test(start_paused = true)]
async fn tenants_take_turns_and_batch_work_yields() {
    let net = network::Memory::new();
    let (_fake, egress, held) = held(&net, 16).await;
    let served = Served::default();
    let mut waiting = Vec::new();
    for (tenant, who, priority) in [
        ("many", "batch", Priority::Batch),
        ("many", "m1", Priority::Interactive),
        ("many", "m2", Priority::Interactive),
        ("many", "m3", Priority::Interactive),
        ("few", "f1", Priority::Interactive),
    ] {
        waiting.push(passes_by(&net, &egress, patient(tenant, who, priority), &served).await);
    }
    drop(held);
    net.host().sleep(Duration::from_millis(50)).await;
    assert_eq!(*served.lock(), ["f1", "m1", "m2", "m3", "batch"]);
}

/// Every way in which six calls stay, leave before a place comes free, or leave once it was handed to them.
#[tokio::test(start_paused = true)]
async fn no_place_is_lost_however_calls_leave() {
    for pattern in 0..3usize.pow(6) {
        let net = network::Memory::new();
        let (_fake, egress, held) = held(&net, 8).await;
        let (served, mut stayers, mut early, mut late) =
            (Served::default(), Vec::new(), Vec::new(), Vec::new());
        let mut expected = Vec::new();
        for nth in 0..6u32 {
            let who = format!("k{nth}");
            let waiting =
                passes_by(&net, &egress, patient("acme", &who, Priority::Interactive), &served).await;
            match pattern / 3usize.pow(nth) % 3 {
                0 => {
                    expected.push(who);
                    stayers.push(waiting);
                }
                1 => early.push(waiting),
                _ => late.push(waiting),
            }
        }
        drop(early);
        // Nobody who waits runs between the hand-over and its leaving.
        drop(held);
        drop(late);
        net.host().sleep(Duration::from_millis(50)).await;
        assert_eq!(*served.lock(), expected, "pattern {pattern}");
        assert_eq!(egress.instances()[0].outstanding, 0, "pattern {pattern}");
        assert!(ask(&egress, true).await.is_ok(), "pattern {pattern}");
    }
}
