//! Edges' counters on their way to the log: those of all sessions together, a few proposals at a time. Counters are
//! cumulative, so that rows of one edge that wait are merged, the newest winning, and what is lost is told again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{Amount, Name};
use central_core::Command;
use seam::{Bound, Host, Late, Lock};
use tokio::sync::{Notify, Semaphore};
use wire::ledger::Report;

use crate::consensus::Consensus;

/// How long a first report waits for others when calls wait for its credit. The leader gathers for 10 ms more.
const GATHER: Duration = Duration::from_millis(5);
/// How long it waits when none does: entries cost every member, and edges tell their counters four times a second.
const GATHER_AT_EASE: Duration = Duration::from_millis(45);

/// Proposals under way at once: with a round trip of 200 ms, one each 25 ms.
const AT_ONCE: usize = 8;

/// Collects reports and proposes them.
#[derive(Debug)]
pub(super) struct Reports {
    waiting: Arc<Waiting>,
    _proposer: Bound<()>,
}

#[derive(Debug, Default)]
struct Waiting {
    reports: Lock<BTreeMap<Name, Report>>,
    some: Notify,
    /// One with calls that wait is among them.
    pressing: Notify,
}

impl Reports {
    pub(super) fn start(host: &Host, consensus: &Consensus) -> Self {
        let waiting = Arc::<Waiting>::default();
        let proposing = propose(host.clone(), consensus.clone(), Arc::clone(&waiting));
        Self { waiting, _proposer: host.spawn("session-reports", proposing).bound() }
    }

    /// Takes an edge's counters.
    pub(super) fn take(&self, edge: &Name, report: Report) {
        let is_pressing = report.rows.iter().any(|row| row.waiting > Amount::ZERO);
        let mut reports = self.waiting.reports.lock();
        match reports.get_mut(edge) {
            Some(known) => merge(known, report),
            None => drop(reports.insert(edge.clone(), report)),
        }
        drop(reports);
        self.waiting.some.notify_one();
        if is_pressing {
            self.waiting.pressing.notify_one();
        }
    }
}

async fn propose(host: Host, consensus: Consensus, waiting: Arc<Waiting>) {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        waiting.some.notified().await;
        let (Ok(()) | Err(Late)) = host.timeout(GATHER_AT_EASE, waiting.pressing.notified()).await;
        host.sleep(GATHER).await;
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let reports = std::mem::take(&mut *waiting.reports.lock());
        if reports.is_empty() {
            continue;
        }
        let consensus = consensus.clone();
        drop(host.spawn("session-report", async move {
            let command = Command::Reports(reports.into_iter().collect());
            if let Err(error) = consensus.propose(command).await {
                tracing::debug!(%error, "counters of edges were not taken; the edges tell them again");
            }
            drop(slot);
        }));
    }
}

/// Lays a newer report over one that waits.
fn merge(known: &mut Report, newer: Report) {
    if known.incarnation != newer.incarnation || known.era != newer.era {
        *known = newer;
        return;
    }
    for row in newer.rows {
        let place =
            |have: &&mut wire::ledger::UsageRow| have.budget == row.budget && have.window == row.window;
        match known.rows.iter_mut().find(place) {
            Some(have) => *have = row,
            None => known.rows.push(row),
        }
    }
}

#[cfg(test)]
mod tests {
    use base::{BudgetId, Era, Incarnation, WindowId};
    use wire::ledger::UsageRow;

    use super::*;

    fn report(incarnation: u32, rows: &[(u64, u64)]) -> Report {
        let row = |(budget, spent): &(u64, u64)| UsageRow {
            budget: BudgetId((*budget).into()),
            window: WindowId(0),
            spent: Amount(*spent),
            returned: Amount(0),
            want: Amount(0),
            waiting: Amount(0),
            number: 0,
            forgotten: false,
        };
        Report { era: Era(0), incarnation: Incarnation(incarnation), rows: rows.iter().map(row).collect() }
    }

    #[test]
    fn rows_that_wait_give_way_to_newer_ones_and_no_row_is_lost() {
        let mut known = report(1, &[(1, 10), (2, 20)]);
        merge(&mut known, report(1, &[(2, 25), (3, 30)]));
        assert_eq!(known, report(1, &[(1, 10), (2, 25), (3, 30)]));
        merge(&mut known, report(2, &[(1, 1)]));
        assert_eq!(known, report(2, &[(1, 1)]));
    }
}
