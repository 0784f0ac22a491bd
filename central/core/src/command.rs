//! What may be asked of the state. Enums grow at their end only: an entry written by an older build must read back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base::{Epoch, Name, NodeId, RegionName, WallMs};
use serde::{Deserialize, Serialize};
use wire::catalog::{Change, DEFAULT_KEY};
use wire::control::{Hello, NodeAddr};
use wire::ledger::{FinalReport, ReceiptBatch, Report};

use crate::Shipment;
use crate::ledger::Decision;

/// A command as the log holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The middle of the members' wall clocks, as the proposer knows it. It chooses budget windows and dates epochs; no
    /// safety rests on it.
    pub at: WallMs,
    /// The log's clock. It mints what comes free as time passes.
    pub clock: LogMs,
    /// What to do.
    pub command: Command,
}

/// The log's clock, in milliseconds: a leader goes on from the last entry that it heard. It follows no wall clock, never runs
/// ahead of real time, and stands still while all of central is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogMs(pub u64);

/// What may be asked of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Several commands in one entry, in order; answered by [`crate::Reply::Batch`]. Never nested.
    Batch(Vec<Self>),
    /// An edge opens a session.
    Register(Registration),
    /// Edges' counters of budgets.
    Reports(Vec<(Name, Report)>),
    /// Receipts from an edge's spool.
    Receipts {
        /// Whose spool.
        edge: Name,
        /// Which receipts.
        batch: ReceiptBatch,
    },
    /// An incarnation's last word.
    Final {
        /// Whose.
        edge: Name,
        /// Its counters.
        report: FinalReport,
    },
    /// An edge left in good order.
    Bye {
        /// Which edge.
        edge: Name,
        /// The process that left; a newer one stays.
        boot: u64,
    },
    /// Changes the configuration.
    ChangeCatalog(CatalogChange),
    /// Makes a new epoch with the content of an old one.
    Rollback {
        /// The epoch it was asked for at; at any other it is refused.
        base: Epoch,
        /// Whose content.
        to: Epoch,
        /// Who asked, as the certificate names them.
        by: String,
    },
    /// Raises the level of messages and entries that the mesh uses. It never falls.
    RaiseLevel {
        /// The new level.
        to: u16,
    },
    /// The voters and learners of the Raft group as its membership now has them.
    SetMembers(BTreeMap<NodeId, NodeAddr>),
    /// Members that were seen to hold a log. One of them without a log lost its disk, and must not come back as itself.
    Joined(BTreeSet<NodeId>),
    /// An operator decides about credit: an edge is lost, an account is corrected.
    Decide(Decision),
    /// Receipts were taken by a store outside, or given up, and those that follow are sent next.
    Ship(Shipment),
}

/// Who registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The name in the edge's certificate.
    pub edge: Name,
    /// The region in the edge's certificate.
    pub region: RegionName,
    /// What the edge said of itself.
    pub hello: Hello,
}

/// A change of configuration, already resolved into objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogChange {
    /// The epoch it was made for; at any other it is refused, so that two operators never overwrite each other unseen.
    pub base: Epoch,
    /// What to put and remove. A budget's number is given when the change is applied.
    pub changes: Vec<Change>,
    /// Credentials of providers' keys, sealed.
    pub credentials: Vec<(KeyOf, Sealed)>,
    /// Who asked, as the certificate names them.
    pub by: String,
    /// Why, in the operator's words.
    pub note: String,
}

/// Which key of which provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyOf {
    /// The provider.
    pub provider: Name,
    /// The key; [`wire::catalog::DEFAULT_KEY`] where the provider has one without a name.
    pub key: Name,
}

impl fmt::Display for KeyOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, key } = self;
        if key.as_str() == DEFAULT_KEY {
            write!(f, "provider {provider}")
        } else {
            write!(f, "key {key} of provider {provider}")
        }
    }
}

/// A secret that only nodes with the sealing key can open. The state never sees the secret itself.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// Which sealing key.
    pub key: u32,
    /// The cipher's nonce.
    pub nonce: [u8; 12],
    /// The ciphertext and its tag.
    pub ciphertext: Vec<u8>,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed(key {}, {} bytes)", self.key, self.ciphertext.len())
    }
}
