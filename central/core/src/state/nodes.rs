//! Edges that come and go, what they report and bill, and the members of central.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{Name, NodeId};
use wire::control::{NodeAddr, Welcome};
use wire::ledger::{FinalReport, ReceiptBatch, Report};

use super::{Moment, State};
use crate::ledger::{Closed, Decision, Registered, Verdict};
use crate::{Effect, Refusal, Registration, Reply};

impl State {
    /// The newest process of an identity wins; the one before hears that it must stop.
    pub(super) fn register(&mut self, now: Moment, who: &Registration, effects: &mut Vec<Effect>) -> Reply {
        let (edge, hello) = (&who.edge, &who.hello);
        match self.ledger.register(edge, hello.boot, hello.resume, hello.last) {
            Registered::Superseded => {
                effects.push(Effect::Superseded { edge: edge.clone(), boot: hello.boot });
                Reply::Superseded
            }
            Registered::Welcome { incarnation, superseded } => {
                if let Some(boot) = superseded {
                    effects.push(Effect::Superseded { edge: edge.clone(), boot });
                }
                let level = hello.level.min(self.level());
                let welcome = Welcome { level, era: self.era, incarnation };
                effects.push(Effect::Welcome { edge: edge.clone(), boot: hello.boot, welcome });
                if self.registry.register(now.at, who, level, incarnation) {
                    self.nodes_changed(now, effects);
                }
                Reply::Registered(incarnation)
            }
        }
    }

    pub(super) fn reports(
        &mut self,
        now: Moment,
        reports: &[(Name, Report)],
        effects: &mut Vec<Effect>,
    ) -> Reply {
        let grants = self.ledger.report((now.at, now.clock), reports);
        effects.extend(grants.into_iter().map(|(edge, grants)| Effect::Grants { edge, grants }));
        Reply::Done
    }

    pub(super) fn receipts(&mut self, edge: &Name, batch: &ReceiptBatch, effects: &mut Vec<Effect>) -> Reply {
        let taken = self.ledger.receipts(edge, batch);
        taken.fresh.iter().for_each(|receipt| self.usage.add(receipt));
        if !taken.fresh.is_empty() {
            let fresh = taken.fresh.iter().map(|receipt| (edge.clone(), receipt.clone()));
            effects.push(Effect::Receipts(Arc::new(fresh.collect())));
        }
        let incarnation = batch.incarnation;
        effects.push(Effect::ReceiptsApplied { edge: edge.clone(), incarnation, next: taken.next });
        effects.extend(taken.closed.map(|closed| ended(edge, closed)));
        Reply::Done
    }

    pub(super) fn close(&mut self, edge: &Name, report: &FinalReport, effects: &mut Vec<Effect>) -> Reply {
        effects.extend(self.ledger.close(edge, report).map(|closed| ended(edge, closed)));
        Reply::Done
    }

    pub(super) fn bye(&mut self, now: Moment, edge: &Name, boot: u64, effects: &mut Vec<Effect>) -> Reply {
        if self.registry.leave(edge, boot) {
            self.nodes_changed(now, effects);
        }
        Reply::Done
    }

    pub(super) fn set_members(
        &mut self,
        now: Moment,
        members: &BTreeMap<NodeId, NodeAddr>,
        effects: &mut Vec<Effect>,
    ) -> Reply {
        if self.registry.members != *members {
            self.registry.members.clone_from(members);
            self.nodes_changed(now, effects);
        }
        Reply::Done
    }

    pub(super) fn joined(&mut self, members: &BTreeSet<NodeId>) -> Reply {
        self.registry.joined.extend(members);
        Reply::Done
    }

    /// A lost edge is no longer listed, and a process of it that is attached all the same registers anew.
    pub(super) fn decide(&mut self, now: Moment, decision: &Decision, effects: &mut Vec<Effect>) -> Reply {
        let decided = match self.ledger.decide(now.at, decision) {
            Ok(decided) => decided,
            Err(why) => return Reply::Refused(Refusal::Undecided(why)),
        };
        if let Verdict::Lost { edge, .. } = &decision.what
            && let Some(boot) = self.ledger.unseated(edge)
        {
            effects.push(Effect::Lost { edge: edge.clone(), boot });
            if self.registry.leave(edge, boot) {
                self.nodes_changed(now, effects);
            }
        }
        Reply::Decided(decided)
    }

    fn nodes_changed(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        self.nodes_stamp = now.stamp;
        effects.push(Effect::NodesChanged(now.stamp));
    }
}

fn ended(edge: &Name, closed: Closed) -> Effect {
    Effect::Closed { edge: edge.clone(), incarnation: closed.incarnation, crash: closed.crash }
}
