//! The order in which calls that wait get what comes free: fair between tenants, interactive before batch, no one left out.
//!
//! Start-time fair queueing: each tenant has a tag that moves on by one over its weight with each call served, and the
//! tenant with the least tag is next; within a tenant the longest waiting. So tenants that keep waiting are served in
//! proportion to their weights, within one call each, and one that waits seldom is served soon. A call that leaves
//! moves no tag. Batch work is served when no interactive call can be; once it has waited for [`Bounds::ages`], it
//! counts as interactive of its tenant, so that it waits no longer than any other from then on.
//!
//! Not every call can use what came free: whoever asks for the next says who can, and what the others lack. Tags are kept
//! apart by what is lacked ([`Lack`]): tenants are held to their weights against those who want the same, and what is served to
//! one moves nothing of those who wait for something else. Nothing here reads a clock, wakes anyone or knows what is waited
//! for.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::{Mono, Priority, TenantName};

/// What a call of weight 1 moves its tenant's tag by.
const STRIDE: u64 = 1 << 32;

/// The shortest time after which one who found the queue full should come again.
const SOON: Duration = Duration::from_secs(1);

/// How many may wait, and how long batch work yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Calls of all tenants together.
    pub all: usize,
    /// Calls of one tenant.
    pub each: usize,
    /// After so long a batch call counts as interactive.
    pub ages: Duration,
}

/// What a call lacks, by a number that says nothing else: calls of the same number wait for the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lack(pub u64);

/// Who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Whose call it is.
    pub tenant: TenantName,
    /// The tenant's share against others'; 0 counts as 1.
    pub weight: u32,
    /// How pressing it is.
    pub priority: Priority,
    /// From then on it is not served any more; whoever waits takes it out.
    pub until: Mono,
    /// What it lacks as it joins.
    pub lack: Lack,
}

/// There is no place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("as many calls wait as may")]
pub struct Crowded {
    /// When to come again: after as long as the call served last had waited, at least a second.
    pub after: Duration,
}

/// A place in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn(u64);

/// Calls that wait, each with what its owner needs to serve it.
#[derive(Debug)]
pub struct Queue<T> {
    bounds: Bounds,
    flows: BTreeMap<TenantName, Flow<T>>,
    lacks: BTreeMap<Lack, Lacked>,
    joined: u64,
    depths: [usize; 2],
    waited: Duration,
}

/// What some calls lack.
#[derive(Clone, Copy, Debug, Default)]
struct Lacked {
    /// How many calls; at least one.
    waiting: usize,
    /// The tag served last, of each priority.
    clocks: [u64; 2],
}

/// A tenant's calls.
#[derive(Debug)]
struct Flow<T> {
    weight: u32,
    lines: [VecDeque<Entry<T>>; 2],
    /// When it is next, of each priority.
    tags: BTreeMap<Lack, [u64; 2]>,
}

#[derive(Debug)]
struct Entry<T> {
    turn: Turn,
    since: Mono,
    until: Mono,
    lack: Lack,
    what: T,
}

/// A call that may be next: the least is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    tag: u64,
    /// Which tenant's, by name.
    flow: usize,
    turn: Turn,
    /// The line that it joined.
    priority: Priority,
}

/// What was served.
#[derive(Debug, PartialEq, Eq)]
pub struct Served<T, S> {
    /// What the call's owner left in the queue.
    pub what: T,
    /// What it got.
    pub with: S,
    /// How pressing it was when it joined.
    pub priority: Priority,
    /// How long it waited.
    pub waited: Duration,
}

