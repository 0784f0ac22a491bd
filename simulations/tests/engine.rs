//! The engine under real quinn, rustls and hyper: runs repeat byte for byte, faults do what they say, and what goes
//! past a host fails the run.

#![cfg(test)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use quinn::Endpoint;
use rustls::pki_types::PrivatePkcs8KeyDer;
use seam::{Host, QuicRuntime};
use simulations::engine::{Cut, Failure, Link, Machine, Options, PowerLoss, Reorder, World, run, run_twice};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const PORT: u16 = 443;
const MS: Duration = Duration::from_millis(1);

#[test]
fn a_quic_echo_over_a_bad_link_repeats_with_every_encrypted_byte() {
    let report = run_twice(&Options::seed(7), quic_echo).unwrap();
    assert_eq!(report.value, 20);
    assert!(report.draws > 0, "TLS drew its keys from the hosts");
    let other = run(&Options::seed(8), quic_echo).unwrap();
    assert_ne!(report.trace.hash(), other.trace.hash());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "real threads are what is tested")]
fn runs_side_by_side_on_two_threads_repeat_a_run_alone() {
    let alone: Vec<u64> = (0..4).map(hash_of_seed).collect();
    let side_by_side: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(move || hash_of_seed(seed))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(alone, side_by_side);
}

#[test]
fn http_over_byte_streams_repeats_and_survives_a_short_cut() {
    let report = run_twice(&Options::seed(3), http_echo).unwrap();
    assert!(report.value >= 2 * 400 * MS, "the cut held the call up: {:?}", report.value);
}

#[test]
fn a_killed_process_resets_and_a_dark_machine_is_silent() {
    run(&Options::seed(1), |world: World| async move {
        let (server, client) = (world.machine("server"), world.machine("client"));
        let host = server.start();
        let caller = client.start();
        let mut ended = Vec::new();
        let refused = client.run("refused", connect(caller.clone())).await.unwrap();
        assert_eq!(refused.err().unwrap().kind(), std::io::ErrorKind::ConnectionRefused);
        drop(host);

        for kill in [Machine::crash, |machine: &Machine| machine.power_off(PowerLoss::Unsynced)] {
            serve_bytes(&server.start(), server.at(PORT)).await;
            let caller = caller.clone();
            let read = caller.clone().spawn("read", async move {
                let mut stream = connect(caller.clone()).await.unwrap();
                caller.timeout(Duration::from_secs(60), stream.read(&mut [0])).await
            });
            world.sleep(Duration::from_secs(1)).await;
            kill(&server);
            ended.push(read.await.unwrap().map(|read| read.unwrap_err().kind()));
        }
        assert_eq!(ended, [Ok(std::io::ErrorKind::ConnectionReset), Err(seam::Late)]);
    })
    .unwrap();
}

#[test]
fn a_paused_process_answers_once_resumed_and_a_held_link_delivers_late() {
    run(&Options::seed(1), |world: World| async move {
        let (server, client) = (world.machine("server"), world.machine("client"));
        let host = server.start();
        serve_bytes(&host, server.at(PORT)).await;
        let caller = client.start();
        let ask = |caller: Host| async move {
            let before = caller.now();
            let mut stream = connect(caller.clone()).await.unwrap();
            stream.write_all(b"ping").await.unwrap();
            stream.read_exact(&mut [0; 4]).await.unwrap();
            caller.now().since(before)
        };
        let quick = client.run("ask", ask(caller.clone())).await.unwrap();
        assert!(quick < 10 * MS);

        server.pause();
        let slow = client.host().unwrap().spawn("ask", ask(caller.clone()));
        world.sleep(Duration::from_secs(2)).await;
        server.resume();
        let slow = slow.await.unwrap();
        assert!(slow >= Duration::from_secs(2) && slow < Duration::from_millis(2010), "{slow:?}");

        world.partition(std::slice::from_ref(&server), std::slice::from_ref(&client), Cut::Hold);
        let held = caller.spawn("ask", ask(caller.clone()));
        world.sleep(Duration::from_secs(3)).await;
        world.heal();
        let held = held.await.unwrap();
        assert!(held >= Duration::from_secs(3) && held < Duration::from_millis(3010), "{held:?}");
    })
    .unwrap();
}

