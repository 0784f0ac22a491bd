//! The figures of a run: how calls outside of a fault went, how long those inside of it waited, how long until central
//! acknowledged again. Sums of them make a sweep's. Runs with real processes have the same.

mod callers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::Mono;
use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::history::{Call, CallOutcome, Struck, WriteOutcome};

/// Faults that take machines away from everybody.
const LOSSES: [&str; 5] = ["crash", "power_off", "lose_region", "pause", "cut_region"];

/// What a central node logs when it begins to lead.
const LEADS: &str = "this member leads";

/// The figures of one run or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Calls of sustained regions that ended well, and that did not, from the first fault on.
    pub sustained: (u64, u64),
    /// From asking to the first byte of such calls, in milliseconds.
    pub sustained_first_byte: Vec<u64>,
    /// Calls that began while their region was lost: from asking to the first byte, repeats included, in milliseconds.
    pub served_elsewhere: Vec<u64>,
    /// By region: from the first fault until calls that begin are served again, in milliseconds.
    pub recovered: BTreeMap<String, Vec<u64>>,
    /// For every caller of a lost region: from the loss to the first byte of the first answer by another edge, in
    /// milliseconds.
    pub moved: Vec<u64>,
    /// For every caller whose open call hung at a lost edge, and who waited for it instead: for how long, in
    /// milliseconds. Nothing tells a caller that a machine lost its power.
    pub hung: Vec<u64>,
    /// Calls that callers of lost regions began meanwhile, of models that a server elsewhere has: served, and not.
    pub inside: (u64, u64),
    /// Calls that callers of other regions began while machines were lost, of such models: served, and not.
    pub outside: (u64, u64),
    /// From the leader's loss until another member leads, in milliseconds.
    pub led_again: Vec<u64>,
    /// From the leader's loss to the first acknowledgement of a change asked for after it, in milliseconds. What was
    /// under way then is not counted, so that the operators' pauses are in it.
    pub next_write: Vec<u64>,
    /// From the leader's loss until a change that was under way then was answered, well or not, or its operator gave up,
    /// in milliseconds.
    pub hung_write: Vec<u64>,
    /// From the last heal until the mesh is whole, in milliseconds.
    pub whole_again: Vec<u64>,
    /// The most that a budget was above its limit, in nano-dollars.
    pub overspent: u64,
    /// What was settled beside what edges recorded, in nano-dollars, where no edge died.
    pub ledger_error: u64,
    /// Faults by kind: how many struck, and after how many something changed for somebody.
    pub faults: BTreeMap<String, (u64, u64)>,
}

impl Figures {
    /// The figures that `evidence` holds.
    #[must_use]
    pub fn of(evidence: &Evidence) -> Self {
        let sustained: Vec<&Call> = sustained_calls(evidence).collect();
        let well = sustained.iter().filter(|call| is_served(call)).count() as u64;
        let mut figures = Self {
            sustained: (well, sustained.len() as u64 - well),
            sustained_first_byte: sustained.iter().filter_map(|call| first_byte_ms(call)).collect(),
            served_elsewhere: served_elsewhere(evidence),
            recovered: recovered(evidence).into_iter().map(|(region, ms)| (region, vec![ms])).collect(),
            led_again: led_again(evidence),
            next_write: next_writes(evidence),
            hung_write: hung_writes(evidence),
            whole_again: evidence.converged.iter().map(|took| millis(*took)).collect(),
            overspent: overspent(evidence),
            ledger_error: crate::invariants::ledger_error(evidence),
            faults: faults(evidence),
            ..Self::default()
        };
        figures.count_callers(evidence);
        figures
    }

    /// All distributions that have values, by name; in milliseconds.
    #[must_use]
    pub fn times(&self) -> Vec<(String, &[u64])> {
        let named = [
            ("leader lost → another leads", &self.led_again),
            ("leader lost → next acknowledged change", &self.next_write),
            ("leader lost → a change under way came back", &self.hung_write),
            ("region lost → its callers' first byte elsewhere", &self.moved),
            ("region lost → its callers whose open call hung", &self.hung),
            ("region lost → its new calls: asked → first byte elsewhere", &self.served_elsewhere),
            ("sustained regions: asked → first byte", &self.sustained_first_byte),
            ("last heal → whole again", &self.whole_again),
        ];
        let named = named.into_iter().map(|(name, times)| (name.to_owned(), times.as_slice()));
        let regions = self.recovered.iter().map(|(region, times)| {
            (format!("{region} lost → last call that began and was not served"), times.as_slice())
        });
        named.chain(regions).filter(|(_, times)| !times.is_empty()).collect()
    }

