//! Where faults strike: all machines by name, region and kind, their links as drawn, and the faults that stand.
//!
//! Faults may overlap. A link or a disk is always what its drawn state and all standing faults make of it; a process
//! starts again when the last fault that keeps it down has healed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use seam::Lock;

use super::{Degrade, DiskFault, Fault, Mode, Target};
use crate::actors::ModelServer;
use crate::engine::{Cut, DiskFaults, Link, Reorder};
use crate::ground::Ground;
use crate::schedule::Dated;

/// How late an overtaken datagram is at most.
const OVERTAKEN_BY: Duration = Duration::from_millis(50);
/// What a link that a fault slows lets wait.
const QUEUE: Duration = Duration::from_millis(500);

/// What a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A central node.
    Central,
    /// An edge.
    Edge,
    /// A model server.
    Model,
    /// Callers.
    Callers,
    /// Operators and others outside of all regions.
    Outside,
}

/// A machine and where it stands.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its region; empty outside of all.
    pub region: String,
    /// What it is.
    pub kind: Kind,
}

/// Where faults strike. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Field(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ground: Arc<dyn Ground>,
    places: BTreeMap<String, Place>,
    servers: BTreeMap<String, ModelServer>,
    disk: DiskFaults,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    links: BTreeMap<Pair, Link>,
    standing: BTreeMap<usize, Standing>,
    leader: Option<String>,
    /// Machines that are to be a part of the mesh later.
    absent: BTreeSet<String>,
}

/// The machines that a directed link joins.
type Pair = (String, String);

#[derive(Debug)]
struct Standing {
    fault: Fault,
    machines: Vec<String>,
    /// Links from its machines, and to them.
    out: BTreeSet<Pair>,
    back: BTreeSet<Pair>,
    /// Bytes that disks held when it struck.
    used: BTreeMap<String, u64>,
    /// Whether a flapping link is cut just now.
    is_cut: bool,
}

impl Field {
    /// A field without a fault. `disk` is what disks of nodes are like.
    #[must_use]
    pub fn new(
        ground: &Arc<dyn Ground>,
        places: BTreeMap<String, Place>,
        servers: BTreeMap<String, ModelServer>,
        disk: DiskFaults,
    ) -> Self {
        let ground = Arc::clone(ground);
        let field = Self(Arc::new(Inner { ground, places, servers, disk, state: Lock::default() }));
        for name in field.0.places.keys() {
            field.remake_disk(name);
        }
        field
    }

    /// What lies under it.
    #[must_use]
    pub fn ground(&self) -> &dyn Ground {
        &*self.0.ground
    }

    /// All machines by name.
    #[must_use]
    pub fn places(&self) -> &BTreeMap<String, Place> {
        &self.0.places
    }

    /// The names of all machines of a kind, without those that are absent.
    #[must_use]
    pub fn names(&self, kind: Kind) -> Vec<String> {
        let state = self.0.state.lock();
        let names = self.0.places.iter().filter(|(_, place)| place.kind == kind).map(|(name, _)| name);
        names.filter(|name| !state.absent.contains(*name)).cloned().collect()
    }

    /// Says that machines are to be a part of the mesh later, or, with none, not at all.
    pub fn set_absent(&self, names: BTreeSet<String>) {
        self.0.state.lock().absent = names;
    }

    /// Whether the machine is no part of the mesh yet.
    #[must_use]
    pub fn is_absent(&self, name: &str) -> bool {
        self.0.state.lock().absent.contains(name)
    }

    /// Starts a machine that was absent.
    pub fn appear(&self, name: &str) {
        let was_absent = self.0.state.lock().absent.remove(name);
        if was_absent && !self.is_down(name) {
            self.start(name);
        }
    }

    /// Sets what the link from one machine to another is like without a fault.
    pub fn set_link(&self, from: &str, to: &str, link: Link) {
        let pair = (from.to_owned(), to.to_owned());
        self.0.state.lock().links.insert(pair.clone(), link);
        self.remake_link(&pair);
    }

    /// Says who leads central, as far as anybody outside knows.
    pub fn set_leader(&self, leader: Option<String>) {
        self.0.state.lock().leader = leader;
    }

    /// Whether a fault keeps the machine from running.
    #[must_use]
    pub fn is_down(&self, name: &str) -> bool {
        let state = self.0.state.lock();
        state.absent.contains(name) || state.standing.values().any(|standing| standing.keeps_down(name))
    }

