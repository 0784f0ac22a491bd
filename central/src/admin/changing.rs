//! How a change of the configuration is made through the log: planned on the epoch in force, proposed for that epoch
//! alone, and planned again when another change came between.
//!
//! When contact to the leader is lost half-way, what became of the proposal shows in the next epoch, the only one that
//! it can have made. So no change takes effect twice, also when others overwrite it meanwhile, and none that may have
//! taken effect is called refused.

use std::future::Future;
use std::sync::Arc;

use base::Epoch;
use central_core::{Command, Refusal, Reply};
use wire::catalog::Catalog;

use super::refused::Refused;
use super::{Door, api};
use crate::consensus::ProposeError;

/// How often a change is made anew.
const TRIES: usize = 4;

/// What one try of a change comes to.
pub(super) enum Step {
    /// Put this into the log; in words for the operator.
    Propose(Command, String),
    /// It is so already; in words.
    Nothing(String),
}

/// A proposal of which nobody said what became of it.
struct Tried {
    /// The epoch that it was made for.
    base: Epoch,
    /// In words.
    text: String,
}

impl Door {
    /// Makes a change; `step` says what is to be done about a configuration.
    pub(super) async fn changing<F>(&self, step: impl Fn(Arc<Catalog>) -> F) -> Result<api::Changed, Refused>
    where
        F: Future<Output = Result<Step, Refused>>,
    {
        let mut tried: Option<Tried> = None;
        for _try in 0..TRIES {
            let current = self.current().await.map_err(|refused| after(tried.as_ref(), refused))?;
            let epoch = current.epoch;
            if let Some(last) = tried.take_if(|last| epoch > last.base)
                && let Some(done) = self.made(last, &step).await?
            {
                return Ok(done);
            }
            let (command, text) = match step(current).await? {
                Step::Propose(command, text) => (command, text),
                Step::Nothing(text) => return Ok(api::Changed { epoch, changed: false, text }),
            };
            let started = self.host.now();
            match self.consensus.propose(command).await {
                Ok(Reply::Refused(Refusal::Conflict { .. })) => {}
                Ok(reply) => {
                    self.metrics.proposed(self.host.now().since(started));
                    return self.changed(reply, text);
                }
                Err(ProposeError::Unknown(why)) => {
                    tracing::debug!(%why, "a change is made again");
                    tried = Some(Tried { base: epoch, text });
                }
                Err(error) => return Err(after(tried.as_ref(), error.into())),
            }
        }
        let why = "other changes kept coming between, or the leader kept changing; try again";
        Err(after(tried.as_ref(), Refused::unavailable(why)))
    }

    /// The epoch that a proposal made, if it did: all that was asked for is in the one after its own.
    async fn made<F>(
        &self,
        tried: Tried,
        step: &impl Fn(Arc<Catalog>) -> F,
    ) -> Result<Option<api::Changed>, Refused>
    where
        F: Future<Output = Result<Step, Refused>>,
    {
        let Tried { base, text } = tried;
        let epoch = Epoch(base.0.saturating_add(1));
        let content = self.consensus.read(|state| state.history().content(state.catalog(), epoch));
        let content = content.ok_or_else(|| Refused::unknown("many other changes came after it"))?;
        let is_in_force = matches!(step(Arc::new(content)).await, Ok(Step::Nothing(_)));
        Ok(is_in_force.then_some(api::Changed { epoch, changed: true, text }))
    }

    fn changed(&self, reply: Reply, text: String) -> Result<api::Changed, Refused> {
        match reply {
            Reply::Changed(epoch) => Ok(api::Changed { epoch, changed: true, text }),
            Reply::Unchanged(epoch) => {
                let text = "nothing differs; keys that were revoked stay revoked".to_owned();
                Ok(api::Changed { epoch, changed: false, text })
            }
            Reply::Refused(refusal) => Err(refusal.into()),
            Reply::Done => {
                let epoch = self.consensus.read(central_core::State::epoch);
                Ok(api::Changed { epoch, changed: true, text })
            }
            Reply::Batch(_) | Reply::Superseded | Reply::Registered(_) | Reply::Decided(_) => {
                Err(Refused::internal("the log answered another question"))
            }
        }
    }
}

/// A refusal says that nothing was changed: not while a proposal may still take effect.
fn after(tried: Option<&Tried>, refused: Refused) -> Refused {
    match tried {
        Some(_) => Refused::unknown(&refused.message()),
        None => refused,
    }
}
