//! `portolan up` as its user sees it: it says what to run, reports what dies, refuses what it cannot use, and leaves no
//! process behind, however it ends.

#![expect(clippy::disallowed_methods, reason = "an operator's shell stands outside every node")]
#![expect(clippy::unwrap_used, reason = "a failure here is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]
#![expect(clippy::panic, reason = "a failure here is the test's failure")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

#[test]
fn a_mesh_starts_reports_a_death_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("mesh");
    let mut up = Up::start(&data);
    for expected in ["curl ", "openai", "portolan status --mesh ", "edge-eu", "edge-us", "edge-ap"] {
        assert!(up.told.contains(expected), "{expected} is not in\n{}", up.told);
    }
    let second = portolan(&["up", "--port", "0", "--data"], &data);
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another `portolan up` runs in"), "{second:?}");

    let status = portolan(&["status", "--json", "--mesh"], &data);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["edges"].as_array().unwrap().len(), 3, "{status}");
    assert!(status["leader"].is_string(), "{status}");

    signal(up.pid_of("edge-us"), "KILL");
    let report = up.next_remark();
    assert!(report.contains("edge-us died: killed by signal 9"), "{report}");

    let pids = up.pids();
    signal(up.process.id(), "TERM");
    assert!(up.process.wait().unwrap().success());
    assert!(pids.iter().all(|pid| !runs(*pid)), "a process outlived the mesh");
    assert!(!data.join("mesh.json").exists());
    assert!(data.join("logs/edge-eu.log").exists(), "--data keeps the mesh");
    let moved = portolan(&["up", "--port", "20000", "--data"], &data);
    let said = String::from_utf8_lossy(&moved.stderr);
    assert!(moved.status.code() == Some(1) && said.contains("to mend it: leave --port out"), "{said}");
}

#[test]
fn processes_stop_by_themselves_when_up_is_killed_and_damaged_data_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("mesh");
    let mut up = Up::start(&data);
    let pids = up.pids();
    up.process.kill().unwrap();
    up.process.wait().unwrap();
    while pids.iter().any(|pid| runs(*pid)) {
        std::thread::yield_now();
    }

    let log = data.join("data/central-us/log");
    let segments = std::fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path());
    let segment = segments.filter(|path| path.extension().is_some_and(|name| name == "wal")).min().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[64..256].fill(0x5a);
    std::fs::write(&segment, bytes).unwrap();

    let again = portolan(&["up", "--port", "0", "--data"], &data);
    let said = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(1), "{said}");
    assert!(said.contains("central-us died while the mesh started"), "{said}");
    assert!(said.contains("the log is corrupt") && said.contains("to mend it:"), "{said}");
}

#[test]
fn a_mesh_without_data_is_forgotten_on_ctrl_c_and_its_advice_can_be_pasted() {
    let dir = tempfile::tempdir().unwrap();
    let temporary = dir.path().join("a place of temporary files");
    std::fs::create_dir(&temporary).unwrap();
    let process = Command::new(env!("CARGO_BIN_EXE_portolan"))
        .args(["up", "--port", "0"])
        .env("TMPDIR", &temporary)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut up = Up::started(process, || {
        let mesh = std::fs::read_dir(&temporary).unwrap().next().unwrap().unwrap().path();
        mesh.join("mesh.json")
    });
    let advice = up.told.lines().find(|line| line.contains(" status --mesh ")).unwrap();
    let pasted = Command::new("sh").args(["-c", advice.trim()]).env_clear().output().unwrap();
    assert!(pasted.status.success(), "{advice}: {pasted:?}");
    assert!(String::from_utf8_lossy(&pasted.stdout).contains("edge-eu"), "{pasted:?}");

    let pids = up.pids();
    signal(up.process.id(), "INT");
    assert!(up.process.wait().unwrap().success());
    assert!(pids.iter().all(|pid| !runs(*pid)), "a process outlived the mesh");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left");
}

/// A running `portolan up`. Dropping it kills it, and with it its processes.
struct Up {
    process: Child,
    facts: Value,
    told: String,
}

impl Up {
    fn start(data: &Path) -> Self {
        let process = Command::new(env!("CARGO_BIN_EXE_portolan"))
            .args(["up", "--port", "0", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self::started(process, || data.join("mesh.json"))
    }

    /// Waits until it said what to run next.
    fn started(mut process: Child, facts: impl FnOnce() -> PathBuf) -> Self {
        let mut told = String::new();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        while !told.contains("Ctrl-C") {
            if out.read_line(&mut told).unwrap() == 0 {
                let mut why = String::new();
                process.stderr.take().unwrap().read_to_string(&mut why).unwrap();
                panic!("the mesh did not start: {why}");
            }
        }
        let facts = serde_json::from_slice(&std::fs::read(facts()).unwrap()).unwrap();
        Self { process, facts, told }
    }

    fn pids(&self) -> Vec<u32> {
        let parts = [&self.facts["nodes"], &self.facts["demo"]];
        let all = parts.into_iter().flat_map(|part| part.as_array().unwrap());
        all.map(|one| u32::try_from(one["pid"].as_u64().unwrap()).unwrap()).collect()
    }

    fn pid_of(&self, name: &str) -> u32 {
        let nodes = self.facts["nodes"].as_array().unwrap();
        let node = nodes.iter().find(|node| node["name"] == name).unwrap();
        u32::try_from(node["pid"].as_u64().unwrap()).unwrap()
    }

    fn next_remark(&mut self) -> String {
        let lines = BufReader::new(self.process.stderr.as_mut().unwrap()).lines();
        lines
            .map(Result::unwrap)
            .find(|line| !line.starts_with("starting ") && !line.starts_with("still "))
            .unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn portolan(arguments: &[&str], last: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_portolan")).args(arguments).arg(last).output().unwrap()
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

/// Whether a process runs; one that ended and waits to be read has no command line.
fn runs(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}