    /// Strikes, and says which machines it struck.
    pub fn strike(&self, dated: &Dated) -> Vec<String> {
        let fault = dated.fault.clone();
        let targets = fault.targets();
        let mut machines = targets.first().map_or_else(Vec::new, |target| self.resolve(target, dated.pick));
        // Callers of a region that goes dark stay: they land elsewhere.
        if matches!(fault, Fault::Crash { .. } | Fault::PowerOff { .. } | Fault::LoseRegion { .. }) {
            machines.retain(|name| self.0.places.get(name).is_some_and(|place| place.kind != Kind::Callers));
        }
        if matches!(fault, Fault::Drain { .. } | Fault::Upgrade { .. }) {
            machines.retain(|name| self.is_node(name) && !self.is_down(name));
        }
        let others = match (&fault, targets.get(1)) {
            (Fault::CutRegion { .. }, _) => self.resolve(&Target::Everybody, dated.pick),
            (_, Some(other)) => self.resolve(other, dated.pick.rotate_left(17)),
            (_, None) => Vec::new(),
        };
        let pairs = |swap: bool| {
            let others = others.iter().filter(|other| !machines.contains(other));
            let all = others.flat_map(|other| machines.iter().map(move |one| (one.clone(), other.clone())));
            all.map(|(one, other)| if swap { (other, one) } else { (one, other) }).collect::<BTreeSet<Pair>>()
        };
        let used = |name: &String| (name.clone(), self.ground().disk_used(name));
        let standing = Standing {
            out: pairs(false),
            back: pairs(true),
            used: machines.iter().map(used).collect(),
            machines: machines.clone(),
            is_cut: true,
            fault,
        };
        for name in &machines {
            self.strike_machine(name, &standing.fault);
        }
        let links = standing.links();
        self.0.state.lock().standing.insert(dated.id, standing);
        self.remake(&links, &machines);
        machines
    }

    /// Heals the fault numbered `id`.
    pub fn heal(&self, id: usize) {
        let Some(standing) = self.0.state.lock().standing.remove(&id) else { return };
        self.remake(&standing.links(), &standing.machines);
        for name in &standing.machines {
            self.heal_machine(name, &standing);
        }
    }

    /// Cuts a flapping link, or mends it, in turn.
    pub fn turn(&self, id: usize) {
        let links = {
            let mut state = self.0.state.lock();
            let Some(standing) = state.standing.get_mut(&id) else { return };
            standing.is_cut = !standing.is_cut;
            standing.links()
        };
        self.remake(&links, &[]);
    }

    /// Whether a fault that stands keeps the machine called `name` from being a part of the mesh.
    #[must_use]
    pub fn is_out(&self, name: &str) -> bool {
        let state = self.0.state.lock();
        state.absent.contains(name) || state.standing.values().any(|standing| standing.takes_out(name))
    }

    /// Starts the process of a node or a model server, after killing the one that runs.
    pub fn start(&self, name: &str) {
        match self.0.servers.get(name) {
            Some(server) => server.start(),
            None => self.ground().start(name),
        }
    }

    fn strike_machine(&self, name: &str, fault: &Fault) {
        let ground = self.ground();
        match fault {
            Fault::Crash { .. } if !self.is_down(name) => ground.crash(name),
            Fault::PowerOff { torn, .. } | Fault::LoseRegion { torn, .. } => {
                ground.power_off(name, *torn);
            }
            Fault::Replace { .. } => ground.power_off(name, false),
            Fault::Drain { .. } => ground.stop(name),
            Fault::Upgrade { ahead, .. } => {
                ground.stop(name);
                ground.set_build(name, *ahead);
            }
            Fault::Pause { .. } => ground.pause(name),
            Fault::ClockStep { by_ms, .. } => ground.step_clock(name, *by_ms),
            Fault::ClockSkew { by_ms, drift_ppm, .. } => {
                ground.step_clock(name, *by_ms);
                ground.speed_clock(name, *drift_ppm);
            }
            Fault::Crash { .. }
            | Fault::Partition { .. }
            | Fault::Degrade { .. }
            | Fault::CutRegion { .. }
            | Fault::Disk { .. }
            | Fault::Slow { .. }
            | Fault::RaiseLevel { .. }
            | Fault::Transfer { .. }
            | Fault::Flap { .. } => {}
        }
    }

