//! Spans on their way to the collector: gathered, put on wall time, sent in batches. Nothing of this is on a call's path.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::{Mono, WallMs};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use prometheus_client::metrics::counter::Counter;
use seam::{Host, Stop};
use tokio::sync::mpsc;

use super::{Side, Span};

/// Spans sent at once.
const BATCH: usize = 512;
/// How long spans gather before they are sent.
const GATHER: Duration = Duration::from_secs(1);
/// The wall clock's step.
const STEP: Duration = Duration::from_millis(1);

pub(super) async fn run(
    host: Host,
    exporter: SpanExporter,
    mut spans: mpsc::Receiver<Span>,
    stop: Stop,
    dropped: Counter,
) {
    let scope = InstrumentationScope::builder("portolan").build();
    let mut clock = Clock::read(host.now(), host.wall());
    let mut failing = false;
    while let Some(first) = next(&mut spans, &stop).await {
        clock = clock.checked(host.now(), host.wall());
        let mut batch = vec![data(first, &scope, clock)];
        host.sleep(GATHER).await;
        while let Some(more) = (batch.len() < BATCH).then(|| spans.try_recv().ok()).flatten() {
            batch.push(data(more, &scope, clock));
        }
        let lost = batch.len();
        match exporter.export(batch).await {
            Ok(()) => failing = false,
            Err(error) => {
                dropped.inc_by(lost as u64);
                if !failing {
                    tracing::warn!(%error, "traces cannot be sent; they are dropped until the collector answers");
                }
                failing = true;
            }
        }
    }
}

async fn next(spans: &mut mpsc::Receiver<Span>, stop: &Stop) -> Option<Span> {
    tokio::select! {
        biased;
        span = spans.recv() => span,
        () = stop.wanted() => spans.try_recv().ok(),
    }
}

/// Wall time of monotonic instants. One reading serves as long as it agrees with the wall clock, so that spans of one
/// node keep their order and their distances to the microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    at: Mono,
    wall: Duration,
}

impl Clock {
    const fn read(now: Mono, wall: WallMs) -> Self {
        Self { at: now, wall: Duration::from_millis(wall.as_millis()) }
    }

    /// This reading, or a new one where the wall clock went another way since.
    fn checked(self, now: Mono, wall: WallMs) -> Self {
        let fresh = Self::read(now, wall);
        if self.since_epoch(now).abs_diff(fresh.wall) <= STEP { self } else { fresh }
    }

    const fn since_epoch(self, instant: Mono) -> Duration {
        if instant.as_nanos() < self.at.as_nanos() {
            self.wall.saturating_sub(self.at.since(instant))
        } else {
            self.wall.saturating_add(instant.since(self.at))
        }
    }

    fn time(self, instant: Mono) -> SystemTime {
        UNIX_EPOCH + self.since_epoch(instant)
    }
}

fn data(span: Span, scope: &InstrumentationScope, clock: Clock) -> SpanData {
    let flags = if span.context.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    SpanData {
        span_context: SpanContext::new(
            TraceId::from(span.context.trace),
            SpanId::from(span.context.span),
            flags,
            false,
            TraceState::default(),
        ),
        parent_span_id: span.parent.map_or(SpanId::INVALID, SpanId::from),
        parent_span_is_remote: span.side == Side::Server,
        span_kind: match span.side {
            Side::Server => SpanKind::Server,
            Side::Client => SpanKind::Client,
            Side::Inner => SpanKind::Internal,
        },
        name: span.name.into(),
        start_time: clock.time(span.begun),
        end_time: clock.time(span.ended),
        attributes: span.attributes.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: span.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: scope.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reading_of_the_clock_serves_until_the_wall_clock_steps() {
        let at = |ms: u64| Mono::from_nanos(ms * 1_000_000);
        let clock = Clock::read(at(10), WallMs::from_millis(1_000));
        assert_eq!(clock.since_epoch(at(4)), Duration::from_millis(994));
        assert_eq!(clock.checked(at(500), WallMs::from_millis(1_490)), clock);
        let stepped = clock.checked(at(500), WallMs::from_millis(9_000));
        assert_eq!(stepped.since_epoch(at(500)), Duration::from_millis(9_000));
    }
}
