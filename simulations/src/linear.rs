//! Whether what clients saw of one register is linearizable: as if each operation had taken effect at one instant
//! between its start and its end (Herlihy and Wing 1990). The search is Wing and Gong's, with Lowe's memory of states
//! that led nowhere. Histories of several registers are judged one by one, since the property is local.
//!
//! A write without an answer may take effect at any time after its start, or never. The search is bounded and says so
//! when it gave up. Values are written once at most in a good history of ours, but nothing here relies on that.

use std::collections::BTreeSet;

use base::Mono;

/// States after which a search gives up.
pub const MOST_STATES: usize = 200_000;

/// One operation on a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When its client began it.
    pub started: Mono,
    /// When its client knew what came of it; `None`: never.
    pub ended: Option<Mono>,
    /// What it did.
    pub action: Action,
}

/// What an operation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Gave the register this value.
    Write(u64),
    /// Saw this value.
    Read(u64),
}

/// What a history is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Some order of its operations explains it.
    Linearizable,
    /// None does. The operation is the first to end of those that the longest order found could not take in.
    Broken(Operation),
    /// The search gave up.
    Undecided,
}

/// Judges the operations on a register that held `first`, in at most `most` states.
#[must_use]
pub fn check(first: u64, operations: &[Operation], most: usize) -> Verdict {
    let mut operations: Vec<Operation> =
        operations.iter().copied().filter(|one| matters(one, operations)).collect();
    operations.sort_by_key(|one| (one.started, one.ended.unwrap_or(Mono::FAR)));
    Search { operations: &operations, seen: BTreeSet::new(), longest: (0, None) }.run(first, most)
}

/// A write without an answer that nobody ever saw may as well never have taken effect; a read without one saw nothing.
fn matters(one: &Operation, all: &[Operation]) -> bool {
    match (one.ended, one.action) {
        (Some(_), _) => true,
        (None, Action::Write(value)) => all.iter().any(|other| other.action == Action::Read(value)),
        (None, Action::Read(_)) => false,
    }
}

/// Which operations an order has taken in, and what the register holds after them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// All operations before this one are in.
    low: usize,
    /// Those that are in behind it.
    beyond: BTreeSet<usize>,
    value: u64,
}

struct Search<'a> {
    /// By their starts.
    operations: &'a [Operation],
    seen: BTreeSet<State>,
    /// Most operations taken in, and the next that had to be.
    longest: (usize, Option<Operation>),
}

impl Search<'_> {
    fn run(mut self, first: u64, most: usize) -> Verdict {
        let mut open = vec![State { low: 0, beyond: BTreeSet::new(), value: first }];
        while let Some(state) = open.pop() {
            let state = self.with_reads(state);
            let Some(next) = self.next_to_end(&state) else { return Verdict::Linearizable };
            let taken = state.low + state.beyond.len();
            if taken >= self.longest.0 {
                self.longest = (taken, Some(next));
            }
            if self.seen.len() >= most {
                return Verdict::Undecided;
            }
            if !self.seen.insert(state.clone()) {
                continue;
            }
            // The last to be pushed is tried first: the one that began first.
            for at in self.may_be_next(&state).into_iter().rev() {
                if let Some(Operation { action: Action::Write(value), .. }) = self.operations.get(at) {
                    let mut after = State { value: *value, ..state.clone() };
                    self.take(&mut after, at);
                    open.push(after);
                }
            }
        }
        self.longest.1.map_or(Verdict::Linearizable, Verdict::Broken)
    }

    /// Takes in every read that may be next and saw what the register holds: to wait with one never helps.
    fn with_reads(&self, mut state: State) -> State {
        loop {
            let fits = |at: &usize| {
                self.operations.get(*at).is_some_and(|one| one.action == Action::Read(state.value))
            };
            match self.may_be_next(&state).into_iter().find(fits) {
                Some(at) => self.take(&mut state, at),
                None => return state,
            }
        }
    }

    fn take(&self, state: &mut State, at: usize) {
        state.beyond.insert(at);
        while state.beyond.remove(&state.low) {
            state.low += 1;
        }
    }

    fn open<'s>(&'s self, state: &'s State) -> impl Iterator<Item = (usize, &'s Operation)> {
        let rest = self.operations.iter().enumerate().skip(state.low);
        rest.filter(|(at, _)| !state.beyond.contains(at))
    }

    /// Of those not taken in, the one whose client heard first what came of it.
    fn next_to_end(&self, state: &State) -> Option<Operation> {
        let ended = self.open(state).filter_map(|(_, one)| Some((one.ended?, *one)));
        ended.min_by_key(|(ended, _)| *ended).map(|(_, one)| one)
    }

    /// Those that began before the first of the others ended. One that began in the same instant may be next, too.
    fn may_be_next(&self, state: &State) -> Vec<usize> {
        let until = self.next_to_end(state).and_then(|one| one.ended).unwrap_or(Mono::FAR);
        self.open(state).take_while(|(_, one)| one.started <= until).map(|(at, _)| at).collect()
    }
}

#[cfg(test)]
mod tests;
