//! The order in which calls that wait get what comes free: fair between tenants, interactive before batch, no one left out.
//!
//! Start-time fair queueing: each tenant has a tag that moves on by one over its weight with each call served, and the
//! tenant with the least tag is next; within a tenant the longest waiting. So tenants that keep waiting are served in
//! proportion to their weights, within one call each, and one that waits seldom is served soon. A call that leaves
//! moves no tag. Batch work is served when no interactive call can be; once it has waited for [`Bounds::ages`], it
//! counts as interactive of its tenant, so that it waits no longer than any other from then on.
//!
//! Not every call can use what came free: whoever asks for the next says who can, and those who cannot are passed over
//! and keep their turn. Nothing here reads a clock, wakes anyone or knows what is waited for.

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
    /// The tag served last, of each priority.
    clocks: [u64; 2],
    joined: u64,
    depths: [usize; 2],
    waited: Duration,
}

/// A tenant's calls.
#[derive(Debug)]
struct Flow<T> {
    weight: u32,
    lines: [VecDeque<Entry<T>>; 2],
    /// When it is next, of each priority.
    tags: [u64; 2],
}

#[derive(Debug)]
struct Entry<T> {
    turn: Turn,
    since: Mono,
    until: Mono,
    what: T,
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
        let flows = BTreeMap::new();
        Self { bounds, flows, clocks: [0; 2], joined: 0, depths: [0; 2], waited: Duration::ZERO }
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
        let Waiter { tenant, weight, mut priority, until } = waiter;
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
        flow.line(priority).push_back(Entry { turn, since: now, until, what });
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
            lines.find_map(|priority| {
                let line = flow.line(priority);
                let at = line.iter().position(|entry| entry.turn == turn)?;
                line.remove(at).map(|_entry| priority)
            })
        });
        if let Some(priority) = left {
            self.count(priority, false);
            self.forget();
        }
        left.is_some()
    }

    /// Takes out the call that is next among those to which `offer` gives something.
    pub fn next<S>(&mut self, now: Mono, mut offer: impl FnMut(&T) -> Option<S>) -> Option<Served<T, S>> {
        let served = Priority::ALL.into_iter().find_map(|class| self.next_of(class, now, &mut offer))?;
        self.count(served.priority, false);
        self.waited = served.waited;
        self.forget();
        Some(served)
    }

    /// The next that is served as `class`.
    fn next_of<S>(
        &mut self,
        class: Priority,
        now: Mono,
        offer: &mut impl FnMut(&T) -> Option<S>,
    ) -> Option<Served<T, S>> {
        let ages = self.bounds.ages;
        let clock = self.clocks.get_mut(class as usize)?;
        let tag = |flow: &Flow<T>| flow.tags.get(class as usize).map_or(*clock, |tag| (*clock).max(*tag));
        let mut flows: Vec<_> = self.flows.values_mut().map(|flow| (tag(flow), flow)).collect();
        flows.sort_by_key(|(tag, _flow)| *tag);
        for (tag, flow) in flows {
            for (line, at) in flow.in_order(class, |since| now.since(since) >= ages) {
                let Some(entry) = flow.line(line).get(at) else { continue };
                if entry.until <= now {
                    continue;
                }
                let Some(with) = offer(&entry.what) else { continue };
                let Some(entry) = flow.line(line).remove(at) else { continue };
                *clock = tag;
                if let Some(next) = flow.tags.get_mut(class as usize) {
                    *next = tag.saturating_add(STRIDE / u64::from(flow.weight));
                }
                return Some(Served {
                    what: entry.what,
                    with,
                    priority: line,
                    waited: now.since(entry.since),
                });
            }
        }
        None
    }

    fn count(&mut self, priority: Priority, joins: bool) {
        if let Some(depth) = self.depths.get_mut(priority as usize) {
            *depth = if joins { *depth + 1 } else { depth.saturating_sub(1) };
        }
    }

    /// Forgets tenants of whom nobody waits and whose tags say nothing any more: all of them, when nobody waits.
    fn forget(&mut self) {
        if self.is_empty() {
            self.flows.clear();
            self.clocks = [0; 2];
        }
        let clocks = self.clocks;
        let is_past = |flow: &Flow<T>| flow.tags.iter().zip(clocks).all(|(tag, clock)| *tag <= clock);
        self.flows.retain(|_tenant, flow| flow.len() > 0 || !is_past(flow));
    }
}

impl<T> Flow<T> {
    const fn new() -> Self {
        Self { weight: 1, lines: [VecDeque::new(), VecDeque::new()], tags: [0; 2] }
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

    /// Where its calls are that are served as `class`, the longest waiting first: batch calls that have aged are served as
    /// interactive.
    fn in_order(&self, class: Priority, aged: impl Fn(Mono) -> bool) -> Vec<(Priority, usize)> {
        let [interactive, batch] = &self.lines;
        let old = batch.iter().take_while(|entry| aged(entry.since)).count();
        if class == Priority::Batch {
            return (old..batch.len()).map(|at| (Priority::Batch, at)).collect();
        }
        let of = |priority, entries: &VecDeque<Entry<T>>, many| {
            let entries = entries.iter().take(many).enumerate();
            entries.map(|(at, entry)| (entry.turn, priority, at)).collect::<Vec<_>>()
        };
        let mut all = of(Priority::Interactive, interactive, interactive.len());
        all.extend(of(Priority::Batch, batch, old));
        all.sort_unstable();
        all.into_iter().map(|(_turn, priority, at)| (priority, at)).collect()
    }
}

#[cfg(test)]
mod tests;