    /// Calls that ended well, and that did not, by whose they were.
    #[must_use]
    pub fn shares(&self) -> Vec<(&'static str, (u64, u64))> {
        let named = [
            ("sustained regions", self.sustained),
            ("lost regions, while they were", self.inside),
            ("other regions, while machines were lost", self.outside),
        ];
        named.into_iter().filter(|(_, (well, failed))| well + failed > 0).collect()
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        for (share, more) in [
            (&mut self.sustained, other.sustained),
            (&mut self.inside, other.inside),
            (&mut self.outside, other.outside),
        ] {
            share.0 += more.0;
            share.1 += more.1;
        }
        self.moved.extend(&other.moved);
        self.hung.extend(&other.hung);
        self.sustained_first_byte.extend(&other.sustained_first_byte);
        self.served_elsewhere.extend(&other.served_elsewhere);
        for (region, times) in &other.recovered {
            self.recovered.entry(region.clone()).or_default().extend(times);
        }
        self.led_again.extend(&other.led_again);
        self.next_write.extend(&other.next_write);
        self.hung_write.extend(&other.hung_write);
        self.whole_again.extend(&other.whole_again);
        self.overspent = self.overspent.max(other.overspent);
        self.ledger_error = self.ledger_error.max(other.ledger_error);
        for (kind, (struck, bit)) in &other.faults {
            let sum = self.faults.entry(kind.clone()).or_default();
            sum.0 += struck;
            sum.1 += bit;
        }
    }
}

/// The value that `of` in a hundred of `times` are at or below; `None` of nothing.
#[must_use]
pub fn percentile(times: &[u64], of: u64) -> Option<u64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() as u64 * of).div_ceil(100).max(1);
    sorted.get(usize::try_from(rank - 1).ok()?).copied()
}

/// Calls with keys in force that callers of sustained regions began after the first fault. Callers who hung up asked for
/// it, and a spent budget is no failure.
pub(crate) fn sustained_calls(evidence: &Evidence) -> impl Iterator<Item = &Call> {
    let first = first_fault(evidence);
    let (regions, models) = (&evidence.facts.expect.sustained, &evidence.facts.expect.models);
    evidence.history.ordinary_calls().filter(move |call| {
        first.is_some_and(|first| call.started >= first)
            && regions.contains(&call.region)
            && (models.is_empty() || models.contains(&call.model))
            && call.outcome != CallOutcome::HungUp
            && !is_out_of_budget(call)
    })
}

/// Whether its caller was served.
pub(crate) fn is_served(call: &Call) -> bool {
    call.outcome == CallOutcome::Complete
}

/// For each region that a fault struck: how long after the fault the last of its calls began that was not served
/// although the budget allowed it. Calls after the last heal are others' matter.
pub(crate) fn recovered(evidence: &Evidence) -> BTreeMap<String, u64> {
    let mut longest = BTreeMap::new();
    for (struck, region, until) in lost_regions(evidence) {
        let calls = evidence.history.ordinary_calls().filter(|call| call.region == region);
        let failed = calls
            .filter(|call| (struck.at..until).contains(&call.started))
            .filter(|call| !is_served(call) && call.outcome != CallOutcome::HungUp && !is_out_of_budget(call))
            .map(|call| millis(call.started.since(struck.at)))
            .max();
        let sum: &mut u64 = longest.entry(region).or_default();
        *sum = (*sum).max(failed.unwrap_or(0));
    }
    longest
}

/// Regions whose edges are all gone: by which fault, and until when.
fn lost_regions(evidence: &Evidence) -> Vec<(&Struck, String, Mono)> {
    let mut regions: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (edge, region) in &evidence.facts.edges {
        regions.entry(region.clone()).or_default().push(edge);
    }
    let end = evidence.history.phase("finish").unwrap_or(Mono::ZERO);
    let mut lost = Vec::new();
    for struck in evidence.history.struck.iter().filter(|struck| LOSSES.contains(&struck.what)) {
        for (region, edges) in &regions {
            if edges.iter().all(|edge| struck.machines.iter().any(|machine| machine == edge)) {
                lost.push((struck, region.clone(), struck.healed.unwrap_or(end)));
            }
        }
    }
    lost
}

/// First asked while the region was lost: how long until a first byte, over all repeats of the call.
fn served_elsewhere(evidence: &Evidence) -> Vec<u64> {
    let calls = &evidence.history.calls;
    let repeats: BTreeMap<u64, &Call> =
        calls.iter().filter_map(|call| Some((call.retry_of?, call))).collect();
    let mut waited = Vec::new();
    for (struck, region, until) in
        lost_regions(evidence).into_iter().filter(|lost| lost.0.what != "cut_region")
    {
        let began = calls.iter().filter(|call| {
            call.region == region && call.retry_of.is_none() && (struck.at..until).contains(&call.started)
        });
        for first in began {
            let mut last = first;
            while let Some(next) = repeats.get(&last.id) {
                last = next;
            }
            if is_served(last)
                && let Some(byte) = last.first_byte
            {
                waited.push(millis(byte.since(first.started)));
            }
        }
    }
    waited
}

