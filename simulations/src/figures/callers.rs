//! How callers fared while machines were lost: how soon those of a lost region were answered elsewhere, who waited for a
//! lost edge instead, and how many calls were served meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::Mono;

use super::{Figures, LOSSES, is_out_of_budget, is_served, lost_regions, millis};
use crate::evidence::Evidence;
use crate::history::{Call, CallOutcome, Struck};

/// A call that ends within this after the loss did not hang.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Machines that were lost for a time.
#[derive(Debug)]
struct Loss<'a> {
    struck: &'a Struck,
    until: Mono,
    /// Regions whose edges were all among them, and whose callers could go elsewhere.
    regions: BTreeSet<String>,
}

impl Figures {
    /// Adds what `evidence` tells of callers.
    pub(super) fn count_callers(&mut self, evidence: &Evidence) {
        let end = evidence.history.phase("finish").unwrap_or(Mono::ZERO);
        let lost = lost_regions(evidence);
        for struck in evidence.history.struck.iter().filter(|struck| LOSSES.contains(&struck.what)) {
            let lost = lost.iter().filter(|lost| lost.0.id == struck.id && struck.what != "cut_region");
            let regions = lost.map(|(_struck, region, _until)| region.clone()).collect();
            let loss = Loss { struck, until: struck.healed.unwrap_or(end), regions };
            let models = loss.models_elsewhere(evidence);
            let calls = evidence.history.ordinary_calls().filter(|call| models.contains(&call.model));
            self.count_loss(&loss, &calls.collect::<Vec<_>>());
        }
    }

    fn count_loss(&mut self, loss: &Loss<'_>, calls: &[&Call]) {
        let counts = |call: &Call| call.outcome != CallOutcome::HungUp && !is_out_of_budget(call);
        let meanwhile = calls.iter().filter(|call| loss.stood(call.started) && counts(call));
        for call in meanwhile {
            let share =
                if loss.regions.contains(&call.region) { &mut self.inside } else { &mut self.outside };
            share.0 += u64::from(is_served(call));
            share.1 += u64::from(!is_served(call));
        }
        let mut first: BTreeMap<&str, Duration> = BTreeMap::new();
        let mut hung: BTreeMap<&str, Duration> = BTreeMap::new();
        for call in calls.iter().filter(|call| loss.regions.contains(&call.region)) {
            hung.extend(loss.hung(call).map(|took| (call.caller.as_str(), took)));
            if let Some(took) = loss.answered_elsewhere(call) {
                let best = first.entry(&call.caller).or_insert(took);
                *best = took.min(*best);
            }
        }
        first.retain(|caller, _took| !hung.contains_key(caller));
        self.hung.extend(hung.into_values().map(millis));
        self.moved.extend(first.into_values().map(millis));
    }
}

impl Loss<'_> {
    fn stood(&self, at: Mono) -> bool {
        (self.struck.at..self.until).contains(&at)
    }

    /// Models that a server has which was not lost.
    fn models_elsewhere<'a>(&self, evidence: &'a Evidence) -> BTreeSet<&'a String> {
        let servers = evidence.facts.servers.iter();
        let servers = servers.filter(|(name, _models)| !self.struck.machines.contains(name));
        servers.flat_map(|(_name, models)| models).collect()
    }

    /// How long a call that was open hung at a lost edge.
    fn hung(&self, call: &Call) -> Option<Duration> {
        let was_open = call.started < self.struck.at && self.struck.machines.contains(&call.edge);
        let after = call.ended?.since(self.struck.at);
        (was_open && after > AT_ONCE).then_some(after)
    }

    /// When another edge answered, after the loss.
    fn answered_elsewhere(&self, call: &Call) -> Option<Duration> {
        let at = call.first_byte.or(call.ended).filter(|at| self.stood(*at))?;
        let is_elsewhere = !self.struck.machines.contains(&call.edge);
        (is_served(call) && is_elsewhere).then(|| at.since(self.struck.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{at, call, evidence, struck};

    #[test]
    fn a_lost_regions_callers_are_timed_until_another_edge_answers_them() {
        let mut evidence = evidence();
        evidence.facts.edges =
            [("edge-eu", "eu"), ("edge-us", "us")].map(|(a, b)| (a.into(), b.into())).into();
        evidence.facts.servers.insert("model-us".into(), vec!["chat".into()]);
        evidence.history.phases.push((at(9_000), "finish"));
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
        let figures = Figures::of(&evidence);
        assert_eq!(figures.moved, [1_400]);
        assert_eq!(figures.hung, [6_000]);
        assert_eq!(figures.inside, (2, 0), "who hung up is left aside");
        assert_eq!(figures.outside, (0, 1), "nobody has the other model");
    }
}
