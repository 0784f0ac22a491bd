//! What a run measured, from what actors saw: how soon callers of a region whose edges were struck were served by
//! others, how callers of other regions fared, how soon central went on, and the books.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use base::Mono;
use serde::Serialize;

use crate::evidence::Evidence;
use crate::history::{Call, CallOutcome, Struck, WriteOutcome};
use crate::scenario::Scenario;

/// Faults that take what they strike from its callers.
const TAKES_AWAY: [&str; 5] = ["lose_region", "power_off", "crash", "cut_region", "partition"];

/// A call that ends within this after the loss did not hang.
const AT_ONCE: Duration = Duration::from_secs(1);

/// What a run measured. Times are in milliseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// For every caller of a region whose edges were struck: from the loss to the first byte of the first answer by
    /// another edge, shortest first.
    pub served_elsewhere_ms: Vec<u64>,
    /// For every caller whose open call hung at a lost edge, and who waited for it instead: for how long. Nothing tells a
    /// caller that a machine lost its power.
    pub hung_ms: Vec<u64>,
    /// Calls that those callers began while the edges were away, of models that a server elsewhere has.
    pub inside: Share,
    /// Calls that callers of other regions began meanwhile, of such models.
    pub outside: Share,
    /// From each loss that struck the leader until another node said that it leads.
    pub next_leader_ms: Vec<u64>,
    /// From each loss that struck the leader to the first acknowledged write that began after it; one that was asked of
    /// a lost node waits for that node.
    pub next_write_ms: Vec<u64>,
    /// All calls, by how they ended and the code told.
    pub calls: BTreeMap<String, u64>,
    /// The books at the end, one line for each budget.
    pub ledger: Vec<String>,
}

/// Calls, those left aside whose callers hung up.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Share {
    /// Answered whole.
    pub answered: u64,
    /// All.
    pub all: u64,
}

impl Figures {
    /// What `evidence` shows, and `led`: when nodes of central said that they lead.
    #[must_use]
    pub fn of(scenario: &Scenario, evidence: &Evidence, led: &[(Mono, String)]) -> Self {
        let mut figures = Self::default();
        let taken = evidence.history.struck.iter().filter(|struck| TAKES_AWAY.contains(&struck.what));
        for struck in taken {
            figures.callers(scenario, evidence, struck);
            figures.central(evidence, struck, led);
        }
        figures.served_elsewhere_ms.sort_unstable();
        for call in &evidence.history.calls {
            let how = match &call.code {
                Some(code) => format!("{:?} {code}", call.outcome),
                None => format!("{:?}", call.outcome),
            };
            *figures.calls.entry(how).or_default() += 1;
        }
        for row in evidence.ledger.iter().flat_map(|ledger| &ledger.rows) {
            figures.ledger.push(format!(
                "{}: limit {}, settled {}, charged for crashes {}, on its way {}, granted and open {}, overrun {}, {}",
                row.budget,
                row.limit.0,
                row.receipts.0,
                row.crash.0,
                row.settling.0,
                row.outstanding.0,
                row.overrun.0,
                if row.balanced { "balanced" } else { "NOT balanced" }
            ));
        }
        figures
    }

    /// Adds those of another run; books stay each run's own.
    pub fn add(&mut self, other: &Self) {
        self.served_elsewhere_ms.extend(&other.served_elsewhere_ms);
        self.served_elsewhere_ms.sort_unstable();
        self.hung_ms.extend(&other.hung_ms);
        for (share, more) in [(&mut self.inside, other.inside), (&mut self.outside, other.outside)] {
            share.answered += more.answered;
            share.all += more.all;
        }
        self.next_leader_ms.extend(&other.next_leader_ms);
        self.next_write_ms.extend(&other.next_write_ms);
        for (how, count) in &other.calls {
            *self.calls.entry(how.clone()).or_default() += count;
        }
    }

    fn callers(&mut self, scenario: &Scenario, evidence: &Evidence, struck: &Struck) {
        let edges = scenario.topology.edge_spots();
        let lost: BTreeSet<&str> = edges
            .iter()
            .filter(|edge| struck.machines.contains(&edge.name))
            .map(|edge| edge.region.as_str())
            .collect();
        let servers =
            scenario.topology.server.iter().filter(|server| !struck.machines.contains(&server.name));
        let models: BTreeSet<&String> = servers.flat_map(|server| &server.serves).collect();
        let calls: Vec<&Call> =
            evidence.history.ordinary_calls().filter(|call| models.contains(&call.model)).collect();
        let is_meanwhile = |call: &&&Call| {
            call.started >= struck.at && struck.healed.is_none_or(|healed| call.started < healed)
        };
        for call in calls.iter().filter(is_meanwhile) {
            let share =
                if lost.contains(call.region.as_str()) { &mut self.inside } else { &mut self.outside };
            share.count(call.outcome);
        }
        let mut first: BTreeMap<&str, Duration> = BTreeMap::new();
        let mut hung: BTreeMap<&str, Duration> = BTreeMap::new();
        for call in calls.iter().filter(|call| lost.contains(call.region.as_str())) {
            let after = call.ended.map(|ended| ended.since(struck.at)).filter(|after| *after > AT_ONCE);
            if let (true, true, Some(after)) =
                (call.started < struck.at, struck.machines.contains(&call.edge), after)
            {
                hung.insert(&call.caller, after);
            }
            let is_elsewhere = !struck.machines.contains(&call.edge);
            let answered = call.first_byte.or(call.ended).filter(|at| *at > struck.at);
            if let (CallOutcome::Complete, true, Some(at)) = (call.outcome, is_elsewhere, answered) {
                let took = at.since(struck.at);
                let best = first.entry(&call.caller).or_insert(took);
                *best = took.min(*best);
            }
        }
        first.retain(|caller, _took| !hung.contains_key(caller));
        self.hung_ms.extend(hung.into_values().map(millis));
        self.served_elsewhere_ms.extend(first.into_values().map(millis));
    }

