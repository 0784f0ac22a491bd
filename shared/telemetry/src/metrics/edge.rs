//! An edge's metrics.

use std::sync::Arc;
use std::time::Duration;

use base::{Amount, Code, ModelName, Name, NanoUsd, Priority, TenantName, Tokens};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use wire::catalog::Operation;
use wire::ledger::{Outcome, Usage};

use super::runtime::Tasks;
use super::{Exposition, QueueMetrics, RecallMetrics, SECONDS, register};
use crate::names;

type Labels<const N: usize> = [(&'static str, String); N];
type Seconds = Family<Labels<1>, Histogram, fn() -> Histogram>;

/// Around one: 0.85 and 1.15 are where a mean is told as off.
const RATIOS: fn() -> Histogram =
    || Histogram::new([0.5, 0.7, 0.85, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.15, 1.3, 1.5, 2.0]);

/// Stands for the model where there is none; no model can have that name.
const NO_MODEL: &str = "(none)";

const OUTCOMES: [(Outcome, &str); 5] = [
    (Outcome::Complete, "complete"),
    (Outcome::CallerGone, "caller_gone"),
    (Outcome::Cut, "cut"),
    (Outcome::Failed, "failed"),
    (Outcome::Lost, "lost"),
];

/// How an attempt reaches its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// A replica of the edge's own region.
    Local,
    /// A peer region's edge.
    Peer,
    /// Central, which holds the provider's credential.
    Relay,
}

impl Path {
    /// The path as labels and records spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Peer => "peer",
            Self::Relay => "relay",
        }
    }
}

/// Everything an edge counts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EdgeMetrics {
    exposition: Exposition,
    calls: Family<Labels<3>, Counter>,
    tenant_calls: Family<Labels<2>, Counter>,
    rejections: Arc<[(Code, Counter)]>,
    refusals: Family<Labels<2>, Counter>,
    call_seconds: Seconds,
    first_byte: Seconds,
    chunk_gap: Seconds,
    tokens: Family<Labels<2>, Counter>,
    input_ratio: Family<Labels<1>, Histogram, fn() -> Histogram>,
    input_deviates: Family<Labels<1>, Gauge>,
    tenant_tokens: Family<Labels<1>, Counter>,
    cost: Family<Labels<1>, Counter>,
    tenant_cost: Family<Labels<1>, Counter>,
    attempts: Family<Labels<2>, Counter>,
    overhead: Family<Labels<1>, Counter>,
    lease_waits: Family<Labels<1>, Counter>,
    lease_granted: Family<Labels<1>, Gauge>,
    lease_spent: Family<Labels<1>, Gauge>,
    lease_held: Family<Labels<1>, Gauge>,
    link_rtt: Family<Labels<1>, Gauge<f64, std::sync::atomic::AtomicU64>>,
    connections: Family<Labels<1>, Gauge>,
    queue_depth: Family<Labels<2>, Gauge>,
    queue_wait: Family<Labels<2>, Histogram, fn() -> Histogram>,
    /// What is counted of credit that central asks back.
    pub recalls: RecallMetrics,
    /// Calls in progress.
    pub in_flight: Gauge,
    /// Streamed calls in progress.
    pub streams: Gauge,
    /// Holds dropped without a settlement.
    pub unsettled_drops: Counter,
    /// Call records lost.
    pub records_dropped: Counter,
    /// Spans lost.
    pub spans_dropped: Counter,
    /// Model servers taken out.
    pub instances_out: Gauge,
    /// Tokenizers that models name and that are not at hand.
    pub tokenizers_missing: Gauge,
    /// Receipts not yet applied by central.
    pub spool_pending: Gauge,
    /// Version of the configuration in force.
    pub epoch: Gauge,
    /// Seconds since central last confirmed the configuration.
    pub config_age: Gauge,
}

