//! Changes of configuration.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use base::{Epoch, KeyHash};
use central_core::files::{self, Credential};
use central_core::plan::{Known, Plan, Resolved, resolve};
use central_core::{CatalogChange, Command, KeyOf, Sealed};
use settings::Fault;
use wire::catalog::{Catalog, Change, Object};
use wire::codec::MAX_MESSAGE;
use wire::control::ToEdge;

use super::changing::Step;
use super::refused::Refused;
use super::taken::{Named, Whole};
use super::{Answer, By, Door, Operator, Shared, api, parsed};

pub(super) async fn plan(State(door): Shared, Whole(body): Whole) -> Answer<api::Planned> {
    let asked: api::Files = parsed(&body)?;
    let current = door.current().await?;
    Ok(Json(match door.resolved(asked, &current).await? {
        Ok(resolved) => {
            let mut plan = resolved.plan;
            let new = door.new_credentials(&resolved.credentials)?;
            plan.credentials = new.into_iter().map(|credential| credential.of).collect();
            api::Planned { text: plan.to_string(), plan, faults: resolved.faults }
        }
        Err(faults) => {
            let plan = Plan { base: current.epoch, ..Plan::default() };
            api::Planned { plan, text: String::new(), faults }
        }
    }))
}

pub(super) async fn apply(
    State(door): Shared,
    Extension(by): By,
    Whole(body): Whole,
) -> Answer<api::Changed> {
    let asked: api::Files = parsed(&body)?;
    let names: Vec<_> = asked.files.iter().map(|file| file.name.clone()).collect();
    let applied = door.apply(&by, asked).await;
    audit(&by, "apply", &names.join(" "), &applied);
    applied.map(Json)
}

pub(super) async fn roll_back(
    State(door): Shared,
    Extension(by): By,
    Whole(body): Whole,
) -> Answer<api::Changed> {
    let api::Rollback { to } = parsed(&body)?;
    let done = door.roll_back(&by, to).await;
    audit(&by, "rollback", &to.to_string(), &done);
    done.map(Json)
}

pub(super) async fn revoke(
    State(door): Shared,
    Extension(by): By,
    Named(name): Named<String>,
) -> Answer<api::Changed> {
    let done = door.revoke(&by, &name).await;
    audit(&by, "revoke key", &name, &done);
    done.map(Json)
}

pub(super) async fn raise_level(
    State(door): Shared,
    Extension(by): By,
    Whole(body): Whole,
) -> Answer<api::Changed> {
    let api::Level { to } = parsed(&body)?;
    let done = door.raise_level(to).await;
    audit(&by, "raise level", &to.to_string(), &done);
    done.map(Json)
}

/// One line per change, whatever came of it.
pub(super) fn audit(by: &Operator, action: &str, what: &str, done: &Result<api::Changed, Refused>) {
    let by = &by.0;
    match done {
        Ok(done) => {
            tracing::info!(target: "audit", by, action, what, epoch = %done.epoch, changed = done.changed, "done");
        }
        Err(refused) => tracing::warn!(target: "audit", by, action, what, why = refused.message(), "refused"),
    }
}

/// Files resolved against the configuration in force, or why they cannot be read.
type Read = Result<Resolved, Vec<Fault>>;

impl Door {
    /// The configuration in force, missing nothing.
    pub(super) async fn current(&self) -> Result<Arc<Catalog>, Refused> {
        self.consensus.read_index().await?;
        Ok(self.consensus.read(central_core::State::shared_catalog))
    }

    /// Reads files away from the tasks: they may be long.
    async fn resolved(&self, asked: api::Files, current: &Arc<Catalog>) -> Result<Read, Refused> {
        let current = Arc::clone(current);
        let (revoked, known) = self.consensus.read(|state| {
            let edges = state.registry().edges.values().filter(|edge| !edge.left);
            let regions = edges.map(|edge| edge.region.clone()).collect();
            (state.revoked(), Known { regions, sealed: state.credentials().keys().cloned().collect() })
        });
        let work = move || {
            files::read(&asked.files, &current, &revoked, &sha256)
                .map(|parsed| resolve(&current, parsed, asked.prune, &known))
        };
        self.host.compute(work).await.map_err(|_gone| Refused::internal("reading the files broke off"))
    }

