//! Two hosts of the kernel's own network stack, with our link between them.

#![cfg(test)]
#![expect(clippy::print_stderr, reason = "a test that cannot run here says so")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use simulation_chaos::{ChaosError, Emulator, Fate, Fates, Host, Namespace};

const MS: Duration = Duration::from_millis(1);

/// The same link in both directions.
#[derive(Clone, Copy)]
struct Link {
    delay: Duration,
    cut: Option<Fate>,
}

impl Fates for Link {
    fn fate(&mut self, _from: usize, _to: usize, _bytes: usize, _is_datagram: bool, now: Duration) -> Fate {
        self.cut.unwrap_or(Fate::Arrives(now + self.delay))
    }
}

/// Two hosts, or that this machine gives none.
fn pair() -> Option<Vec<Namespace>> {
    let prefix = format!("portolan-test-{}", std::process::id());
    let host = |name: &str, last| Host { name: name.to_owned(), address: Ipv4Addr::new(10, 9, 0, last) };
    match [host("one", 1), host("two", 2)].iter().map(|host| Namespace::new(&prefix, host)).collect() {
        Ok(pair) => Some(pair),
        Err(ChaosError::Ip { said, .. }) => {
            eprintln!("SKIPPED: no network namespaces here: {said}");
            None
        }
        Err(error @ (ChaosError::Kernel { .. } | ChaosError::Ended)) => {
            eprintln!("SKIPPED: no TUN devices here: {error}");
            None
        }
    }
}

/// Runs `work` in a host.
fn within<T: Send>(host: &Namespace, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let working = scope.spawn(|| {
            host.enter().unwrap();
            work()
        });
        working.join().unwrap()
    })
}

#[test]
fn what_the_kernel_sends_is_delayed_held_and_lost() {
    let Some(mut hosts) = pair() else { return };
    let links = Emulator::start(&mut hosts, Link { delay: 20 * MS, cut: None }).unwrap();
    let [one, two] = hosts.as_slice() else { return };
    let (echo, server) = within(two, || {
        (UdpSocket::bind("10.9.0.2:7000").unwrap(), TcpListener::bind("10.9.0.2:7001").unwrap())
    });
    let client = within(one, || UdpSocket::bind("10.9.0.1:0").unwrap());
    client.connect("10.9.0.2:7000").unwrap();
    client.set_read_timeout(Some(5 * Duration::from_secs(1))).unwrap();
    echo.set_read_timeout(Some(Duration::from_secs(5))).unwrap();

    let ping = || {
        let begun = Instant::now();
        client.send(b"ping").unwrap();
        let mut buffer = [0; 16];
        let (len, from) = echo.recv_from(&mut buffer).unwrap();
        echo.send_to(buffer.get(..len).unwrap(), from).unwrap();
        client.recv(&mut buffer).unwrap();
        begun.elapsed()
    };
    assert!(ping() >= 40 * MS);

    // What is held passes when the link is whole again, and what is lost never.
    links.change(|link| link.cut = Some(Fate::Lost));
    client.send(b"lost").unwrap();
    echo.set_read_timeout(Some(100 * MS)).unwrap();
    assert!(echo.recv(&mut [0; 16]).is_err());
    links.change(|link| link.cut = Some(Fate::Held));
    client.send(b"held").unwrap();
    assert!(echo.recv(&mut [0; 16]).is_err());
    links.change(|link| link.cut = None);
    echo.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut buffer = [0; 16];
    let len = echo.recv(&mut buffer).unwrap();
    assert_eq!(buffer.get(..len).unwrap(), b"held");

    // TCP, as the kernel speaks it: one round trip to connect, one for the answer.
    let serving = thread::spawn(move || {
        let (mut stream, _from) = server.accept().unwrap();
        let mut asked = [0; 4];
        stream.read_exact(&mut asked).unwrap();
        stream.write_all(&asked).unwrap();
    });
    let took = within(one, || {
        let begun = Instant::now();
        let mut stream = TcpStream::connect("10.9.0.2:7001").unwrap();
        stream.write_all(b"what").unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        begun.elapsed()
    });
    serving.join().unwrap();
    assert!(took >= 80 * MS, "{took:?}");
    let lateness = links.stop().unwrap();
    assert!(lateness.delivered() >= 8, "{lateness}");
    eprintln!("{lateness}");
}
