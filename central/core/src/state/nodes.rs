//! Edges that come and go, what they report and bill, and the members of central.

use std::collections::BTreeMap;

use base::{Incarnation, Name, NodeId};
use wire::control::{NodeAddr, Welcome};
use wire::ledger::{FinalReport, ReceiptBatch, Report};

use super::{Moment, State};
use crate::{Effect, Registration, Reply};

impl State {
    /// The newest process of an identity wins; the one before hears that it must stop.
    pub(super) fn register(&mut self, now: Moment, who: &Registration, effects: &mut Vec<Effect>) -> Reply {
        let level = who.hello.level.min(self.level.max(1));
        let incarnation = Incarnation(1);
        let registered = self.registry.register(now.at, who, level, incarnation);
        if let Some(boot) = registered.superseded {
            effects.push(Effect::Superseded { edge: who.edge.clone(), boot });
        }
        let welcome = Welcome { level, era: self.era, incarnation };
        effects.push(Effect::Welcome { edge: who.edge.clone(), boot: who.hello.boot, welcome });
        if registered.moved {
            self.nodes_changed(now, effects);
        }
        Reply::Registered(incarnation)
    }

    pub(super) fn reports(
        &mut self,
        _now: Moment,
        _reports: &[(Name, Report)],
        _effects: &mut Vec<Effect>,
    ) -> Reply {
        Reply::Done
    }

    pub(super) fn receipts(
        &mut self,
        _edge: &Name,
        _batch: &ReceiptBatch,
        _effects: &mut Vec<Effect>,
    ) -> Reply {
        Reply::Done
    }

    pub(super) fn close(&mut self, _edge: &Name, _report: &FinalReport, _effects: &mut Vec<Effect>) -> Reply {
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

    fn nodes_changed(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        self.nodes_stamp = now.stamp;
        effects.push(Effect::NodesChanged(now.stamp));
    }
}
