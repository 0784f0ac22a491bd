//! The whole replicated state and its one door.

mod catalog;
mod nodes;
mod revoked;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{BudgetId, Epoch, Era, KeyHash, Name, Revision, Stamp, Unit, WallMs};
use serde::{Deserialize, Serialize};
use wire::catalog::{Budget, Catalog, Change, Scope, Window};
use wire::control::NodeAddr;

use crate::ledger::Ledger;
use crate::{
    Applied, Command, Effect, Entry, History, KeyOf, LogMs, Refusal, Registry, Reply, Sealed, Shipment, Usage,
};

/// The level that every release speaks, and at which every group begins.
const FIRST_LEVEL: u16 = 1;

/// Everything that central's nodes agree on. Two nodes that applied the same entries hold equal states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    era: Era,
    level: u16,
    catalog: Arc<Catalog>,
    /// When the configuration last changed.
    catalog_stamp: Stamp,
    /// When the list of nodes last changed.
    nodes_stamp: Stamp,
    history: History,
    registry: Registry,
    credentials: BTreeMap<KeyOf, Sealed>,
    budgets: BudgetNumbers,
    ledger: Ledger,
    usage: Usage,
    /// Hashes of keys that were revoked and have since gone from the configuration.
    revoked: BTreeSet<KeyHash>,
    shipment: Shipment,
}

/// Numbers given to budgets. A budget that was removed and comes back with the same meaning gets its number again, and
/// with it what was spent of it; one whose meaning changed is another budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct BudgetNumbers {
    next: u64,
    given: BTreeMap<Meaning, BudgetId>,
}

/// When and where in the log an entry is applied.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: WallMs,
    clock: LogMs,
    stamp: Stamp,
}

/// What makes a budget the same budget: its name, whose calls it pays for, its unit, its window, and whose midnight.
type Meaning = (Name, Scope, Unit, Window, String);

impl State {
    /// Applies one entry of the log. `revision` is its index; the same entries give the same state everywhere.
    pub fn apply(&mut self, revision: Revision, entry: &Entry) -> Applied {
        let now = Moment { at: entry.at, clock: entry.clock, stamp: Stamp { era: self.era, revision } };
        let mut effects = Vec::new();
        let reply = match &entry.command {
            Command::Batch(commands) => {
                Reply::Batch(commands.iter().map(|command| self.one(now, command, &mut effects)).collect())
            }
            single => self.one(now, single, &mut effects),
        };
        Applied { reply, effects }
    }

    fn one(&mut self, now: Moment, command: &Command, effects: &mut Vec<Effect>) -> Reply {
        match command {
            Command::Batch(_nested) => Reply::Refused(Refusal::Nested),
            Command::Register(who) => self.register(now, who, effects),
            Command::Reports(reports) => self.reports(now, reports, effects),
            Command::Receipts { edge, batch } => self.receipts(edge, batch, effects),
            Command::Final { edge, report } => self.close(edge, report, effects),
            Command::Bye { edge, boot } => self.bye(now, edge, *boot, effects),
            Command::ChangeCatalog(change) => self.change_catalog(now, change, effects),
            Command::Rollback { base, to, by } => self.roll_back(now, (*base, *to), by, effects),
            Command::RaiseLevel { to } => self.raise_level(*to, effects),
            Command::SetMembers(members) => self.set_members(now, members, effects),
            Command::Joined(members) => self.joined(members),
            Command::Decide(decision) => self.decide(now, decision, effects),
            Command::Ship(next) => self.shipment.go_on(next),
        }
    }

    /// What this build knows does not matter here: all nodes must come to the same state. A build that is too old for
    /// the level stops when it meets the effect.
    fn raise_level(&mut self, asked: u16, effects: &mut Vec<Effect>) -> Reply {
        if asked < self.level() {
            return Reply::Refused(Refusal::Level { asked, now: self.level() });
        }
        if asked > self.level() {
            self.level = asked;
            effects.push(Effect::LevelRaised(asked));
        }
        Reply::Done
    }

    /// The log's clock, as of the last entry that told it.
    #[must_use]
    pub const fn clock(&self) -> LogMs {
        self.ledger.clock()
    }

    /// The configuration in force.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The configuration in force, to keep.
    #[must_use]
    pub fn shared_catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog)
    }

    /// The epoch in force.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.catalog.epoch
    }

    /// When the configuration last changed.
    #[must_use]
    pub const fn catalog_stamp(&self) -> Stamp {
        self.catalog_stamp
    }

    /// When the list of nodes last changed.
    #[must_use]
    pub const fn nodes_stamp(&self) -> Stamp {
        self.nodes_stamp
    }

    /// The newest stamp of all that is published.
    #[must_use]
    pub fn newest_stamp(&self) -> Stamp {
        self.catalog_stamp.max(self.nodes_stamp)
    }

    /// Every node of the mesh.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeAddr> {
        self.registry.nodes()
    }

    /// Raised by each restore from a backup.
    #[must_use]
    pub const fn era(&self) -> Era {
        self.era
    }

    /// The level of messages and entries that the mesh uses.
    #[must_use]
    pub fn level(&self) -> u16 {
        self.level.max(FIRST_LEVEL)
    }

    /// The epochs kept.
    #[must_use]
    pub const fn history(&self) -> &History {
        &self.history
    }

    /// The nodes.
    #[must_use]
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Sealed credentials of providers' keys.
    #[must_use]
    pub const fn credentials(&self) -> &BTreeMap<KeyOf, Sealed> {
        &self.credentials
    }

    /// Who holds which credit.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What was used.
    #[must_use]
    pub const fn usage(&self) -> &Usage {
        &self.usage
    }

    /// How far receipts were given to a store outside.
    #[must_use]
    pub const fn shipment(&self) -> Shipment {
        self.shipment
    }

    /// What changed since an edge's configuration; `None` when it needs the whole.
    #[must_use]
    pub fn delta(&self, have: Stamp, epoch: Epoch) -> Option<Vec<Change>> {
        let ours = have.era == self.era && have <= self.catalog_stamp && epoch <= self.catalog.epoch;
        if ours { self.history.since(epoch) } else { None }
    }

    /// A number that is equal on nodes with equal states and almost surely differs on others; for tests and checks.
    ///
    /// # Errors
    /// When the state cannot be encoded, which is a fault of ours.
    pub fn fingerprint(&self) -> Result<u64, wire::codec::CodecError> {
        let bytes = wire::codec::encode(self)?;
        // FNV-1a, 64 bits.
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Ok(bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix))
    }
}

impl BudgetNumbers {
    fn number(&mut self, budget: &Budget) -> BudgetId {
        let Budget { name, scope, unit, window, zone, .. } = budget;
        let meaning = (name.clone(), scope.clone(), *unit, *window, zone.name.clone());
        if let Some(known) = self.given.get(&meaning) {
            return *known;
        }
        self.next = self.next.saturating_add(1);
        let fresh = BudgetId(self.next.into());
        self.given.insert(meaning, fresh);
        fresh
    }
}