impl<T> Queue<T> {
    /// Nobody waits.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            flows: BTreeMap::new(),
            lacks: BTreeMap::new(),
            joined: 0,
            depths: [0; 2],
            waited: Duration::ZERO,
        }
    }

    /// Whether nobody waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.depth(Priority::Interactive) + self.depth(Priority::Batch) == 0
    }

    /// Calls that wait, by how pressing they were when they joined.
    #[must_use]
    pub const fn depth(&self, priority: Priority) -> usize {
        let [interactive, batch] = self.depths;
        match priority {
            Priority::Interactive => interactive,
            Priority::Batch => batch,
        }
    }

    /// A call waits from now on.
    ///
    /// # Errors
    /// [`Crowded`] when too many do.
    pub fn join(&mut self, waiter: Waiter, what: T, now: Mono) -> Result<Turn, Crowded> {
        let Waiter { tenant, weight, mut priority, until, lack } = waiter;
        if base::mutant!(BatchUnyielding) {
            priority = Priority::Interactive;
        }
        let of_tenant = self.flows.get(&tenant).map_or(0, Flow::len);
        if self.depths.iter().sum::<usize>() >= self.bounds.all || of_tenant >= self.bounds.each {
            return Err(Crowded { after: self.waited.max(SOON) });
        }
        self.joined += 1;
        let turn = Turn(self.joined);
        let flow = self.flows.entry(tenant).or_insert_with(Flow::new);
        flow.weight = if base::mutant!(WeightIgnored) { 1 } else { weight.max(1) };
        flow.line(priority).push_back(Entry { turn, since: now, until, lack, what });
        self.lacks.entry(lack).or_default().waiting += 1;
        self.count(priority, true);
        Ok(turn)
    }

    /// A call waits no longer. True if it did.
    pub fn leave(&mut self, turn: Turn) -> bool {
        if base::mutant!(WaiterKept) {
            return false;
        }
        let left = self.flows.values_mut().find_map(|flow| {
            let mut lines = Priority::ALL.into_iter();
            lines.find_map(|priority| Some((priority, flow.take(priority, turn)?.lack)))
        });
        if let Some((priority, lack)) = left {
            self.count(priority, false);
            less(&mut self.lacks, lack);
            self.forget();
        }
        left.is_some()
    }

    /// Takes out the call that is next among those to which `offer` gives something; to the others it says what they lack.
    pub fn next<S>(
        &mut self,
        now: Mono,
        mut offer: impl FnMut(&T) -> Result<S, Lack>,
    ) -> Option<Served<T, S>> {
        let served = Priority::ALL.into_iter().find_map(|class| self.next_of(class, now, &mut offer));
        if let Some(served) = &served {
            self.count(served.priority, false);
            self.waited = served.waited;
        }
        self.forget();
        served
    }

    /// The next that is served as `class`.
    fn next_of<S>(
        &mut self,
        class: Priority,
        now: Mono,
        offer: &mut impl FnMut(&T) -> Result<S, Lack>,
    ) -> Option<Served<T, S>> {
        let candidates = self.candidates(class, now);
        let mut flows: Vec<_> = self.flows.values_mut().collect();
        for Candidate { tag, flow, turn, priority } in candidates {
            let Some(flow) = flows.get_mut(flow) else { continue };
            let Some(entry) = flow.entry(priority, turn) else { continue };
            let lack = entry.lack;
            match offer(&entry.what) {
                Err(other) => {
                    entry.lack = other;
                    self.lacks.entry(other).or_default().waiting += 1;
                    less(&mut self.lacks, lack);
                }
                Ok(with) => {
                    let Entry { what, since, .. } = flow.take(priority, turn)?;
                    flow.moves_on(lack, class, tag);
                    if let Some(clock) = self.lacks.entry(lack).or_default().clocks.get_mut(class as usize) {
                        *clock = tag;
                    }
                    less(&mut self.lacks, lack);
                    return Some(Served { what, with, priority, waited: now.since(since) });
                }
            }
        }
        None
    }

    /// Those that may be next of `class`, the first first.
    fn candidates(&self, class: Priority, now: Mono) -> Vec<Candidate> {
        let ages = self.bounds.ages;
        let mut candidates = Vec::new();
        for (at, flow) in self.flows.values().enumerate() {
            for (priority, entry) in flow.of_class(class, |since| now.since(since) >= ages) {
                if entry.until > now {
                    let clock = self.lacks.get(&entry.lack).map_or(0, |lacked| of(&lacked.clocks, class));
                    let tag = flow.tags.get(&entry.lack).map_or(0, |tags| of(tags, class)).max(clock);
                    candidates.push(Candidate { tag, flow: at, turn: entry.turn, priority });
                }
            }
        }
        candidates.sort_unstable();
        candidates
    }

    fn count(&mut self, priority: Priority, joins: bool) {
        if let Some(depth) = self.depths.get_mut(priority as usize) {
            *depth = if joins { *depth + 1 } else { depth.saturating_sub(1) };
        }
    }

    /// Forgets what nobody lacks any more, and tenants of whom nobody waits and whose tags say nothing.
    fn forget(&mut self) {
        self.lacks.retain(|_lack, lacked| lacked.waiting > 0);
        let lacks = &self.lacks;
        for flow in self.flows.values_mut() {
            let is_ahead =
                |tags: &[u64; 2], clocks: &[u64; 2]| tags.iter().zip(clocks).any(|(tag, clock)| tag > clock);
            flow.tags
                .retain(|lack, tags| lacks.get(lack).is_some_and(|lacked| is_ahead(tags, &lacked.clocks)));
        }
        self.flows.retain(|_tenant, flow| flow.len() > 0 || !flow.tags.is_empty());
    }
}

