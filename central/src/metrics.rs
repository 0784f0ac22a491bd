//! What a central node counts, in the handles of `telemetry`.

mod recalls;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::{Amount, Epoch, Name, NodeId};
use central_core::State;
use egress::{Egress, KeyModelState, KeyState};
use mesh::Links;
use prometheus_client::metrics::counter::Counter;
use seam::{Host, Lock, Stop};
use telemetry::metrics::{BudgetLevels, CentralMetrics, Exposition, KeyLevels, KeyMetrics};
use tokio::sync::watch;
use wire::ledger::Grants;

use self::recalls::Recalls;
use crate::books;
use crate::consensus::{Consensus, Standing};
use crate::sessions::Sessions;
use crate::usage::Usage;
use crate::usage::clickhouse::Shipped;

/// Between two looks at what changes by itself.
const LOOK: Duration = Duration::from_secs(1);

/// What is looked at.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) consensus: Consensus,
    pub(crate) sessions: Sessions,
    pub(crate) links: Links,
    pub(crate) usage: Usage,
    pub(crate) egress: Egress,
    /// How the store outside stands that takes receipts, where there is one.
    pub(crate) shipped: Option<watch::Receiver<Shipped>>,
}

/// A node's metrics.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    counted: CentralMetrics,
    budgets: Lock<BTreeSet<Name>>,
    /// Providers and their keys.
    keys: Lock<BTreeSet<(Name, Name)>>,
    recalls: Lock<Recalls>,
    leader: Lock<Option<(u64, NodeId)>>,
}

impl Metrics {
    pub(crate) fn exposition(&self) -> &Exposition {
        self.counted.exposition()
    }

    /// Counts spans that the collector was too slow for.
    pub(crate) fn spans_dropped(&self) -> Counter {
        self.counted.spans_dropped.clone()
    }

    /// Counts providers' keys.
    pub(crate) fn keys(&self) -> KeyMetrics {
        self.counted.keys.clone()
    }

    fn look_at_keys(&self, egress: &Egress) {
        let states = egress.keys();
        for state in &states {
            self.counted.keys.set(&state.provider, &state.key, levels(state));
        }
        let seen = states.into_iter().map(|state| (state.provider, state.key)).collect();
        let mut known = self.keys.lock();
        known.difference(&seen).for_each(|(provider, key)| self.counted.keys.forget(provider, key));
        *known = seen;
    }

    pub(crate) fn receipts(&self, applied: usize) {
        self.counted.receipts_applied.inc_by(u64::try_from(applied).unwrap_or(u64::MAX));
    }

    /// An edge attached here is told of its credit.
    pub(crate) fn granted(&self, edge: &Name, grants: &Grants, consensus: &Consensus) {
        let recalled = self.recalls.lock().told(edge, &grants.rows);
        for row in recalled {
            let of = consensus.read(|state| {
                state.ledger().budget(row.budget).map(|budget| (budget.scope.level(), budget.unit))
            });
            if let Some(of) = of {
                self.counted.recalls.recalled(of, row.begun.into(), row.credit);
            }
        }
    }

    /// An edge attaches, here or elsewhere.
    pub(crate) fn attached(&self, edge: &Name) {
        self.recalls.lock().forget(edge);
    }

    pub(crate) fn epoch(&self, epoch: Epoch) {
        self.counted.epoch.set(signed(epoch.0));
    }

    pub(crate) fn proposed(&self, after: Duration) {
        self.counted.proposed(after);
    }

    /// Looks at the log, the links, the ledger and the usage store until `stop`.
    pub(crate) async fn watch(self: Arc<Self>, host: Host, watched: Watched, stop: Stop) {
        while !stop.is_wanted() {
            self.look(&watched).await;
            tokio::select! {
                biased;
                () = stop.wanted() => {}
                () = host.sleep(LOOK) => {}
            }
        }
    }

    /// Tells when another node leads.
    fn leader(&self, standing: &Standing) {
        let Some(leader) = standing.leader else { return };
        let now = Some((standing.term, leader));
        if std::mem::replace(&mut *self.leader.lock(), now) != now {
            let here = leader == standing.id;
            tracing::info!(%leader, term = standing.term, here, "central has a leader");
        }
    }

    fn usage(&self, usage: &Usage) {
        let standing = usage.standing();
        self.counted.usage_head.set(signed(standing.head.0));
        let lacks = standing.missing.iter().map(|gap| gap.upto.0.saturating_sub(gap.after.0));
        self.counted.usage_missing.set(signed(lacks.sum()));
        self.counted.usage_waiting.set(i64::try_from(usage.waiting()).unwrap_or(i64::MAX));
        self.counted.usage_failing.set(i64::from(standing.failing.is_some()));
        let written = standing.written.saturating_sub(self.counted.usage_written.get());
        self.counted.usage_written.inc_by(written);
    }

    fn shipped(&self, shipped: &Shipped) {
        let counted = &self.counted;
        counted.clickhouse_behind.set(signed(shipped.behind));
        counted.clickhouse_failing.set(i64::from(shipped.failing.is_some()));
        counted.clickhouse_shipped.inc_by(shipped.taken.saturating_sub(counted.clickhouse_shipped.get()));
        counted.clickhouse_lost.inc_by(shipped.lost.saturating_sub(counted.clickhouse_lost.get()));
    }

    async fn look(&self, watched: &Watched) {
        let Watched { consensus, sessions, links, usage, egress, shipped } = watched;
        self.usage(usage);
        self.look_at_keys(egress);
        if let Some(shipped) = shipped {
            self.shipped(&shipped.borrow());
        }
        let standing = consensus.standing();
        self.leader(&standing);
        self.counted.term.set(signed(standing.term));
        self.counted.is_leader.set(i64::from(standing.leader == Some(standing.id)));
        self.counted.committed.set(signed(standing.committed.0));
        self.counted.applied.set(signed(standing.applied.0));
        self.counted.log_entries.set(signed(standing.last.0.saturating_sub(standing.purged.0)));
        self.counted.sessions.set(i64::try_from(sessions.count()).unwrap_or(i64::MAX));
        self.epoch(consensus.read(State::epoch));
        let rows = books::rows(consensus).await;
        for (node, rtt) in links.rtts() {
            self.counted.link(&node, rtt);
        }
        let mut seen = BTreeSet::new();
        for row in rows.into_iter().filter(|row| row.open) {
            let granted = u64::try_from(row.granted.saturating_sub(row.returned)).unwrap_or(u64::MAX);
            let levels = BudgetLevels {
                limit: row.limit,
                spent: row.spent,
                granted: Amount(granted),
                debt: row.overrun,
                stranded: row.orphaned.saturating_add(row.written_off),
            };
            self.counted.budget(&row.name, &levels);
            seen.insert(row.name);
        }
        let mut known = self.budgets.lock();
        known.difference(&seen).for_each(|gone| self.counted.forget_budget(gone));
        *known = seen;
    }
}

fn levels(state: &KeyState) -> KeyLevels {
    let least = |left: fn(&KeyModelState) -> Option<u64>| state.models.iter().filter_map(left).min();
    KeyLevels {
        serving: state.suspended.is_none() && state.paced.is_none(),
        requests: least(|of| of.requests),
        tokens: least(|of| of.tokens),
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
