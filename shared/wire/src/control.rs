//! The session between an edge and a central node: one control stream, opened by the edge.

use std::net::SocketAddr;

use base::{Epoch, Era, Incarnation, Name, RegionName, Role, Stamp};
use serde::{Deserialize, Serialize};

use crate::catalog::{Change, Object};
use crate::ledger::{FinalReport, Grants, ReceiptBatch, Report};

/// What a stream is for; its first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opening {
    /// An edge's control session.
    Control,
    /// One forwarded call.
    Call,
    /// A question between central nodes.
    Rpc,
    /// A central node asks another how it and the edges attached to it are.
    Status,
    /// A central node asks another for receipts that its usage store lacks.
    Usage,
    /// A central node asks an edge whether and why it refused a call.
    Refusal,
}

/// What an edge sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToCentral {
    /// First message.
    Hello(Hello),
    /// Counters of budgets.
    Report(Report),
    /// Receipts from the spool.
    Receipts(ReceiptBatch),
    /// An earlier incarnation's last word.
    Final(FinalReport),
    /// The configuration now in force at the edge.
    Applied {
        /// Of which stamp.
        stamp: Stamp,
        /// Of which epoch.
        epoch: Epoch,
    },
    /// What the edge sees; latest wins.
    Health(Health),
    /// The edge leaves in good order: everything settled and returned.
    Bye,
    /// In place of [`ToCentral::Health`], from the next level on.
    #[cfg(feature = "next-level")]
    HealthNext {
        /// As before.
        health: Health,
        /// How long the process runs, in milliseconds.
        running_ms: u64,
    },
}

/// What central sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToEdge {
    /// Answer to [`ToCentral::Hello`], after the registration committed.
    Welcome(Welcome),
    /// The whole configuration.
    Snapshot {
        /// When.
        stamp: Stamp,
        /// Version.
        epoch: Epoch,
        /// Every object, each after what it mentions.
        objects: Vec<Object>,
    },
    /// What changed since `from`.
    Delta {
        /// When.
        stamp: Stamp,
        /// The epoch this builds on; an edge at another asks for a snapshot by reconnecting.
        from: Epoch,
        /// Version after the change.
        epoch: Epoch,
        /// Changes, in order.
        changes: Vec<Change>,
    },
    /// Every node of the mesh.
    Nodes {
        /// When.
        stamp: Stamp,
        /// Central nodes and registered edges.
        nodes: Vec<NodeAddr>,
    },
    /// Credit.
    Grants(Grants),
    /// Receipts up to here are applied for ever; the spool may forget them.
    ReceiptsApplied {
        /// Of which incarnation.
        incarnation: Incarnation,
        /// Position of the next receipt expected.
        next: u64,
    },
    /// An incarnation is closed for ever; its journal may be forgotten.
    Closed {
        /// Which.
        incarnation: Incarnation,
    },
    /// Nothing changed; proof of life several times a second, and proof that the configuration is current.
    Current {
        /// The newest stamp.
        stamp: Stamp,
    },
    /// Another process registered with this identity: stop admitting and exit.
    Superseded,
    /// This central node cannot serve the session now; try another.
    Unavailable {
        /// Why, in words.
        why: String,
    },
    /// After [`ToEdge::Nodes`] at a session's start, from the next level on.
    #[cfg(feature = "next-level")]
    GreetingNext {
        /// The session's.
        level: u16,
    },
}

/// Who is calling and what it remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Newest level the edge speaks.
    pub level: u16,
    /// The build's version.
    pub build: String,
    /// Random number of this process.
    pub boot: u64,
    /// The incarnation this process already spends under, after a start without central or a lost session.
    pub resume: Option<Incarnation>,
    /// The highest incarnation in its journal.
    pub last: Option<Incarnation>,
    /// Where its mesh endpoint listens.
    pub mesh: SocketAddr,
    /// The configuration it has.
    pub have: Option<(Stamp, Epoch)>,
}

/// The session's terms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Level both ends speak.
    pub level: u16,
    /// Era in force.
    pub era: Era,
    /// The incarnation to spend under.
    pub incarnation: Incarnation,
}

/// What an edge sees of itself and its links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Calls in progress.
    pub in_flight: u32,
    /// Whether it is leaving.
    pub draining: bool,
    /// Round trips to other nodes, in microseconds.
    pub links: Vec<(Name, u32)>,
}

/// A tokenizer that models name and that an edge does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingTokenizer {
    /// As models name it.
    pub name: String,
    /// What is wrong, in words.
    pub why: String,
    /// What mends it, in words.
    pub mend: String,
}

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeAddr {
    /// Its name, as in its certificate.
    pub name: Name,
    /// Its role.
    pub role: Role,
    /// Its region.
    pub region: RegionName,
    /// Where its mesh endpoint listens.
    pub mesh: SocketAddr,
}