impl Default for EdgeMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl EdgeMetrics {
    /// Metrics at zero.
    #[must_use]
    pub fn new() -> Self {
        let rejections = Family::<Labels<1>, Counter>::default();
        let by_code = Code::ALL.iter().map(|code| {
            let labels = [("code", code.as_str().to_owned())];
            (*code, rejections.get_or_create(&labels).clone())
        });
        let mut metrics = Self {
            exposition: Exposition(Arc::default()),
            calls: Family::default(),
            tenant_calls: Family::default(),
            rejections: by_code.collect(),
            refusals: Family::default(),
            call_seconds: Family::new_with_constructor(SECONDS),
            first_byte: Family::new_with_constructor(SECONDS),
            chunk_gap: Family::new_with_constructor(SECONDS),
            tokens: Family::default(),
            input_ratio: Family::new_with_constructor(RATIOS),
            input_deviates: Family::default(),
            tenant_tokens: Family::default(),
            cost: Family::default(),
            tenant_cost: Family::default(),
            attempts: Family::default(),
            overhead: Family::default(),
            lease_waits: Family::default(),
            lease_granted: Family::default(),
            lease_spent: Family::default(),
            lease_held: Family::default(),
            link_rtt: Family::default(),
            connections: Family::default(),
            queue_depth: Family::default(),
            queue_wait: Family::new_with_constructor(SECONDS),
            recalls: RecallMetrics::default(),
            in_flight: Gauge::default(),
            streams: Gauge::default(),
            unsettled_drops: Counter::default(),
            records_dropped: Counter::default(),
            spans_dropped: Counter::default(),
            instances_out: Gauge::default(),
            tokenizers_missing: Gauge::default(),
            spool_pending: Gauge::default(),
            epoch: Gauge::default(),
            config_age: Gauge::default(),
        };
        let mut registry = Registry::default();
        register(&mut registry, names::REJECTIONS, &rejections);
        metrics.register_families(&mut registry);
        metrics.register_singles(&mut registry);
        registry.register_collector(Box::new(Tasks));
        metrics.exposition = Exposition(Arc::new(registry));
        metrics
    }

    fn register_families(&self, registry: &mut Registry) {
        register(registry, names::CALLS, &self.calls);
        register(registry, names::TENANT_CALLS, &self.tenant_calls);
        register(registry, names::REFUSALS, &self.refusals);
        register(registry, names::CALL_SECONDS, &self.call_seconds);
        register(registry, names::FIRST_BYTE_SECONDS, &self.first_byte);
        register(registry, names::CHUNK_GAP_SECONDS, &self.chunk_gap);
        register(registry, names::TOKENS, &self.tokens);
        register(registry, names::INPUT_RATIO, &self.input_ratio);
        register(registry, names::INPUT_DEVIATES, &self.input_deviates);
        register(registry, names::TENANT_TOKENS, &self.tenant_tokens);
        register(registry, names::COST, &self.cost);
        register(registry, names::TENANT_COST, &self.tenant_cost);
        register(registry, names::ATTEMPTS, &self.attempts);
        register(registry, names::OVERHEAD_ATTEMPTS, &self.overhead);
        register(registry, names::LEASE_WAITS, &self.lease_waits);
        register(registry, names::LEASE_GRANTED, &self.lease_granted);
        register(registry, names::LEASE_SPENT, &self.lease_spent);
        register(registry, names::LEASE_HELD, &self.lease_held);
        self.recalls.register(registry);
        register(registry, names::LINK_RTT_SECONDS, &self.link_rtt);
        register(registry, names::CONNECTIONS, &self.connections);
        register(registry, names::QUEUE_DEPTH, &self.queue_depth);
        register(registry, names::QUEUE_WAIT_SECONDS, &self.queue_wait);
    }

    fn register_singles(&self, registry: &mut Registry) {
        register(registry, names::IN_FLIGHT, &self.in_flight);
        register(registry, names::STREAMS, &self.streams);
        register(registry, names::SPECIAL_ENDS, &self.unsettled_drops);
        register(registry, names::RECORDS_DROPPED, &self.records_dropped);
        register(registry, names::SPANS_DROPPED, &self.spans_dropped);
        register(registry, names::INSTANCES_OUT, &self.instances_out);
        register(registry, names::TOKENIZERS_MISSING, &self.tokenizers_missing);
        register(registry, names::SPOOL_PENDING, &self.spool_pending);
        register(registry, names::EPOCH, &self.epoch);
        register(registry, names::CONFIG_AGE_SECONDS, &self.config_age);
    }

    /// What a scraper reads.
    #[must_use]
    pub const fn exposition(&self) -> &Exposition {
        &self.exposition
    }

    /// Handles for one model and operation; resolve them when configuration changes.
    #[must_use]
    pub fn model(&self, model: &ModelName, operation: Operation) -> ModelMetrics {
        self.named(model.as_str(), operation)
    }

