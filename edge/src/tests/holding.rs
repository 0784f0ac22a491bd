//! A node holds a bounded number of bytes of bodies, whoever sends them.

use std::time::Duration;

use super::caller::ALL;
use super::server::{Act, Server};
use super::world::World;

const CHAT: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}]}"#;

/// What the node holds at once: two of the long bodies, since an eighth is left to small ones.
const HELD: usize = 256 * 1024;
const LONG: usize = 100_000;

#[tokio::test]
async fn long_bodies_at_once_are_refused_beyond_the_bound_and_small_ones_pass() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |config, _| {
        (config.guard.body_bytes, config.guard.held_bytes) = (LONG, HELD);
    })
    .await;
    let caller = world.caller();
    let uploads: Vec<_> = [LONG, LONG, 0, 0].map(|announced| upload(&world, announced)).into();
    until(&world, || world.edge.bodies.held() >= 2 * LONG + 2 * 8 * 1024).await;

    for over in ALL {
        let answer = caller.over(over, caller.post("/v1/chat/completions", vec![b' '; LONG])).await;
        assert_eq!(answer.error(), (503, "overloaded".to_owned()), "{over:?}");
        assert_eq!(answer.headers["retry-after"], "1");
        assert!(world.edge.bodies.held() <= HELD);
        assert_eq!(
            caller.over(over, caller.post("/v1/chat/completions", CHAT)).await.status,
            200,
            "{over:?}"
        );
    }

    drop(uploads);
    until(&world, || world.edge.bodies.held() == 0).await;
    let long = format!("{CHAT}{}", " ".repeat(LONG - CHAT.len()));
    assert_eq!(caller.chat(long).await.status, 200, "the places of those who left are free");
    until(&world, || world.edge.bodies.held() == 0).await;
}

/// A caller that sends 8 KiB of a body and then nothing; 0: it does not say how long the body is.
fn upload(world: &World, announced: usize) -> seam::Bound<String> {
    let framing = match announced {
        0 => "transfer-encoding: chunked\r\n\r\n2000".to_owned(),
        len => format!("content-length: {len}\r\n"),
    };
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-test\r\n";
    let sent = format!("{head}{framing}\r\n{}", " ".repeat(0x2000)).into_bytes();
    let caller = world.caller();
    world.host.spawn("upload", async move { caller.raw(&sent, Duration::from_secs(30)).await }).bound()
}

async fn until(world: &World, done: impl Fn() -> bool) {
    let waiting = async {
        while !done() {
            world.host.sleep(Duration::from_millis(2)).await;
        }
    };
    let held = world.host.timeout(Duration::from_secs(10), waiting).await;
    held.unwrap_or_else(|_late| panic!("{} bytes are held", world.edge.bodies.held()));
}