/// Faults that took central's leader away, and which machine that was.
fn lost_leaders(evidence: &Evidence) -> impl Iterator<Item = (&Struck, &str)> {
    let history = &evidence.history;
    let losses = history.struck.iter().filter(|struck| LOSSES.contains(&struck.what));
    losses.filter_map(|struck| {
        let before = history.observations.iter().rev().filter(|seen| seen.at < struck.at);
        let leader = before.filter_map(|seen| seen.leader.as_deref()).next()?;
        struck.machines.iter().any(|machine| machine == leader).then_some((struck, leader))
    })
}

/// After each loss of the leader: how long until another member led.
fn led_again(evidence: &Evidence) -> Vec<u64> {
    let led = |at: Mono, lost: &str| {
        let lines = evidence.log.iter().filter(|line| line.at >= at && line.machine != lost);
        lines.filter(|line| line.text.starts_with(LEADS)).map(|line| line.at).min()
    };
    let lost = lost_leaders(evidence);
    lost.filter_map(|(struck, leader)| Some(millis(led(struck.at, leader)?.since(struck.at)))).collect()
}

/// After each loss of the leader: how long until a change that was asked for after it was acknowledged.
fn next_writes(evidence: &Evidence) -> Vec<u64> {
    let acked = |after: Mono| {
        let writes = evidence.history.writes.iter().filter(|write| write.started >= after);
        let acked = writes.filter(|write| matches!(write.outcome, WriteOutcome::Acked(_)));
        acked.filter_map(|write| write.ended).min()
    };
    let lost = lost_leaders(evidence);
    lost.filter_map(|(struck, _leader)| Some(millis(acked(struck.at)?.since(struck.at)))).collect()
}

/// After each loss of the leader: how long until changes that were under way then came back.
fn hung_writes(evidence: &Evidence) -> Vec<u64> {
    let hung = lost_leaders(evidence).flat_map(|(struck, _leader)| {
        let writes = evidence.history.writes.iter().filter(|write| write.started < struck.at);
        writes
            .filter_map(|write| write.ended.filter(|ended| *ended >= struck.at))
            .map(|ended| ended.since(struck.at))
    });
    hung.map(millis).collect()
}

fn overspent(evidence: &Evidence) -> u64 {
    let seen = evidence.history.ledgers.iter().map(|(_at, ledger)| ledger).chain(&evidence.ledger);
    let rolls = |name: &str| evidence.level(name).is_some_and(|level| level.window.starts_with("rolling"));
    let rows = seen.flat_map(|ledger| &ledger.rows).filter(|row| !rolls(row.budget.as_str()));
    let over = rows.map(|row| {
        let parts = [row.receipts, row.crash, row.settling, row.outstanding];
        let taken = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.0));
        taken.saturating_sub(row.limit.0.saturating_add(row.overrun.0))
    });
    over.max().unwrap_or(0)
}

/// How many faults of each kind struck, and after how many somebody noticed: a call that went wrong or elsewhere, an
/// edge that moved, another leader, or calls that took longer than any before.
fn faults(evidence: &Evidence) -> BTreeMap<String, (u64, u64)> {
    let mut faults: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for struck in &evidence.history.struck {
        let sum = faults.entry(struck.what.to_owned()).or_default();
        sum.0 += 1;
        sum.1 += u64::from(bites(evidence, struck));
    }
    faults
}

fn bites(evidence: &Evidence, struck: &Struck) -> bool {
    /// Effects follow within this after the heal.
    const AFTER: Duration = Duration::from_secs(3);
    let history = &evidence.history;
    let until = struck.healed.map_or(Mono::from_nanos(u64::MAX), |healed| healed + AFTER);
    let during = |at: Mono| (struck.at..until).contains(&at);
    let slowest_before =
        history.calls.iter().filter(|call| call.ended.is_some_and(|ended| ended < struck.at));
    let slowest_before =
        slowest_before.filter_map(|call| call.ended.map(|ended| ended.since(call.started))).max();
    let call = history.ordinary_calls().any(|call| {
        let Some(ended) = call.ended.filter(|ended| during(*ended)) else { return false };
        let wrong = !matches!(call.outcome, CallOutcome::Complete | CallOutcome::HungUp);
        let tries = history.served.iter().filter(|served| served.call == Some(call.id)).count();
        let slow = slowest_before.is_some_and(|before| ended.since(call.started) > before);
        wrong || slow || tries > 1 || !call.skipped.is_empty()
    });
    let last_before = history.observations.iter().rev().find(|seen| seen.at < struck.at);
    let views = history.observations.iter().filter(|seen| during(seen.at)).chain(last_before);
    let leaders: BTreeSet<_> = views.clone().map(|seen| (&seen.leader, seen.term)).collect();
    let write = history
        .writes
        .iter()
        .any(|write| write.ended.is_some_and(during) && !matches!(write.outcome, WriteOutcome::Acked(_)));
    let attached: BTreeSet<_> =
        views.flat_map(|seen| &seen.edges).map(|(edge, (central, _epoch))| (edge, central)).collect();
    let edges: BTreeSet<_> = attached.iter().map(|(edge, _)| *edge).collect();
    call || write || leaders.len() > 1 || attached.len() > edges.len()
}

