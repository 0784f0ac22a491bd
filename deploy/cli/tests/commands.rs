//! What commands say and how they end when something is wrong before any mesh runs.

#![expect(clippy::disallowed_methods, reason = "an operator's shell stands outside every node")]
#![expect(clippy::unwrap_used, reason = "a failure here is the test's failure")]

use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;

#[test]
fn a_taken_port_is_named_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let (base, _squatter) = base_with_taken(44, |at| TcpListener::bind(at).ok());
    let (code, said) =
        portolan(&["up", "--port", &base.to_string(), "--data"], Some(&dir.path().join("mesh")));
    assert_eq!(code, Some(1), "{said}");
    let expected = format!("TCP port {}, meant for edge-us (HTTPS), is taken", base + 44);
    assert!(said.contains(&expected) && said.contains("to mend it:"), "{said}");

    let (base, _squatter) = base_with_taken(2, |at| UdpSocket::bind(at).ok());
    let (code, said) =
        portolan(&["up", "--port", &base.to_string(), "--data"], Some(&dir.path().join("mesh")));
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains(&format!("UDP port {}, meant for central-us (mesh), is taken", base + 2)),
        "{said}"
    );
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let precious = dir.path().join("thesis.txt");
    std::fs::write(&precious, "chapter one").unwrap();
    let (code, said) = portolan(&["up", "--port", "0", "--data"], Some(dir.path()));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("holds files of something else") && said.contains("--data"), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);

    let (code, said) = portolan(&["up", "--port", "0", "--data"], Some(&precious));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is not a directory"), "{said}");
}

#[test]
fn exit_codes_tell_scripts_what_went_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("edge.toml");
    std::fs::write(&config, "data = 7\n").unwrap();
    let (code, said) = portolan(&["config", "check", "edge"], Some(&config));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("edge.toml:1:8: data: must be a text"), "{said}");

    let text = "data = \"d\"\ncentral = [\"c:1\"]\n[mesh]\nlisten = \"127.0.0.1:0\"\ncredentials = \"/absent\"\n\
                [[ingress]]\nlisten = \"127.0.0.1:0\"\ntls = {certificate = \"/no.pem\", key = \"/no.key\"}\n";
    std::fs::write(&config, text).unwrap();
    let (code, said) = portolan(&["config", "check", "edge"], Some(&config));
    assert_eq!(code, Some(3), "{said}");
    for absent in ["/no.pem", "/no.key", "/absent"] {
        let lines = said.lines().filter(|line| line.contains(absent)).collect::<Vec<_>>();
        assert!(lines.len() == 1 && lines[0].matches("No such file").count() == 1, "{said}");
    }

    assert_eq!(portolan(&["frobnicate"], None).0, Some(2));

    let pki = dir.path().join("pki");
    let issue = ["pki", "issue", "--role", "operator", "--region", "eu", "--node", "me", "--out"];
    let operator = dir.path().join("me");
    let in_pki = |arguments: &[&str], last: &Path| {
        let arguments: Vec<&str> = arguments.iter().copied().chain([last.to_str().unwrap()]).collect();
        let with_dir: Vec<&str> = arguments.into_iter().chain(["--dir", pki.to_str().unwrap()]).collect();
        portolan(&with_dir, None)
    };
    let (code, said) = in_pki(&issue, &operator);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("portolan pki init"), "{said}");
    assert_eq!(in_pki(&["pki", "init", "--mesh"], Path::new("demo")).0, Some(0));
    assert_eq!(in_pki(&issue, &operator).0, Some(0));

    let edge = dir.path().join("edge");
    let issue = ["pki", "issue", "--role", "edge", "--region", "eu", "--node", "e", "--out"];
    assert_eq!(in_pki(&issue, &edge).0, Some(0));
    let (code, said) = portolan(&["status", "--admin", "127.0.0.1:1", "--credentials"], Some(&edge));
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("who is no operator"), "{said}");

    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (code, said) = portolan(&["status", "--admin", &nobody, "--credentials"], Some(&operator));
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains(&nobody), "{said}");
}

/// A base of ports whose port `offset` is taken, for as long as the socket given is kept.
fn base_with_taken<S>(offset: u16, take: impl Fn(String) -> Option<S>) -> (u16, S) {
    (20_000..60_000)
        .step_by(101)
        .find_map(|base: u16| Some((base, take(format!("127.0.0.1:{}", base + offset))?)))
        .unwrap()
}

fn portolan(arguments: &[&str], last: Option<&Path>) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_portolan")).args(arguments).args(last).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}
