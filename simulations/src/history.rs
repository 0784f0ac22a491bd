//! What actors saw, in order, with times: the evidence that invariants judge. Nothing here comes from inside a node.

mod adjusted;
mod keyed;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::Mono;
use seam::{Clock, Lock};

pub use adjusted::{Adjustment, Terms};
pub use keyed::{Extra, Keyed, Pass};
pub use shared::{FIRST, Look, Set, Shared};

/// What actors saw.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Every request that a caller sent.
    pub calls: Vec<Call>,
    /// Every change of the configuration that an operator asked for.
    pub writes: Vec<Write>,
    /// Every read of it.
    pub reads: Vec<Read>,
    /// Every change of an object that operators share.
    pub sets: Vec<Set>,
    /// Every look at those.
    pub looks: Vec<Look>,
    /// Every change of objects that calls use.
    pub adjustments: Vec<Adjustment>,
    /// Faults that struck.
    pub struck: Vec<Struck>,
    /// What came of what operators did to nodes.
    pub operated: Vec<Operated>,
    /// What central nodes said of the mesh.
    pub observations: Vec<Observation>,
    /// What central nodes said of the budgets.
    pub ledgers: Vec<(Mono, central::admin::api::Ledger)>,
    /// What model servers were asked.
    pub served: Vec<Served>,
    /// What providers with several keys were asked.
    pub keyed: Vec<Keyed>,
    /// What is known of calls beside, by their number.
    pub extras: BTreeMap<u64, Extra>,
    /// When the revocation of the one key that is revoked was acknowledged.
    pub revoked: Option<Mono>,
    /// When each part of the run began.
    pub phases: Vec<(Mono, &'static str)>,
}

/// A history that actors write to. Its time is the same for all: a host's clock counts from its own start.
/// Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Recorder {
    clock: Arc<dyn Clock>,
    history: Arc<Lock<History>>,
}

/// One request of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Stands in the prompt; unique in a run.
    pub id: u64,
    /// The call that this one repeats.
    pub retry_of: Option<u64>,
    /// Who asked.
    pub caller: String,
    /// Where the caller is.
    pub region: String,
    /// Whether a strict budget pays.
    pub strict: bool,
    /// Whether its key is one that is revoked, with which it must be refused sooner or later.
    pub revoked: bool,
    /// Whether its key is one that is restricted at times.
    pub bound: bool,
    /// The tenant whose crowd it is of; whatever becomes of its calls, others' are told apart.
    pub crowd: Option<String>,
    /// Whether it said that it is batch.
    pub batch: bool,
    /// The edge asked; empty when none could be reached.
    pub edge: String,
    /// Edges that could not be reached before.
    pub skipped: Vec<String>,
    /// The model asked for.
    pub model: String,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// When the caller began to look for an edge.
    pub started: Mono,
    /// When the request was on its way.
    pub sent: Option<Mono>,
    /// When the answer's head was there.
    pub head: Option<Mono>,
    /// When the first byte of its body was there; of a stream, of its first event, comments left out.
    pub first_byte: Option<Mono>,
    /// When it was over.
    pub ended: Option<Mono>,
    /// How it ended.
    pub outcome: CallOutcome,
    /// The answer's status.
    pub status: Option<u16>,
    /// The code of the error that the edge told.
    pub code: Option<String>,
    /// The edge's name for the call.
    pub request: Option<String>,
}

/// How a call ended for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallOutcome {
    /// It goes on.
    Open,
    /// Answered whole.
    Complete,
    /// Answered with an error.
    Refused,
    /// A stream ended with an error event.
    Failed,
    /// The connection broke.
    Broken,
    /// An answer ended as if it were whole, and was not.
    Short,
    /// An answer to another call.
    Foreign,
    /// The caller left.
    HungUp,
    /// No edge could be reached.
    Unreachable,
    /// The caller's patience ended.
    Late,
    /// The run ended first.
    Abandoned,
}

