//! The purse's side of the session with central.

use std::collections::BTreeMap;

use base::{Amount, BudgetId, Incarnation};
use edge_core::wallet::Recalls;
use wire::control::Welcome;
use wire::ledger::{FinalReport, Grants, ReceiptBatch, Report};

use super::Purse;

impl Purse {
    /// The incarnation to resume, and the highest one known.
    pub(crate) fn incarnations(&self) -> (Option<Incarnation>, Option<Incarnation>) {
        let state = self.shared.state.lock();
        (state.wallet.to_resume(), state.wallet.last())
    }

    /// Spends what the journal proves to be left, central being away. Whether there was anything to take up.
    pub(crate) fn adopt(&self) -> bool {
        self.change(|state| state.wallet.adopt())
    }

    pub(crate) fn welcome(&self, welcome: &Welcome) {
        self.change(|state| {
            state.wallet.welcome(welcome);
            if let Some(current) = state.wallet.current() {
                state.spool.assign(current);
            }
        });
    }

    /// Each budget's open window (granted and not returned, spent, held), and the receipts central has not yet.
    pub(crate) fn standing(&self) -> (Vec<(BudgetId, [Amount; 3])>, usize) {
        let state = self.shared.state.lock();
        (state.wallet.standing().collect(), state.spool.kept())
    }

    /// How often central asked for credit back since the last look, and what it got.
    pub(crate) fn take_recalls(&self) -> BTreeMap<BudgetId, Recalls> {
        self.shared.state.lock().wallet.take_recalls()
    }

    pub(crate) fn detached(&self) {
        self.change(|state| state.wallet.detached());
    }

    pub(crate) fn granted(&self, grants: &Grants) {
        let now = self.shared.host.now();
        self.change(|state| state.wallet.granted(grants, now));
    }

    pub(crate) fn report(&self) -> Option<Report> {
        let now = self.shared.host.now();
        self.shared.state.lock().wallet.report(now)
    }

    /// Last words that may be sent: all receipts of their incarnation are durable.
    pub(crate) fn finals(&self) -> Vec<FinalReport> {
        let state = self.shared.state.lock();
        let with_count = |last_word: FinalReport| {
            let receipts = state.spool.count(last_word.incarnation)?;
            Some(FinalReport { receipts, ..last_word })
        };
        state.wallet.finals().into_iter().filter_map(with_count).collect()
    }

    /// Incarnations with receipts, and the first position of each that central has not acknowledged.
    pub(crate) fn unsent(&self) -> Vec<(Incarnation, u64)> {
        self.shared.state.lock().spool.incarnations().collect()
    }

    pub(crate) fn batch(&self, incarnation: Incarnation, from: u64, most: usize) -> Option<ReceiptBatch> {
        self.shared.state.lock().spool.batch(incarnation, from, most)
    }

    pub(crate) fn applied(&self, incarnation: Incarnation, next: u64) {
        self.change(|state| state.spool.acked(incarnation, next));
        self.shared.link.notify_one();
    }

    pub(crate) fn closed(&self, incarnation: Incarnation) {
        self.change(|state| {
            state.wallet.closed(incarnation);
            state.spool.closed(incarnation);
        });
        self.shared.link.notify_one();
    }

    /// Takes no more holds; what is settled is reported for the last time.
    pub(crate) fn retire(&self) {
        self.change(|state| state.wallet.retire());
        self.shared.link.notify_one();
    }

    /// Whether everything was settled, sent and closed.
    pub(crate) fn is_settled(&self) -> bool {
        let state = self.shared.state.lock();
        state.open == 0 && state.wallet.is_quiet() && state.wallet.is_closed() && state.spool.is_empty()
    }

    /// Waits until central should hear something.
    pub(crate) async fn news(&self) {
        self.shared.link.notified().await;
    }
}
