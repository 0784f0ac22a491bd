//! What budgets do to calls before they are exhausted: warn, make them cheaper, refuse them. What is spent is what central
//! last said, up to a second old while the budget is used.

use std::collections::BTreeSet;

use base::{Amount, BudgetId, Tokens};
use http::{HeaderName, HeaderValue};
use wire::catalog::{Action, Feature, Threshold};

use crate::convert::{Call, Use};
use crate::payers::Payer;
use crate::purse::Purse;
use crate::snapshot::Principal;

/// Tells callers which thresholds their call reached.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-portolan-budget");

/// How a call gets cheaper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Economy {
    /// Most output tokens of one answer.
    pub(crate) output_cap: Option<Tokens>,
    /// Only the cheapest models may answer.
    pub(crate) cheapest: bool,
    /// Features that the call uses and goes without.
    pub(crate) off: BTreeSet<Feature>,
}

/// A budget that refuses, though it may not be exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) budget: BudgetId,
    pub(crate) limit: Amount,
    pub(crate) spent: Amount,
    /// What the call cannot do without, if it is that; `None`: any call.
    pub(crate) feature: Option<Feature>,
}

/// What thresholds say of one call.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    /// Values of [`HEADER`].
    pub(crate) notices: Vec<HeaderValue>,
    pub(crate) economy: Economy,
    pub(crate) refused: Option<Refused>,
}

/// Which thresholds a call of `principal` that these pay for has reached.
pub(crate) fn reached(call: &Call, payers: &[Payer], principal: &Principal, purse: &Purse) -> Reached {
    let mut reached = Reached::default();
    for payer in payers.iter().filter(|payer| !payer.budget.thresholds.is_empty()) {
        let Some((used, limit, spent)) = purse.used(payer.id()) else { continue };
        let concerned = |threshold: &&Threshold| {
            used >= u64::from(threshold.at_per_mille)
                && !threshold.except_keys.contains(&principal.key)
                && !threshold.except_tenants.contains(&principal.tenant)
        };
        let (mut did, mut off) = (None, BTreeSet::new());
        let mut refuse = |feature| {
            let refused = Refused { budget: payer.id(), limit, spent, feature };
            reached.refused = reached.refused.or(Some(refused));
        };
        for threshold in payer.budget.thresholds.iter().filter(concerned) {
            match &threshold.action {
                Action::Warn => did = did.or(Some("warn")),
                Action::Downgrade { output_cap, cheapest } => {
                    did = Some("downgrade");
                    reached.economy.add(*output_cap, *cheapest);
                }
                Action::Restrict { output_cap, cheapest, off: features } => {
                    did = Some("downgrade");
                    reached.economy.add(*output_cap, *cheapest);
                    for feature in features {
                        match call.uses(*feature) {
                            Some(Use::Spare) => off.extend([*feature]),
                            Some(Use::Needed) => refuse(Some(*feature)),
                            None => {}
                        }
                    }
                }
                Action::Refuse => refuse(None),
            }
        }
        if let Some(did) = did {
            let name = &payer.budget.name;
            let mut told = format!("{name}; used={}.{:03}; did={did}", used / 1_000, used % 1_000);
            if !off.is_empty() {
                told.push_str("; off=");
                told.push_str(&names(&off).join(","));
            }
            reached.notices.extend(HeaderValue::try_from(told));
        }
        reached.economy.off.append(&mut off);
    }
    reached
}

/// As headers and records spell them.
pub(crate) fn names(features: &BTreeSet<Feature>) -> Vec<&'static str> {
    features.iter().map(|feature| feature.as_str()).collect()
}

impl Economy {
    fn add(&mut self, output_cap: Option<Tokens>, cheapest: bool) {
        self.cheapest |= cheapest;
        self.output_cap = match (self.output_cap, output_cap) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}
