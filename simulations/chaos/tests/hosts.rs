//! What runs in hosts: processes, threads of ours, disks that can be full.

#![cfg(test)]
#![expect(clippy::print_stderr, reason = "a test that cannot run here says so")]

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use simulation_chaos::{Actor, Host, Namespace, Process, SmallDisk};

/// A host, or that this machine gives none.
fn host(name: &str) -> Option<Namespace> {
    let prefix = format!("portolan-test-{}", std::process::id());
    let made = Namespace::new(&prefix, &Host { name: name.to_owned(), address: Ipv4Addr::new(10, 9, 1, 1) });
    made.map_err(|error| eprintln!("SKIPPED: no network namespaces here: {error}")).ok()
}

fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// The network that a thread or a process lives in.
fn network(of: &str) -> PathBuf {
    std::fs::read_link(format!("/proc/{of}/ns/net")).unwrap()
}

fn start(host: &Namespace, log: &Path, arguments: &[&str]) -> Process {
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    Process::start(Some(host), Path::new("/bin/sh"), &arguments, &[], log).unwrap()
}

fn wait_for<T>(look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "it does not come");
        std::thread::yield_now();
    }
}

#[test]
fn a_process_lives_in_its_host_stands_still_and_is_gone_when_dropped() {
    let Some(host) = host("process") else { return };
    let log = directory("process").join("log");
    let process = start(&host, &log, &["-c", "echo here >&2; while :; do sleep 1; done"]);
    let id = process.id().to_string();
    assert_ne!(network(&id), network("self"));
    assert_eq!(wait_for(|| std::fs::read_to_string(&log).ok().filter(|text| !text.is_empty())), "here\n");
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(')')?.1.trim().chars().next()
    };
    process.stop();
    wait_for(|| state().filter(|state| *state == 'T'));
    process.go_on();
    wait_for(|| state().filter(|state| *state != 'T'));
    assert!(process.open_files() >= 3);
    drop(process);
    assert_eq!(state(), None);
    std::fs::remove_file(log).unwrap();
}

#[test]
fn a_process_that_ends_by_itself_says_how() {
    let Some(host) = host("ends") else { return };
    let process = std::cell::RefCell::new(start(&host, &directory("ends").join("log"), &["-c", "exit 7"]));
    assert_eq!(wait_for(|| process.borrow_mut().ended()), "exit status: 7");
}

#[test]
fn an_actor_lives_in_its_host_and_ends_when_dropped() {
    let Some(host) = host("actor") else { return };
    let (gone, is_gone) = std::sync::mpsc::channel::<()>();
    let (actor, told) = Actor::start(Some(&host), move |tell, ending| {
        tell(network("thread-self"));
        ending.wait();
        drop(gone);
    })
    .unwrap();
    assert_ne!(told, network("thread-self"));
    assert!(is_gone.try_recv().is_err_and(|error| error == std::sync::mpsc::TryRecvError::Empty));
    drop(actor);
    assert!(is_gone.recv().is_err(), "it ended");
}

#[test]
fn a_small_disk_is_full_when_it_is_filled_and_has_room_again_when_emptied() {
    let at = directory("small-disk");
    let disk = match SmallDisk::mount(&at, 1) {
        Ok(disk) => disk,
        Err(error) => {
            eprintln!("SKIPPED: no mounts here: {error}");
            return;
        }
    };
    disk.fill();
    assert!(std::fs::write(at.join("more"), [0; 8192]).is_err());
    disk.empty();
    std::fs::write(at.join("more"), [0; 8192]).unwrap();
    drop(disk);
    assert!(!at.join("more").exists(), "it is unmounted");
}
