//! The upstreams a node has: which models they serve, in which instances.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use base::{ModelName, Mono, Name};
use seam::{Bound, Host, Lock};
use telemetry::metrics::{KeyMetrics, QueueMetrics};
use telemetry::trace::Tracer;
use upstream::{Barred, Bounds, Choice, Terms, choose};
use wire::call::{CallHead, ServeAt};
use wire::catalog::Dialect;

use crate::account::{Account, Key, KeyState};
use crate::instance::{Instance, Keeping, Lease};
use crate::places::{Places, Tried, Wanted};
use crate::{InstanceStatus, Origin, Room, Tls};

/// How often kept connections are looked at.
const SWEEP: Duration = Duration::from_millis(500);

/// Bounds and habits.
#[derive(Clone, Debug)]
pub struct Options {
    /// This node's name, in the tale of attempts.
    pub node: Name,
    /// Whom to trust among upstreams that speak TLS; `None`: those are unreachable.
    pub tls: Option<Tls>,
    /// Instances tried for one call within one `serve`.
    pub attempts: usize,
    /// Longest answer that is no event stream, in bytes.
    pub max_reply: usize,
    /// Longest event of a stream, in bytes; also what a stream may hold in memory.
    pub max_event: usize,
    /// Longest body of a forwarded call, in bytes.
    pub max_request: usize,
    /// Room for the bodies of calls.
    pub bodies: Room,
    /// Room for answers that are no event streams.
    pub answers: Room,
    /// How long a connection may rest when its peer announces nothing.
    pub idle: Duration,
    /// Most connections at rest per instance.
    pub most_idle: usize,
    /// Connections held ready per instance.
    pub warm: usize,
    /// Calls that may wait for a place at a model's instances, and how long batch work yields.
    pub waiting: Bounds,
    /// What is counted of those.
    pub queue: QueueMetrics,
    /// What is counted of providers' keys.
    pub keys: KeyMetrics,
    /// Where spans go.
    pub tracer: Tracer,
}

impl Options {
    /// The defaults of a node: 3 attempts, answers of 32 MiB, events of 1 MiB, forwarded bodies of 64 MiB,
    /// 1 GiB of bodies and 1 GiB of answers at once, connections
    /// that rest at most 50 s (common servers close after 60 s or more, or announce less), 256 of them, 1 ready, 256
    /// calls that wait for a place, half of them of one tenant at most, batch work yielding for 10 s, no traces.
    #[must_use]
    pub fn new(node: Name) -> Self {
        Self {
            node,
            tls: None,
            attempts: 3,
            max_reply: 32 << 20,
            max_event: 1 << 20,
            max_request: 64 << 20,
            bodies: Room::new(1 << 30),
            answers: Room::new(1 << 30),
            idle: Duration::from_secs(50),
            most_idle: 256,
            warm: 1,
            waiting: Bounds { all: 256, each: 128, ages: Duration::from_secs(10) },
            queue: QueueMetrics::default(),
            keys: KeyMetrics::default(),
            tracer: Tracer::default(),
        }
    }
}

/// A server of a model: a replica in this region, or a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Which calls it is for.
    pub at: ServeAt,
    /// The model it serves, as the mesh names it.
    pub model: ModelName,
    /// The replica's or provider's name.
    pub name: Name,
    /// The API it speaks.
    pub dialect: Dialect,
    /// What it calls the model.
    pub upstream_model: String,
    /// Root of its API.
    pub origin: Origin,
    /// What makes us known to it, the same for every model of one name; without any, it is called without a credential.
    pub keys: Vec<Key>,
    /// What it takes, whichever key a call is made with.
    pub terms: Terms,
}

/// Talks to models. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Egress {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) host: Host,
    pub(crate) options: Options,
    pub(crate) keeping: Keeping,
    groups: ArcSwap<Groups>,
    accounts: ArcSwap<Accounts>,
    turn: AtomicUsize,
    sweeper: Lock<Option<Bound<()>>>,
}

type Groups = BTreeMap<ModelName, Group>;

/// The accounts of upstreams that have keys.
type Accounts = BTreeMap<(ServeAt, Name), Arc<Account>>;

/// A model's instances, and who waits for them.
#[derive(Debug)]
struct Group {
    instances: Vec<Arc<Instance>>,
    line: Arc<Places>,
}

