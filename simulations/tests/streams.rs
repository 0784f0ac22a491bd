//! Byte streams of the simulated network behave as kernels' do: they push back, end in order, and reset what nobody
//! reads.

#![cfg(test)]

use std::io::ErrorKind;
use std::time::Duration;

use seam::{ByteStream, Host};
use simulations::engine::{Cut, Link, Machine, Options, PowerLoss, World, run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const PORT: u16 = 80;
const MS: Duration = Duration::from_millis(1);
/// What fits between a writer and a reader that does not read.
const WINDOW: usize = 256 * 1024;

#[test]
fn a_reader_that_stops_holds_the_writer_and_reading_on_lets_it_go() {
    with_stream(|_, mut near, mut far, host| async move {
        let writing = host.clone();
        let written = host.spawn("write", async move {
            near.write_all(&vec![7; 2 * WINDOW]).await.unwrap();
            near.shutdown().await.unwrap();
            (writing.now(), near)
        });
        host.sleep(Duration::from_secs(5)).await;
        assert!(!written.is_finished());
        let began = host.now();
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        assert_eq!(read.len(), 2 * WINDOW);
        assert!(written.await.unwrap().0 >= began);
    });
}

#[test]
fn one_direction_ends_while_the_other_goes_on() {
    with_stream(|_, mut near, mut far, host| async move {
        near.write_all(b"question").await.unwrap();
        near.shutdown().await.unwrap();
        let mut question = String::new();
        far.read_to_string(&mut question).await.unwrap();
        assert_eq!(question, "question");
        host.sleep(MS).await;
        far.write_all(b"answer").await.unwrap();
        drop(far);
        let mut answer = String::new();
        near.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
    });
}

#[test]
fn what_arrives_at_an_end_that_was_let_go_resets_the_sender() {
    with_stream(|_, mut near, far, host| async move {
        drop(far);
        host.sleep(5 * MS).await;
        near.write_all(b"to nobody").await.unwrap();
        host.sleep(5 * MS).await;
        assert_eq!(near.write_all(b"more").await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn who_gave_up_opening_behind_a_cut_resets_what_was_opened_once_it_heals() {
    run(&Options::seed(1), |world: World| async move {
        world.default_link(Link { delay: 2 * MS, ..Link::default() });
        let (server, client) = (world.machine("server"), world.machine("client"));
        let (listening, host) = (server.start(), client.start());
        let listener = listening.listen(server.at(PORT)).await.unwrap();
        let opening = host.clone();
        let opening = host.spawn("open", async move { opening.connect("server", PORT).await }).bound();
        host.sleep(MS).await;
        world.partition(std::slice::from_ref(&client), std::slice::from_ref(&server), Cut::Drop);
        let (mut far, _peer) = listener.accept().await.unwrap();
        drop(opening);
        world.sleep(Duration::from_secs(1)).await;
        world.heal();
        assert_eq!(far.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    })
    .unwrap();
}

#[test]
fn a_cut_that_stays_fails_the_writer_in_the_end_and_one_that_heals_does_not() {
    with_stream(|world, mut near, mut far, host| async move {
        let [server, client] = ends(&world);
        world.cut(std::slice::from_ref(&client), std::slice::from_ref(&server), Cut::Drop);
        near.write_all(b"late").await.unwrap();
        world.sleep(Duration::from_secs(20)).await;
        world.heal();
        let mut read = [0; 4];
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"late");

        world.cut(std::slice::from_ref(&client), std::slice::from_ref(&server), Cut::Drop);
        near.write_all(b"lost").await.unwrap();
        let began = host.now();
        assert_eq!(near.read(&mut read).await.unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(host.now().since(began) > Duration::from_secs(25));
    });
}

#[test]
fn a_machine_that_returned_from_a_power_loss_resets_what_it_does_not_know() {
    with_stream(|world, mut near, far, _host| async move {
        let [server, _] = ends(&world);
        server.power_off(PowerLoss::Unsynced);
        drop(far);
        near.write_all(b"anybody?").await.unwrap();
        world.sleep(Duration::from_secs(5)).await;
        let _host = server.start();
        let mut read = [0; 4];
        assert_eq!(near.read(&mut read).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        drop(near);
        world.sleep(Duration::from_secs(1)).await;
        assert_eq!(world.streams(), 0);
    });
}

fn ends(world: &World) -> [Machine; 2] {
    world.machines().try_into().unwrap()
}

/// Runs `work` on a stream from a client to a server, seen from the client's host.
fn with_stream<F>(work: fn(World, ByteStream, ByteStream, Host) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    run(&Options::seed(1), move |world: World| async move {
        world.default_link(Link { delay: 2 * MS, ..Link::default() });
        let (server, client) = (world.machine("server"), world.machine("client"));
        let listening = server.start();
        let host = client.start();
        let listener = listening.listen(server.at(PORT)).await.unwrap();
        let near = host.connect("server", PORT).await.unwrap();
        let (far, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.ip(), client.address());
        work(world, near, far, host).await;
    })
    .unwrap();
}