    fn heal_machine(&self, name: &str, standing: &Standing) {
        let ground = self.ground();
        match &standing.fault {
            Fault::Crash { .. }
            | Fault::PowerOff { .. }
            | Fault::LoseRegion { .. }
            | Fault::Drain { .. }
            | Fault::Upgrade { .. }
                if !self.is_down(name) =>
            {
                self.start(name);
            }
            Fault::Pause { .. } => {
                let state = self.0.state.lock();
                let others =
                    state.standing.values().filter(|other| matches!(other.fault, Fault::Pause { .. }));
                if !others.into_iter().any(|other| other.machines.iter().any(|paused| paused == name)) {
                    drop(state);
                    ground.resume(name);
                }
            }
            Fault::ClockStep { by_ms, .. } => ground.step_clock(name, by_ms.saturating_neg()),
            Fault::ClockSkew { by_ms, drift_ppm, .. } => {
                ground.step_clock(name, by_ms.saturating_neg());
                ground.speed_clock(name, drift_ppm.saturating_neg());
            }
            // A node whose disk failed may have ended, as it should; what supervises it starts it again.
            Fault::Disk { .. } if !ground.is_running(name) && !self.is_down(name) => self.start(name),
            Fault::Crash { .. }
            | Fault::PowerOff { .. }
            | Fault::LoseRegion { .. }
            | Fault::Partition { .. }
            | Fault::Degrade { .. }
            | Fault::CutRegion { .. }
            | Fault::Disk { .. }
            | Fault::Slow { .. }
            | Fault::Drain { .. }
            | Fault::Upgrade { .. }
            | Fault::RaiseLevel { .. }
            | Fault::Transfer { .. }
            | Fault::Replace { .. }
            | Fault::Flap { .. } => {}
        }
    }

    fn remake(&self, links: &BTreeSet<Pair>, machines: &[String]) {
        for pair in links {
            self.remake_link(pair);
        }
        for name in machines {
            self.remake_disk(name);
            self.remake_speed(name);
        }
    }

    fn is_node(&self, name: &str) -> bool {
        matches!(self.0.places.get(name), Some(Place { kind: Kind::Central | Kind::Edge, .. }))
    }

    /// A machine is as slow as the worst that stands makes it.
    fn remake_speed(&self, name: &str) {
        let times = self
            .0
            .state
            .lock()
            .standing
            .values()
            .filter_map(|standing| match standing.fault {
                Fault::Slow { times, .. } if standing.machines.iter().any(|slow| slow == name) => Some(times),
                _ => None,
            })
            .max();
        self.ground().slow(name, times.unwrap_or(0));
    }

    fn remake_link(&self, pair: &Pair) {
        let link = {
            let state = self.0.state.lock();
            let mut link = state.links.get(pair).cloned().unwrap_or_default();
            for standing in state.standing.values() {
                standing.bend(pair, &mut link);
            }
            link
        };
        self.ground().set_link(&pair.0, &pair.1, link);
    }

    fn remake_disk(&self, name: &str) {
        if !self.is_node(name) {
            return;
        }
        let mut faults = self.0.disk.clone();
        for standing in self.0.state.lock().standing.values() {
            let Fault::Disk { how, .. } = &standing.fault else { continue };
            let Some(used) = standing.used.get(name) else { continue };
            match how {
                DiskFault::Slow => {
                    faults.sync_takes = Duration::from_millis(50);
                    faults.sync_jitter = Duration::from_millis(350);
                }
                DiskFault::Full => faults.capacity = Some(*used),
                DiskFault::Fails => faults.fails_syncs = true,
                DiskFault::Lies => faults.lies = true,
            }
        }
        self.ground().set_disk(name, faults);
    }