#[test]
fn each_host_has_its_own_clock_and_entropy() {
    run(&Options::seed(1), |world: World| async move {
        let (one, other) = (world.machine("one"), world.machine("other"));
        let (first, second) = (one.start(), other.start());
        assert_eq!(first.wall(), second.wall());
        assert_ne!(first.random_u128(), second.random_u128());
        one.step_clock(-5000);
        world.sleep(Duration::from_secs(1)).await;
        assert_eq!(second.wall().since(first.wall()), Duration::from_secs(5));
        assert_eq!(first.now(), second.now());
        let third = one.start();
        assert_eq!(third.now().as_nanos(), 0);
        #[expect(
            clippy::disallowed_methods,
            reason = "what libraries see of the host's clock is what is tested"
        )]
        let seen = one.run("look", async { std::time::SystemTime::now() }).await.unwrap();
        let since = seen.duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(since.as_millis(), u128::from(third.wall().as_millis()));
    })
    .unwrap();
}

#[test]
fn what_goes_past_a_host_fails_the_run() {
    let leaked = |options: &Options, leak: fn(Host)| {
        let scenario = move |world: World| async move {
            let host = world.machine("leaky").start();
            leak(host);
            world.sleep(MS).await;
        };
        match run(options, scenario) {
            Err(Failure::Leaked { leaks, .. }) => leaks,
            other => panic!("{other:?}"),
        }
    };
    let options = Options::seed(1);
    #[expect(clippy::disallowed_methods, reason = "a spawn past the host is what is tested")]
    let spawned = leaked(&options, |_host| drop(tokio::spawn(async {})));
    assert_eq!(spawned.tasks.len(), 1);
    let drawn = leaked(&options, |_host| drop(ring_key()));
    assert!(drawn.draws > 0);
    let panicked = leaked(&options, |host| drop(host.spawn("panics", async { panic!("as it should") })));
    assert_eq!(panicked.panics, ["panics on leaky"]);
    let late = run(&options, |_world| std::future::pending::<()>()).unwrap_err();
    assert!(matches!(late, Failure::Late { .. }));
}

fn hash_of_seed(seed: u64) -> u64 {
    run(&Options::seed(seed), quic_echo).unwrap().trace.hash()
}

/// A client sends 20 messages and gets them back, over a link with every fault that does not cut it.
async fn quic_echo(world: World) -> usize {
    world.default_link(Link {
        delay: 20 * MS,
        jitter: 5 * MS,
        loss: 20_000,
        duplicate: 10_000,
        reorder: Some(Reorder { chance: 10_000, late: 30 * MS }),
        rate: Some(1_000_000),
        ..Link::default()
    });
    let (server, client) = (world.machine("server"), world.machine("client"));
    let at = server.at(PORT);
    let host = server.start();
    let (certificate, serving) =
        host.clone().spawn("serve", async move { serve_quic(host, at) }).await.unwrap();
    let host = client.start();
    let echoed = client.run("ask", ask_quic(host, at, certificate)).await.unwrap();
    drop(serving);
    echoed
}

fn serve_quic(host: Host, at: SocketAddr) -> (Bytes, seam::Bound<()>) {
    let key = ring_key();
    let signed = rcgen::CertificateParams::new(vec!["server".to_owned()]).unwrap().self_signed(&key).unwrap();
    let chain = vec![signed.der().clone()];
    let config =
        quinn::ServerConfig::with_single_cert(chain, PrivatePkcs8KeyDer::from(key.serialize_der()).into());
    let endpoint = endpoint(&host, at, Some(config.unwrap()));
    let serving = host.clone().spawn("accept", async move {
        while let Some(incoming) = endpoint.accept().await {
            let connection = incoming.await.unwrap();
            drop(host.spawn("echo", async move {
                while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                    let message = recv.read_to_end(1 << 20).await.unwrap();
                    send.write_all(&message).await.unwrap();
                    send.finish().unwrap();
                }
            }));
        }
    });
    (Bytes::copy_from_slice(signed.der()), serving.bound())
}

