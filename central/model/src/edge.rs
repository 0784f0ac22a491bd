//! An edge's side: its accounts and its journal, as `edge_core::wallet` keeps them.

use std::collections::BTreeMap;

/// What a journal record says of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Level {
    granted: u8,
    returned: u8,
    ceiling: u8,
}

/// Counters of one life, and how far the disk knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Account {
    pub(crate) granted: u8,
    pub(crate) returned: u8,
    pub(crate) spent: u8,
    pub(crate) held: u8,
    /// The number of the row last sent, once the window is known: odd when it asks for nothing, even when it asks. (In the
    /// product new counters take new numbers, too; here they are repeated until the ledger has them.)
    pub(crate) number: u8,
    /// The highest number that central heard.
    pub(crate) heard: u8,
    durable: Level,
    flying: Option<Level>,
}

impl Account {
    /// Everything below the ceiling counts as spent.
    fn recovered(level: Level) -> Self {
        let Level { granted, returned, ceiling } = level;
        Self { granted, returned, spent: ceiling, durable: level, ..Self::default() }
    }

    pub(crate) const fn used(&self) -> u8 {
        self.spent + self.held
    }

    pub(crate) const fn available(&self) -> u8 {
        self.granted.saturating_sub(self.returned + self.used())
    }

    pub(crate) const fn returned_durably(&self) -> u8 {
        self.durable.returned
    }

    pub(crate) fn ceiling(&self) -> u8 {
        let flying = self.flying.map_or(self.durable.ceiling, |level| level.ceiling);
        self.durable.ceiling.min(flying).min(self.granted - self.returned)
    }

    /// The next record to make durable, with room for `block` more; one is on its way at a time.
    fn next_level(&self, block: u8) -> Option<Level> {
        let goal = if block > 0 { self.used() + block } else { 0 };
        let most = self.granted - self.returned;
        let ceiling = self.durable.ceiling.max(goal).min(most).max(self.used());
        let next = Level { granted: self.granted, returned: self.returned, ceiling };
        (self.flying.is_none() && next != self.durable).then_some(next)
    }
}

/// A journal record; what is written is found again in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Record {
    /// Central gave this incarnation; earlier ones never spend again.
    Began(u8),
    Mark(u8, Level),
}

/// What is known of one life at its edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Known {
    pub(crate) account: Account,
    /// It is durable that it never spends again.
    pub(crate) over: bool,
}

/// One edge: a process, the records on their way to its disk, and the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Edge {
    /// Which process this is, counted.
    pub(crate) boot: u8,
    pub(crate) lives: BTreeMap<u8, Known>,
    /// Under which calls take holds.
    pub(crate) current: Option<u8>,
    /// The current one was taken up from the journal, without central.
    pub(crate) adopted: bool,
    /// Central answered under the current one.
    pub(crate) open: bool,
    /// Credit was asked for under the current one, and no answer came.
    pub(crate) unanswered: bool,
    queue: Vec<Record>,
    journal: BTreeMap<u8, (Level, bool)>,
}

impl Edge {
    pub(crate) fn account(&self) -> Option<&Account> {
        self.current.and_then(|current| self.lives.get(&current)).map(|known| &known.account)
    }

    pub(crate) fn account_mut(&mut self) -> Option<&mut Account> {
        self.current.and_then(|current| self.lives.get_mut(&current)).map(|known| &mut known.account)
    }

    /// The incarnation in which it speaks to central.
    pub(crate) fn attached(&self) -> Option<u8> {
        self.current.filter(|_current| !self.adopted)
    }

    pub(crate) fn records(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn remembers(&self, incarnation: u8) -> bool {
        self.journal.contains_key(&incarnation)
    }

    /// Lives of which a last word may be sent, and what it says. `early`: the broken rule that their end need not be
    /// durable.
    pub(crate) fn last_words(&self, early: bool) -> impl Iterator<Item = (u8, u8)> {
        let ended = self.lives.iter().filter(move |(incarnation, known)| {
            (known.over || (early && self.attached() > Some(**incarnation))) && known.account.held == 0
        });
        ended.map(|(incarnation, known)| (*incarnation, known.account.spent))
    }

    pub(crate) fn welcome(&mut self, incarnation: u8) {
        if self.attached() == Some(incarnation) {
            return;
        }
        (self.current, self.adopted, self.open, self.unanswered) = (Some(incarnation), false, false, false);
        self.lives.insert(incarnation, Known::default());
        self.queue.push(Record::Began(incarnation));
    }

    /// Takes up the newest life of the journal while central is away.
    pub(crate) fn adopt(&mut self) {
        let newest = self.journal.last_key_value().filter(|(_incarnation, (_level, over))| !over);
        if let (None, Some((incarnation, _))) = (self.current, newest) {
            (self.current, self.adopted, self.open) = (Some(*incarnation), true, true);
        }
    }

    /// Makes a record, if one is due.
    pub(crate) fn note(&mut self, block: u8) {
        let Some(current) = self.current else { return };
        if let Some(account) = self.account_mut()
            && let Some(level) = account.next_level(block)
        {
            account.flying = Some(level);
            self.queue.push(Record::Mark(current, level));
        }
    }

    /// The first record on its way is durable.
    pub(crate) fn write(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let record = self.queue.remove(0);
        self.keep(record);
        match record {
            Record::Began(incarnation) => {
                self.lives.range_mut(..incarnation).for_each(|(_earlier, known)| known.over = true);
            }
            Record::Mark(incarnation, level) => {
                if let Some(known) = self.lives.get_mut(&incarnation) {
                    (known.account.durable, known.account.flying) = (level, None);
                }
            }
        }
    }

    fn keep(&mut self, record: Record) {
        match record {
            Record::Began(incarnation) => {
                self.journal.values_mut().for_each(|(_level, over)| *over = true);
                self.journal.entry(incarnation).or_default();
            }
            Record::Mark(incarnation, level) => self.journal.entry(incarnation).or_default().0 = level,
        }
    }

    /// The process ends at once and another starts. Of the records on their way the disk keeps the first `kept`.
    pub(crate) fn crash(&mut self, kept: usize) {
        for record in std::mem::take(&mut self.queue).into_iter().take(kept) {
            self.keep(record);
        }
        let journal = std::mem::take(&mut self.journal);
        let recover = |(level, over)| Known { account: Account::recovered(level), over };
        let lives = journal.iter().map(|(incarnation, found)| (*incarnation, recover(*found))).collect();
        *self = Self { boot: self.boot + 1, lives, journal, ..Self::default() };
    }

    /// A crash after which the disk is empty.
    pub(crate) fn lose_disk(&mut self) {
        *self = Self { boot: self.boot + 1, ..Self::default() };
    }
}
