//! A call's hold, and a call that waits for one. Both clean up after themselves when they are dropped.

use std::sync::Arc;

use base::{Amount, BudgetId, Mono, NanoUsd, RequestId};
use edge_core::wallet::{Held, Refused, WaitId, Wallet};
use tokio::sync::oneshot;
use wire::ledger::{Outcome, Receipt, ReceiptKind, Usage};

use super::{Billed, Purse, Refusal};

/// Credit held for one call, or for an admitted call that no budget pays for. Settle it once; dropped unsettled it is
/// charged in full.
#[derive(Debug)]
#[must_use = "a hold that is dropped is charged in full"]
pub struct Hold {
    purse: Purse,
    request: RequestId,
    payer: Billed,
    held: Option<Held>,
    waited: bool,
}

impl Hold {
    pub(super) const fn new(
        purse: Purse,
        request: RequestId,
        payer: Billed,
        held: Held,
        waited: bool,
    ) -> Self {
        Self { purse, request, payer, held: Some(held), waited }
    }

    /// Settles at what the call cost under each budget; one not named paid nothing. Gives back the receipt as spooled,
    /// its charges filled in.
    pub fn settle(mut self, receipt: Receipt, actual: &[(BudgetId, Amount)]) -> Receipt {
        match self.held.take() {
            Some(held) => self.purse.settle(held, receipt, actual),
            None => receipt,
        }
    }

    /// Whether the call had to wait for credit.
    #[must_use]
    pub const fn waited(&self) -> bool {
        self.waited
    }

    /// What is held under each budget.
    #[must_use]
    pub fn amounts(&self) -> Vec<(BudgetId, Amount)> {
        let parts = self.held.as_ref().map(Wallet::parts).unwrap_or_default();
        parts.iter().map(|part| (part.budget, part.amount)).collect()
    }

    /// The receipt of a call of which nobody said how it ended.
    fn lost(&self) -> Receipt {
        Receipt {
            request: self.request,
            kind: ReceiptKind::Call,
            at: self.purse.shared.host.wall(),
            tenant: self.payer.tenant.clone(),
            app: self.payer.app.clone(),
            key: self.payer.key.clone(),
            scenario: self.payer.scenario.clone(),
            user: self.payer.user,
            model: None,
            operation: None,
            region: self.payer.region.clone(),
            served_by: None,
            provider: None,
            provider_key: None,
            attempts: 0,
            usage: Usage::default(),
            estimated: true,
            price_from: None,
            cost: NanoUsd(0),
            outcome: Outcome::Lost,
            code: None,
            charges: Vec::new(),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.held.is_some() {
            let (receipt, whole) = (self.lost(), self.amounts());
            tracing::warn!(request = %self.request, "a hold was never settled; it is charged in full");
            if let Some(held) = self.held.take() {
                drop(self.purse.settle(held, receipt, &whole));
            }
        }
    }
}

impl Purse {
    fn settle(&self, held: Held, mut receipt: Receipt, actual: &[(BudgetId, Amount)]) -> Receipt {
        self.change(|state| {
            let settled = state.wallet.settle(held, actual);
            receipt.charges = settled.charges;
            state.spool.push(settled.incarnation, Arc::new(receipt.clone()));
            state.open = state.open.saturating_sub(1);
            receipt
        })
    }
}

/// A call that waits for credit.
#[derive(Debug)]
pub(super) struct Waiting {
    purse: Purse,
    id: WaitId,
    until: Mono,
    answer: Option<oneshot::Receiver<Result<Held, Refused>>>,
}

impl Waiting {
    pub(super) const fn new(
        purse: Purse,
        id: WaitId,
        until: Mono,
        answer: oneshot::Receiver<Result<Held, Refused>>,
    ) -> Self {
        Self { purse, id, until, answer: Some(answer) }
    }

    /// The answer, at the deadline at the latest.
    pub(super) async fn answer(mut self) -> Result<Held, Refusal> {
        let late = self.purse.shared.host.sleep_until(self.until);
        if let Some(answer) = &mut self.answer {
            tokio::select! {
                biased;
                answered = answer => if let Ok(answered) = answered {
                    self.answer = None;
                    return answered.map_err(|refused| self.purse.no_hold(refused));
                },
                () = late => {}
            }
        }
        self.end()
    }

    /// Leaves the queue; the answer may have come in the meantime.
    fn end(&mut self) -> Result<Held, Refusal> {
        let gone = Refusal::Unavailable { budget: BudgetId::default() };
        let Some(mut answer) = self.answer.take() else { return Err(gone) };
        if let Ok(answered) = answer.try_recv() {
            return answered.map_err(|refused| self.purse.no_hold(refused));
        }
        let refused = self.purse.change(|state| {
            state.waiting.remove(&self.id);
            state.wallet.give_up(self.id)
        });
        match refused {
            Some(refused) => Err(self.purse.no_hold(refused)),
            // Decided between the two looks.
            None => match answer.try_recv() {
                Ok(answered) => answered.map_err(|refused| self.purse.no_hold(refused)),
                Err(_gone) => Err(gone),
            },
        }
    }
}

impl Purse {
    /// A call that waited goes without a hold.
    fn no_hold(&self, refused: Refused) -> Refusal {
        self.change(|state| state.open = state.open.saturating_sub(1));
        self.refusal(refused)
    }
}

impl Drop for Waiting {
    /// The caller left: its place or its hold is given up.
    fn drop(&mut self) {
        if self.answer.is_none() {
            return;
        }
        if let Ok(held) = self.end() {
            self.purse.change(|state| {
                drop(state.wallet.settle(held, &[]));
                state.open = state.open.saturating_sub(1);
            });
        }
    }
}
