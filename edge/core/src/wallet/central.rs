//! The wallet's side of the session with central: incarnations, grants in, reports and last words out, records durable.

use base::{Amount, Incarnation, Mono};
use wire::control::Welcome;
use wire::ledger::{FinalReport, Grants, Report};

use super::account::{Account, Level};
use super::journal::Mark;
use super::{Life, Record, Wallet};

impl Wallet {
    /// The incarnation that new holds are taken under.
    #[must_use]
    pub const fn current(&self) -> Option<Incarnation> {
        self.current
    }

    /// The incarnation that `Hello` asks to resume: not one taken up from the journal, which ends with its charge for
    /// what an earlier process may have spent as soon as central gives another.
    #[must_use]
    pub const fn to_resume(&self) -> Option<Incarnation> {
        if self.adopted { None } else { self.current }
    }

    /// The highest incarnation known.
    #[must_use]
    pub const fn last(&self) -> Option<Incarnation> {
        self.last
    }

    /// Takes up the newest incarnation of the journal, to spend what is proven to be left of it while central is away.
    /// Whether there was one.
    pub fn adopt(&mut self) -> bool {
        let Some(last) = self.last.filter(|_last| self.current.is_none()) else { return false };
        if self.former.get(&last).is_none_or(|life| life.over) {
            return false;
        }
        let Some(life) = self.former.remove(&last) else { return false };
        (self.current, self.adopted, self.noted) = (Some(last), true, true);
        for ((budget, window), account) in life.accounts {
            self.meet(&[(budget, Amount::ZERO)]);
            self.lines.entry(budget).or_default().adopt(window, account);
        }
        self.settle_down();
        true
    }

    /// A session stands on these terms. A new incarnation ends the one before.
    pub fn welcome(&mut self, welcome: &Welcome) {
        self.era = welcome.era;
        self.attached = true;
        self.urgent = true;
        let incarnation = welcome.incarnation;
        if self.current == Some(incarnation) || self.last >= Some(incarnation) {
            return;
        }
        self.end_current();
        (self.current, self.adopted) = (Some(incarnation), false);
        self.last = self.last.max(Some(incarnation));
        self.noted = base::mutant!(NewLifeNotNoted);
        if self.noted {
            return;
        }
        self.outbox.push(Record::Began(incarnation));
    }

    /// The session ended; another may come.
    pub fn detached(&mut self) {
        self.attached = false;
        self.latency.asked = None;
        for line in self.lines.values_mut() {
            line.detached();
        }
    }

    /// Takes no more holds for ever. Once [`Wallet::is_quiet`], the last word is the next of [`Wallet::finals`].
    pub fn retire(&mut self) {
        if let Some(current) = self.current {
            self.end_current();
            self.outbox.push(Record::Over(current));
        }
    }

    /// The process is about to end in good order: lowers every ceiling to what was really used, so that nothing is charged
    /// that was not spent. Call it until it makes no more [`Wallet::records`]; take no more holds.
    pub fn rest(&mut self) {
        if let Some(current) = self.current {
            for (budget, line) in &mut self.lines {
                line.rest(*budget, current, &mut self.outbox);
            }
        }
        for (incarnation, life) in &mut self.former {
            for (key, account) in &mut life.accounts {
                if let Some(level) = account.last_level() {
                    self.outbox.push(Record::Mark(Mark::new(*incarnation, *key, level)));
                }
            }
        }
    }

    fn end_current(&mut self) {
        let Some(current) = self.current.take() else { return };
        let mut life = Life::default();
        for (budget, line) in &mut self.lines {
            let accounts = line.take_accounts().into_iter();
            life.accounts.extend(accounts.map(|(window, account)| ((*budget, window), account)));
        }
        self.former.insert(current, life);
    }

    /// Credit from central, in any order, any number of times.
    pub fn granted(&mut self, grants: &Grants, now: Mono) {
        if grants.era != self.era || self.current != Some(grants.incarnation) {
            return;
        }
        if let Some(asked) = self.latency.asked.take() {
            let took = now.since(asked);
            self.latency.mean =
                if self.latency.measured { (self.latency.mean * 7 + took * 3) / 10 } else { took };
            self.latency.measured = true;
        }
        for row in &grants.rows {
            // A user who was forgotten is met anew by a call only.
            match self.lines.get_mut(&row.budget) {
                Some(line) => line.granted(row, now),
                None if row.budget.user() == 0 => {
                    self.lines.entry(row.budget).or_default().granted(row, now);
                }
                None => {}
            }
        }
        self.serve();
        for row in &grants.rows {
            if let Some(line) = self.lines.get_mut(&row.budget) {
                self.urgent |= line.ask_again();
                line.give_back_recalled();
                line.plan(row.budget, self.current, &mut self.outbox);
            }
        }
    }