    /// Handles for calls that came to no model that is configured.
    #[must_use]
    pub fn no_model(&self, operation: Operation) -> ModelMetrics {
        self.named(NO_MODEL, operation)
    }

    fn named(&self, model: &str, operation: Operation) -> ModelMetrics {
        let name = || model.to_owned();
        let one = || [("model", name())];
        let calls = OUTCOMES.map(|(outcome, text)| {
            let labels = [
                ("model", name()),
                ("operation", operation.as_str().to_owned()),
                ("outcome", text.to_owned()),
            ];
            (outcome, self.calls.get_or_create_owned(&labels))
        });
        let tokens =
            |kind: &str| self.tokens.get_or_create_owned(&[("model", name()), ("kind", kind.to_owned())]);
        ModelMetrics {
            calls,
            call_seconds: self.call_seconds.get_or_create_owned(&one()),
            first_byte: self.first_byte.get_or_create_owned(&one()),
            chunk_gap: self.chunk_gap.get_or_create_owned(&one()),
            input: tokens("input"),
            cached: tokens("cached"),
            output: tokens("output"),
            input_ratio: self.input_ratio.get_or_create_owned(&one()),
            input_deviates: self.input_deviates.get_or_create_owned(&one()),
            cost: self.cost.get_or_create_owned(&one()),
        }
    }

    /// Handles for one tenant; resolve them when configuration changes.
    #[must_use]
    pub fn tenant(&self, tenant: &TenantName) -> TenantMetrics {
        let one = || [("tenant", tenant.as_str().to_owned())];
        let calls = OUTCOMES.map(|(outcome, text)| {
            let labels = [("tenant", tenant.as_str().to_owned()), ("outcome", text.to_owned())];
            (outcome, self.tenant_calls.get_or_create_owned(&labels))
        });
        TenantMetrics {
            calls,
            tokens: self.tenant_tokens.get_or_create_owned(&one()),
            cost: self.tenant_cost.get_or_create_owned(&one()),
        }
    }

    /// Gauges of one budget's lease; resolve them when configuration changes.
    #[must_use]
    pub fn budget(&self, budget: &Name) -> BudgetGauges {
        let one = [("budget", budget.as_str().to_owned())];
        BudgetGauges {
            granted: self.lease_granted.get_or_create_owned(&one),
            spent: self.lease_spent.get_or_create_owned(&one),
            held: self.lease_held.get_or_create_owned(&one),
        }
    }

    /// A call was answered with an error of ours.
    pub fn rejected(&self, code: Code) {
        if let Some((_, counter)) = self.rejections.iter().find(|(known, _)| *known == code) {
            counter.inc();
        }
    }

    /// A limit or a budget of `level` refused a call for want of `what`; both from closed lists.
    pub fn refused(&self, level: &'static str, what: &'static str) {
        self.refusals.get_or_create(&[("level", level.to_owned()), ("what", what.to_owned())]).inc();
    }

    /// An attempt ended; `result` is `ok` or a code.
    pub fn attempted(&self, path: Path, result: Result<(), Code>) {
        let result = match result {
            Ok(()) => "ok",
            Err(code) => code.as_str(),
        };
        self.attempts
            .get_or_create(&[("path", path.as_str().to_owned()), ("result", result.to_owned())])
            .inc();
    }

    /// A failed attempt may have cost something at its upstream.
    pub fn overhead(&self, path: Path) {
        self.overhead.get_or_create(&[("path", path.as_str().to_owned())]).inc();
    }

    /// A call waited for credit.
    pub fn waited_for_credit(&self, granted: bool) {
        let result = if granted { "granted" } else { "refused" };
        self.lease_waits.get_or_create(&[("result", result.to_owned())]).inc();
    }

    /// The gauge of connections open over one HTTP version (`1.1`, `2`, `3`).
    #[must_use]
    pub fn connections(&self, version: &'static str) -> Gauge {
        self.connections.get_or_create_owned(&[("version", version.to_owned())])
    }

    /// What is counted of calls that wait for `what`: `server` or `limit`.
    #[must_use]
    pub fn queue(&self, what: &'static str) -> QueueMetrics {
        let labels =
            |priority: Priority| [("queue", what.to_owned()), ("priority", priority.as_str().to_owned())];
        QueueMetrics {
            depth: Priority::ALL.map(|priority| self.queue_depth.get_or_create_owned(&labels(priority))),
            wait: Priority::ALL.map(|priority| self.queue_wait.get_or_create_owned(&labels(priority))),
        }
    }