    /// The machines that `target` means now. Of several that it may mean, `pick` chooses.
    #[must_use]
    pub fn resolve(&self, target: &Target, pick: u64) -> Vec<String> {
        let leader = || {
            let known = self.0.state.lock().leader.clone();
            known.or_else(|| self.names(Kind::Central).first().cloned()).unwrap_or_default()
        };
        let followers = || {
            let leader = leader();
            self.names(Kind::Central).into_iter().filter(|name| *name != leader).collect::<Vec<_>>()
        };
        let region = |region: &str| {
            let there = self.0.places.iter().filter(|(_, place)| place.region == region);
            there.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        match target {
            Target::Machine(name) => vec![name.clone()],
            Target::Leader => vec![leader()],
            Target::Follower => self.one_of(followers(), pick),
            Target::Followers => followers(),
            Target::AnyCentral => self.one_of(self.names(Kind::Central), pick),
            Target::AnyEdge => self.one_of(self.names(Kind::Edge), pick),
            Target::AnyModel => self.one_of(self.names(Kind::Model), pick),
            Target::AllCentrals => self.names(Kind::Central),
            Target::AllEdges => self.names(Kind::Edge),
            Target::AllModels => self.names(Kind::Model),
            Target::Region(name) => region(name),
            Target::Edges(name) => {
                let mut edges = self.names(Kind::Edge);
                edges.retain(|edge| self.0.places.get(edge).is_some_and(|place| place.region == *name));
                edges
            }
            Target::LeaderRegion => {
                self.0.places.get(&leader()).map_or_else(Vec::new, |place| region(&place.region))
            }
            Target::Everybody => self.0.places.keys().cloned().collect(),
        }
    }

    /// One of those that run; of all when none does.
    fn one_of(&self, mut names: Vec<String>, pick: u64) -> Vec<String> {
        if names.iter().any(|name| !self.is_down(name)) {
            names.retain(|name| !self.is_down(name));
        }
        let at = usize::try_from(pick % (names.len() as u64).max(1)).unwrap_or(0);
        names.get(at).cloned().into_iter().collect()
    }
}

impl Standing {
    /// Whether the machine called `name` is no part of the mesh: without a process that runs, or cut from central or
    /// from everybody.
    fn takes_out(&self, name: &str) -> bool {
        let cuts_off = match &self.fault {
            Fault::Pause { .. } | Fault::CutRegion { .. } => true,
            Fault::Partition { other, .. } | Fault::Flap { other, .. } => {
                matches!(other, Target::Everybody | Target::AllCentrals)
            }
            Fault::Crash { .. }
            | Fault::PowerOff { .. }
            | Fault::LoseRegion { .. }
            | Fault::Degrade { .. }
            | Fault::ClockStep { .. }
            | Fault::Slow { .. }
            | Fault::ClockSkew { .. }
            | Fault::Drain { .. }
            | Fault::Upgrade { .. }
            | Fault::RaiseLevel { .. }
            | Fault::Transfer { .. }
            | Fault::Replace { .. }
            | Fault::Disk { .. } => false,
        };
        (cuts_off && self.machines.iter().any(|machine| machine == name)) || self.keeps_down(name)
    }

    fn keeps_down(&self, name: &str) -> bool {
        let takes_down = matches!(
            self.fault,
            Fault::Crash { .. }
                | Fault::PowerOff { .. }
                | Fault::LoseRegion { .. }
                | Fault::Drain { .. }
                | Fault::Upgrade { .. }
                | Fault::Replace { .. }
        );
        takes_down && self.machines.iter().any(|machine| machine == name)
    }

    fn links(&self) -> BTreeSet<Pair> {
        self.out.union(&self.back).cloned().collect()
    }

    fn bend(&self, pair: &Pair, link: &mut Link) {
        let (is_out, is_back) = (self.out.contains(pair), self.back.contains(pair));
        if !is_out && !is_back {
            return;
        }
        match &self.fault {
            Fault::Partition { mode, .. } | Fault::CutRegion { mode, .. } => {
                let cut = match mode {
                    Mode::Drop => Some(Cut::Drop),
                    Mode::Hold => Some(Cut::Hold),
                    Mode::In => is_back.then_some(Cut::Drop),
                    Mode::Out => is_out.then_some(Cut::Drop),
                };
                link.cut = if link.cut == Some(Cut::Drop) { link.cut } else { cut.or(link.cut) };
            }
            Fault::Flap { .. } => {
                if self.is_cut {
                    link.cut = Some(Cut::Drop);
                }
            }
            Fault::Degrade { how, .. } => how.bend(link),
            Fault::Crash { .. }
            | Fault::PowerOff { .. }
            | Fault::Pause { .. }
            | Fault::LoseRegion { .. }
            | Fault::ClockStep { .. }
            | Fault::Slow { .. }
            | Fault::ClockSkew { .. }
            | Fault::Drain { .. }
            | Fault::Upgrade { .. }
            | Fault::RaiseLevel { .. }
            | Fault::Transfer { .. }
            | Fault::Replace { .. }
            | Fault::Disk { .. } => {}
        }
    }
}

impl Degrade {
    fn bend(&self, link: &mut Link) {
        link.delay += Duration::from_millis(self.delay_ms);
        link.jitter += Duration::from_millis(self.jitter_ms);
        link.loss = link.loss.saturating_add(self.loss).min(1_000_000);
        link.duplicate = link.duplicate.saturating_add(self.duplicate).min(1_000_000);
        if self.reorder > 0 {
            link.reorder = Some(Reorder { chance: self.reorder, late: OVERTAKEN_BY });
        }
        if let Some(rate) = self.rate {
            link.rate = Some(link.rate.map_or(rate, |old| old.min(rate)));
            link.queue = QUEUE;
        }
    }
}
