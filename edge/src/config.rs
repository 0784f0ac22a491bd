//! An edge's configuration file, `edge.toml`, as usable values.
//!
//! Decided here: what each setting means, its unit and its default. The whole file is read before anything is
//! reported, so that every mistake shows at once, each with its place and how to mend it; an unknown key is a mistake.
//! Who the node is stands in its certificate, never here; what the mesh serves comes from central.

mod read;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use settings::{Fault, HostPort};
use telemetry::record::{Sampling, Sink};
use wire::catalog::Limits;

/// Everything wrong with a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", settings::list_faults(faults))]
pub struct ConfigError {
    /// In order of their places; never empty.
    pub faults: Vec<Fault>,
}

/// Everything an edge is told by its operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the journal, the receipt spool and the last snapshot are kept.
    pub data: PathBuf,
    /// Mesh endpoints of central nodes to find the others by; never empty.
    pub central: Vec<HostPort>,
    /// This node's end of the mesh.
    pub mesh: Mesh,
    /// Where callers reach this node; never empty.
    pub ingress: Vec<Ingress>,
    /// What protects this node from its callers.
    pub guard: Guard,
    /// Call records.
    pub record: Record,
    /// Traces; `None`: not sent.
    pub traces: Option<Traces>,
    /// PEM file of authorities to trust, besides the public ones, among model servers that speak TLS.
    pub upstream_authorities: Option<PathBuf>,
    /// Directory of `tokenizer.json` files that models name, each `NAME.json`.
    pub tokenizers: PathBuf,
    /// How long calls in progress may take to end once the node was asked to stop.
    pub drain: Duration,
    /// How long it serves on after it was asked to stop, while it says that it is not ready.
    pub lame_duck: Duration,
    /// Whether keys that may debug are told a call's hops, attempts and timings.
    pub debug: bool,
}

/// This node's end of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// Address to bind.
    pub listen: SocketAddr,
    /// Address that other nodes reach it at; `None`: the one bound.
    pub advertise: Option<SocketAddr>,
    /// Directory of `node.pem`, `node.key` and `ca.pem`.
    pub credentials: PathBuf,
}

/// One address for callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingress {
    /// Address to bind, for TCP and, with HTTP/3, for UDP.
    pub listen: SocketAddr,
    /// Certificate chain and key; `None`: cleartext.
    pub tls: Option<Tls>,
    /// Whether HTTP/3 is served too.
    pub http3: bool,
    /// The port that callers see, for `Alt-Svc`; `None`: the one bound.
    pub public_port: Option<u16>,
    /// Whether `/metrics` is served here, to anybody who reaches the address; by default only where that is loopback.
    pub metrics: bool,
}

/// A listener's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of the chain.
    pub certificate: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
}

/// What protects the node from its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Rates, calls and streams in progress, of all callers together.
    pub limits: Limits,
    /// Connections at once, on all listeners together.
    pub connections: u32,
    /// Calls in progress on one HTTP/2 or HTTP/3 connection.
    pub streams_per_connection: u32,
    /// Bytes of a request's headers.
    pub header_bytes: u32,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Bytes of all bodies held at once, peers' calls included; as many again of whole answers.
    pub held_bytes: usize,
    /// Until a connection's handshake is done, its first and each further request's headers are here.
    pub header_time: Duration,
    /// Until a request's body is here.
    pub body_time: Duration,
    /// A caller that reads nothing of its answer for so long is gone.
    pub stall_time: Duration,
    /// Silence on an event stream after which a comment keeps it alive.
    pub keep_alive: Duration,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            limits: Limits { concurrency: Some(8_192), streams: Some(8_192), ..Limits::default() },
            connections: 16_384,
            streams_per_connection: 128,
            header_bytes: 32 * 1024,
            body_bytes: 32 * 1024 * 1024,
            held_bytes: 1024 * 1024 * 1024,
            header_time: Duration::from_secs(30),
            body_time: Duration::from_secs(60),
            stall_time: Duration::from_secs(60),
            // Proxies and balancers commonly cut what is silent for 30 or 60 seconds.
            keep_alive: Duration::from_secs(10),
        }
    }
}

/// Call records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Where they go.
    pub sink: Sink,
    /// Which are kept.
    pub sampling: Sampling,
}

/// Traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    /// Root of an OTLP/HTTP collector.
    pub endpoint: String,
    /// Of a thousand calls that bring no trace of their own, how many are traced.
    pub sample_per_mille: u16,
}

impl Config {
    /// Reads the text of a configuration file; `name` is the file's name for messages. Relative paths stay relative
    /// to the process's directory.
    ///
    /// # Errors
    /// [`ConfigError`] lists every fault.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        read::config(name, text)
    }
}

#[cfg(test)]
mod tests;
