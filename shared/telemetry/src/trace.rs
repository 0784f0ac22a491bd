//! Traces joined across caller, edge, peer, central and upstream by W3C Trace Context (level 1, `traceparent`), exported
//! by OTLP over HTTP. A span is built once, when its work ends, by the node that did it, from times that are held anyway.
//!
//! What a node sends on names a span that exists: a node that traces a call puts its own span into `traceparent`; a node
//! that does not (no collector, or the trace is not sampled) passes on what it got.

mod export;

use std::fmt;
use std::time::Duration;

use base::Mono;
use opentelemetry::{KeyValue, Value};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use prometheus_client::metrics::counter::Counter;
use seam::{Host, Stop};
use tokio::sync::mpsc;

/// Spans that may wait for the exporter; more are dropped and counted.
const QUEUE: usize = 4_096;

/// Where in a trace a piece of work stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The whole trace; never zero.
    pub trace: u128,
    /// This span; never zero.
    pub span: u64,
    /// Whether the trace is exported.
    pub sampled: bool,
}

impl Context {
    /// Reads a `traceparent` header (W3C Trace Context §3.2); a malformed one is `None` and starts a new trace.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().splitn(5, '-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let lower = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let sizes = version.len() == 2 && trace.len() == 32 && span.len() == 16 && flags.len() == 2;
        if !sizes || ![version, trace, span, flags].into_iter().all(lower) || version == "ff" {
            return None;
        }
        if version == "00" && parts.next().is_some() {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?;
        let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        Some(Self { trace, span, sampled })
    }

    /// A new trace; `random` draws both identifiers.
    #[must_use]
    pub fn root(random: (u128, u64), sampled: bool) -> Self {
        Self { trace: random.0.max(1), span: random.1.max(1), sampled }
    }

    /// A span within this one.
    #[must_use]
    pub fn child(self, random: u64) -> Self {
        Self { span: random.max(1), ..self }
    }

    /// The `n`th span within this one. It follows from this one's identifier alone (mixed by splitmix64), so that it is
    /// known before the work begins and need not be kept until it ends.
    #[must_use]
    pub fn nth(self, n: u16) -> Self {
        let mixed = self.span.wrapping_add(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(u64::from(n) + 1));
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        self.child(mixed ^ (mixed >> 31))
    }
}

impl fmt::Display for Context {
    /// The `traceparent` header.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

/// Which side of a call a span describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Answering someone.
    Server,
    /// Asking someone.
    Client,
    /// Neither: work within a node.
    Inner,
}

/// A finished piece of work.
#[derive(Clone, Debug)]
pub struct Span {
    /// Where it stands.
    pub context: Context,
    /// The span that caused it.
    pub parent: Option<u64>,
    /// Its name, of low cardinality.
    pub name: &'static str,
    /// Which side it describes.
    pub side: Side,
    /// When it began.
    pub begun: Mono,
    /// When it ended.
    pub ended: Mono,
    /// Facts, under OpenTelemetry's names.
    pub attributes: Vec<(&'static str, Value)>,
    /// What went wrong.
    pub error: Option<&'static str>,
}

/// Takes finished spans. Cheap to clone; without an exporter it drops them.
#[derive(Clone, Debug, Default)]
pub struct Tracer {
    queue: Option<mpsc::Sender<Span>>,
    dropped: Counter,
}

/// The exporter could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("no traces can be sent to {endpoint}")]
pub struct TraceError {
    /// Where to.
    pub endpoint: String,
    source: opentelemetry_otlp::ExporterBuildError,
}

impl Tracer {
    /// A tracer that sends to an OTLP/HTTP collector's root, such as `http://127.0.0.1:4318`, until `stop`.
    ///
    /// # Errors
    /// [`TraceError`] when the address is malformed.
    pub fn otlp(
        host: &Host,
        endpoint: &str,
        node: &Node,
        dropped: Counter,
        stop: Stop,
    ) -> Result<Self, TraceError> {
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .with_timeout(Duration::from_secs(5))
            .build()
            .map_err(|source| TraceError { endpoint: endpoint.to_owned(), source })?;
        exporter.set_resource(&node.resource());
        let (tracer, spans) = Self::queue(dropped.clone());
        drop(host.spawn("traces", export::run(host.clone(), exporter, spans, stop, dropped)));
        Ok(tracer)
    }

    /// A tracer whose spans wait for whoever takes them.
    #[must_use]
    pub fn queue(dropped: Counter) -> (Self, mpsc::Receiver<Span>) {
        let (queue, spans) = mpsc::channel(QUEUE);
        (Self { queue: Some(queue), dropped }, spans)
    }

    /// Whether spans go anywhere.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Whether spans of this trace go anywhere.
    #[must_use]
    pub const fn traces(&self, context: Context) -> bool {
        self.is_on() && context.sampled
    }

    /// Where work belongs that a `traceparent` header asks for, if its spans go anywhere.
    #[must_use]
    pub fn follow(&self, header: Option<&str>) -> Option<Context> {
        let header = header.filter(|_header| self.is_on())?;
        Context::parse(header).filter(|context| context.sampled)
    }

    /// Hands over a finished span; never waits.
    pub fn finish(&self, span: Span) {
        if let Some(queue) = self.queue.as_ref().filter(|_| span.context.sampled)
            && queue.try_send(span).is_err()
        {
            self.dropped.inc();
        }
    }
}

/// Which node the spans come from.
#[derive(Clone, Debug)]
pub struct Node {
    /// `portolan-edge` or `portolan-central`.
    pub service: &'static str,
    /// The node's name.
    pub name: String,
    /// Its region.
    pub region: String,
    /// The build's version.
    pub version: &'static str,
}

impl Node {
    fn resource(&self) -> Resource {
        Resource::builder_empty()
            .with_attributes([
                KeyValue::new("service.name", self.service),
                KeyValue::new("service.version", self.version),
                KeyValue::new("service.instance.id", self.name.clone()),
                KeyValue::new("cloud.region", self.region.clone()),
            ])
            .build()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_traceparent_reads_back_and_a_malformed_one_starts_anew() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = Context::parse(header).unwrap();
        assert!(context.sampled);
        assert_eq!(context.to_string(), header);
        assert_eq!(context.child(5).trace, context.trace);
        for bad in [
            "",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        ] {
            assert_eq!(Context::parse(bad), None, "{bad}");
        }
        let children: BTreeSet<_> =
            (0..4).flat_map(|n| [context.nth(n), context.nth(n).nth(0)]).map(|one| one.span).collect();
        assert_eq!((children.len(), context.nth(3)), (8, Context::parse(header).unwrap().nth(3)));
        assert!(Context::parse("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more").is_some());
    }
}