/// A change of the configuration: adds the tenant [`Write::tenant`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Unique in a run.
    pub serial: u64,
    /// The central node asked.
    pub node: String,
    /// When.
    pub started: Mono,
    /// When it was over.
    pub ended: Option<Mono>,
    /// What came of it.
    pub outcome: WriteOutcome,
}

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// In force, with the epoch it made.
    Acked(u64),
    /// Refused: it never comes into force.
    Refused(String),
    /// It may be in force, now or later.
    Unknown(String),
}

/// A read of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The central node asked.
    pub node: String,
    /// When.
    pub started: Mono,
    /// When it was answered.
    pub ended: Mono,
    /// The epoch it showed.
    pub epoch: u64,
    /// The serials it showed.
    pub serials: BTreeSet<u64>,
}

/// A fault that struck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struck {
    /// Its number in the schedule.
    pub id: usize,
    /// When.
    pub at: Mono,
    /// When it healed.
    pub healed: Option<Mono>,
    /// Its kind, as scenario files call it.
    pub what: &'static str,
    /// The machines it struck.
    pub machines: Vec<String>,
}

/// What came of something that an operator did to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operated {
    /// When it was over.
    pub at: Mono,
    /// What, as scenario files call it.
    pub what: &'static str,
    /// To which.
    pub machine: String,
    /// Why it was not done; `None`: it was.
    pub failed: Option<String>,
}

/// What one central node said of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// When it was asked.
    pub at: Mono,
    /// When its answer was there.
    pub answered: Mono,
    /// Which.
    pub node: String,
    /// The leader it knows.
    pub leader: Option<String>,
    /// Its term.
    pub term: u64,
    /// The configuration's version.
    pub epoch: u64,
    /// Each edge: the central node it is attached to, and its version of the configuration.
    pub edges: BTreeMap<String, (Option<String>, Option<u64>)>,
}

/// A request that a model server was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The server.
    pub server: String,
    /// The machine that asked; `None`: an unknown one.
    pub by: Option<String>,
    /// The call that stood in the prompt; `None`: none did.
    pub call: Option<u64>,
    /// The credential that a provider was given.
    pub credential: Option<String>,
    /// The model asked for.
    pub model: String,
    /// When it was asked.
    pub asked: Mono,
    /// When the first token left.
    pub first_token: Option<Mono>,
    /// When it was over.
    pub ended: Option<Mono>,
    /// How it ended.
    pub end: ServedEnd,
    /// Input tokens.
    pub input: u64,
    /// Output tokens that left.
    pub output: u64,
    /// The usage it told, input and output.
    pub told: Option<(u64, u64)>,
}

/// How a model server ended a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedEnd {
    /// It goes on.
    Open,
    /// Answered whole.
    Complete,
    /// Answered with this status.
    Status(u16),
    /// Broken off by the server.
    Reset,
    /// The gateway left, or the server was killed.
    Left,
}

impl Write {
    /// The name of the tenant that shows the change.
    #[must_use]
    pub fn tenant(serial: u64) -> String {
        format!("serial-{serial}")
    }
}

impl Recorder {
    /// An empty history that `clock` times.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, history: Arc::default() }
    }

    /// Since the run began.
    #[must_use]
    pub fn now(&self) -> Mono {
        self.clock.mono()
    }

    /// Writes.
    pub fn write<T>(&self, work: impl FnOnce(&mut History) -> T) -> T {
        work(&mut self.history.lock())
    }

    /// All so far.
    #[must_use]
    pub fn history(&self) -> History {
        self.history.lock().clone()
    }

    /// Takes it out.
    #[must_use]
    pub fn take(&self) -> History {
        std::mem::take(&mut self.history.lock())
    }
}

impl History {
    /// Calls with keys in force that nobody restricts, of no crowd: what becomes of them is what an ordinary caller gets.
    pub fn ordinary_calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| !call.revoked && !call.bound && call.crowd.is_none())
    }

    /// When the part of the run called `name` began.
    #[must_use]
    pub fn phase(&self, name: &str) -> Option<Mono> {
        self.phases.iter().find(|(_at, phase)| *phase == name).map(|(at, _phase)| *at)
    }
}
