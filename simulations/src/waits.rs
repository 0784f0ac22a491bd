//! How calls of crowds waited, as far as that shows outside of the nodes: from when they were sent until a model server was
//! asked, or until they were over.
//!
//! There are two lines: before the limits of tenants, applications, keys and models, at the edge that was asked; and before
//! model servers of limited room, at an edge of their region.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Mono;

use crate::evidence::Evidence;
use crate::faults::Kind;
use crate::history::{Call, Served};
use crate::scenario::Limits;

/// Calls and nodes are as before so long after a fault healed.
const OVER: Duration = Duration::from_secs(5);

/// A call of a crowd that was sent, and was over, and met no fault on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait<'a> {
    pub(crate) call: &'a Call,
    /// When it was on its way to the edge.
    pub(crate) sent: Mono,
    /// When it was over for its caller.
    pub(crate) ended: Mono,
    /// What a model server was asked for it, once at most.
    pub(crate) served: Option<&'a Served>,
}

/// Which line calls wait in: the edge and the model.
pub(crate) type Place<'a> = (&'a str, &'a str);

/// All of them, of ordinary callers too, by when they were sent. Those that several servers were asked for are left out.
pub(crate) fn waits(evidence: &Evidence) -> Vec<Wait<'_>> {
    let mut by_call: BTreeMap<u64, Vec<&Served>> = BTreeMap::new();
    for served in &evidence.history.served {
        by_call.entry(served.call.unwrap_or(u64::MAX)).or_default().push(served);
    }
    let wait = |call| {
        let call: &Call = call;
        let (sent, ended) = (call.sent?, call.ended?);
        let served = match by_call.get(&call.id).map_or(&[][..], Vec::as_slice) {
            [] => None,
            [served] => Some(*served),
            [..] => return None,
        };
        let wait = Wait { call, sent, ended, served };
        (!is_struck(evidence, call, served, (sent, ended))).then_some(wait)
    };
    let mut waits: Vec<_> = evidence.history.calls.iter().filter_map(wait).collect();
    waits.sort_by_key(|wait| (wait.sent, wait.call.id));
    waits
}

impl<'a> Wait<'a> {
    /// When a server was asked.
    pub(crate) fn asked(&self) -> Option<Mono> {
        self.served.map(|served| served.asked)
    }

    /// The line that it waited in, as [`place`] has it.
    pub(crate) fn place(&self, evidence: &'a Evidence) -> Option<Place<'a>> {
        place(evidence, self.call, self.served?)
    }
}

/// The line that a call waited in for which a server was asked, where tenants that have no limits of their own wait for one
/// another; `None` where it may have waited twice, or did not.
pub(crate) fn place<'a>(evidence: &'a Evidence, call: &'a Call, served: &'a Served) -> Option<Place<'a>> {
    let crowd = evidence.facts.crowds.get(call.crowd.as_ref()?)?;
    let limits = evidence.facts.limits.get(&served.model);
    let is_rated = limits.is_some_and(Limits::has_rate);
    match (limits, evidence.facts.rooms.contains_key(&served.server)) {
        _ if crowd.is_limited() || is_rated => None,
        // What is no stream is not let wait before limits.
        (Some(_), false) if call.stream => Some((&call.edge, &served.model)),
        (None, true) => Some((served.by.as_deref()?, &served.model)),
        (Some(_), true | false) | (None, false) => None,
    }
}

/// Whether a fault stood, or was not long over, from one moment to another on the way of a call: at its edge, at the server
/// that was asked and the node that asked it, or, where none was, at any of those.
pub(crate) fn is_struck(
    evidence: &Evidence,
    call: &Call,
    served: Option<&Served>,
    (from, upto): (Mono, Mono),
) -> bool {
    let facts = &evidence.facts;
    let bears = |machine: &String| match (facts.machines.get(machine), served) {
        _ if *machine == call.edge => true,
        (Some(Kind::Callers), _) => *machine == format!("callers-{}", call.region),
        (_, Some(served)) => *machine == served.server || Some(machine) == served.by.as_ref(),
        (Some(Kind::Model), None) => true,
        (Some(Kind::Edge), None) => !facts.rooms.is_empty(),
        (Some(Kind::Central | Kind::Outside) | None, None) => false,
    };
    evidence.history.struck.iter().any(|struck| {
        struck.at <= upto
            && struck.healed.is_none_or(|healed| healed + OVER >= from)
            && struck.machines.iter().any(bears)
    })
}

/// The first moment of a span at which a fault stood, or was not long over, anywhere but in central.
pub(crate) fn first_struck(evidence: &Evidence, (from, upto): (Mono, Mono)) -> Option<Mono> {
    let bears = |machine: &String| {
        let kind = evidence.facts.machines.get(machine);
        matches!(kind, Some(Kind::Edge | Kind::Model | Kind::Callers))
    };
    let struck = evidence.history.struck.iter().filter(|struck| {
        let is_over = struck.healed.is_some_and(|healed| healed + OVER < from);
        !is_over && struck.at <= upto && struck.machines.iter().any(bears)
    });
    struck.map(|struck| struck.at.max(from)).min()
}
