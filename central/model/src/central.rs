//! Central's side: the committed ledger of one budget's window, as `central_core::ledger` keeps it.

use std::collections::BTreeMap;

use super::EDGES;

/// One life of an edge: the incarnation that central gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Life {
    pub(crate) edge: usize,
    pub(crate) incarnation: u8,
}

/// Counters of one life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) granted: u8,
    pub(crate) spent: u8,
    pub(crate) returned: u8,
    /// The highest number of its rows.
    pub(crate) number: u8,
    /// Its last word was applied.
    pub(crate) closed: bool,
}

impl Holder {
    /// Credit charged to it: what it may spend, or did.
    pub(crate) const fn out(self) -> u8 {
        self.granted - self.returned
    }
}

/// Which process speaks for an edge, and under which incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Seat {
    boot: Option<u8>,
    current: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    seats: [Seat; EDGES],
    holders: BTreeMap<Life, Holder>,
}

impl Ledger {
    pub(crate) fn holders(&self) -> impl Iterator<Item = (Life, Holder)> {
        self.holders.iter().map(|(life, holder)| (*life, *holder))
    }

    pub(crate) fn holder(&self, life: Life) -> Holder {
        self.holders.get(&life).copied().unwrap_or_default()
    }

    /// The incarnation of this process; another than the one before begins a new one.
    pub(crate) fn register(&mut self, edge: usize, boot: u8) -> u8 {
        let seat = &mut self.seats[edge];
        if seat.boot != Some(boot) {
            *seat = Seat { boot: Some(boot), current: seat.current + 1 };
            self.holders.insert(Life { edge, incarnation: seat.current }, Holder::default());
        }
        seat.current
    }

    pub(crate) fn may_spend(&self, life: Life) -> bool {
        self.seats[life.edge].current == life.incarnation && !self.holder(life).closed
    }

    pub(crate) fn out(&self) -> u8 {
        self.holders.values().map(|holder| holder.out()).sum()
    }

    pub(crate) fn pool(&self, limit: u8) -> u8 {
        limit.saturating_sub(self.out())
    }

    /// Merges counters by maximum; those that no lawful edge sends are ignored.
    pub(crate) fn merge(&mut self, life: Life, (spent, returned, number): (u8, u8, u8)) {
        let Some(holder) = self.holders.get_mut(&life).filter(|holder| !holder.closed) else { return };
        holder.number = holder.number.max(number);
        let (spent, returned) = (spent.max(holder.spent), returned.max(holder.returned));
        if spent + returned <= holder.granted {
            (holder.spent, holder.returned) = (spent, returned);
        }
    }

    pub(crate) fn grant(&mut self, life: Life, more: u8) {
        if let Some(holder) = self.holders.get_mut(&life) {
            holder.granted += more;
        }
    }

    /// Ends a life that spent at most `said`: this is charged, the rest comes back.
    pub(crate) fn close(&mut self, life: Life, said: u8) {
        let Some(holder) = self.holders.get_mut(&life).filter(|holder| !holder.closed) else { return };
        let spent = said.max(holder.spent).min(holder.out());
        *holder = Holder { spent, returned: holder.granted - spent, closed: true, ..*holder };
    }

    /// The broken rule that what was not reported in time was not spent.
    pub(crate) fn reclaim(&mut self, life: Life) {
        if let Some(holder) = self.holders.get_mut(&life) {
            holder.returned = holder.granted - holder.spent;
        }
    }
}
