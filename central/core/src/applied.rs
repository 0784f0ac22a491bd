//! What an applied entry answers and causes. Effects are data; every central node gets them all and acts on those that
//! concern the edges attached to it.

use std::sync::Arc;

use base::{Epoch, Incarnation, Name, Stamp};
use serde::{Deserialize, Serialize};
use wire::catalog::Change;
use wire::control::Welcome;
use wire::ledger::{Charge, Grants, Receipt};

use crate::ledger::{Decided, Undecided};

/// The outcome of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// For the proposer.
    pub reply: Reply,
    /// For every central node, in order.
    pub effects: Vec<Effect>,
}

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Done; nothing to tell.
    Done,
    /// One answer per command of a batch, in order.
    Batch(Vec<Self>),
    /// A newer process speaks for this edge already.
    Superseded,
    /// The edge is registered; its session hears more by [`Effect::Welcome`].
    Registered(Incarnation),
    /// The configuration now in force.
    Changed(Epoch),
    /// The change asked for nothing new; the epoch stays.
    Unchanged(Epoch),
    /// Nothing was changed.
    Refused(Refusal),
    /// An operator's decision, made now or before.
    Decided(Decided),
}

/// Why a command changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// Another change came first.
    #[error("made for epoch {base}, but the configuration is at epoch {now}: plan again")]
    Conflict {
        /// The epoch it was made for.
        base: Epoch,
        /// The epoch in force.
        now: Epoch,
    },
    /// The resulting configuration would be inconsistent.
    #[error("the resulting configuration is not consistent: {}", .0.join("; "))]
    Invalid(Vec<String>),
    /// The epoch is too old or never was.
    #[error("epoch {asked} is not kept; kept are {oldest} to {newest}")]
    NoSuchEpoch {
        /// What was asked for.
        asked: Epoch,
        /// The oldest epoch to which a rollback can go.
        oldest: Epoch,
        /// The epoch in force.
        newest: Epoch,
    },
    /// A level does not fall.
    #[error("level {asked} is refused: in force is {now}, and it never falls")]
    Level {
        /// What was asked for.
        asked: u16,
        /// What is in force.
        now: u16,
    },
    /// A batch may not hold a batch.
    #[error("a batch may not hold a batch")]
    Nested,
    /// A decision about credit fits nothing.
    #[error(transparent)]
    Undecided(Undecided),
    /// Another leader went on with receipts for a store outside.
    #[error("receipts behind place {after} are not next: those up to {now} were taken or are on their way")]
    Shipped {
        /// Behind which place they were to be sent.
        after: u64,
        /// How far they were taken or are on their way.
        now: u64,
    },
}

/// What nodes must do because of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// The session of this process may begin.
    Welcome {
        /// Which edge.
        edge: Name,
        /// Which process of it.
        boot: u64,
        /// Its terms.
        welcome: Welcome,
    },
    /// Another process took this identity.
    Superseded {
        /// Which edge.
        edge: Name,
        /// The process that must stop.
        boot: u64,
    },
    /// Credit for an edge.
    Grants {
        /// Which edge.
        edge: Name,
        /// The credit.
        grants: Grants,
    },
    /// An edge's spool may forget receipts.
    ReceiptsApplied {
        /// Which edge.
        edge: Name,
        /// Of which incarnation.
        incarnation: Incarnation,
        /// Position of the next receipt expected.
        next: u64,
    },
    /// Receipts applied for the first time, for usage stores.
    Receipts(Arc<Vec<(Name, Receipt)>>),
    /// An incarnation is closed for ever.
    Closed {
        /// Whose.
        edge: Name,
        /// Which.
        incarnation: Incarnation,
        /// What it may have spent beyond its receipts; charged. Empty when the message is repeated.
        crash: Vec<Charge>,
    },
    /// The configuration changed.
    Published {
        /// When.
        stamp: Stamp,
        /// The epoch before.
        from: Epoch,
        /// The epoch after.
        epoch: Epoch,
        /// What changed, in order.
        changes: Vec<Change>,
    },
    /// The list of nodes changed.
    NodesChanged(Stamp),
    /// A credential was replaced or dropped; upstream pools must be made anew.
    CredentialsChanged,
    /// Entries and messages of a new level may follow; a build that does not know it must stop.
    LevelRaised(u16),
    /// An operator said that a life of an edge is lost, whose process may yet be there: it must register anew.
    Lost {
        /// Which edge.
        edge: Name,
        /// Which process of it.
        boot: u64,
    },
}
