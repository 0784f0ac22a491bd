//! Operators who change the same few objects at the same time, each through any central node, some of them only if
//! nobody else changed anything since they looked; and who look at them in every way that the admin API has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use central::admin::api::Files;
use central_core::files::Source;
use seam::{Lock, Stop};
use simulation_hooks::Random;

use super::Centrals;
use super::operator::outcome;
use crate::ground::Ground;
use crate::history::{FIRST, Look, Recorder, Set, Shared, WriteOutcome};
use crate::http::ExchangeError;
use crate::operator::Operator;
use crate::scenario::Times;

/// A node that takes longer shows nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Operators who share objects. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Rivals {
    operator: Operator,
    centrals: Centrals,
    recorder: Recorder,
    /// A model that is served.
    model: Arc<str>,
    last: Arc<Lock<u64>>,
}

impl Rivals {
    /// Operators who ask `centrals`; routes lead to `model`.
    #[must_use]
    pub fn new(operator: Operator, centrals: Centrals, recorder: Recorder, model: &str) -> Self {
        let last = Arc::new(Lock::new(FIRST));
        Self { operator, centrals, recorder, model: model.into(), last }
    }

    /// The objects as they are before the first change, in the form that `apply` reads.
    #[must_use]
    pub fn first(&self) -> String {
        let objects = Shared::ALL.map(|object| object.text(FIRST, &self.model));
        Shared::owner() + &objects.concat()
    }

    /// So many change and look until `stop`, each with `every` between.
    pub fn start(&self, count: u64, every: Times, ground: &dyn Ground, stop: &Stop) {
        for number in 0..count {
            let (this, host, stop) = (self.clone(), self.operator.host().clone(), stop.clone());
            let mut random = ground.random(&format!("rival {number}"));
            drop(self.operator.host().spawn("rival", async move {
                let mut epoch = None;
                while !stop.is_wanted() {
                    host.sleep(every.draw(&mut random)).await;
                    this.act(&mut epoch, &mut random).await;
                }
            }));
        }
    }

    /// One change or look; `epoch` is what the operator saw last.
    async fn act(&self, epoch: &mut Option<u64>, random: &mut Random) {
        let node = self.centrals.any(random);
        match random.below(10) {
            0..4 => {
                let at = usize::try_from(random.below(Shared::ALL.len() as u64)).unwrap_or(0);
                let object = Shared::ALL.get(at).copied().unwrap_or(Shared::Budget);
                let base = epoch.take().filter(|_| random.below(3) == 0);
                self.set(object, base, &node).await;
            }
            4..8 => *epoch = self.look("catalog", &node).await.or(*epoch),
            8 => *epoch = self.look("epochs", &node).await.or(*epoch),
            _ => *epoch = self.look("ledger", &node).await.or(*epoch),
        }
    }

    async fn set(&self, object: Shared, base: Option<u64>, node: &str) {
        let value = {
            let mut last = self.last.lock();
            *last += 1;
            *last
        };
        let started = self.recorder.now();
        let at = self.recorder.write(|history| {
            let outcome = WriteOutcome::Unknown("under way".to_owned());
            let node = node.to_owned();
            history.sets.push(Set { object, value, base, node, started, ended: None, outcome });
            history.sets.len() - 1
        });
        let source = Source { name: "shared.yaml".to_owned(), text: object.text(value, &self.model) };
        let base = base.map(base::Epoch);
        let files = Files { files: vec![source], prune: false, note: object.note(value), base };
        let outcome = outcome(self.operator.apply_files(node, &files).await);
        let ended = self.recorder.now();
        self.recorder.write(|history| {
            if let Some(set) = history.sets.get_mut(at) {
                set.ended = Some(ended);
                set.outcome = outcome;
            }
        });
    }

    /// Looks once, and gives the epoch that was shown.
    async fn look(&self, of: &'static str, node: &str) -> Option<u64> {
        let started = self.recorder.now();
        let shown = self.operator.host().timeout(PATIENCE, self.shown(of, node)).await;
        let (epoch, values) = shown.ok()?.ok()?;
        let (node, ended) = (node.to_owned(), self.recorder.now());
        self.recorder.write(|history| history.looks.push(Look { of, node, started, ended, epoch, values }));
        epoch
    }

    async fn shown(
        &self,
        of: &str,
        node: &str,
    ) -> Result<(Option<u64>, BTreeMap<Shared, u64>), ExchangeError> {
        Ok(match of {
            "catalog" => {
                let catalog = self.operator.catalog(node).await?;
                (Some(catalog.epoch.0), Shared::in_catalog(&catalog))
            }
            "epochs" => {
                let epochs = self.operator.epochs(node).await?;
                (epochs.first().map(|row| row.epoch.0), Shared::in_epochs(&epochs))
            }
            _ => (None, Shared::in_ledger(&self.operator.ledger(node).await?)),
        })
    }
}
