//! Each part of the file, one function a table.

use std::time::Duration;

use telemetry::record::{Sampling, Sink};
use wire::catalog::Limits;

use super::table::{ConfigError, Source, Table};
use super::{Config, Guard, Ingress, Mesh, Record, Tls, Traces};

/// Long enough for most answers; the orchestrators' usual 30 s before they kill (Kubernetes' default grace).
const DRAIN: Duration = Duration::from_secs(25);

pub(super) fn config(name: &str, text: &str) -> Result<Config, ConfigError> {
    let source = Source::new(name, text);
    let config = root(source.table());
    source.finish(config)
}

fn root(mut table: Table<'_, '_>) -> Option<Config> {
    let data = table.need("data", "\"/var/lib/portolan\"", Table::path_to);
    let central = table.need("central", "[\"10.0.0.1:7400\"]", Table::addresses);
    let mesh = mesh(table.table("mesh"));
    let listed = table.has("ingress");
    let ingress: Vec<_> = table.tables("ingress").into_iter().map(ingress).collect();
    if ingress.is_empty() && !listed {
        table.note(
            "ingress",
            "is missing; add a table [[ingress]] with `listen = \"0.0.0.0:8443\"`".to_owned(),
        );
    }
    let guard = guard(table.table("guard"));
    let record = record(table.table("record"));
    let traces = if table.has("traces") { Some(traces(table.table("traces"))) } else { None };
    let drain = table.millis("drain_ms").unwrap_or(DRAIN);
    let debug = table.flag("debug").unwrap_or(true);
    table.end("data, central, mesh, ingress, guard, record, traces, drain_ms, debug");
    Some(Config {
        data: data?,
        central: central?,
        mesh: mesh?,
        ingress: ingress.into_iter().collect::<Option<Vec<_>>>().filter(|list| !list.is_empty())?,
        guard,
        record: record?,
        traces: match traces {
            Some(traces) => Some(traces?),
            None => None,
        },
        drain,
        debug,
    })
}

fn mesh(mut table: Table<'_, '_>) -> Option<Mesh> {
    let listen = table.need("listen", "\"0.0.0.0:7400\"", Table::address);
    let advertise = table.address("advertise");
    let credentials = table.need("credentials", "\"/etc/portolan/mesh\"", Table::path_to);
    if advertise.is_none() && listen.is_some_and(|address| address.ip().is_unspecified()) {
        table.note("advertise", "is missing: other nodes cannot reach an unspecified address; add `advertise = \"ADDRESS:PORT\"` as they reach this node".to_owned());
    }
    table.end("listen, advertise, credentials");
    Some(Mesh { listen: listen?, advertise, credentials: credentials? })
}

fn ingress(mut table: Table<'_, '_>) -> Option<Ingress> {
    let listen = table.need("listen", "\"0.0.0.0:8443\"", Table::address);
    let secure = table.has("tls");
    let tls = if secure { Some(tls(table.table("tls"))) } else { None };
    let http3 = table.flag("http3");
    if http3 == Some(true) && !secure {
        table.note(
            "http3",
            "needs TLS; add `tls = { certificate = \"…\", key = \"…\" }` or remove it".to_owned(),
        );
    }
    let public_port = table.small("public_port", 1..=65_535).and_then(|port| u16::try_from(port).ok());
    let metrics = table.flag("metrics").unwrap_or(true);
    table.end("listen, tls, http3, public_port, metrics");
    Some(Ingress {
        listen: listen?,
        tls: match tls {
            Some(tls) => Some(tls?),
            None => None,
        },
        http3: http3.unwrap_or(secure),
        public_port,
        metrics,
    })
}

fn tls(mut table: Table<'_, '_>) -> Option<Tls> {
    let certificate = table.need("certificate", "\"chain.pem\"", Table::path_to);
    let key = table.need("key", "\"key.pem\"", Table::path_to);
    table.end("certificate, key");
    Some(Tls { certificate: certificate?, key: key? })
}

fn guard(mut table: Table<'_, '_>) -> Guard {
    let usual = Guard::default();
    let count = 1..=u32::MAX;
    let guard = Guard {
        limits: Limits {
            requests_per_s: table.small("requests_per_s", count.clone()),
            concurrency: table.small("calls", count.clone()).or(usual.limits.concurrency),
            streams: table.small("streams", count).or(usual.limits.streams),
        },
        connections: table
            .small("connections", 1..=1_000_000)
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(usual.connections),
        streams_per_connection: table
            .small("streams_per_connection", 1..=65_535)
            .unwrap_or(usual.streams_per_connection),
        header_bytes: table.small("header_bytes", 8_192..=1 << 20).unwrap_or(usual.header_bytes),
        body_bytes: table
            .small("body_bytes", 1_024..=1 << 30)
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(usual.body_bytes),
        header_time: table.millis("header_ms").unwrap_or(usual.header_time),
        body_time: table.millis("body_ms").unwrap_or(usual.body_time),
        stall_time: table.millis("stall_ms").unwrap_or(usual.stall_time),
        keep_alive: table.millis("keep_alive_ms").unwrap_or(usual.keep_alive),
    };
    table.end(
        "requests_per_s, calls, streams, connections, streams_per_connection, header_bytes, body_bytes, \
         header_ms, body_ms, stall_ms, keep_alive_ms",
    );
    guard
}

fn record(mut table: Table<'_, '_>) -> Option<Record> {
    let to_stdout = table.flag("stdout").unwrap_or(false);
    let directory = table.path_to("directory");
    let keep = table.small("keep", 1..=10_000).unwrap_or(16);
    let usual = Sampling::default();
    let success = table.small("success_per_mille", 0..=1_000).and_then(|number| u16::try_from(number).ok());
    let slow = table.millis("slow_ms").unwrap_or(usual.slow);
    let sink = match (to_stdout, directory) {
        (true, Some(_)) => {
            table.note("directory", "and `stdout = true` exclude each other; remove one".to_owned());
            None
        }
        (true, None) => Some(Sink::Stdout),
        (false, Some(path)) => Some(Sink::Directory { path, keep }),
        (false, None) => Some(Sink::Off),
    };
    table.end("stdout, directory, keep, success_per_mille, slow_ms");
    let sampling = Sampling { success_per_mille: success.unwrap_or(usual.success_per_mille), slow };
    Some(Record { sink: sink?, sampling })
}

fn traces(mut table: Table<'_, '_>) -> Option<Traces> {
    let endpoint = table.need("endpoint", "\"http://127.0.0.1:4318\"", Table::text);
    let sample = table.small("sample_per_mille", 0..=1_000).and_then(|number| u16::try_from(number).ok());
    table.end("endpoint, sample_per_mille");
    Some(Traces { endpoint: endpoint?, sample_per_mille: sample.unwrap_or(1_000) })
}
