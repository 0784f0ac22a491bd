//! Each part of the file, one function a table.

use std::time::Duration;

use settings::{Fields, Node, Value, address, collector, flag, host_port, path, whole};
use telemetry::record::{Sampling, Sink};
use wire::catalog::Limits;

use super::{Config, ConfigError, Guard, Ingress, Mesh, Record, Tls, Traces};

/// Long enough for most answers, and less than orchestrators wait before they kill (Kubernetes: 30 s by default).
const DRAIN: Duration = Duration::from_secs(25);

/// Record files kept, of 64 MiB each.
const KEPT: u32 = 16;

pub(super) fn config(file: &str, contents: &str) -> Result<Config, ConfigError> {
    let tree = settings::toml(contents).map_err(|broken| {
        let fault = |one: &settings::Broken| settings::Fault {
            file: file.to_owned(),
            line: one.at.line,
            column: one.at.column,
            field: String::new(),
            what: one.what.clone(),
        };
        ConfigError { faults: broken.iter().map(fault).collect() }
    })?;
    let mut faults = Vec::new();
    let node = Node { file, path: String::new(), value: &tree };
    let config = Fields::open(&node, &mut faults).and_then(|mut fields| {
        let config = root(&mut fields);
        fields.finish();
        config
    });
    match config {
        Some(config) if faults.is_empty() => Ok(config),
        Some(_) | None => {
            faults.sort();
            Err(ConfigError { faults })
        }
    }
}

fn root(fields: &mut Fields<'_, '_>) -> Option<Config> {
    let data = fields.required("data", path);
    let central = fields.list("central", host_port);
    let central = needed(
        fields,
        "central",
        central,
        "add a list of addresses, such as [\"10.0.0.1:7400\"] or [\"central-eu.example:7400\"]",
    );
    if central.as_ref().is_some_and(Vec::is_empty) {
        fields.at_fault("central", "may not be empty; name at least one central node");
    }
    let mesh = fields.mapping("mesh", mesh);
    let mesh = needed(fields, "mesh", mesh, "add a table with `listen` and `credentials`");
    let ingress = fields.mappings("ingress", ingress);
    if ingress.as_ref().is_some_and(Vec::is_empty) {
        fields.missing("ingress", "is required; add a table [[ingress]] with `listen = \"0.0.0.0:8443\"`");
    }
    let guard = fields.mapping("guard", guard);
    let record = fields.mapping("record", record);
    let traces = fields.mapping("traces", traces);
    let authorities = fields.optional("upstream_authorities", path);
    let tokenizers = fields.optional("tokenizers", path);
    let drain = fields.or("drain_ms", millis, DRAIN);
    let lame_duck = fields.or("lame_duck_ms", pause, Duration::ZERO);
    let debug = fields.or("debug", flag, true);
    let data = data?;
    Some(Config {
        tokenizers: tokenizers?.unwrap_or_else(|| data.join("tokenizers")),
        data,
        central: central?,
        mesh: mesh?,
        ingress: ingress?,
        guard: guard?.unwrap_or_default(),
        record: record?.unwrap_or_default(),
        traces: traces?,
        upstream_authorities: authorities?,
        drain: drain?,
        lame_duck: lame_duck?,
        debug: debug?,
    })
}

/// A field that was read as if it could be absent and may not be.
fn needed<T>(fields: &mut Fields<'_, '_>, name: &str, read: Option<Option<T>>, mend: &str) -> Option<T> {
    if let Some(None) = read {
        fields.missing(name, format!("is required; {mend}"));
    }
    read?
}

fn mesh(fields: &mut Fields<'_, '_>) -> Option<Mesh> {
    let listen = fields.required("listen", address);
    let advertise = fields.optional("advertise", address)?;
    let credentials = fields.required("credentials", path);
    if advertise.is_none() && listen.is_some_and(|at| at.ip().is_unspecified()) {
        fields.missing(
            "advertise",
            "is required: other nodes cannot reach an unspecified address; add the one they reach this node at",
        );
    }
    Some(Mesh { listen: listen?, advertise, credentials: credentials? })
}

fn ingress(fields: &mut Fields<'_, '_>) -> Option<Ingress> {
    let listen = fields.required("listen", address);
    let tls = fields.mapping("tls", tls);
    let http3 = fields.optional("http3", flag);
    if http3 == Some(Some(true)) && tls == Some(None) {
        fields.at_fault("http3", "needs TLS; add `tls = { certificate = \"…\", key = \"…\" }` or remove it");
    }
    let public_port = fields.optional("public_port", whole);
    // They name tenants and money: not for whoever reaches a public address.
    let private = listen.is_some_and(|at| at.ip().is_loopback());
    let metrics = fields.or("metrics", flag, private);
    let tls = tls?;
    Some(Ingress {
        listen: listen?,
        http3: http3?.unwrap_or_else(|| tls.is_some()),
        tls,
        public_port: public_port?,
        metrics: metrics?,
    })
}

fn tls(fields: &mut Fields<'_, '_>) -> Option<Tls> {
    let certificate = fields.required("certificate", path);
    let key = fields.required("key", path);
    Some(Tls { certificate: certificate?, key: key? })
}