/// One call less lacks it.
fn less(lacks: &mut BTreeMap<Lack, Lacked>, lack: Lack) {
    if let Some(lacked) = lacks.get_mut(&lack) {
        lacked.waiting = lacked.waiting.saturating_sub(1);
    }
}

const fn of(pair: &[u64; 2], class: Priority) -> u64 {
    let [interactive, batch] = pair;
    match class {
        Priority::Interactive => *interactive,
        Priority::Batch => *batch,
    }
}

impl<T> Flow<T> {
    const fn new() -> Self {
        Self { weight: 1, lines: [VecDeque::new(), VecDeque::new()], tags: BTreeMap::new() }
    }

    fn len(&self) -> usize {
        self.lines.iter().map(VecDeque::len).sum()
    }

    const fn line(&mut self, priority: Priority) -> &mut VecDeque<Entry<T>> {
        let [interactive, batch] = &mut self.lines;
        match priority {
            Priority::Interactive => interactive,
            Priority::Batch => batch,
        }
    }

    fn entry(&mut self, priority: Priority, turn: Turn) -> Option<&mut Entry<T>> {
        let line = self.line(priority);
        let at = line.binary_search_by_key(&turn, |entry| entry.turn).ok()?;
        line.get_mut(at)
    }

    fn take(&mut self, priority: Priority, turn: Turn) -> Option<Entry<T>> {
        let line = self.line(priority);
        let at = line.binary_search_by_key(&turn, |entry| entry.turn).ok()?;
        line.remove(at)
    }

    /// One of its calls was served at `tag`.
    fn moves_on(&mut self, lack: Lack, class: Priority, tag: u64) {
        let next = tag.saturating_add(STRIDE / u64::from(self.weight));
        if let Some(slot) = self.tags.entry(lack).or_default().get_mut(class as usize) {
            *slot = next;
        }
    }

    /// Its calls that are served as `class`: batch calls that have aged are served as interactive.
    fn of_class(
        &self,
        class: Priority,
        aged: impl Fn(Mono) -> bool,
    ) -> impl Iterator<Item = (Priority, &Entry<T>)> {
        let [interactive, batch] = &self.lines;
        let old = batch.iter().take_while(|entry| aged(entry.since)).count();
        let (first, from, until) = match class {
            Priority::Interactive => (interactive.len(), 0, old),
            Priority::Batch => (0, old, batch.len()),
        };
        let first = interactive.iter().take(first).map(|entry| (Priority::Interactive, entry));
        let batch = batch.iter().take(until).skip(from).map(|entry| (Priority::Batch, entry));
        first.chain(batch)
    }
}

#[cfg(test)]
mod tests;
