//! Makes a schedule that violates something small: drops faults, then callers and machines, then shortens, for as long
//! as the same invariant is violated. What is left has nothing to do with chance any more: every part of it is needed.

use std::sync::Arc;

use crate::invariants::Violation;
use crate::play::{How, Outcome, play};
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Until};

/// Times below this are not shortened further, in milliseconds.
const SHORT: u64 = 200;

/// Bytes of packets that are kept of a run.
pub(crate) const CAPTURED: usize = 64 << 20;

/// A schedule that was made small.
#[derive(Debug)]
pub struct Shrunk {
    /// The schedule.
    pub schedule: Schedule,
    /// How many runs it took.
    pub runs: usize,
}

/// Makes `schedule` small while `violates` says that it still violates, in at most `most` runs.
pub fn shrink(schedule: &Schedule, most: usize, violates: impl FnMut(&Schedule) -> bool) -> Shrunk {
    let mut search = Search { best: schedule.clone(), left: most, violates };
    loop {
        let before = search.best.clone();
        search.drop_some(|schedule| &mut schedule.faults);
        search.drop_some(|schedule| &mut schedule.callers);
        search.leave_out();
        search.shorten();
        if search.best == before || search.left == 0 {
            return Shrunk { schedule: search.best, runs: most - search.left };
        }
    }
}

/// Makes the schedule of a run small that violated `invariant`, by playing.
#[must_use]
pub fn shrink_by_playing(
    scenario: &Arc<Scenario>,
    schedule: &Schedule,
    invariant: &str,
    most: usize,
) -> (Shrunk, Outcome) {
    let plays = |schedule: &Schedule, how: &How| play(scenario, &Arc::new(schedule.clone()), how);
    let is_it = |found: &Violation| found.invariant == invariant;
    let shrunk =
        shrink(schedule, most, |candidate| plays(candidate, &How::default()).violations.iter().any(is_it));
    let how = How { capture: Some(CAPTURED), ..How::default() };
    let outcome = plays(&shrunk.schedule, &how);
    (shrunk, outcome)
}

struct Search<F> {
    best: Schedule,
    left: usize,
    violates: F,
}

impl<F: FnMut(&Schedule) -> bool> Search<F> {
    /// Takes `candidate` when it still violates.
    fn try_it(&mut self, candidate: Schedule) -> bool {
        if self.left == 0 || candidate == self.best {
            return false;
        }
        self.left -= 1;
        let violates = (self.violates)(&candidate);
        if violates {
            self.best = candidate;
        }
        violates
    }

    /// Drops halves, then quarters, and so on to single ones, of a list.
    fn drop_some<T>(&mut self, list: fn(&mut Schedule) -> &mut Vec<T>) {
        let mut size = list(&mut self.best).len();
        while size > 0 {
            let mut at = 0;
            while at < list(&mut self.best).len() {
                let mut candidate = self.best.clone();
                let items = list(&mut candidate);
                let end = (at + size).min(items.len());
                items.drain(at..end);
                if !self.try_it(candidate) {
                    at += size;
                }
            }
            size /= 2;
        }
    }

    /// Leaves out machines that may be: edges and model servers, one after the other.
    fn leave_out(&mut self) {
        for name in self.best.optional.clone() {
            let mut candidate = self.best.clone();
            candidate.optional.retain(|other| *other != name);
            candidate.without.push(name);
            self.try_it(candidate);
        }
    }

    /// Heals faults sooner, strikes sooner, and ends sooner.
    fn shorten(&mut self) {
        for at in 0..self.best.faults.len() {
            while let Some(fault) = self.best.faults.get(at)
                && let Until::At(until) = fault.until
                && until.saturating_sub(fault.at) > SHORT
            {
                let half = fault.at + (until - fault.at) / 2;
                let mut candidate = self.best.clone();
                if let Some(fault) = candidate.faults.get_mut(at) {
                    fault.until = Until::At(half);
                }
                if !self.try_it(candidate) {
                    break;
                }
            }
        }
        let times: [fn(&mut Schedule) -> &mut u64; 3] =
            [|schedule| &mut schedule.chaos, |schedule| &mut schedule.serve, |schedule| &mut schedule.settle];
        for time in times {
            while *time(&mut self.best) > SHORT {
                let mut candidate = self.best.clone();
                *time(&mut candidate) /= 2;
                if !self.try_it(candidate) {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Fault;

    const TEXT: &str = r#"
        name = "x"
        about = "x"
        [topology]
        central = ["eu", "us", "ap"]
        edges = {eu = 2, us = 1}
        [load]
        callers = 4
        [[fault]]
        at = "2s"
        for = "4s"
        do = "crash"
        target = "leader"
        [swarm]
        classes = ["pause", "partition", "degrade"]
        per_minute = 60
    "#;

    #[test]
    fn only_what_the_violation_needs_is_left() {
        let scenario = Scenario::parse("x.toml", TEXT).unwrap();
        let schedule = Schedule::draw(&scenario, 5);
        assert!(schedule.faults.len() > 5);
        // By hand: a crash of two seconds or more and a caller in eu.
        let violates = |schedule: &Schedule| {
            let crash = schedule.faults.iter().any(|dated| {
                let long = matches!(dated.until, Until::At(until) if until - dated.at >= 2_000);
                long && matches!(dated.fault, Fault::Crash { .. })
            });
            crash && schedule.callers.iter().any(|caller| caller.region == "eu")
        };
        let shrunk = shrink(&schedule, 500, violates);
        let small = &shrunk.schedule;
        assert!(violates(small));
        assert_eq!((small.faults.len(), small.callers.len()), (1, 1));
        assert_eq!(small.faults[0].until, Until::At(4_000), "halved once");
        assert!(small.optional.is_empty(), "{small:?}");
        assert!(small.chaos <= SHORT && shrunk.runs < 100, "{shrunk:?}");
    }

    #[test]
    fn a_hand_made_violation_shrinks_by_playing() {
        let text = "name = \"x\"\nabout = \"x\"\n[topology]\ncentral = [\"eu\"]\nedges = {eu = 1, us = 1}\n\
            [[topology.server]]\nname = \"model-eu\"\nregion = \"eu\"\nserves = [\"m\"]\n\
            [phases]\nsettle = \"1s\"\nchaos = \"4s\"\nserve = \"1s\"\n\
            [expect]\nconverge_within = \"3s\"\n\
            [[fault]]\nat = \"1s\"\nfor = \"2s\"\ndo = \"crash\"\ntarget = \"edge-us\"\n\
            [[fault]]\nat = \"1s\"\nfor_ever = true\ndo = \"partition\"\ntarget = \"edge-eu\"\nother = \"central-eu\"\n";
        let scenario = Arc::new(Scenario::parse("x", text).unwrap());
        // The mesh cannot become whole: one edge is cut off for ever from the only node of central.
        let schedule = Schedule::draw(&scenario, 1);
        let (shrunk, outcome) = shrink_by_playing(&scenario, &schedule, "healed", 12);
        assert!(outcome.violations.iter().any(|found| found.invariant == "healed"), "{outcome:?}");
        assert_eq!(shrunk.schedule.faults.len(), 1);
        assert_eq!(shrunk.schedule.faults[0].fault.kind(), "partition");
    }
}
