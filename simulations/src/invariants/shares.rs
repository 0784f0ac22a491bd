//! While interactive calls of two tenants wait in one line all the time, they get places in proportion to their weights, to
//! within four calls of each (issue 4 §8, "weighted fair between tenants").
//!
//! Up to the first fault at an edge or a model server, and from when the last was over. The queue itself keeps to one call of each; at both ends of the time that is looked at, what got a place and was not
//! seen at a server yet may be off by some.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Mono;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::waits::{Place, first_struck, place, waits};

/// From sending a call until it is in line.
const ARRIVES: Duration = Duration::from_millis(500);
/// From its turn until a server is asked.
const ASKS: Duration = Duration::from_millis(50);
/// Calls of each tenant that its share may be off by.
const OFF: u64 = 4;

/// When a tenant's calls waited, and when they got places.
#[derive(Debug, Default)]
struct Tenant {
    weight: u64,
    waits: Vec<(Mono, Mono)>,
    served: Vec<Mono>,
}

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut lines: BTreeMap<Place<'_>, BTreeMap<&str, Tenant>> = BTreeMap::new();
    let all = waits(evidence);
    for wait in all.iter().filter(|wait| !wait.call.batch) {
        let (Some(place), Some(asked)) = (wait.place(evidence), wait.asked()) else { continue };
        let from = wait.sent + ARRIVES;
        if let (Some(tenant), true) = (wait.call.crowd.as_deref(), from + ASKS < asked) {
            lines.entry(place).or_default().entry(tenant).or_default().waits.push((from, asked));
        }
    }
    // Who met a fault had a place all the same.
    let calls: BTreeMap<_, _> = evidence.history.calls.iter().map(|call| (call.id, call)).collect();
    for served in &evidence.history.served {
        let Some(call) = served.call.and_then(|id| calls.get(&id)) else { continue };
        let (Some(place), Some(tenant)) = (place(evidence, call, served), &call.crowd) else { continue };
        let of = lines.entry(place).or_default().entry(tenant).or_default();
        of.served.push(served.asked);
        of.weight = evidence.facts.crowds.get(tenant).map_or(1, |crowd| crowd.weight.max(1)).into();
    }
    let mut found = Vec::new();
    for (place, tenants) in &lines {
        let tenants: Vec<_> = tenants.iter().collect();
        for (at, (name, one)) in tenants.iter().enumerate() {
            for (other_name, other) in tenants.iter().skip(at + 1) {
                found.extend(unfair(evidence, one, other).map(|(when, what)| {
                    let what = format!("at {place:?} {name} and {other_name} {what}");
                    violation("shares", Some(when), what)
                }));
            }
        }
    }
    found
}

impl Tenant {
    /// The spans in which some call of it waited all the time, and still did for a while after.
    fn spans(&self) -> Vec<(Mono, Mono)> {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        let mut spans: Vec<(Mono, Mono)> = Vec::new();
        for (from, upto) in waits {
            match spans.last_mut() {
                Some((_from, last)) if from + ASKS <= *last => *last = upto.max(*last),
                _ => spans.push((from, upto)),
            }
        }
        spans
    }

    fn served_in(&self, (from, upto): (Mono, Mono)) -> u64 {
        self.served.iter().filter(|at| (from..=upto).contains(*at)).count() as u64
    }
}

/// Where two tenants' shares were not what their weights say.
fn unfair(evidence: &Evidence, one: &Tenant, other: &Tenant) -> Option<(Mono, String)> {
    for (from, upto) in one.spans() {
        for (start, end) in other.spans() {
            let mut both = (from.max(start), upto.min(end));
            both.1 = first_struck(evidence, both).unwrap_or(both.1);
            if both.0 >= both.1 {
                continue;
            }
            let (first, second) = (one.served_in(both), other.served_in(both));
            let apart = (first * other.weight).abs_diff(second * one.weight);
            if apart > OFF * (one.weight + other.weight) {
                let what = format!(
                    "got {first} and {second} places in {:?} in which both waited; their weights are {} and {}",
                    both.1.since(both.0),
                    one.weight,
                    other.weight
                );
                return Some((both.1, what));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Call, Served};
    use crate::invariants::samples::{at, call, crowded, served};

    #[test]
    fn shares_that_are_not_as_weights_say_are_found() {
        let mut evidence = crowded();
        evidence.facts.rooms.insert("model-eu".into(), 1);
        // Three of gold, then one of tin, whose weight is a third, all from one moment.
        for id in 0..80 {
            let crowd = Some(if id % 4 == 3 { "tin" } else { "gold" }.to_owned());
            let call = Call { id, crowd, sent: Some(at(1_000)), ended: Some(at(20_000)), ..call() };
            evidence.history.calls.push(call);
            evidence.history.served.push(Served { call: Some(id), asked: at(1_600 + id * 100), ..served() });
        }
        assert_eq!(judge(&evidence), []);
        evidence.facts.crowds.get_mut("tin").unwrap().weight = 3;
        assert!(judge(&evidence)[0].what.contains("gold and tin got"));
    }
}
