//! "Sometimes" marks: what must happen in some run of a sweep, so that faults bite where they should. A closed list.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::faults::Kind;
use crate::history::{Call, CallOutcome, Pass, ServedEnd, WriteOutcome};
use crate::waits::waits;

macro_rules! marks {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Something that must happen sometimes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Mark { $($(#[doc = $doc])* $name,)* }

        impl Mark {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

marks! {
    /// Another node leads than before.
    LeaderChanged,
    /// It did while a write was under way.
    LeaderChangedWhileWriting,
    /// A write got no answer that says what became of it.
    WriteUnknown,
    /// A write without an answer came into force.
    UnknownWriteInForce,
    /// A caller found its edge gone and took the next.
    CallerMoved,
    /// A caller's stream broke off or failed after its first byte.
    StreamCut,
    /// A caller hung up after the first byte.
    HungUpMidway,
    /// A caller hung up before the head.
    HungUpBeforeHead,
    /// A call was answered after another attempt had failed.
    AnsweredByAnother,
    /// A model server hung or broke off.
    ServerFailed,
    /// A strict call was refused because the budget was spent.
    BudgetExceeded,
    /// A strict call was refused because the edge had no credit.
    BudgetUnavailable,
    /// A dead life of an edge was charged.
    CrashCharged,
    /// An edge moved to another central node.
    EdgeMoved,
    /// A call was answered while no central node could be asked.
    ServedWithoutCentral,
    /// A usage was settled that no server told.
    UsageEstimated,
    /// An operator let another central node lead.
    LeadershipTransferred,
    /// A member that was lost for good was replaced.
    MemberReplaced,
    /// A node was stopped in good order and came back.
    NodeDrained,
    /// A key was refused a model that it may not ask for.
    ModelForbidden,
    /// A provider was asked with another credential than at first.
    CredentialChanged,
    /// Another budget of a call than the first refused it.
    RefusedAtAnotherLevel,
    /// A call passed a threshold.
    ThresholdCrossed,
    /// A feature was turned off.
    FeatureOff,
    /// A provider refused a key's credential.
    KeyRevoked,
    /// A provider told a key to wait.
    KeyPaced,
    /// The limit of a provider's account refused a call.
    AccountLimited,
    /// A call was served after it had waited for more than a second.
    Waited,
    /// A stream waited as long as it may, and in vain.
    WaitedInVain,
    /// A call was refused since as many wait as may.
    QueueFull,
    /// A caller left while its call waited.
    LeftWhileWaiting,
    /// A batch call was served once it had aged.
    BatchAged,
}

/// The marks that a run hit.
#[must_use]
pub fn hit(evidence: &Evidence) -> BTreeSet<Mark> {
    Mark::ALL.iter().copied().filter(|mark| is_hit(*mark, evidence)).collect()
}

fn is_hit(mark: Mark, evidence: &Evidence) -> bool {
    let history = &evidence.history;
    let any_call = |test: fn(&Call) -> bool| history.calls.iter().any(test);
    let changes = || {
        let leaders = history.observations.iter().filter_map(|seen| Some((seen.at, seen.leader.as_ref()?)));
        let leaders: Vec<_> = leaders.collect();
        let changed = leaders.windows(2).filter_map(|pair| match pair {
            [(before, one), (after, other)] if one != other => Some((*before, *after)),
            _ => None,
        });
        changed.collect::<Vec<_>>()
    };
    match mark {
        Mark::LeaderChanged => !changes().is_empty(),
        Mark::LeaderChangedWhileWriting => changes().iter().any(|(before, after)| {
            history
                .writes
                .iter()
                .any(|write| write.started < *after && write.ended.is_none_or(|ended| ended > *before))
        }),
        Mark::WriteUnknown => {
            history.writes.iter().any(|write| matches!(write.outcome, WriteOutcome::Unknown(_)))
        }
        Mark::UnknownWriteInForce => history.writes.iter().any(|write| {
            let is_in_force =
                evidence.serials.as_ref().is_some_and(|serials| serials.contains(&write.serial));
            matches!(write.outcome, WriteOutcome::Unknown(_)) && is_in_force
        }),
        Mark::CallerMoved => any_call(|call| !call.skipped.is_empty() && !call.edge.is_empty()),
        Mark::StreamCut => any_call(|call| {
            call.first_byte.is_some() && matches!(call.outcome, CallOutcome::Broken | CallOutcome::Failed)
        }),
        Mark::HungUpMidway => {
            any_call(|call| call.outcome == CallOutcome::HungUp && call.first_byte.is_some())
        }
        Mark::HungUpBeforeHead => any_call(|call| call.outcome == CallOutcome::HungUp && call.head.is_none()),
        Mark::AnsweredByAnother => history.calls.iter().any(|call| {
            let tries = history.served.iter().filter(|served| served.call == Some(call.id)).count();
            call.outcome == CallOutcome::Complete && tries > 1
        }),
        Mark::ServerFailed => {
            history.served.iter().any(|served| matches!(served.end, ServedEnd::Reset | ServedEnd::Left))
        }
        Mark::BudgetExceeded => any_call(|call| call.code.as_deref() == Some("budget_exceeded")),
        Mark::BudgetUnavailable => any_call(|call| call.code.as_deref() == Some("budget_unavailable")),
        Mark::CrashCharged => {
            evidence.ledger.iter().flat_map(|ledger| &ledger.rows).any(|row| row.crash.0 > 0)
        }
        Mark::LeadershipTransferred => operated(evidence, "transfer"),
        Mark::MemberReplaced => operated(evidence, "replace"),
        Mark::NodeDrained => history
            .struck
            .iter()
            .any(|struck| struck.what == "drain" && struck.healed.is_some() && !struck.machines.is_empty()),
        Mark::ModelForbidden => any_call(|call| call.code.as_deref() == Some("forbidden")),
        Mark::CredentialChanged => history
            .served
            .iter()
            .any(|served| served.credential.as_deref() == Some(crate::deployment::NEXT_PROVIDER_KEY)),
        Mark::RefusedAtAnotherLevel => refused_by(evidence, |budget| !budget.ends_with("_per_min")),
        Mark::AccountLimited => refused_by(evidence, |budget| budget.ends_with("_per_min")),
        Mark::ThresholdCrossed => history.extras.values().any(|extra| !extra.told.is_empty()),
        Mark::FeatureOff => evidence.records.iter().any(|record| !record.paid.features_off.is_empty()),
        Mark::KeyRevoked => history.keyed.iter().any(|keyed| keyed.pass == Pass::Revoked),
        Mark::KeyPaced => history.keyed.iter().any(|keyed| matches!(keyed.pass, Pass::Wait(_))),
        Mark::Waited => waited(evidence, Duration::from_secs(1), |_call| true),
        Mark::BatchAged => waited(evidence, Duration::from_secs(10), |call| call.batch),
        Mark::WaitedInVain => any_call(waited_in_vain),
        Mark::QueueFull => any_call(|call| call.code.as_deref() == Some("queue_full")),
        Mark::LeftWhileWaiting => left_while_waiting(evidence),
        Mark::EdgeMoved => edge_moved(evidence),
        Mark::ServedWithoutCentral => served_without_central(evidence),
        Mark::UsageEstimated => {
            history.served.iter().any(|served| served.end == ServedEnd::Complete && served.told.is_none())
        }
    }
}

/// Whether a level that passes `test` refused a call.
fn refused_by(evidence: &Evidence, test: fn(&str) -> bool) -> bool {
    let levels = evidence.records.iter().filter_map(|record| evidence.level(record.paid.budget.as_deref()?));
    levels.into_iter().any(|level| test(&level.name))
}

/// Whether a call of a crowd that passes `test` was asked of a server after so long, and answered.
fn waited(evidence: &Evidence, long: Duration, test: fn(&Call) -> bool) -> bool {
    waits(evidence).iter().any(|wait| {
        let is_late = wait.asked().is_some_and(|asked| asked.since(wait.sent) > long);
        is_late && wait.call.crowd.is_some() && wait.call.outcome == CallOutcome::Complete && test(wait.call)
    })
}

fn waited_in_vain(call: &Call) -> bool {
    let is_late = call.head > Some(call.started + Duration::from_secs(20));
    let code = call.code.as_deref();
    is_late && call.crowd.is_some() && matches!(code, Some("concurrency_limited" | "model_overloaded"))
}

fn left_while_waiting(evidence: &Evidence) -> bool {
    waits(evidence).iter().any(|wait| {
        let is_late = wait.ended.since(wait.sent) > Duration::from_secs(1);
        is_late && wait.call.outcome == CallOutcome::HungUp && wait.served.is_none()
    })
}

fn operated(evidence: &Evidence, what: &str) -> bool {
    evidence.history.operated.iter().any(|done| done.what == what && done.failed.is_none())
}

fn edge_moved(evidence: &Evidence) -> bool {
    let seen = &evidence.history.observations;
    evidence.facts.machines.keys().any(|name| {
        let attached: BTreeSet<_> = seen.iter().filter_map(|seen| seen.edges.get(name)?.0.as_ref()).collect();
        attached.len() > 1
    })
}

fn served_without_central(evidence: &Evidence) -> bool {
    let centrals =
        evidence.facts.machines.iter().filter(|(_, kind)| **kind == Kind::Central).map(|(name, _)| name);
    let centrals: Vec<_> = centrals.collect();
    evidence.history.calls.iter().filter(|call| call.outcome == CallOutcome::Complete).any(|call| {
        let down = |name: &str| {
            let mut struck = evidence.struck(name, &["crash", "power_off", "lose_region", "pause"]);
            struck.any(|struck| {
                struck.at < call.started && struck.healed.is_none_or(|healed| Some(healed) > call.ended)
            })
        };
        let lost = centrals.iter().filter(|name| down(name)).count();
        lost * 2 > centrals.len()
    })
}
