//! How connections are kept, and that no call meets one that its peer closed.

use super::*;

async fn ask_twice(fake: &Fake, net: &network::Memory, pause: Duration) {
    let egress = egress(&net.host(), &[fake]);
    for _call in 0..2 {
        let (body, tail) = read(ask(&egress, false).await.unwrap()).await;
        assert_eq!((body.as_str(), tail.hops.len()), (ANSWER, 1));
        net.host().sleep(pause).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_serves_call_after_call() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| vec![ok(ANSWER)]).await;
    ask_twice(&fake, &net, Duration::from_secs(5)).await;
    assert_eq!(fake.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_closed_at_rest_is_not_handed_out() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| vec![ok(ANSWER), Step::Close]).await;
    ask_twice(&fake, &net, Duration::from_millis(1)).await;
    assert_eq!((fake.connections(), fake.requests().len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_dies_under_the_request_is_replaced_silently() {
    let net = network::Memory::new();
    let fake =
        Fake::start(&net, |request| if request == 1 { vec![Step::Close] } else { vec![ok(ANSWER)] }).await;
    ask_twice(&fake, &net, Duration::from_millis(1)).await;
    assert_eq!((fake.connections(), fake.requests().len()), (2, 3));
}

/// llama.cpp closes after 5 s at rest or 100 calls, and says so.
#[tokio::test(start_paused = true)]
async fn what_the_peer_says_about_keeping_is_heeded() {
    let answer = |says: &'static str| move |_request| vec![with_status("200 OK", says, ANSWER)];
    let net = network::Memory::new();
    let timeout = Fake::start(&net, answer("keep-alive: timeout=5, max=100\r\n")).await;
    ask_twice(&timeout, &net, Duration::from_millis(3900)).await;
    assert_eq!(timeout.connections(), 1);
    let timeout = Fake::start(&net, answer("keep-alive: timeout=5, max=100\r\n")).await;
    ask_twice(&timeout, &net, Duration::from_millis(4100)).await;
    assert_eq!(timeout.connections(), 2);
    let calls = Fake::start(&net, answer("Keep-Alive: max=1\r\n")).await;
    ask_twice(&calls, &net, Duration::from_millis(1)).await;
    assert_eq!(calls.connections(), 2);
    let close = Fake::start(&net, answer("connection: close\r\n")).await;
    ask_twice(&close, &net, Duration::from_millis(1)).await;
    assert_eq!(close.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_closed_connection_is_let_go_and_another_made_ready() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| vec![ok(ANSWER), Step::Close]).await;
    let egress = Egress::new(&net.host(), Options { warm: 1, ..options() });
    egress.install(vec![upstream("a", &fake)]);
    net.host().sleep(Duration::from_millis(10)).await;
    read(ask(&egress, false).await.unwrap()).await;
    net.host().sleep(Duration::from_secs(1)).await;
    assert_eq!((fake.connections(), egress.instances()[0].idle), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stream_read_to_its_end_gives_its_connection_back() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| healthy_stream()).await;
    let egress = egress(&net.host(), &[&fake]);
    for _call in 0..3 {
        read(ask(&egress, true).await.unwrap()).await;
    }
    assert_eq!(fake.connections(), 1);
}
