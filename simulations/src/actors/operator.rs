//! An operator who changes the configuration through any central node, reads it back through any, and remembers what
//! was acknowledged.

use std::collections::BTreeSet;
use std::time::Duration;

use central::admin::api::Changed;
use seam::Stop;
use simulation_hooks::Random;

use super::Centrals;
use crate::ground::Ground;
use crate::history::{Read, Recorder, Write, WriteOutcome};
use crate::http::ExchangeError;
use crate::operator::Operator;
use crate::scenario::Times;

/// Before a revocation is tried again.
const REVOKED_AGAIN: Duration = Duration::from_millis(500);

/// Changes and reads the configuration.
#[derive(Clone, Debug)]
pub struct Operations {
    /// Whose hands.
    pub operator: Operator,
    /// Whom they ask.
    pub centrals: Centrals,
    /// Where what came of it goes.
    pub recorder: Recorder,
}

impl Operations {
    /// Adds a tenant every so often until `stop`: one operator through any node, several each through one of their own.
    pub fn start_writing(&self, every: Times, ground: &dyn Ground, writers: u64, stop: &Stop) {
        for writer in 0..writers {
            let (this, host, stop) = (self.clone(), self.operator.host().clone(), stop.clone());
            let mut random = ground.random(&format!("operator writes {writer}"));
            let names = self.centrals.names();
            let at = usize::try_from(writer).unwrap_or(0) % names.len().max(1);
            let own = names.get(at).filter(|_| writers > 1).cloned();
            self.spawn("operator writes", async move {
                while !stop.is_wanted() {
                    let node = own.clone().unwrap_or_else(|| this.centrals.any(&mut random));
                    this.write(&node).await;
                    host.sleep(every.draw(&mut random)).await;
                }
            });
        }
    }

    /// Reads the configuration every so often until `stop`.
    pub fn start_reading(&self, every: Times, mut random: Random, stop: Stop) {
        let (this, host) = (self.clone(), self.operator.host().clone());
        self.spawn("operator reads", async move {
            while !stop.is_wanted() {
                this.read(&this.centrals.any(&mut random)).await;
                host.sleep(every.draw(&mut random)).await;
            }
        });
    }

    /// Revokes a key, as `text` says, after `wait`: asks again until that is acknowledged.
    pub fn start_revoking(&self, wait: Duration, text: String, stop: Stop) {
        let (this, host) = (self.clone(), self.operator.host().clone());
        self.spawn("operator revokes", async move {
            host.sleep(wait).await;
            for turn in 0.. {
                let node = this.centrals.at(turn);
                if this.operator.apply(&node, &text).await.is_ok() {
                    let now = this.recorder.now();
                    return this.recorder.write(|history| history.revoked = Some(now));
                }
                if stop.is_wanted() {
                    return;
                }
                host.sleep(REVOKED_AGAIN).await;
            }
        });
    }

    /// Adds one tenant through the node called `node`, once; gives the serial and whether it was acknowledged.
    pub async fn write(&self, node: &str) -> (u64, bool) {
        let started = self.recorder.now();
        let serial = self.recorder.write(|history| {
            let serial = history.writes.len() as u64;
            let outcome = WriteOutcome::Unknown("under way".to_owned());
            let node = node.to_owned();
            history.writes.push(Write { serial, node, started, ended: None, outcome });
            serial
        });
        let text = format!("tenants: [{{name: {}}}]\n", Write::tenant(serial));
        let outcome = outcome(self.operator.apply(node, &text).await);
        let acked = matches!(outcome, WriteOutcome::Acked(_));
        let ended = self.recorder.now();
        self.recorder.write(|history| {
            let at = usize::try_from(serial).unwrap_or(usize::MAX);
            if let Some(write) = history.writes.get_mut(at) {
                write.ended = Some(ended);
                write.outcome = outcome;
            }
        });
        (serial, acked)
    }

    /// Reads the configuration through the node called `node`, once.
    pub async fn read(&self, node: &str) -> Option<Read> {
        let started = self.recorder.now();
        let catalog = self.operator.catalog(node).await.ok()?;
        let tenants = catalog.catalog.get("tenants").and_then(serde_json::Value::as_array);
        let serial = |tenant: &serde_json::Value| {
            tenant.get("name")?.as_str()?.strip_prefix("serial-")?.parse::<u64>().ok()
        };
        let serials: BTreeSet<u64> = tenants.into_iter().flatten().filter_map(serial).collect();
        let read = Read {
            node: node.to_owned(),
            started,
            ended: self.recorder.now(),
            epoch: catalog.epoch.0,
            serials,
        };
        self.recorder.write(|history| history.reads.push(read.clone()));
        Some(read)
    }

    pub(super) fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.operator.host().spawn(name, work));
    }
}

/// What came of a change. Whatever is refused changed nothing (docs/admin-api.md), but for `unknown` (504) and our own
/// faults.
pub(super) fn outcome(asked: Result<Changed, ExchangeError>) -> WriteOutcome {
    match asked {
        Ok(changed) => WriteOutcome::Acked(changed.epoch.0),
        Err(error) => {
            let why = told(&error);
            let refused = ["400", "404", "405", "409", "413", "422", "503"];
            if refused.iter().any(|status| why.starts_with(status)) {
                WriteOutcome::Refused(why)
            } else {
                WriteOutcome::Unknown(why)
            }
        }
    }
}

/// What the node said, or what broke.
pub(super) fn told(error: &ExchangeError) -> String {
    match error {
        ExchangeError::Broken { doing: "refused", source } => source.to_string(),
        ExchangeError::Broken { doing, source } => format!("{doing}: {source}"),
        ExchangeError::Late | ExchangeError::Gone => error.to_string(),
    }
}