fn guard(fields: &mut Fields<'_, '_>) -> Option<Guard> {
    let usual = Guard::default();
    let requests_per_s = fields.optional("requests_per_s", positive);
    let requests_per_min = fields.optional("requests_per_min", positive);
    let tokens_per_min = fields.optional("tokens_per_min", tokens);
    let tokens_per_day = fields.optional("tokens_per_day", tokens);
    let calls = fields.optional("calls", positive);
    let streams = fields.optional("streams", positive);
    let connections = fields.or("connections", positive, usual.connections);
    let per_connection = fields.or("streams_per_connection", positive, usual.streams_per_connection);
    let header_bytes = fields.or("header_bytes", header_bytes, usual.header_bytes);
    let body_bytes = fields.or("body_bytes", body_bytes, usual.body_bytes);
    let held_bytes = held_bytes(fields, body_bytes, usual.held_bytes);
    let header_time = fields.or("header_ms", millis, usual.header_time);
    let body_time = fields.or("body_ms", millis, usual.body_time);
    let stall_time = fields.or("stall_ms", millis, usual.stall_time);
    let keep_alive = fields.or("keep_alive_ms", millis, usual.keep_alive);
    Some(Guard {
        limits: Limits {
            requests_per_s: requests_per_s?,
            concurrency: calls?.or(usual.limits.concurrency),
            streams: streams?.or(usual.limits.streams),
            requests_per_min: requests_per_min?,
            tokens_per_min: tokens_per_min?,
            tokens_per_day: tokens_per_day?,
        },
        connections: connections?,
        streams_per_connection: per_connection?,
        header_bytes: header_bytes?,
        body_bytes: body_bytes?,
        held_bytes: held_bytes?,
        header_time: header_time?,
        body_time: body_time?,
        stall_time: stall_time?,
        keep_alive: keep_alive?,
    })
}

/// Room for two of the longest bodies at least, so that one always finds room in a node at rest.
fn held_bytes(fields: &mut Fields<'_, '_>, body_bytes: Option<usize>, usual: usize) -> Option<usize> {
    let least = body_bytes?.saturating_mul(2);
    let held = fields.or("held_bytes", room, usual.max(least))?;
    if held < least {
        fields.at_fault("held_bytes", format!("must be at least twice `body_bytes`, that is {least}"));
        return None;
    }
    Some(held)
}

fn record(fields: &mut Fields<'_, '_>) -> Option<Record> {
    let usual = Sampling::default();
    let to_stdout = fields.or("stdout", flag, false);
    let directory = fields.optional("directory", path);
    let keep = fields.or("keep", positive, KEPT);
    let success = fields.or("success_per_mille", per_mille, usual.success_per_mille);
    let slow = fields.or("slow_ms", millis, usual.slow);
    let sink = match (to_stdout?, directory?) {
        (true, Some(_)) => {
            fields.at_fault("directory", "and `stdout = true` exclude each other; remove one");
            None
        }
        (true, None) => Some(Sink::Stdout),
        (false, Some(path)) => Some(Sink::Directory { path, keep: keep? }),
        (false, None) => Some(Sink::Off),
    };
    Some(Record { sink: sink?, sampling: Sampling { success_per_mille: success?, slow: slow? } })
}

fn traces(fields: &mut Fields<'_, '_>) -> Option<Traces> {
    let endpoint = fields.required("endpoint", collector);
    let sample = fields.or("sample_per_mille", per_mille, 1_000);
    Some(Traces { endpoint: endpoint?, sample_per_mille: sample? })
}

/// A time in milliseconds, up to a day.
fn millis(value: &Value) -> Result<Duration, String> {
    ranged(value, 1, 86_400_000).map(Duration::from_millis)
}

/// A time in milliseconds that may be none, up to an hour.
fn pause(value: &Value) -> Result<Duration, String> {
    ranged(value, 0, 3_600_000).map(Duration::from_millis)
}

fn per_mille(value: &Value) -> Result<u16, String> {
    ranged(value, 0, 1_000).and_then(fitting)
}

fn positive(value: &Value) -> Result<u32, String> {
    ranged(value, 1, 1_000_000_000).and_then(fitting)
}

fn tokens(value: &Value) -> Result<u64, String> {
    ranged(value, 1, 1_000_000_000_000_000)
}

/// HTTP/1.1 needs 8 KiB of buffer; more than 1 MiB of headers is no request.
fn header_bytes(value: &Value) -> Result<u32, String> {
    ranged(value, 8 * 1024, 1024 * 1024).and_then(fitting)
}

/// Bodies are held in memory.
fn body_bytes(value: &Value) -> Result<usize, String> {
    ranged(value, 1024, 1024 * 1024 * 1024).and_then(fitting)
}

/// Beyond 1 TiB it is no bound.
fn room(value: &Value) -> Result<usize, String> {
    ranged(value, 2 * 1024, 1024 * 1024 * 1024 * 1024).and_then(fitting)
}

fn ranged(value: &Value, low: u64, high: u64) -> Result<u64, String> {
    let number = whole(value)?;
    if (low..=high).contains(&number) {
        Ok(number)
    } else {
        Err(format!("must be from {low} to {high}, this is {number}"))
    }
}

fn fitting<T: TryFrom<u64>>(number: u64) -> Result<T, String> {
    T::try_from(number).map_err(|_too_large| format!("{number} is too large"))
}