    /// The round trip to a node was measured.
    pub fn link(&self, node: &Name, rtt: Duration) {
        self.link_rtt.get_or_create(&[("node", node.as_str().to_owned())]).set(rtt.as_secs_f64());
    }
}

/// Handles of one model and operation.
#[derive(Clone, Debug)]
pub struct ModelMetrics {
    calls: [(Outcome, Counter); 5],
    call_seconds: Histogram,
    first_byte: Histogram,
    chunk_gap: Histogram,
    input: Counter,
    cached: Counter,
    output: Counter,
    input_ratio: Histogram,
    input_deviates: Gauge,
    cost: Counter,
}

impl ModelMetrics {
    /// A call that was thought to have `likely` input tokens was billed `billed`, more than none; `deviates`: the model's
    /// mean is off.
    #[expect(clippy::cast_precision_loss, reason = "no call has 2^53 tokens")]
    pub fn billed(&self, likely: Tokens, billed: Tokens, deviates: bool) {
        self.input_ratio.observe(likely.0 as f64 / billed.0 as f64);
        self.input_deviates.set(deviates.into());
    }

    /// A call ended.
    pub fn ended(
        &self,
        outcome: Outcome,
        total: Duration,
        first_byte: Option<Duration>,
        longest_gap: Option<Duration>,
    ) {
        count(&self.calls, outcome);
        self.call_seconds.observe(total.as_secs_f64());
        if let Some(first) = first_byte {
            self.first_byte.observe(first.as_secs_f64());
        }
        if let Some(gap) = longest_gap {
            self.chunk_gap.observe(gap.as_secs_f64());
        }
    }

    /// A call was refused, or left by its caller, before its first attempt: it says nothing of the model's times.
    pub fn refused(&self, outcome: Outcome) {
        count(&self.calls, outcome);
    }

    /// A call was settled.
    pub fn settled(&self, usage: Usage, cost: NanoUsd) {
        self.input.inc_by(usage.input.0);
        self.cached.inc_by(usage.cached_input.0);
        self.output.inc_by(usage.output.0);
        self.cost.inc_by(cost.0);
    }
}

/// Handles of one tenant.
#[derive(Clone, Debug)]
pub struct TenantMetrics {
    calls: [(Outcome, Counter); 5],
    tokens: Counter,
    cost: Counter,
}

impl TenantMetrics {
    /// A call was refused, or left by its caller, before it was admitted.
    pub fn refused(&self, outcome: Outcome) {
        count(&self.calls, outcome);
    }

    /// A call ended and was settled.
    pub fn ended(&self, outcome: Outcome, usage: Usage, cost: NanoUsd) {
        count(&self.calls, outcome);
        self.tokens.inc_by(usage.input.0.saturating_add(usage.output.0));
        self.cost.inc_by(cost.0);
    }
}

/// Gauges of one budget's lease at this edge.
#[derive(Clone, Debug)]
pub struct BudgetGauges {
    granted: Gauge,
    spent: Gauge,
    held: Gauge,
}

impl BudgetGauges {
    /// The lease as it stands.
    pub fn set(&self, granted: Amount, spent: Amount, held: Amount) {
        self.granted.set(signed(granted));
        self.spent.set(signed(spent));
        self.held.set(signed(held));
    }
}

pub(super) fn signed(amount: Amount) -> i64 {
    i64::try_from(amount.0).unwrap_or(i64::MAX)
}

fn count(counters: &[(Outcome, Counter); 5], outcome: Outcome) {
    if let Some((_, counter)) = counters.iter().find(|(known, _)| *known == outcome) {
        counter.inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_shows_in_the_exposition() {
        let metrics = EdgeMetrics::new();
        let model = metrics.model(&"tiny".parse().unwrap(), Operation::Chat);
        model.ended(Outcome::Complete, Duration::from_millis(3), Some(Duration::from_millis(1)), None);
        metrics.rejected(Code::BudgetExceeded);
        let text = metrics.exposition().render(None).unwrap().text;
        assert!(
            text.contains(r#"portolan_calls_total{model="tiny",operation="chat",outcome="complete"} 1"#),
            "{text}"
        );
        assert!(text.contains(r#"portolan_rejections_total{code="budget_exceeded"} 1"#), "{text}");
        assert!(text.contains(r#"portolan_first_byte_seconds_count{model="tiny"} 1"#), "{text}");
    }
}