    /// Rows to report now; `None` when there is nothing to say, or the journal does not know yet that the incarnation
    /// began: credit that came before a crash then would stay charged, and nobody could give it back.
    pub fn report(&mut self, now: Mono) -> Option<Report> {
        self.urgent = false;
        let incarnation = self.current.filter(|_current| self.noted)?;
        let first = self.users.first();
        let mut rows = self.users.farewells();
        for (budget, line) in &mut self.lines {
            // Of a budget with one account nothing is ever forgotten.
            let number = if budget.user() == 0 { 0 } else { first };
            line.rows((*budget, number), (now, self.latency.mean), &mut rows);
        }
        #[cfg(test)]
        self.forge(&mut rows);
        if rows.is_empty() {
            return None;
        }
        let asks = rows.iter().any(|row| row.waiting > Amount::ZERO);
        if asks && self.latency.asked.is_none() {
            self.latency.asked = Some(now);
        }
        Some(Report { era: self.era, incarnation, rows })
    }

    /// Last words of incarnations that never spend again. The shell adds the number of receipts in the spool.
    #[must_use]
    pub fn finals(&self) -> Vec<FinalReport> {
        let ended = self.former.iter().filter(|(_incarnation, life)| life.over && life.is_quiet());
        ended
            .map(|(incarnation, life)| {
                let rows = life.accounts.iter();
                let rows =
                    rows.map(|((budget, window), account)| (*budget, *window, account.spent())).collect();
                FinalReport { incarnation: *incarnation, rows, receipts: 0 }
            })
            .collect()
    }

    /// Whether central closed every incarnation and none is current.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.current.is_none() && self.former.is_empty()
    }

    /// Central closed an incarnation for ever.
    pub fn closed(&mut self, incarnation: Incarnation) {
        if self.former.remove(&incarnation).is_some() {
            self.outbox.push(Record::Closed(incarnation));
        }
    }

    /// Records to make durable, in this order.
    pub fn records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.outbox)
    }

    /// Whether records wait to be made durable.
    #[must_use]
    pub const fn has_records(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// A record is durable, and so are all before it.
    pub fn written(&mut self, record: &Record) {
        match record {
            Record::Began(incarnation) => {
                for life in self.former.range_mut(..*incarnation).map(|(_earlier, life)| life) {
                    life.over = true;
                }
                if self.current == Some(*incarnation) {
                    (self.noted, self.urgent) = (true, true);
                }
            }
            Record::Over(incarnation) => {
                if let Some(life) = self.former.get_mut(incarnation) {
                    life.over = true;
                }
            }
            Record::Mark(mark) => self.mark_written(mark),
            Record::Closed(_incarnation) => {}
        }
    }

    fn mark_written(&mut self, mark: &Mark) {
        if self.current != Some(mark.incarnation) {
            let life = self.former.get_mut(&mark.incarnation);
            if let Some(account) = life.and_then(|life| life.accounts.get_mut(&(mark.budget, mark.window))) {
                account.written(mark.level());
            }
            return;
        }
        let Some(line) = self.lines.get_mut(&mark.budget) else { return };
        self.urgent |= line.written(mark.window, mark.level());
        let serves = line.may_serve();
        if serves {
            self.serve();
        }
        if let Some(line) = self.lines.get_mut(&mark.budget) {
            self.urgent |= line.ask_again();
            line.plan(mark.budget, self.current, &mut self.outbox);
        }
    }

    /// All that the journal must hold, so that everything written before may be forgotten.
    #[must_use]
    pub fn image(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for (incarnation, life) in &self.former {
            records.push(Record::Began(*incarnation));
            records
                .extend(life.accounts.iter().filter_map(|(key, account)| mark(*incarnation, *key, account)));
            if life.over {
                records.push(Record::Over(*incarnation));
            }
        }
        if let Some(current) = self.current {
            records.push(Record::Began(current));
            for (budget, line) in &self.lines {
                let accounts = line.accounts();
                records.extend(
                    accounts.filter_map(|(window, account)| mark(current, (*budget, window), account)),
                );
            }
        }
        records
    }
}

/// What the journal knows of an account, if it knows of it.
fn mark(
    incarnation: Incarnation,
    key: (base::BudgetId, base::WindowId),
    account: &Account,
) -> Option<Record> {
    let level = account.newest_level();
    (level != Level::default()).then(|| Record::Mark(Mark::new(incarnation, key, level)))
}

#[cfg(test)]
impl Wallet {
    /// The planted fault: returns are told before they are durable.
    fn forge(&self, rows: &mut [wire::ledger::UsageRow]) {
        if self.mutant != Some(super::Mutant::ReportReturnsEarly) {
            return;
        }
        for row in rows {
            let line = self.lines.get(&row.budget);
            let account =
                line.and_then(|line| line.accounts().find(|(window, _account)| *window == row.window));
            row.returned = account.map_or(row.returned, |(_window, account)| account.returned());
        }
    }
}
