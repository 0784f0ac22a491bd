//! Streams: bodies arrive whole, liars are cut off, a reset cancels, a slow reader slows its own sender only.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use wire::control::Opening;
use wire::frame::{Kind, MAX_DATA};

use super::{Mesh, connect};
use crate::{Connection, MeshError, Purpose, Receiver, Sender};

#[tokio::test]
async fn a_call_goes_over_and_its_answer_comes_back() {
    let mesh = Mesh::new("demo");
    let (edge, central) = (mesh.endpoint("edge/eu/e1"), mesh.endpoint("central/us/c1"));
    let (near, far) = connect(&edge, &central, Purpose::Calls).await;
    assert_eq!(near.peer(), &central.identity());
    assert_eq!(far.peer(), &edge.identity());
    assert_eq!((near.purpose(), far.purpose()), (Purpose::Calls, Purpose::Calls));

    let ((mut send, mut receive), (mut back, mut there)) = stream(&near, &far).await;
    let body = Bytes::from(vec![7; 600_000]);
    let sending = async {
        send.send(Kind::RPC_REQUEST, "ping").await.unwrap();
        send.send_data(body.clone()).await.unwrap();
        send.end(Kind::MESSAGE_END).await.unwrap();
        send.finish().unwrap();
    };
    let answering = async {
        assert_eq!(there.expect::<String>(Kind::RPC_REQUEST).await.unwrap(), "ping");
        let mut got = Vec::new();
        while let Some(frame) = there.recv().await.unwrap() {
            assert!(frame.payload.len() <= MAX_DATA);
            got.extend_from_slice(&frame.payload);
        }
        back.send(Kind::RPC_REPLY, &got.len()).await.unwrap();
        back.finish().unwrap();
        got
    };
    let ((), got) = tokio::join!(sending, answering);
    assert_eq!(got, body);
    assert_eq!(receive.expect::<usize>(Kind::RPC_REPLY).await.unwrap(), body.len());
    assert_eq!(receive.recv().await.unwrap(), None);
}

#[tokio::test]
async fn a_frame_that_lies_about_its_length_ends_the_session() {
    let mesh = Mesh::new("demo");
    let (edge, central) = (mesh.endpoint("edge/eu/e1"), mesh.endpoint("central/us/c1"));
    let (near, far) = connect(&edge, &central, Purpose::Calls).await;
    let ((mut send, _receive), (_back, mut there)) = stream(&near, &far).await;

    let mut lie = Kind::DATA.0.to_be_bytes().to_vec();
    lie.extend(u32::MAX.to_be_bytes());
    send.write_raw(lie.into()).await.unwrap();

    assert!(matches!(there.recv().await, Err(MeshError::TooLong(_))));
    let told = near.closed().await.to_string();
    assert!(told.contains("claims 4294967295 bytes"), "{told}");
    assert!(!far.is_open());
}

#[tokio::test]
async fn an_unknown_frame_is_skipped_unless_it_must_be_understood() {
    let mesh = Mesh::new("demo");
    let (edge, central) = (mesh.endpoint("edge/eu/e1"), mesh.endpoint("central/us/c1"));
    let (near, far) = connect(&edge, &central, Purpose::Calls).await;
    let ((mut send, _receive), (_back, mut there)) = stream(&near, &far).await;

    send.send_frame(Kind(0x0fff), Bytes::from_static(b"news of a later version")).await.unwrap();
    send.end(Kind::MESSAGE_END).await.unwrap();
    assert_eq!(there.recv().await.unwrap().unwrap().kind, Kind::MESSAGE_END);

    send.send_frame(Kind(0x8fff), Bytes::new()).await.unwrap();
    assert_eq!(there.recv().await, Err(MeshError::UnknownKind(Kind(0x8fff))));
    assert!(near.closed().await.to_string().contains("must be understood"));
}

#[tokio::test]
async fn dropping_a_call_cancels_it_at_the_other_end() {
    let mesh = Mesh::new("demo");
    let (edge, central) = (mesh.endpoint("edge/eu/e1"), mesh.endpoint("central/us/c1"));
    let (near, far) = connect(&edge, &central, Purpose::Calls).await;
    let ((send, receive), (back, mut there)) = stream(&near, &far).await;
    let stopped = back.stopped();

    drop((send, receive));

    stopped.await;
    assert_eq!(there.recv().await, Err(MeshError::Reset));
    assert!(near.is_open(), "only the stream ends");
}

#[tokio::test]
async fn a_stream_that_ends_within_a_frame_is_not_taken_for_whole() {
    let mesh = Mesh::new("demo");
    let (edge, central) = (mesh.endpoint("edge/eu/e1"), mesh.endpoint("central/us/c1"));
    let (near, far) = connect(&edge, &central, Purpose::Calls).await;
    let ((mut send, _receive), (_back, mut there)) = stream(&near, &far).await;
    send.write_raw(Bytes::from_static(&[0x80, 0x21, 0, 0, 0, 9, b'h', b'a', b'l', b'f'])).await.unwrap();
    send.finish().unwrap();
    assert_eq!(there.recv().await, Err(MeshError::Truncated));
}

#[tokio::test]
async fn a_reader_that_stalls_holds_up_its_own_sender_and_nobody_else() {
    const TOTAL: usize = 4 * 1024 * 1024;
    const PART: usize = 16 * 1024;
    let mesh = Mesh::new("demo");
    let (edge, central) = (mesh.endpoint("edge/eu/e1"), mesh.endpoint("central/us/c1"));
    let (near, far) = connect(&edge, &central, Purpose::Calls).await;
    let ((mut send, _receive), (_back, mut there)) = stream(&near, &far).await;
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let sending = mesh.host.spawn("sender", async move {
        for _part in 0..TOTAL / PART {
            send.send_data(Bytes::from(vec![1; PART])).await.unwrap();
            count.fetch_add(PART, Ordering::Relaxed);
        }
        send.finish().unwrap();
    });

    // Four hundred round trips of another stream later the sender has long used up its window.
    let ((mut ping, mut pong), (mut back, mut echo)) = stream(&near, &far).await;
    for turn in 0..400_u32 {
        ping.send(Kind::RPC_REQUEST, &turn).await.unwrap();
        let asked: u32 = echo.expect(Kind::RPC_REQUEST).await.unwrap();
        back.send(Kind::RPC_REPLY, &asked).await.unwrap();
        assert_eq!(pong.expect::<u32>(Kind::RPC_REPLY).await.unwrap(), turn);
    }
    let unread = sent.load(Ordering::Relaxed);
    assert!(unread > 0, "the sender never started");
    assert!(unread <= MAX_DATA, "{unread} bytes were taken from a sender whose reader reads nothing");

    let mut got = 0;
    while let Some(frame) = there.recv().await.unwrap() {
        got += frame.payload.len();
    }
    sending.await.unwrap();
    assert_eq!(got, TOTAL);
}

type Ends = (Sender, Receiver);

async fn stream(near: &Connection, far: &Connection) -> (Ends, Ends) {
    let ends = near.open(Opening::Call).await.unwrap();
    let (opening, sender, receiver) = far.accept_stream().await.unwrap();
    assert_eq!(opening, Opening::Call);
    (ends, (sender, receiver))
}
