//! Calls that wait for credit, in the order of their arrival.

use std::collections::BTreeMap;

use base::{Amount, BudgetId};

use super::{Held, Refused, WaitId};

/// The queue and the answers not yet taken.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    queue: BTreeMap<WaitId, Waiter>,
    next: u64,
    decided: Vec<(WaitId, Result<Held, Refused>)>,
}

/// One call.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) asks: Vec<(BudgetId, Amount)>,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn push(&mut self, asks: &[(BudgetId, Amount)]) -> WaitId {
        let id = WaitId(self.next);
        self.next = self.next.saturating_add(1);
        self.queue.insert(id, Waiter { asks: asks.to_vec() });
        id
    }

    pub(super) fn remove(&mut self, id: WaitId) -> Option<Waiter> {
        self.queue.remove(&id)
    }

    pub(super) fn take_queue(&mut self) -> BTreeMap<WaitId, Waiter> {
        std::mem::take(&mut self.queue)
    }

    pub(super) fn put_back(&mut self, queue: BTreeMap<WaitId, Waiter>) {
        self.queue = queue;
    }

    pub(super) fn decide(&mut self, id: WaitId, answer: Result<Held, Refused>) {
        self.decided.push((id, answer));
    }

    pub(super) fn take_decided(&mut self) -> Vec<(WaitId, Result<Held, Refused>)> {
        std::mem::take(&mut self.decided)
    }
}

/// What waiting calls ask of one budget.
#[derive(Debug, Default)]
pub(super) struct Lacks {
    amounts: BTreeMap<Amount, u32>,
    sum: u128,
}

impl Lacks {
    pub(super) fn add(&mut self, amount: Amount) {
        let count = self.amounts.entry(amount).or_default();
        *count = count.saturating_add(1);
        self.sum = self.sum.saturating_add(u128::from(amount.0));
    }

    pub(super) fn remove(&mut self, amount: Amount) {
        let Some(count) = self.amounts.get_mut(&amount) else { return };
        *count -= 1;
        if *count == 0 {
            self.amounts.remove(&amount);
        }
        self.sum = self.sum.saturating_sub(u128::from(amount.0));
    }

    /// The smallest amount asked for; `None` when no call waits.
    pub(super) fn least(&self) -> Option<Amount> {
        self.amounts.keys().next().copied()
    }

    /// The largest amount asked for; `None` when no call waits.
    pub(super) fn largest(&self) -> Option<Amount> {
        self.amounts.keys().next_back().copied()
    }

    /// What those take that fit into `room` together, the smallest first.
    pub(super) fn fitting(&self, room: Amount) -> Amount {
        let mut taken = 0u64;
        for (amount, count) in &self.amounts {
            let fit = (room.0 - taken).checked_div(amount.0).unwrap_or(0).min(u64::from(*count));
            taken += fit * amount.0;
            if fit < u64::from(*count) {
                break;
            }
        }
        Amount(taken)
    }

    /// All that is asked for, or the largest amount.
    pub(super) fn sum(&self) -> Amount {
        Amount(u64::try_from(self.sum).unwrap_or(u64::MAX))
    }
}
