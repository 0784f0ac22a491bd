//! Once a budget has passed a threshold, as the answer tells, calls get what the threshold leaves them: no more output than
//! its cap, and no feature that it turns off, which the record names (docs/configuration.md "Budgets"). What no threshold
//! turned off reaches the model server.

use super::{Violation, violation};
use crate::evidence::{Evidence, Record};
use crate::history::{Call, CallOutcome, Extra};
use crate::scenario::Step;

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in evidence.history.calls.iter().filter(|call| call.outcome == CallOutcome::Complete) {
        let Some(extra) = evidence.history.extras.get(&call.id) else { continue };
        let is_its = |record: &&Record| Some(&record.request) == call.request.as_ref();
        let Some(record) = evidence.records.iter().find(is_its) else { continue };
        let is_off = record.paid.features_off.iter().any(|feature| feature == "tools");
        let wrong = passed(evidence, extra).into_iter().find_map(|step| breaks(evidence, call, step, is_off));
        let wrong = wrong.or_else(|| {
            let differs = extra.tools && extra.reached.contains(&is_off);
            differs.then(|| format!("tools are off: {is_off}, and offered to model servers"))
        });
        if let Some(wrong) = wrong {
            let what = format!("{wrong}: {extra:?} of {record:?} of {call:?}");
            found.push(violation("features", call.ended, what));
        }
    }
    found
}

/// What is wrong with a call that had passed `step`.
fn breaks(evidence: &Evidence, call: &Call, step: &Step, is_off: bool) -> Option<String> {
    let offers = evidence.history.extras.get(&call.id).is_some_and(|extra| extra.tools);
    if offers && !is_off && step.features_off.iter().any(|feature| feature == "tools") {
        return Some("tools are not off".to_owned());
    }
    let cap = step.output_cap?;
    let served = evidence.history.served.iter().filter(|served| served.call == Some(call.id));
    let most = served.map(|served| served.output).max()?;
    (most > cap).then(|| format!("{most} tokens of output, capped at {cap}"))
}

/// Thresholds that the answer says to be passed, by how much of its budgets is used.
fn passed<'a>(evidence: &'a Evidence, extra: &Extra) -> Vec<&'a Step> {
    let mut passed = Vec::new();
    for told in &extra.told {
        let Some((name, used)) = used(told) else { continue };
        let levels = evidence.facts.levels.iter().filter(|level| level.name == name);
        let steps = levels.flat_map(|level| &level.threshold);
        passed.extend(steps.filter(|step| step.at_per_mille <= used && !step.exempt));
    }
    passed
}

/// `acme-soft; used=0.812; did=warn`: the budget, and what is used of it in thousandths.
fn used(told: &str) -> Option<(&str, u64)> {
    let (name, rest) = told.split_once("; used=")?;
    let (whole, thousandths) = rest.split(';').next()?.split_once('.')?;
    Some((name, whole.parse::<u64>().ok()? * 1_000 + thousandths.parse::<u64>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{evidence, level};

    fn sample() -> Evidence {
        let mut evidence = evidence();
        let off = vec!["tools".to_owned()];
        let step = Step {
            at_per_mille: 600,
            does: "downgrade".into(),
            output_cap: Some(2),
            features_off: off,
            exempt: false,
        };
        evidence.facts.levels = vec![crate::scenario::Level { threshold: vec![step], ..level() }];
        evidence.records[0].paid.features_off = vec!["tools".to_owned()];
        let told = vec!["one; used=0.600; did=downgrade; off=tools".to_owned()];
        evidence.history.extras.insert(0, Extra { tools: true, told, reached: vec![false] });
        evidence
    }

    #[test]
    fn a_feature_that_reaches_a_server_though_it_is_off_is_found() {
        let mut evidence = sample();
        assert_eq!(judge(&evidence), []);
        evidence.history.extras.entry(0).and_modify(|extra| extra.reached = vec![true]);
        assert_eq!(judge(&evidence).len(), 1);
    }

    #[test]
    fn a_threshold_that_does_nothing_is_found() {
        let mut on = sample();
        on.records[0].paid.features_off.clear();
        on.history.extras.entry(0).and_modify(|extra| extra.reached = vec![true]);
        assert_eq!(judge(&on).len(), 1);
        on.history.extras.entry(0).and_modify(|extra| extra.told = vec!["one; used=0.599; did=warn".into()]);
        assert_eq!(judge(&on), [], "it is not passed");
        let mut long = sample();
        long.history.served[0].output = 3;
        assert!(judge(&long)[0].what.starts_with("3 tokens of output"));
    }
}
