//! The end of the checker's world: all faults end, and everything must settle.

use base::Amount;
use central_core::ledger::LeaseRow;

use super::World;

impl World {
    /// All faults end. Everything must settle: no hold left, unused credit back, every durable receipt billed. In half of
    /// the worlds sessions stand as they are, though messages were lost in them.
    pub(super) fn quiesce(mut self) -> Result<(), String> {
        self.lossless = true;
        self.net.clear();
        let stand = self.dice.below(2) == 0;
        for at in 0..self.nodes.len() {
            let node = &mut self.nodes[at];
            if let Some(wallet) = &mut node.wallet
                && (stand && node.welcomed && !node.retired)
            {
                wallet.install(&self.budgets);
                continue;
            }
            if self.nodes[at].retired {
                self.nodes[at].crash(0);
            }
            self.start(at);
            self.nodes[at].welcomed = false;
        }
        self.rounds(40)?;
        self.check_idle()?;
        for node in &mut self.nodes {
            node.wallet.as_mut().unwrap().retire();
        }
        self.rounds(10)?;
        self.check_quiet()
    }

    fn rounds(&mut self, count: usize) -> Result<(), String> {
        for _round in 0..count {
            for at in 0..self.nodes.len() {
                while !self.nodes[at].held.is_empty() {
                    self.settle(at);
                }
                self.tick(at);
                self.nodes[at].sync_journal(usize::MAX);
                self.nodes[at].sync_spool();
                self.report(at)?;
                self.decided(at);
                self.nodes[at].give_up_all();
                self.decided(at);
            }
            while !self.net.is_empty() {
                self.deliver()?;
                self.auditor.check_rows(&self.ledger.check())?;
                self.check_committed()?;
            }
        }
        Ok(())
    }

    /// Without demand no live edge keeps credit of a window that is open. (An ask may have been granted in the window before,
    /// and the answer lost: that one is over.)
    fn check_idle(&self) -> Result<(), String> {
        let rows = self.ledger.check();
        let is_open = |lease: &LeaseRow| {
            rows.iter().any(|row| row.open && (row.budget, row.window) == (lease.budget, lease.window))
        };
        let mut leases = self.ledger.leases();
        match leases.find(|lease| lease.lives && lease.unspent > Amount::ZERO && is_open(lease)) {
            Some(lease) => Err(format!("nobody wants this, and it did not come back: {lease:?}")),
            None => Ok(()),
        }
    }

    fn check_quiet(&self) -> Result<(), String> {
        for row in self.ledger.check() {
            let settling = row.settling > Amount::ZERO && !self.wiped;
            if row.outstanding > Amount::ZERO || settling {
                return Err(format!("not all came back: {row:?} {:?}", self.nodes));
            }
        }
        for node in &self.nodes {
            for receipt in node.spool.values().flatten() {
                if !self.auditor.is_billed(receipt.request) {
                    return Err(format!("{} of {} was never billed", receipt.request, node.name));
                }
            }
        }
        Ok(())
    }
}
