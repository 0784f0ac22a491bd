//! A central node's metrics.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use base::{Amount, Name};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::edge::signed;
use super::runtime::Tasks;
use super::{Exposition, KeyMetrics, RecallMetrics, SECONDS, register};
use crate::names;

type Labels = [(&'static str, String); 1];

/// Everything a central node counts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CentralMetrics {
    exposition: Exposition,
    link_rtt: Family<Labels, Gauge<f64, AtomicU64>>,
    budget_limit: Family<Labels, Gauge>,
    budget_spent: Family<Labels, Gauge>,
    budget_granted: Family<Labels, Gauge>,
    budget_debt: Family<Labels, Gauge>,
    budget_stranded: Family<Labels, Gauge>,
    proposal: Histogram,
    /// What is counted of credit that central asks back.
    pub recalls: RecallMetrics,
    /// What is counted of providers' keys.
    pub keys: KeyMetrics,
    /// Raft term.
    pub term: Gauge,
    /// 1 on the leader.
    pub is_leader: Gauge,
    /// Index of the last committed entry.
    pub committed: Gauge,
    /// Index of the last applied entry.
    pub applied: Gauge,
    /// Entries not purged.
    pub log_entries: Gauge,
    /// Edges attached.
    pub sessions: Gauge,
    /// Receipts applied.
    pub receipts_applied: Counter,
    /// Last log entry that the usage store knows of.
    pub usage_head: Gauge,
    /// Log entries whose receipts the usage store lacks.
    pub usage_missing: Gauge,
    /// Receipts that wait for the usage store.
    pub usage_waiting: Gauge,
    /// 1 while the usage store cannot write.
    pub usage_failing: Gauge,
    /// Receipts written to the usage store.
    pub usage_written: Counter,
    /// Receipts that wait for the server outside.
    pub clickhouse_behind: Gauge,
    /// 1 while it takes none.
    pub clickhouse_failing: Gauge,
    /// Receipts that it took.
    pub clickhouse_shipped: Counter,
    /// Log entries whose receipts were forgotten before.
    pub clickhouse_lost: Counter,
    /// Version of the configuration.
    pub epoch: Gauge,
    /// Spans lost because the collector was slower than the calls.
    pub spans_dropped: Counter,
}

impl Default for CentralMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl CentralMetrics {
    /// Metrics at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut metrics = Self {
            exposition: Exposition(Arc::default()),
            link_rtt: Family::default(),
            budget_limit: Family::default(),
            budget_spent: Family::default(),
            budget_granted: Family::default(),
            budget_debt: Family::default(),
            budget_stranded: Family::default(),
            proposal: SECONDS(),
            recalls: RecallMetrics::default(),
            keys: KeyMetrics::default(),
            term: Gauge::default(),
            is_leader: Gauge::default(),
            committed: Gauge::default(),
            applied: Gauge::default(),
            log_entries: Gauge::default(),
            sessions: Gauge::default(),
            receipts_applied: Counter::default(),
            usage_head: Gauge::default(),
            usage_missing: Gauge::default(),
            usage_waiting: Gauge::default(),
            usage_failing: Gauge::default(),
            usage_written: Counter::default(),
            clickhouse_behind: Gauge::default(),
            clickhouse_failing: Gauge::default(),
            clickhouse_shipped: Counter::default(),
            clickhouse_lost: Counter::default(),
            epoch: Gauge::default(),
            spans_dropped: Counter::default(),
        };
        let mut registry = Registry::default();
        register(&mut registry, names::LINK_RTT_SECONDS, &metrics.link_rtt);
        register(&mut registry, names::BUDGET_LIMIT, &metrics.budget_limit);
        register(&mut registry, names::BUDGET_SPENT, &metrics.budget_spent);
        register(&mut registry, names::BUDGET_GRANTED, &metrics.budget_granted);
        register(&mut registry, names::BUDGET_DEBT, &metrics.budget_debt);
        register(&mut registry, names::BUDGET_STRANDED, &metrics.budget_stranded);
        metrics.recalls.register(&mut registry);
        metrics.keys.register(&mut registry);
        register(&mut registry, names::PROPOSAL_SECONDS, &metrics.proposal);
        register(&mut registry, names::RAFT_TERM, &metrics.term);
        register(&mut registry, names::RAFT_LEADER, &metrics.is_leader);
        register(&mut registry, names::RAFT_COMMITTED, &metrics.committed);
        register(&mut registry, names::RAFT_APPLIED, &metrics.applied);
        register(&mut registry, names::RAFT_LOG_ENTRIES, &metrics.log_entries);
        register(&mut registry, names::SESSIONS, &metrics.sessions);
        register(&mut registry, names::RECEIPTS_APPLIED, &metrics.receipts_applied);
        register(&mut registry, names::USAGE_HEAD, &metrics.usage_head);
        register(&mut registry, names::USAGE_MISSING, &metrics.usage_missing);
        register(&mut registry, names::USAGE_WAITING, &metrics.usage_waiting);
        register(&mut registry, names::USAGE_FAILING, &metrics.usage_failing);
        register(&mut registry, names::USAGE_WRITTEN, &metrics.usage_written);
        register(&mut registry, names::CLICKHOUSE_BEHIND, &metrics.clickhouse_behind);
        register(&mut registry, names::CLICKHOUSE_FAILING, &metrics.clickhouse_failing);
        register(&mut registry, names::CLICKHOUSE_SHIPPED, &metrics.clickhouse_shipped);
        register(&mut registry, names::CLICKHOUSE_LOST, &metrics.clickhouse_lost);
        register(&mut registry, names::EPOCH, &metrics.epoch);
        register(&mut registry, names::SPANS_DROPPED, &metrics.spans_dropped);
        registry.register_collector(Box::new(Tasks));
        metrics.exposition = Exposition(Arc::new(registry));
        metrics
    }

    /// What a scraper reads.
    #[must_use]
    pub const fn exposition(&self) -> &Exposition {
        &self.exposition
    }

    /// A proposal was applied `after` it was made.
    pub fn proposed(&self, after: Duration) {
        self.proposal.observe(after.as_secs_f64());
    }

    /// The round trip to a node was measured.
    pub fn link(&self, node: &Name, rtt: Duration) {
        self.link_rtt.get_or_create(&[("node", node.as_str().to_owned())]).set(rtt.as_secs_f64());
    }

    /// A budget's open window as it stands.
    pub fn budget(&self, budget: &Name, now: &BudgetLevels) {
        let labels = [("budget", budget.as_str().to_owned())];
        for (gauge, level) in [
            (&self.budget_limit, now.limit),
            (&self.budget_spent, now.spent),
            (&self.budget_granted, now.granted),
            (&self.budget_debt, now.debt),
            (&self.budget_stranded, now.stranded),
        ] {
            gauge.get_or_create(&labels).set(signed(level));
        }
    }

    /// A budget is gone.
    pub fn forget_budget(&self, budget: &Name) {
        let labels = [("budget", budget.as_str().to_owned())];
        for gauge in [
            &self.budget_limit,
            &self.budget_spent,
            &self.budget_granted,
            &self.budget_debt,
            &self.budget_stranded,
        ] {
            gauge.remove(&labels);
        }
    }
}

/// A budget's open window, in its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetLevels {
    /// What may be spent.
    pub limit: Amount,
    /// All that counts as spent.
    pub spent: Amount,
    /// Granted and not returned.
    pub granted: Amount,
    /// What calls cost beyond their holds.
    pub debt: Amount,
    /// Left by lives of edges that ended without a last word, or written off.
    pub stranded: Amount,
}