impl Egress {
    /// Room for answers that are no event streams.
    #[must_use]
    pub fn answers(&self) -> &Room {
        &self.shared.options.answers
    }

    /// No upstreams yet. Call it within a runtime.
    #[must_use]
    pub fn new(host: &Host, options: Options) -> Self {
        let keeping = Keeping { idle: options.idle, most: options.most_idle, warm: options.warm };
        let shared = Arc::new(Shared {
            host: host.clone(),
            options,
            keeping,
            groups: ArcSwap::default(),
            accounts: ArcSwap::default(),
            turn: AtomicUsize::new(0),
            sweeper: Lock::new(None),
        });
        let sweeper = host.spawn("egress-sweep", sweep(host.clone(), Arc::downgrade(&shared))).bound();
        *shared.sweeper.lock() = Some(sweeper);
        Self { shared }
    }

    /// Replaces the set of upstreams. What did not change keeps its connections, its calls and its health; calls under
    /// way at one that is gone run to their end.
    pub fn install(&self, upstreams: Vec<Upstream>) {
        let (old, now) = (self.shared.groups.load_full(), self.shared.host.now());
        let accounts = self.accounts(&upstreams, now);
        let mut groups = Groups::new();
        for spec in upstreams {
            let was = old.get(&spec.model);
            let before = was.and_then(|group| {
                group.instances.iter().find(|one| one.spec.name == spec.name && one.spec.at == spec.at)
            });
            let group = groups.entry(spec.model.clone()).or_insert_with(|| {
                let fresh = || Arc::new(self.shared.no_line());
                let line = was.map_or_else(fresh, |group| Arc::clone(&group.line));
                Group { instances: Vec::new(), line }
            });
            let account = accounts.get(&(spec.at, spec.name.clone())).cloned();
            let instance = match before {
                Some(same) if same.is_same(&spec) || base::mutant!(UpstreamKept) => Arc::clone(same),
                Some(moved) if moved.is_at(&spec.origin) => Arc::new(moved.renewed(spec, account, now)),
                Some(_elsewhere) => Arc::new(Instance::new(spec, account)),
                None => Arc::new(Instance::new(spec, account)),
            };
            group.instances.push(instance);
        }
        for (of, account) in &accounts {
            let has = |group: &&Group| {
                group.instances.iter().any(|one| (one.spec.at, &one.spec.name) == (of.0, &of.1))
            };
            account.serves(groups.values().filter(has).map(|group| Arc::clone(&group.line)).collect());
        }
        self.shared.groups.store(Arc::new(groups));
        self.shared.accounts.store(Arc::new(accounts));
        // Also those who wait for what is gone now.
        old.values().for_each(|group| self.shared.serve_line(&group.line));
        self.shared.warm();
    }

    /// The accounts of `upstreams`. At another address nothing is known of a key.
    fn accounts(&self, upstreams: &[Upstream], now: Mono) -> Accounts {
        let (old, groups) = (self.shared.accounts.load(), self.shared.groups.load());
        let mut accounts = Accounts::new();
        for spec in upstreams.iter().filter(|spec| !spec.keys.is_empty()) {
            let of = (spec.at, spec.name.clone());
            let stays = |one: &&Arc<Instance>| (one.spec.at, &one.spec.name) == (of.0, &of.1);
            let moved = groups.values().flat_map(|group| &group.instances).find(stays);
            let before = old.get(&of).filter(|_| moved.is_some_and(|one| one.is_at(&spec.origin)));
            accounts.entry(of).or_insert_with(|| match before {
                Some(same) if same.is_same(&spec.keys) => Arc::clone(same),
                Some(changed) => Arc::new(changed.renewed(&spec.keys, now)),
                None => Arc::new(Account::new(&spec.name, &spec.keys)),
            });
        }
        accounts
    }

    /// How the keys of every account are, for operators.
    #[must_use]
    pub fn keys(&self) -> Vec<KeyState> {
        let now = self.shared.host.now();
        self.shared.accounts.load().values().flat_map(|account| account.status(now)).collect()
    }

    /// Whether some upstream here serves `model` at `at`.
    #[must_use]
    pub fn serves(&self, at: ServeAt, model: &ModelName) -> bool {
        self.shared
            .groups
            .load()
            .get(model)
            .is_some_and(|group| group.instances.iter().any(|one| one.spec.at == at))
    }

