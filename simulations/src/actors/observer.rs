//! Looks at the mesh through central's admin API, as dashboards do: who leads, which configuration each edge has, and
//! the books. It asks one central node after another.

use std::time::Duration;

use central::admin::api::Status;
use seam::Stop;

use crate::faults::{Field, Kind};
use crate::history::{Observation, Recorder};
use crate::operator::Operator;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// A node that takes longer says nothing this time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks at the mesh.
#[derive(Clone, Debug)]
pub struct Observer {
    /// Whose eyes.
    pub operator: Operator,
    /// What is looked at; it is told who leads.
    pub field: Field,
    /// Where what was seen goes.
    pub recorder: Recorder,
}

impl Observer {
    /// Looks until `stop`.
    pub fn start(self, stop: Stop) {
        let host = self.operator.host().clone();
        let looking = {
            let host = host.clone();
            async move {
                let mut turn = 0;
                while !stop.is_wanted() {
                    let nodes = self.field.names(Kind::Central);
                    let node = nodes.get(turn % nodes.len().max(1)).cloned().unwrap_or_default();
                    let began = host.now();
                    if turn % 2 == 0 {
                        self.status(&node).await;
                    } else {
                        self.ledger(&node).await;
                    }
                    turn += 1;
                    host.sleep_until(began + EVERY).await;
                }
            }
        };
        drop(host.spawn("observer", looking));
    }

    async fn status(&self, node: &str) {
        let host = self.operator.host();
        let at = self.recorder.now();
        if let Ok(Ok(status)) = host.timeout(PATIENCE, self.operator.status(node)).await {
            let seen = observation((at, self.recorder.now()), &status);
            if let Some(leader) = &seen.leader {
                self.field.set_leader(Some(leader.clone()));
            }
            self.recorder.write(|history| history.observations.push(seen));
        }
    }

    async fn ledger(&self, node: &str) {
        let host = self.operator.host();
        let at = self.recorder.now();
        if let Ok(Ok(ledger)) = host.timeout(PATIENCE, self.operator.ledger(node)).await {
            self.recorder.write(|history| history.ledgers.push((at, ledger)));
        }
    }
}

/// A status as the history keeps it, asked and answered at these times.
#[must_use]
pub fn observation((at, answered): (base::Mono, base::Mono), status: &Status) -> Observation {
    let edges = status.edges.iter().map(|edge| {
        let attached = edge.attached_to.as_ref().map(ToString::to_string);
        (edge.name.to_string(), (attached, edge.epoch.map(|epoch| epoch.0)))
    });
    Observation {
        at,
        answered,
        node: status.node.to_string(),
        leader: status.leader.as_ref().map(ToString::to_string),
        term: status.term,
        epoch: status.epoch.0,
        edges: edges.collect(),
    }
}
