//! Callers who do not read hold their model back, and are cut when they take nothing for too long.

use std::time::Duration;

use http_body_util::BodyExt as _;

use super::caller::Over;
use super::server::{Act, Server};
use super::world::World;

const STREAM: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true}"#;

/// What may be between the model and a caller that takes nothing: the kernel's socket buffers of two hops, at most 4 MiB
/// to send and 6 MiB to receive each on Linux, the caller's own window, and less than 1 MiB of ours. The simulated mesh,
/// whose sockets hold 256 KiB, shows the last.
const HELD: usize = 32 * 1024 * 1024;

#[tokio::test]
async fn a_caller_that_takes_nothing_holds_the_model_back_and_is_cut_over_every_version() {
    let server = Server::start(&seam::Host::real(), Act::Flood).await;
    let stall = Duration::from_millis(400);
    let world = World::start(&server.url, |config, _| config.guard.stall_time = stall).await;
    let caller = world.caller();
    for over in [Over::Plain1, Over::Plain2, Over::Secure1, Over::Secure2] {
        let (before, asked) = (server.flooded(), world.host.now());
        let unread = caller.open(over, caller.post("/v1/chat/completions", STREAM)).await.into_body();
        cut(&world, &server, before).await;
        assert!(world.host.now().since(asked) >= stall, "{over:?}: it had its time");
        let cut = unread.collect().await;
        assert!(
            cut.is_err() || !String::from_utf8_lossy(&cut.unwrap().to_bytes()).contains("[DONE]"),
            "{over:?}"
        );
    }
    let before = server.flooded();
    let (mut unread, connection) = caller.begin_http3(caller.post("/v1/chat/completions", STREAM)).await;
    unread.recv_response().await.unwrap();
    cut(&world, &server, before).await;
    while let Ok(Some(_piece)) = unread.recv_data().await {}
    drop((unread, connection));
    let records = world.records(5).await;
    assert!(records.iter().all(|record| record["outcome"] == "caller_gone"), "{records:?}");
}

#[tokio::test]
async fn a_caller_that_reads_slowly_is_not_cut() {
    let server = Server::start(&seam::Host::real(), Act::Flood).await;
    let stall = Duration::from_millis(400);
    let world = World::start(&server.url, |config, _| config.guard.stall_time = stall).await;
    let caller = world.caller();
    for over in [Over::Plain1, Over::Secure2] {
        let begun = world.host.now();
        let mut body = caller.open(over, caller.post("/v1/chat/completions", STREAM)).await.into_body();
        let mut read = 0;
        while world.host.now().since(begun) < 3 * stall {
            // More than what is on the way each time, or the writer would not see that it is read.
            let mut taken = 0;
            while taken < HELD {
                taken += body.frame().await.expect("it goes on").unwrap().into_data().unwrap().len();
            }
            read += taken;
            world.host.sleep(stall / 4).await;
        }
        assert!(read > HELD, "{over:?}");
    }
}

/// Waits until the node gave the call up; meanwhile the model could send no more than a bound.
async fn cut(world: &World, server: &Server, before: usize) {
    let ended = async {
        server.open(0).await;
        world.quiet().await;
    };
    world.host.timeout(Duration::from_secs(10), ended).await.expect("the call is given up");
    let sent = server.flooded() - before;
    assert!(sent < HELD, "{sent} bytes were sent to nobody");
}
