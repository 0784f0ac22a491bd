//! All that is known of a run when it is over: what actors saw, and what machines have on their disks and in their
//! logs. Invariants judge this and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::Mono;
use central::admin::api::Ledger;

use crate::engine::Line;
use crate::faults::Kind;
use crate::history::{History, Struck};
use crate::scenario::{Crowd, Expect, Level, Limits};

/// All that is known of a run.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// What the scenario says.
    pub facts: Facts,
    /// What actors saw.
    pub history: History,
    /// The edges' call records.
    pub records: Vec<Record>,
    /// The books at the end.
    pub ledger: Option<Ledger>,
    /// Serials that a last read of the configuration showed; `None`: nobody answered it.
    pub serials: Option<BTreeSet<u64>>,
    /// Nodes that ended without being asked or killed, and why.
    pub ended: Vec<String>,
    /// What machines logged.
    pub log: Vec<Line>,
    /// Configurations that edges put in force.
    pub epochs: Vec<InForce>,
    /// How long the healed mesh took to be whole again; `None`: it never was.
    pub converged: Option<Duration>,
    /// What was tried on the healed mesh: what, and what was wrong with it when something was.
    pub fresh: Vec<(String, Option<String>)>,
    /// Tasks of each node before load and faults, and at the end.
    pub tasks: BTreeMap<String, (usize, usize)>,
    /// Open byte streams before load and faults, and at the end.
    pub streams: (usize, usize),
}

/// What the scenario says.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The strict budget's limit, in nano-dollars.
    pub budget: u64,
    /// Budgets beside the strict tenant's own.
    pub levels: Vec<Level>,
    /// A call's price beside its tokens, in nano-dollars.
    pub call_price: u64,
    /// An input token's price, in nano-dollars.
    pub input_price: u64,
    /// An output token's price, in nano-dollars.
    pub output_price: u64,
    /// Models that cost so many times that.
    pub dear: BTreeMap<String, u64>,
    /// Crowds by their tenants.
    pub crowds: BTreeMap<String, Crowd>,
    /// Limits of models at one edge.
    pub limits: BTreeMap<String, Limits>,
    /// Calls that each edge of its region gives a model server at once, where that is limited.
    pub rooms: BTreeMap<String, u32>,
    /// How old the configuration may be that calls are served from; absent: longer than any run.
    pub max_stale: Option<Duration>,
    /// What each machine is.
    pub machines: BTreeMap<String, Kind>,
    /// Machines that no heal reaches.
    pub broken: BTreeSet<String>,
    /// Within which the healed mesh must be whole.
    pub converge_within: Duration,
    /// The region of each edge.
    pub edges: BTreeMap<String, String>,
    /// The models that each model server serves.
    pub servers: BTreeMap<String, Vec<String>>,
    /// What the scenario expects beyond the invariants.
    pub expect: Expect,
}

/// An edge's record of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The edge.
    pub edge: String,
    /// Its name for the call.
    pub request: String,
    /// Whose call.
    pub tenant: Option<String>,
    /// How it ended.
    pub outcome: String,
    /// What it cost, in nano-dollars.
    pub cost: u64,
    /// What paid, and for what.
    pub paid: Paid,
}

/// What an edge's record says of a call's budgets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paid {
    /// The model of the last attempt.
    pub model: Option<String>,
    /// The provider of the last attempt.
    pub provider: Option<String>,
    /// The budget that refused it.
    pub budget: Option<String>,
    /// Input and output tokens.
    pub tokens: u64,
    /// What its thresholds turned off.
    pub features_off: Vec<String>,
}

/// A configuration that an edge put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// The edge.
    pub edge: String,
    /// When.
    pub at: Mono,
    /// Which.
    pub epoch: u64,
}

impl Evidence {
    /// Faults of some kinds that struck a machine.
    pub fn struck<'a>(&'a self, machine: &'a str, kinds: &'a [&str]) -> impl Iterator<Item = &'a Struck> {
        let struck = self.history.struck.iter();
        struck.filter(move |struck| {
            kinds.contains(&struck.what) && struck.machines.iter().any(|name| name == machine)
        })
    }

    /// The level that a row of the ledger is of; `None`: the strict tenant's own budget, or one that operators share.
    #[must_use]
    pub fn level(&self, budget: &str) -> Option<&Level> {
        self.facts.levels.iter().find(|level| level.name == budget)
    }

    /// What `input` and `output` tokens of a model cost, the call included.
    #[must_use]
    pub fn cost(&self, model: &str, (input, output): (u64, u64)) -> u64 {
        let facts = &self.facts;
        let times = facts.dear.get(model).copied().unwrap_or(1);
        times * (facts.call_price + input * facts.input_price + output * facts.output_price)
    }

    /// Machines of a kind that a heal reaches.
    pub fn whole(&self, kind: Kind) -> impl Iterator<Item = &str> {
        let machines = self.facts.machines.iter();
        machines
            .filter(move |(name, what)| **what == kind && !self.facts.broken.contains(*name))
            .map(|(name, _)| name.as_str())
    }
}
