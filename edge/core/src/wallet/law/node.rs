//! One edge of the checker's world: a wallet, a journal and a spool whose unsynced ends a crash may take.

use std::collections::{BTreeMap, VecDeque};

use base::{Amount, BudgetId, Incarnation, Mono, Name, WindowId};
use wire::ledger::{Receipt, ReceiptBatch, Report};

use super::super::{Account, Held, Mutant, Record, Recovered, WaitId, Wallet};

/// What a call asks for and what it will cost.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) number: u128,
    pub(super) asks: Vec<(BudgetId, Amount)>,
    pub(super) costs: Vec<(BudgetId, Amount)>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: Name,
    pub(super) boot: u64,
    pub(super) wallet: Option<Wallet>,
    pub(super) welcomed: bool,
    pub(super) retired: bool,
    pub(super) held: Vec<(Held, Call)>,
    pub(super) waits: BTreeMap<WaitId, Call>,
    journal: Vec<Record>,
    unsynced: VecDeque<Record>,
    /// Receipts, durable or not, in the order of their positions.
    pub(super) spool: BTreeMap<Incarnation, Vec<Receipt>>,
    pub(super) synced: BTreeMap<Incarnation, usize>,
    pub(super) acked: BTreeMap<Incarnation, u64>,
    /// When the process was last up, for a central that believes in expiry.
    pub(super) seen: Mono,
}

impl Node {
    pub(super) fn new(name: Name) -> Self {
        Self {
            name,
            boot: 0,
            wallet: None,
            welcomed: false,
            retired: false,
            held: Vec::new(),
            waits: BTreeMap::new(),
            journal: Vec::new(),
            unsynced: VecDeque::new(),
            spool: BTreeMap::new(),
            synced: BTreeMap::new(),
            acked: BTreeMap::new(),
            seen: Mono::ZERO,
        }
    }

    pub(super) fn start(&mut self, boot: u64, mutant: Option<Mutant>) {
        let mut wallet = Wallet::new(Recovered::read(self.journal.iter().copied()));
        wallet.mutant = mutant;
        (self.wallet, self.boot) = (Some(wallet), boot);
        (self.welcomed, self.retired) = (false, false);
    }

    /// The process dies. Of what was not yet synced, `kept` records and receipts reach the disk all the same.
    pub(super) fn crash(&mut self, kept: usize) {
        self.collect();
        (self.wallet, self.held, self.waits) = (None, Vec::new(), BTreeMap::new());
        let kept_records = kept.min(self.unsynced.len());
        self.journal.extend(self.unsynced.drain(..kept_records));
        self.unsynced.clear();
        for (incarnation, receipts) in &mut self.spool {
            let synced = self.synced.entry(*incarnation).or_default();
            receipts.truncate(*synced + kept);
            *synced = receipts.len();
        }
    }

    /// The process begins to end in good order, and gets as far as `synced` records.
    pub(super) fn rest(&mut self, synced: usize) {
        for _round in 0..2 {
            if let Some(wallet) = &mut self.wallet {
                wallet.rest();
            }
            self.sync_journal(synced);
        }
    }

    pub(super) fn wipe(&mut self) {
        (self.journal, self.spool) = (Vec::new(), BTreeMap::new());
        (self.synced, self.acked) = (BTreeMap::new(), BTreeMap::new());
    }

    pub(super) fn give_up_all(&mut self) {
        while let Some((id, _call)) = self.waits.pop_first() {
            let _why = self.wallet.as_mut().and_then(|wallet| wallet.give_up(id));
        }
    }

    /// Hands the wallet's records to the disk's queue.
    pub(super) fn collect(&mut self) {
        if let Some(wallet) = &mut self.wallet {
            self.unsynced.extend(wallet.records());
        }
    }

    pub(super) fn sync_journal(&mut self, count: usize) {
        self.collect();
        for _record in 0..count {
            let Some(record) = self.unsynced.pop_front() else { return };
            self.journal.push(record);
            if let Some(wallet) = &mut self.wallet {
                wallet.written(&record);
            }
            self.collect();
        }
    }

    /// Forgets what the image makes needless, as a purge of the journal does.
    pub(super) fn purge(&mut self) {
        self.sync_journal(usize::MAX);
        if let Some(wallet) = &self.wallet {
            self.journal = wallet.image();
        }
    }

    pub(super) fn sync_spool(&mut self) {
        for (incarnation, receipts) in &self.spool {
            self.synced.insert(*incarnation, receipts.len());
        }
    }

    pub(super) fn batches(&self, most: usize) -> Vec<ReceiptBatch> {
        let mut batches = Vec::new();
        for (incarnation, receipts) in &self.spool {
            let first = self.acked.get(incarnation).copied().unwrap_or_default();
            let from = usize::try_from(first).unwrap();
            let to = self.synced.get(incarnation).copied().unwrap_or_default().min(from + most);
            if from < to {
                let receipts = receipts[from..to].to_vec();
                batches.push(ReceiptBatch { incarnation: *incarnation, first, receipts });
            }
        }
        batches
    }

    /// I6: whatever a crash leaves of the journal proves at least what is used, and each sent return is durable.
    pub(super) fn check(&self, sent: Option<&Report>) -> Result<(), String> {
        let Some(wallet) = &self.wallet else { return Ok(()) };
        let Some(incarnation) = wallet.current() else { return Ok(()) };
        for (budget, line) in &wallet.lines {
            for (window, account) in line.accounts() {
                self.check_account(incarnation, (*budget, window), account)?;
            }
        }
        for row in sent.iter().flat_map(|report| &report.rows) {
            let durable = last_mark(&self.journal, incarnation, (row.budget, row.window));
            if row.returned > durable.map_or(Amount::ZERO, |mark| mark.returned) {
                return Err(format!("sent a return that is not durable: {row:?}"));
            }
        }
        Ok(())
    }

    fn check_account(
        &self,
        incarnation: Incarnation,
        key: (BudgetId, WindowId),
        account: &Account,
    ) -> Result<(), String> {
        let mut durable = last_mark(&self.journal, incarnation, key).into_iter().collect::<Vec<_>>();
        // A user's account that was forgotten begins with what central heard.
        let unproven = if key.0.user() == 0 { account.used() } else { account.held() };
        if durable.is_empty() && unproven > Amount::ZERO {
            return Err(format!("used without a durable ceiling: {account:?}"));
        }
        for record in &self.unsynced {
            if let Record::Mark(mark) = record
                && mark.incarnation == incarnation
                && (mark.budget, mark.window) == key
            {
                durable.push(*mark);
            }
        }
        for mark in durable {
            let most = mark.granted.saturating_sub(mark.returned);
            if account.used() > mark.ceiling || mark.ceiling > most {
                return Err(format!("{account:?} is not covered by {mark:?}"));
            }
        }
        Ok(())
    }
}

fn last_mark(
    journal: &[Record],
    incarnation: Incarnation,
    key: (BudgetId, WindowId),
) -> Option<super::super::Mark> {
    journal.iter().rev().find_map(|record| match record {
        Record::Mark(mark) if mark.incarnation == incarnation && (mark.budget, mark.window) == key => {
            Some(*mark)
        }
        Record::Mark(_) | Record::Began(_) | Record::Over(_) | Record::Closed(_) => None,
    })
}