    fn central(&mut self, evidence: &Evidence, struck: &Struck, led: &[(Mono, String)]) {
        let seen = evidence.history.observations.iter().filter(|seen| seen.at <= struck.at);
        let leader = seen.filter_map(|seen| seen.leader.as_ref()).next_back();
        if leader.is_some_and(|leader| struck.machines.contains(leader)) {
            let others = led.iter().filter(|(at, node)| *at > struck.at && !struck.machines.contains(node));
            let next = others.map(|(at, _node)| *at).min();
            self.next_leader_ms.extend(next.map(|at| millis(at.since(struck.at))));
            let acked = evidence.history.writes.iter().filter(|write| {
                write.started >= struck.at && matches!(write.outcome, WriteOutcome::Acked(_))
            });
            let next: Option<Mono> = acked.filter_map(|write| write.ended).min();
            self.next_write_ms.extend(next.map(|at| millis(at.since(struck.at))));
        }
    }
}

impl Share {
    const fn count(&mut self, outcome: CallOutcome) {
        match outcome {
            CallOutcome::HungUp => {}
            CallOutcome::Complete => {
                self.answered += 1;
                self.all += 1;
            }
            CallOutcome::Open
            | CallOutcome::Refused
            | CallOutcome::Failed
            | CallOutcome::Broken
            | CallOutcome::Short
            | CallOutcome::Foreign
            | CallOutcome::Unreachable
            | CallOutcome::Late
            | CallOutcome::Abandoned => self.all += 1,
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} answered", self.answered, self.all)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = &self.served_elsewhere_ms;
        if let (Some(least), Some(most)) = (times.first(), times.last()) {
            let middle = times.get(times.len() / 2).unwrap_or(most);
            let high = times.get((times.len() * 99).div_ceil(100) - 1).unwrap_or(most);
            writeln!(
                f,
                "lost edges' callers served elsewhere after {least} ms (least), {middle} ms (p50), {high} ms (p99), {most} ms (most): {times:?}"
            )?;
            if !self.hung_ms.is_empty() {
                writeln!(
                    f,
                    "callers left aside, whose open call hung at a lost edge: {:?} ms",
                    self.hung_ms
                )?;
            }
            writeln!(f, "their calls while the edges were away: {}", self.inside)?;
        } else {
            writeln!(f, "no edge was taken from its callers")?;
        }
        writeln!(f, "calls of other regions meanwhile: {}", self.outside)?;
        if !self.next_leader_ms.is_empty() {
            writeln!(f, "leader lost until another led: {:?} ms", self.next_leader_ms)?;
        }
        if !self.next_write_ms.is_empty() {
            writeln!(f, "leader lost to the next acknowledged change: {:?} ms", self.next_write_ms)?;
        }
        let calls: Vec<String> = self.calls.iter().map(|(how, count)| format!("{how} {count}")).collect();
        writeln!(f, "calls: {}", calls.join(", "))?;
        for row in &self.ledger {
            writeln!(f, "ledger of {row}")?;
        }
        Ok(())
    }
}

fn millis(time: Duration) -> u64 {
    crate::schedule::millis(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{at, call, evidence, struck};

    const TEXT: &str = "name = \"x\"\nabout = \"x\"\n[topology]\ncentral = [\"eu\"]\nedges = {eu = 1, us = 1}\n\
        [[topology.server]]\nname = \"model-us\"\nregion = \"us\"\nserves = [\"chat\"]\n";

    #[test]
    fn a_lost_regions_callers_are_timed_until_another_edge_answers_them() {
        let scenario = Scenario::parse("x.toml", TEXT).unwrap();
        let mut evidence = evidence();
        evidence.history.calls.clear();
        evidence.history.struck.push(struck("lose_region", "edge-eu", 1_000));
        let one = |region: &str, edge: &str, started, first: u64, outcome| Call {
            caller: format!("caller-{region}"),
            region: region.to_owned(),
            edge: edge.to_owned(),
            model: "chat".to_owned(),
            started: at(started),
            first_byte: Some(at(first)),
            outcome,
            code: None,
            ..call()
        };
        evidence.history.calls.extend([
            one("eu", "edge-eu", 900, 1_100, CallOutcome::Complete),
            Call {
                caller: "hung".into(),
                ended: Some(at(7_000)),
                ..one("eu", "edge-eu", 900, 990, CallOutcome::Broken)
            },
            Call { caller: "hung".into(), ..one("eu", "edge-us", 7_100, 7_200, CallOutcome::Complete) },
            one("eu", "edge-us", 1_200, 2_400, CallOutcome::Complete),
            one("eu", "edge-us", 2_500, 2_600, CallOutcome::HungUp),
            one("us", "edge-us", 1_300, 1_400, CallOutcome::Broken),
            Call { model: "gone".to_owned(), ..one("us", "edge-us", 1_300, 1_400, CallOutcome::Refused) },
        ]);
        let figures = Figures::of(&scenario, &evidence, &[]);
        assert_eq!(figures.served_elsewhere_ms, [1_400]);
        assert_eq!(figures.hung_ms, [6_000]);
        assert_eq!((figures.inside.answered, figures.inside.all), (2, 2), "who hung up is left aside");
        assert_eq!((figures.outside.answered, figures.outside.all), (0, 1), "nobody has the other model");
    }
}