fn first_fault(evidence: &Evidence) -> Option<Mono> {
    evidence.history.struck.iter().map(|struck| struck.at).min()
}

/// Refused because nothing was left to spend, or nothing could be granted.
fn is_out_of_budget(call: &Call) -> bool {
    call.code.as_deref().is_some_and(|code| code.starts_with("budget_"))
}

fn first_byte_ms(call: &Call) -> Option<u64> {
    Some(millis(call.first_byte?.since(call.started)))
}

fn millis(time: Duration) -> u64 {
    crate::schedule::millis(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Line;
    use crate::history::Write;
    use crate::invariants::samples::{at, call, evidence, struck};

    fn lost() -> Evidence {
        let mut evidence = evidence();
        evidence.facts.edges.insert("edge-eu".into(), "eu".into());
        evidence.history.phases.push((at(9_000), "finish"));
        evidence.history.struck.push(struck("power_off", "edge-eu", 1_000));
        evidence
    }

    #[test]
    fn percentiles_are_values_that_were_seen() {
        assert_eq!(percentile(&[], 50), None);
        assert_eq!(percentile(&[3, 1, 2], 50), Some(2));
        assert_eq!(percentile(&[1, 2, 3, 4], 99), Some(4));
    }

    #[test]
    fn a_region_has_recovered_when_its_last_failing_call_began() {
        let mut evidence = lost();
        for (id, began, outcome) in [
            (1, 1_200, CallOutcome::Broken),
            (2, 2_500, CallOutcome::Late),
            (3, 2_600, CallOutcome::Complete),
        ] {
            let started = at(began);
            let first_byte = Some(at(began + 300));
            evidence.history.calls.push(Call { id, started, first_byte, outcome, ..call() });
        }
        let figures = Figures::of(&evidence);
        assert_eq!(figures.recovered["eu"], [1_500]);
        assert_eq!(figures.served_elsewhere, [300]);
        assert_eq!(figures.faults["power_off"], (1, 0), "the calls ended before");
    }

    #[test]
    fn a_repeat_counts_from_when_it_was_first_asked() {
        let mut evidence = lost();
        let broken = Call { id: 1, started: at(2_000), outcome: CallOutcome::Broken, ..call() };
        let again =
            Call { id: 2, retry_of: Some(1), started: at(4_000), first_byte: Some(at(4_100)), ..call() };
        evidence.history.calls.extend([broken, again]);
        assert_eq!(Figures::of(&evidence).served_elsewhere, [2_100]);
    }

    #[test]
    fn the_next_write_is_one_that_was_asked_for_after_the_leader_was_lost() {
        let mut evidence = evidence();
        let seen = crate::history::Observation {
            at: at(50),
            answered: at(51),
            node: "central-eu".into(),
            leader: Some("central-eu".into()),
            term: 1,
            epoch: 2,
            edges: BTreeMap::new(),
        };
        evidence.history.observations.push(seen);
        evidence.history.struck.push(struck("crash", "central-eu", 60));
        let write = evidence.history.writes[0].clone();
        evidence.history.writes.push(Write { started: at(55), ended: Some(at(65)), ..write.clone() });
        evidence.history.writes.push(Write { started: at(70), ended: Some(at(960)), ..write });
        let says = |ms, machine: &str| Line {
            at: at(ms),
            machine: machine.to_owned(),
            level: tracing::Level::INFO,
            text: "this member leads term=2".to_owned(),
        };
        evidence.log.extend([says(55, "central-us"), says(61, "central-eu"), says(560, "central-us")]);
        let figures = Figures::of(&evidence);
        assert_eq!(figures.led_again, [500]);
        assert_eq!(figures.next_write, [900]);
        assert_eq!(figures.hung_write, [5]);
    }
}