    /// Every instance, for operators.
    #[must_use]
    pub fn instances(&self) -> Vec<InstanceStatus> {
        let groups = self.shared.groups.load();
        let status = |one: &Arc<Instance>| InstanceStatus {
            model: one.spec.model.clone(),
            name: one.spec.name.clone(),
            serving: one.is_in(),
            outstanding: one.outstanding(),
            idle: one.idle(),
        };
        groups.values().flat_map(|group| &group.instances).map(status).collect()
    }
}

/// A call's place, or why there is none.
#[derive(Debug)]
pub(crate) enum Place {
    Taken(Lease),
    /// Every instance is full.
    Full {
        /// When rates let the call pass; `None`: once a call ends.
        until: Option<Mono>,
    },
    /// Every instance is full, and so is the line before them.
    Crowded {
        /// When to come again.
        after: Duration,
    },
    Out(Mono),
    /// The provider keeps every key away.
    Barred(Barred),
    None,
}

impl Shared {
    /// A place for a new call where it was not `tried`: none before the calls that wait.
    pub(crate) fn place(self: &Arc<Self>, call: &CallHead, tried: &Tried, now: Mono) -> Place {
        match self.line(&call.model) {
            Some(line) if !line.is_empty() => Place::Full { until: None },
            Some(line) => self.place_in_turn(Wanted::by(call, tried), &line, now),
            None => Place::None,
        }
    }

    /// The line before a model's instances.
    pub(crate) fn line(&self, model: &ModelName) -> Option<Arc<Places>> {
        self.groups.load().get(model).map(|group| Arc::clone(&group.line))
    }

    fn no_line(&self) -> Places {
        Places::new(self.host.clone(), self.options.waiting, self.options.queue.clone())
    }

    /// A place for a call whose turn it is.
    pub(crate) fn place_in_turn(
        self: &Arc<Self>,
        wanted: Wanted<'_>,
        line: &Arc<Places>,
        now: Mono,
    ) -> Place {
        let groups = self.groups.load();
        let Some(group) = groups.get(wanted.model) else { return Place::None };
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        // An offer may be gone by the time it is taken; by then the others' offers tell the truth.
        for _race in 0..4 {
            let mut barred: Option<Barred> = None;
            let offer = |one: &Arc<Instance>| {
                let serves = (one.spec.at, one.spec.dialect) == (wanted.at, wanted.dialect);
                let open = serves && !wanted.tried.has(one);
                let offer = if open { one.offer(wanted, now) } else { Ok(None) };
                offer.unwrap_or_else(|bar| {
                    barred = Some(barred.map_or(bar, |first| first.min(bar)));
                    None
                })
            };
            let offers: Vec<_> = group.instances.iter().map(offer).collect();
            match choose(&offers, turn) {
                Choice::Take(index) => {
                    let lease = group.instances.get(index);
                    let lease = lease.and_then(|one| Lease::take(one, line, (self, now), wanted));
                    if let Some(lease) = lease {
                        return Place::Taken(lease);
                    }
                }
                Choice::Full { until } => return Place::Full { until },
                Choice::Out { until } => return Place::Out(until),
                Choice::None => return barred.map_or(Place::None, Place::Barred),
            }
        }
        Place::Full { until: None }
    }

    /// Looks at every kept connection, and dials ahead of need.
    fn warm(self: &Arc<Self>) {
        let now = self.host.now();
        let groups = self.groups.load();
        // What came back or was given more room is noticed here at the latest.
        groups.values().for_each(|group| self.serve_line(&group.line));
        for instance in groups.values().flat_map(|group| &group.instances) {
            if instance.sweep(now, self.keeping) {
                let (shared, instance) = (Arc::clone(self), Arc::clone(instance));
                let dial = async move { instance.warm(&shared.host, shared.options.tls.as_ref()).await };
                drop(self.host.spawn("egress-dial", dial));
            }
        }
    }
}

async fn sweep(host: Host, shared: Weak<Shared>) {
    loop {
        host.sleep(SWEEP).await;
        let Some(shared) = shared.upgrade() else { return };
        shared.warm();
    }
}
