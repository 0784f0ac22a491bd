//! What machines logged: kept for the scenario that asks what was said, and printed for the person who asks why.

use std::cell::RefCell;
use std::fmt::{self, Write as _};

use base::Mono;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::{EnvFilter, Layer};

use super::gate::{self, MONO_START_NS};

/// Lines kept of one run; later ones are dropped.
const MOST: usize = 100_000;

thread_local! {
    static LINES: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// A line that a machine's process logged, at `info` or above; the Raft library's own are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Since the run started.
    pub at: Mono,
    /// Which machine; empty for the scenario itself.
    pub machine: String,
    /// How grave it is.
    pub level: Level,
    /// The message, then each field as `name=value`.
    pub text: String,
}

/// Runs `work` with its log kept, and printed as far as `filter` says.
pub(super) fn kept<T>(filter: Option<&str>, work: impl FnOnce() -> T) -> T {
    LINES.take();
    let printed = filter.map(|filter| {
        tracing_subscriber::fmt::layer()
            .with_timer(SimulatedTime)
            .with_ansi(false)
            .with_writer(std::io::stderr)
            .with_filter(EnvFilter::new(filter))
    });
    let subscriber = tracing_subscriber::registry().with(Keep.with_filter(LevelFilter::INFO)).with(printed);
    tracing::subscriber::with_default(subscriber, work)
}

/// All lines kept so far.
pub(super) fn lines() -> Vec<Line> {
    LINES.with_borrow(Clone::clone)
}

struct Keep;

impl<S: Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        if event.metadata().target().starts_with("openraft") {
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        let line = Line {
            at: Mono::from_nanos(since_start_ns()),
            machine: gate::machine_name(),
            level: *event.metadata().level(),
            text: text.message + &text.fields,
        };
        LINES.with_borrow_mut(|lines| {
            if lines.len() < MOST {
                lines.push(line);
            }
        });
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _infallible = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// Prints seconds since the run started.
struct SimulatedTime;

impl FormatTime for SimulatedTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let ms = since_start_ns() / 1_000_000;
        write!(writer, "{:4}.{:03}", ms / 1000, ms % 1000)
    }
}

fn since_start_ns() -> u64 {
    simulation_hooks::mono_ns().saturating_sub(MONO_START_NS)
}
