//! Changes of configuration: each makes one epoch, whole or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::Epoch;
use wire::catalog::Catalog;

use super::{Moment, State};
use crate::catalog::{changes, check, unsealed};
use crate::{CatalogChange, Effect, EpochRecord, KeyOf, Refusal, Reply};

/// Who asked for an epoch, and why.
struct Cause {
    by: String,
    note: String,
}

impl State {
    pub(super) fn change_catalog(
        &mut self,
        now: Moment,
        change: &CatalogChange,
        effects: &mut Vec<Effect>,
    ) -> Reply {
        if change.base != self.catalog.epoch {
            return Reply::Refused(Refusal::Conflict { base: change.base, now: self.catalog.epoch });
        }
        let mut next = Catalog::clone(&self.catalog);
        change.changes.iter().cloned().for_each(|one| next.apply(one));
        let faults = self.faults(&next, &change.credentials);
        if !faults.is_empty() {
            return Reply::Refused(Refusal::Invalid(faults));
        }
        if !change.credentials.is_empty() {
            self.credentials.extend(change.credentials.iter().cloned());
            effects.push(Effect::CredentialsChanged);
        }
        self.publish(now, next, Cause { by: change.by.clone(), note: change.note.clone() }, effects)
    }

    /// A revoked key stays revoked: going back must not hand a leaked key its power again.
    pub(super) fn roll_back(
        &mut self,
        now: Moment,
        (base, to): (Epoch, Epoch),
        by: &str,
        effects: &mut Vec<Effect>,
    ) -> Reply {
        if base != self.catalog.epoch {
            return Reply::Refused(Refusal::Conflict { base, now: self.catalog.epoch });
        }
        let Some(mut old) = self.history.content(&self.catalog, to) else {
            return Reply::Refused(Refusal::NoSuchEpoch {
                asked: to,
                oldest: self.history.oldest(),
                newest: self.catalog.epoch,
            });
        };
        let revoked = self.revoked();
        for key in old.keys.values_mut().filter(|key| revoked.contains(&key.hash)) {
            key.revoked = true;
        }
        let faults = self.revocation_faults(&old);
        if !faults.is_empty() {
            return Reply::Refused(Refusal::Invalid(faults));
        }
        let cause = Cause { by: by.to_owned(), note: format!("rollback to epoch {to}") };
        self.publish(now, old, cause, effects)
    }

    fn faults(&self, next: &Catalog, credentials: &[(KeyOf, crate::Sealed)]) -> Vec<String> {
        let unknown = credentials.iter().filter(|(of, _sealed)| {
            !next.providers.get(&of.provider).is_some_and(|provider| provider.has_key(&of.key))
        });
        let unknown = unknown.map(|(of, _sealed)| format!("no {of} for a credential"));
        let sealed = |of: &KeyOf| {
            self.credentials.contains_key(of) || credentials.iter().any(|(given, _sealed)| given == of)
        };
        let problems = check(next).into_iter().chain(unsealed(next, sealed));
        let faults = problems.map(|problem| problem.to_string()).chain(unknown);
        faults.chain(self.revocation_faults(next)).collect()
    }

    fn publish(&mut self, now: Moment, mut next: Catalog, cause: Cause, effects: &mut Vec<Effect>) -> Reply {
        for budget in next.budgets.values_mut() {
            budget.id = self.budgets.number(budget);
        }
        let from = self.catalog.epoch;
        let forward = changes(&self.catalog, &next);
        if forward.is_empty() {
            return Reply::Unchanged(from);
        }
        let epoch = Epoch(from.0.saturating_add(1));
        next.epoch = epoch;
        self.history.push(EpochRecord {
            epoch,
            stamp: now.stamp,
            at: now.at,
            by: cause.by,
            note: cause.note,
            forward: forward.clone(),
            back: changes(&next, &self.catalog),
        });
        self.revoked = self.remembered(&next);
        let old = std::mem::replace(&mut self.catalog, Arc::new(next));
        self.settle_budgets(&old);
        self.catalog_stamp = now.stamp;
        self.forget_credentials(effects);
        effects.push(Effect::Published { stamp: now.stamp, from, epoch, changes: forward });
        Reply::Changed(epoch)
    }

    /// Tells the ledger which budgets are and which are no more.
    fn settle_budgets(&mut self, old: &Catalog) {
        let kept: BTreeSet<_> = self.catalog.budgets.values().map(|budget| budget.id).collect();
        for gone in old.budgets.values().filter(|budget| !kept.contains(&budget.id)) {
            self.ledger.remove_budget(gone.id);
        }
        for budget in self.catalog.budgets.values() {
            if old.budgets.get(&budget.name) != Some(budget) {
                self.ledger.set_budget(budget);
            }
        }
    }

    /// Drops credentials of keys that neither the configuration nor an epoch to go back to mentions.
    fn forget_credentials(&mut self, effects: &mut Vec<Effect>) {
        let before = self.credentials.len();
        let (catalog, history) = (&self.catalog, &self.history);
        self.credentials.retain(|of, _sealed| {
            let now = catalog.providers.get(&of.provider);
            now.is_some_and(|provider| provider.has_key(&of.key)) || history.mentions(of)
        });
        if self.credentials.len() != before {
            effects.push(Effect::CredentialsChanged);
        }
    }
}
