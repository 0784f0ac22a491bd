//! What calls spend from: the wallet, the spool, and the calls that wait, behind one short lock.
//!
//! Decided here: nothing about money (that is `edge_core::wallet`), only who waits for what. A hold is decided without
//! an await unless credit is short; no call waits for a disk to be written, since ceilings are raised ahead of use.
//! Every admitted call leaves exactly one receipt: a [`Hold`] that is dropped settles at its full amount.

mod hold;
mod keeper;
mod session;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{Amount, BudgetId, Mono, Name, RegionName, RequestId, TenantName, UserHash};
use edge_core::wallet::{Decision, Held, Refused, Stands, WaitId, Wallet, Why};
use seam::{Host, Lock};
use tokio::sync::{Notify, oneshot};
use wal::WalError;
use wire::catalog::{Budget, Feature};
use wire::codec::CodecError;
use wire::refusal::{Said, Stood};

use crate::journal::Journal;
use crate::payers::Payer;
use crate::spool::{Spool, SpoolLog};
pub use hold::Hold;
use hold::Waiting;
pub use keeper::Keeper;

/// The money of one edge. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Purse {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    host: Host,
    state: Lock<State>,
    /// Records wait for the journal; entries wait for the spool; something waits for central.
    journal: Notify,
    spool: Notify,
    link: Notify,
    /// The journal's or the spool's disk has no room.
    journal_full: AtomicBool,
    spool_full: AtomicBool,
}

#[derive(Debug)]
struct State {
    wallet: Wallet,
    spool: Spool,
    waiting: BTreeMap<WaitId, oneshot::Sender<Result<Held, Refused>>>,
    /// Holds not yet settled.
    open: u32,
}

/// On whose bill a call is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Billed {
    /// The tenant.
    pub tenant: TenantName,
    /// Its application.
    pub app: Name,
    /// Its key, by name.
    pub key: Name,
    /// The scenario that its receipt tells.
    pub scenario: Option<Name>,
    /// The end user that the caller named.
    pub user: Option<UserHash>,
    /// The region of this edge.
    pub region: RegionName,
}

/// Why a call may not spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not enough is left of a budget.
    Exceeded {
        /// Which.
        budget: BudgetId,
        /// What may be spent in the window.
        limit: Amount,
        /// What is known to be spent.
        spent: Amount,
        /// Whether the call waited for credit.
        waited: bool,
    },
    /// So much is spent of a budget that it refuses calls.
    Reached {
        /// Which.
        budget: BudgetId,
        /// What may be spent in the window.
        limit: Amount,
        /// What is known to be spent.
        spent: Amount,
        /// Only those that cannot do without this; `None`: all.
        feature: Option<Feature>,
    },
    /// Central could not be asked about a budget.
    Unavailable {
        /// Which.
        budget: BudgetId,
    },
    /// Credit of a budget is there, but the disk was too slow to note in time that it may be spent.
    Slow {
        /// Which.
        budget: BudgetId,
    },
    /// The disk takes no more, so that the call could not be accounted for.
    StorageFull,
}

/// The journal or the spool cannot be used. The node must not serve on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The log.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// A record does not read back.
    #[error("a record of the log is not readable: {0}")]
    Codec(#[from] CodecError),
    /// A record of a kind that this build does not know.
    #[error("the {log} holds a record of kind {kind}, which this build does not know")]
    Kind {
        /// Which log.
        log: &'static str,
        /// The kind.
        kind: u8,
    },
}

impl StorageError {
    /// Whether nothing was written for want of room, so that a later try may succeed.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Wal(WalError::Full | WalError::Behind))
    }
}

impl Purse {
    /// Opens the journal and the spool below `data`. The keeper must run for as long as the purse is used.
    ///
    /// # Errors
    /// [`StorageError`] when either cannot be opened, among other things because another process has them open.
    pub async fn open(host: &Host, data: &Path) -> Result<(Self, Keeper), StorageError> {
        let (journal, recovered) = Journal::open(host, &data.join("journal")).await?;
        let (log, spool) = SpoolLog::open(host, &data.join("spool")).await?;
        let wallet = Wallet::new(recovered);
        let purse = Self {
            shared: Arc::new(Shared {
                host: host.clone(),
                state: Lock::new(State { wallet, spool, waiting: BTreeMap::new(), open: 0 }),
                journal: Notify::new(),
                spool: Notify::new(),
                link: Notify::new(),
                journal_full: AtomicBool::new(false),
                spool_full: AtomicBool::new(false),
            }),
        };
        let keeper = Keeper::new(purse.clone(), journal, log);
        Ok((purse, keeper))
    }

    /// Takes the budgets of a new configuration.
    pub fn install(&self, budgets: &BTreeMap<Name, Budget>) {
        self.change(|state| state.wallet.install(budgets));
    }