    async fn apply(&self, by: &Operator, asked: api::Files) -> Result<api::Changed, Refused> {
        let asked = &asked;
        self.changing(|current| async move {
            let resolved = self.resolved(asked.clone(), &current).await?.unwrap_or_else(unread);
            if !resolved.faults.is_empty() {
                return Err(Refused::invalid("nothing was changed:", resolved.faults));
            }
            let new = self.new_credentials(&resolved.credentials)?;
            let mut plan = resolved.plan;
            plan.credentials = new.iter().map(|credential| credential.of.clone()).collect();
            if plan.is_empty() {
                return Ok(Step::Nothing(plan.to_string()));
            }
            if let Some(base) = asked.base.filter(|base| *base != current.epoch) {
                let message = format!("planned on epoch {base}, but epoch {} is in force", current.epoch);
                return Err(Refused::conflict(message));
            }
            fits(&current, &resolved.changes)?;
            let change = CatalogChange {
                base: current.epoch,
                changes: resolved.changes,
                credentials: self.sealed(&new)?,
                by: by.0.clone(),
                note: asked.note.clone(),
            };
            Ok(Step::Propose(Command::ChangeCatalog(change), plan.to_string()))
        })
        .await
    }

    async fn revoke(&self, by: &Operator, name: &str) -> Result<api::Changed, Refused> {
        self.changing(|current| async move {
            let key = current.keys.get(name).cloned();
            let mut key = key.ok_or_else(|| Refused::not_found(format!("no key {name}")))?;
            if key.revoked {
                return Ok(Step::Nothing(format!("key {name} is revoked already")));
            }
            key.revoked = true;
            let change = CatalogChange {
                base: current.epoch,
                changes: vec![Change::Put(Object::Key(key))],
                credentials: Vec::new(),
                by: by.0.clone(),
                note: format!("revoke key {name}"),
            };
            Ok(Step::Propose(Command::ChangeCatalog(change), format!("key {name} is revoked")))
        })
        .await
    }

    async fn roll_back(&self, by: &Operator, to: Epoch) -> Result<api::Changed, Refused> {
        self.changing(|current| async move {
            let content = self.consensus.read(|state| state.history().content(state.catalog(), to));
            // A revoked key stays so, and a budget's number is its own: the rest must be as it was.
            if content.is_some_and(|content| files::export(&content) == files::export(&current)) {
                return Ok(Step::Nothing(format!("the content of epoch {to} is in force already")));
            }
            let command = Command::Rollback { base: current.epoch, to, by: by.0.clone() };
            Ok(Step::Propose(command, format!("the content of epoch {to} is in force again")))
        })
        .await
    }

    async fn raise_level(&self, to: u16) -> Result<api::Changed, Refused> {
        if let Some(obstacle) = self.overview.obstacle(to).await {
            return Err(Refused::conflict(obstacle));
        }
        // Raising twice is raising once.
        self.changing(|_current| async move {
            Ok(Step::Propose(Command::RaiseLevel { to }, format!("the mesh uses level {to}")))
        })
        .await
    }

    /// Credentials that differ from those in force.
    fn new_credentials(&self, given: &[Credential]) -> Result<Vec<Credential>, Refused> {
        if given.is_empty() {
            return Ok(Vec::new());
        }
        let keys = self.keys.as_ref().ok_or_else(|| {
            Refused::unavailable(
                "this node has no sealing keys (`seal_keys`), so that it takes no credentials",
            )
        })?;
        let known = self.consensus.read(|state| state.credentials().clone());
        let same = |credential: &Credential| {
            let sealed = known.get(&credential.of);
            let opened = sealed.and_then(|sealed| keys.open(&credential.of, sealed).ok());
            opened.as_ref() == Some(&credential.secret)
        };
        Ok(given.iter().filter(|credential| !same(credential)).cloned().collect())
    }

    fn sealed(&self, credentials: &[Credential]) -> Result<Vec<(KeyOf, Sealed)>, Refused> {
        let Some(keys) = &self.keys else { return Ok(Vec::new()) };
        let seal = |credential: &Credential| {
            let sealed = keys.seal(&self.host, &credential.of, &credential.secret)?;
            Ok((credential.of.clone(), sealed))
        };
        credentials.iter().map(seal).collect()
    }
}

fn unread(faults: Vec<Fault>) -> Resolved {
    Resolved { plan: Plan::default(), changes: Vec::new(), credentials: Vec::new(), faults }
}

/// A configuration that no message can carry would reach no edge.
fn fits(current: &Catalog, changes: &[Change]) -> Result<(), Refused> {
    let mut next = current.clone();
    changes.iter().cloned().for_each(|change| next.apply(change));
    let (stamp, epoch) = (base::Stamp::default(), next.epoch);
    let whole = ToEdge::Snapshot { stamp, epoch, objects: next.objects().collect() };
    match wire::codec::encode(&whole) {
        // Stamps and numbers grow by some bytes.
        Ok(bytes) if bytes.len() < MAX_MESSAGE - MAX_MESSAGE / 64 => Ok(()),
        Ok(_) | Err(_) => {
            let message = "the whole configuration would exceed 16 MiB, more than an edge can be sent";
            Err(Refused::invalid(message, Vec::new()))
        }
    }
}

fn sha256(secret: &[u8]) -> KeyHash {
    KeyHash::of_digest(ring::digest::digest(&ring::digest::SHA256, secret).as_ref())
}
