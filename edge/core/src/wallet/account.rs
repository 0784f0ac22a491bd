//! Counters of one (incarnation, budget, window), and how far the disk knows them.

use base::{Amount, Mono};
use wire::ledger::UsageRow;

/// Counters of one (incarnation, budget, window).
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    granted: Amount,
    /// Given back by decision; durable as far as `durable` says.
    returned: Amount,
    spent: Amount,
    held: Amount,
    durable: Level,
    /// The record on its way to the disk. One at a time.
    flying: Option<Level>,
    /// Central asked to give back what exceeds this much unspent credit.
    pub(super) keep: Option<Amount>,
    /// Central knows that all of it is spent or returned. The counters stay: the window may open again.
    pub(super) settled: bool,
    /// The row last sent, and when.
    pub(super) told: Option<(UsageRow, Mono)>,
    /// The number of the row last sent, and the highest that central has heard.
    numbers: (u64, u64),
    /// Returned as central has heard.
    heard_returned: Amount,
    /// A waiting call was told of, and central has not answered since.
    pub(super) asking: bool,
}

/// What a journal record says of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) granted: Amount,
    pub(super) returned: Amount,
    pub(super) ceiling: Amount,
}

impl Account {
    /// An account as its last record proves it: everything below the ceiling counts as spent.
    pub(super) const fn recovered(level: Level) -> Self {
        Self {
            granted: level.granted,
            returned: level.returned,
            spent: level.ceiling,
            held: Amount::ZERO,
            durable: level,
            flying: None,
            keep: None,
            settled: false,
            told: None,
            numbers: (0, 0),
            heard_returned: Amount::ZERO,
            asking: false,
        }
    }

    /// An account as central knows it, of which this process knows nothing or forgot what central has heard.
    pub(super) fn known(spent: Amount, returned: Amount) -> Self {
        Self { granted: spent.saturating_add(returned), spent, returned, ..Self::default() }
    }

    #[cfg(test)]
    pub(super) const fn granted(&self) -> Amount {
        self.granted
    }

    pub(super) const fn held(&self) -> Amount {
        self.held
    }

    pub(super) const fn spent(&self) -> Amount {
        self.spent
    }

    /// Given back by decision, durable or not.
    #[cfg(test)]
    pub(super) const fn returned(&self) -> Amount {
        self.returned
    }

    /// Given back by decision, and not yet known to central.
    pub(super) const fn returning(&self) -> Amount {
        self.returned.saturating_sub(self.heard_returned)
    }

    /// Gives a row its number: that of the row last sent when it says the same, else the one after the budget's `last`.
    pub(super) fn number(&mut self, row: UsageRow, last: &mut u64) -> UsageRow {
        let (sent, _heard) = &mut self.numbers;
        let same = UsageRow { number: *sent, ..row };
        if self.told.is_none_or(|(told, _at)| told != same) {
            *last = last.saturating_add(1);
            *sent = *last;
        }
        UsageRow { number: *sent, ..row }
    }

    /// Whether nothing would be lost with it: central knows what was spent, all else went back, and nothing is on its way.
    pub(super) fn is_forgettable(&self) -> bool {
        let is_settled = self.unspent() == Amount::ZERO && self.held == Amount::ZERO && self.flying.is_none();
        let all_is_told = self.told.is_some_and(|(row, _at)| {
            let wants = row.want > Amount::ZERO || row.waiting > Amount::ZERO;
            !wants && row.spent == self.spent && row.returned == self.returned
        });
        is_settled && all_is_told && self.is_heard()
    }

    /// Central has heard this row, and knows of so much that was given back.
    pub(super) fn heard(&mut self, number: u64, returned: Amount) {
        self.numbers.1 = self.numbers.1.max(number);
        self.heard_returned = self.heard_returned.max(returned);
    }

    /// Whether central has heard the row last sent, so that no credit can be on its way that nobody here waits for.
    pub(super) fn is_heard(&self) -> bool {
        let (sent, heard) = self.numbers;
        heard >= sent
    }

    /// Given back, durably.
    pub(super) fn returned_durably(&self) -> Amount {
        if base::mutant!(ReturnTooEarly) {
            return self.returned;
        }
        self.durable.returned
    }

    pub(super) const fn used(&self) -> Amount {
        self.spent.saturating_add(self.held)
    }

    /// Credit neither settled nor given back; holds included.
    pub(super) const fn unspent(&self) -> Amount {
        self.granted.saturating_sub(self.returned).saturating_sub(self.spent)
    }

    /// Credit that no call holds.
    pub(super) const fn available(&self) -> Amount {
        self.unspent().saturating_sub(self.held)
    }

    /// What may be spent or held whatever the disk keeps of the records on their way.
    pub(super) fn ceiling(&self) -> Amount {
        let flying = self.flying.map_or(self.durable.ceiling, |level| level.ceiling);
        self.durable.ceiling.min(flying).min(self.granted.saturating_sub(self.returned))
    }

    /// What a new hold may take at once.
    pub(super) fn usable(&self) -> Amount {
        if base::mutant!(CeilingIgnored) {
            return self.available();
        }
        self.ceiling().saturating_sub(self.used())
    }

    pub(super) fn grant(&mut self, granted: Amount) {
        if base::mutant!(GrantsSummed) {
            self.granted = self.granted.saturating_add(granted);
            return;
        }
        self.granted = self.granted.max(granted);
    }

    /// Takes a hold that fits; the caller looked.
    pub(super) fn take(&mut self, amount: Amount) {
        self.held = self.held.saturating_add(amount);
    }

    pub(super) fn settle(&mut self, hold: Amount, charge: Amount) {
        if base::mutant!(HoldLeaked) && charge == Amount::ZERO {
            return;
        }
        self.held = self.held.saturating_sub(hold);
        self.spent = self.spent.saturating_add(charge);
    }

    /// Decides to give back up to `amount` of what no call holds. Whether that is anything.
    pub(super) fn give_back(&mut self, amount: Amount) -> bool {
        let amount = amount.min(self.available());
        self.returned = self.returned.saturating_add(amount);
        amount > Amount::ZERO
    }

    /// The next record to make durable, when one is due and none is on its way. `goal` is the ceiling wished for.
    pub(super) fn next_level(&mut self, goal: Amount) -> Option<Level> {
        if self.flying.is_some() {
            return None;
        }
        let most = self.granted.saturating_sub(self.returned);
        let ceiling = self.durable.ceiling.max(goal).min(most).max(self.used());
        let next = Level { granted: self.granted, returned: self.returned, ceiling };
        if next == self.durable {
            return None;
        }
        self.flying = Some(next);
        Some(next)
    }

    /// As [`Self::next_level`], with the ceiling lowered to what is used: nothing more will be held.
    pub(super) fn last_level(&mut self) -> Option<Level> {
        let next = Level { granted: self.granted, returned: self.returned, ceiling: self.used() };
        if self.flying.is_some() || next == self.durable {
            return None;
        }
        self.flying = Some(next);
        Some(next)
    }

    /// The record is durable.
    pub(super) fn written(&mut self, level: Level) {
        if self.flying == Some(level) {
            self.flying = None;
            self.durable = level;
        }
    }

    /// The newest record, durable or on its way.
    pub(super) fn newest_level(&self) -> Level {
        self.flying.unwrap_or(self.durable)
    }
}