async fn ask_quic(host: Host, at: SocketAddr, certificate: Bytes) -> usize {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.to_vec().into()).unwrap();
    let mut endpoint = endpoint(&host, SocketAddr::from(([0, 0, 0, 0], 0)), None);
    endpoint.set_default_client_config(quinn::ClientConfig::with_root_certificates(Arc::new(roots)).unwrap());
    let connection = endpoint.connect(at, "server").unwrap().await.unwrap();
    let mut echoed = 0;
    for len in 0..20 {
        let message = vec![7; len * 1000];
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(&message).await.unwrap();
        send.finish().unwrap();
        echoed += usize::from(recv.read_to_end(1 << 20).await.unwrap() == message);
    }
    connection.close(0u8.into(), b"");
    endpoint.wait_idle().await;
    echoed
}

fn endpoint(host: &Host, at: SocketAddr, config: Option<quinn::ServerConfig>) -> Endpoint {
    let socket = host.datagram(at).unwrap();
    let runtime = Arc::new(QuicRuntime(host.clone()));
    Endpoint::new_with_abstract_socket(quinn::EndpointConfig::default(), config, socket, runtime).unwrap()
}

/// An ECDSA key: its signatures have random lengths, which would show in the packets.
#[expect(clippy::disallowed_methods, reason = "a key that ring draws by itself is what is tested")]
fn ring_key() -> rcgen::KeyPair {
    rcgen::KeyPair::generate().unwrap()
}

/// Calls an HTTP server through a link that is cut for a second, and says how long the call took.
async fn http_echo(world: World) -> Duration {
    let (server, client) = (world.machine("server"), world.machine("client"));
    let host = server.start();
    let listener = host.listen(server.at(PORT)).await.unwrap();
    let serving = host.clone().spawn("serve", async move {
        while let Ok((stream, _peer)) = listener.accept().await {
            let service = service_fn(|request: http::Request<hyper::body::Incoming>| async {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                Ok::<_, Infallible>(http::Response::new(Full::new(body)))
            });
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            drop(host.spawn("connection", async move { connection.await.unwrap() }));
        }
    });
    let caller = client.start();
    let call = caller.clone().spawn("call", async move {
        let stream = caller.connect("server", PORT).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = caller.spawn("connection", async move { connection.await.unwrap() }).bound();
        caller.sleep(100 * MS).await;
        let before = caller.now();
        let sent = Bytes::from(vec![b'x'; 1_000_000]);
        let request =
            http::Request::post("/").header("host", "server").body(Full::new(sent.clone())).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert!(response.headers().contains_key("date"));
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), sent);
        drop(connection);
        caller.now().since(before)
    });
    world.sleep(50 * MS).await;
    world.partition(std::slice::from_ref(&server), std::slice::from_ref(&client), Cut::Drop);
    world.sleep(Duration::from_secs(1)).await;
    world.heal();
    let took = call.await.unwrap();
    drop(serving);
    took
}

async fn connect(host: Host) -> std::io::Result<seam::ByteStream> {
    host.connect("server", PORT).await
}

/// Echoes four bytes at a time.
async fn serve_bytes(host: &Host, at: SocketAddr) {
    let listener = host.listen(at).await.unwrap();
    let accepting = host.clone();
    drop(host.spawn("accept", async move {
        while let Ok((mut stream, _peer)) = listener.accept().await {
            drop(accepting.spawn("echo", async move {
                let mut bytes = [0; 4];
                while stream.read_exact(&mut bytes).await.is_ok() {
                    stream.write_all(&bytes).await.unwrap();
                }
            }));
        }
    }));
}