    /// Takes a hold under each budget, all or none. Waits, at most a second, only when credit is short.
    ///
    /// # Errors
    /// [`Refusal`] when a budget cannot pay.
    pub async fn hold(
        &self,
        request: RequestId,
        payer: Billed,
        asks: &[(BudgetId, Amount)],
    ) -> Result<Hold, Refusal> {
        let (held, waited) = match self.ask(asks)? {
            Asked::Held(held) => (held, false),
            Asked::Waiting(waiting) => (waiting.answer().await?, true),
        };
        Ok(Hold::new(self.clone(), request, payer, held, waited))
    }

    /// The share of a budget that is spent, in thousandths, its limit and what is spent, as far as central said.
    pub(crate) fn used(&self, budget: BudgetId) -> Option<(u64, Amount, Amount)> {
        self.shared.state.lock().wallet.used(budget)
    }

    /// How a call's budgets stand here. What is not configured any more is left out.
    pub(crate) fn stands(&self, payers: &[Payer], asks: &[(BudgetId, Amount)]) -> Vec<Stood> {
        let now = self.shared.host.now();
        let state = self.shared.state.lock();
        let stood = asks.iter().filter_map(|(account, needed)| {
            let payer = payers.iter().find(|payer| payer.id() == *account)?;
            Some(stood(payer, *needed, state.wallet.stands(*account)?, now))
        });
        stood.collect()
    }

    /// Whether a session with central stands.
    pub(crate) fn is_attached(&self) -> bool {
        self.shared.state.lock().wallet.is_attached()
    }

    /// Calls that hold or wait.
    #[must_use]
    pub fn open_calls(&self) -> u32 {
        self.shared.state.lock().open
    }

    fn ask(&self, asks: &[(BudgetId, Amount)]) -> Result<Asked, Refusal> {
        let strict = asks.iter().any(|(_budget, amount)| *amount > Amount::ZERO);
        if strict && self.shared.spool_full.load(Ordering::Relaxed) {
            return Err(Refusal::StorageFull);
        }
        let now = self.shared.host.now();
        self.change(|state| {
            if state.spool.is_full() {
                return Err(Refusal::StorageFull);
            }
            match state.wallet.ask(asks, now) {
                Decision::Held(held) => {
                    state.open += 1;
                    Ok(Asked::Held(held))
                }
                Decision::Wait { id, until } => {
                    let (answer, receiver) = oneshot::channel();
                    state.waiting.insert(id, answer);
                    state.open += 1;
                    Ok(Asked::Waiting(Waiting::new(self.clone(), id, until, receiver)))
                }
                Decision::Refused(refused) => Err(self.refusal(refused)),
            }
        })
    }

    /// Changes the state, then hands out what the change decided and wakes who has work now.
    fn change<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.shared.state.lock();
        let result = work(&mut state);
        state.answer_waiting();
        let (records, entries) = (state.wallet.has_records(), state.spool.has_pending());
        let urgent = state.wallet.is_urgent();
        drop(state);
        for (wanted, notify) in
            [(records, &self.shared.journal), (entries, &self.shared.spool), (urgent, &self.shared.link)]
        {
            if wanted {
                notify.notify_one();
            }
        }
        result
    }

    fn refusal(&self, refused: Refused) -> Refusal {
        let budget = refused.budget;
        match refused.why {
            Why::Exceeded { limit, spent, waited } => Refusal::Exceeded { budget, limit, spent, waited },
            Why::Journal if self.shared.journal_full.load(Ordering::Relaxed) => Refusal::StorageFull,
            Why::Journal => Refusal::Slow { budget },
            Why::Unavailable => Refusal::Unavailable { budget },
        }
    }
}

fn stood(payer: &Payer, needed: Amount, stands: Stands, now: Mono) -> Stood {
    let said = stands.said.map(|facts| Said {
        limit: facts.limit,
        spent: facts.spent,
        left: facts.left,
        ms_before: u32::try_from(now.since(facts.at).as_millis()).unwrap_or(u32::MAX),
    });
    let (free, held) = (stands.free, stands.held);
    Stood { account: payer.id(), name: payer.budget.name.clone(), needed, free, held, said }
}

/// A hold, or a place in the queue for one.
#[derive(Debug)]
enum Asked {
    Held(Held),
    Waiting(Waiting),
}

impl State {
    /// Hands decided holds to the calls that wait for them; one whose call is gone is released.
    fn answer_waiting(&mut self) {
        loop {
            let decided = self.wallet.decided();
            if decided.is_empty() {
                return;
            }
            for (id, answer) in decided {
                let unheard = match self.waiting.remove(&id) {
                    Some(caller) => caller.send(answer).err(),
                    None => Some(answer),
                };
                if let Some(Ok(held)) = unheard {
                    drop(self.wallet.settle(held, &[]));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
