//! Configuration files, right and wrong.

use super::*;

const LEAST: &str = r#"
data = "/var/lib/portolan"
central = ["10.0.0.1:7400", "[::1]:7400", "central-eu.example:7400"]
[mesh]
listen = "127.0.0.1:7400"
credentials = "/etc/portolan/mesh"
[[ingress]]
listen = "0.0.0.0:8080"
"#;

#[test]
fn the_least_file_gives_defaults_and_cleartext_without_http3() {
    let config = Config::parse("edge.toml", LEAST).unwrap();
    assert_eq!(config.central.len(), 3);
    assert_eq!(config.guard, Guard::default());
    assert_eq!((config.ingress[0].http3, &config.ingress[0].tls), (false, &None));
    assert_eq!(config.record, Record::default());
}

#[test]
fn tls_brings_http3_and_every_table_is_read() {
    let text = format!(
        "{LEAST}tls = {{ certificate = \"c.pem\", key = \"k.pem\" }}\npublic_port = 443\n\
         [guard]\nbody_bytes = 2048\ncalls = 7\nkeep_alive_ms = 5000\n\
         [record]\ndirectory = \"calls\"\nkeep = 2\nsuccess_per_mille = 1000\n\
         [traces]\nendpoint = \"http://127.0.0.1:4318\"\n"
    );
    let config = Config::parse("edge.toml", &text).unwrap();
    assert!(config.ingress[0].http3);
    assert_eq!(config.ingress[0].public_port, Some(443));
    assert_eq!((config.guard.body_bytes, config.guard.limits.concurrency), (2_048, Some(7)));
    assert_eq!(config.record.sink, Sink::Directory { path: "calls".into(), keep: 2 });
    assert_eq!(config.traces.unwrap().sample_per_mille, 1_000);
}

#[test]
fn every_fault_is_told_at_once_with_its_place_and_mend() {
    let text = "data = \"d\"\ncentral = []\ntypo = 1\n[mesh]\nlisten = \"localhost\"\n[[ingress]]\nhttp3 = true\n\
                [guard]\nbody_bytes = \"much\"\n[traces]\nendpoint = \"https://collector\"\n";
    let error = Config::parse("edge.toml", text).unwrap_err();
    let told = error.to_string();
    for expected in [
        "edge.toml:2:11: central",
        "edge.toml:3:1: typo: no such field",
        "edge.toml:5:10: mesh.listen: \"localhost\" is not an address and a port",
        "mesh.credentials: is required",
        "ingress[0].listen: is required",
        "ingress[0].http3: needs TLS",
        "edge.toml:9:14: guard.body_bytes: must be a whole number",
        "edge.toml:11:12: traces.endpoint: is no collector's address",
    ] {
        assert!(told.contains(expected), "{expected} is not in\n{told}");
    }
    assert_eq!(error.faults.len(), 8, "{told}");
}

#[test]
fn what_is_no_toml_is_told_by_line() {
    let error = Config::parse("edge.toml", "data = \n").unwrap_err();
    assert_eq!(error.faults[0].line, 1);
}

#[test]
fn metrics_are_served_by_default_only_where_the_address_is_loopback() {
    let served = |listen: &str, more: &str| {
        let text = format!(
            "data = \"d\"\ncentral = [\"10.0.0.1:1\"]\n[mesh]\nlisten = \"10.0.0.9:1\"\ncredentials = \"c\"\n\
             [[ingress]]\nlisten = \"{listen}\"\n{more}"
        );
        Config::parse("edge.toml", &text).unwrap().ingress[0].metrics
    };
    assert!(
        served("127.0.0.1:8080", "") && served("[::1]:8080", "") && served("10.0.0.9:9100", "metrics = true")
    );
    assert!(
        !served("0.0.0.0:8443", "")
            && !served("10.0.0.9:8443", "")
            && !served("127.0.0.1:1", "metrics = false")
    );
}
